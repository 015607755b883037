"""Building a SavedModel from the MetaGraph of a SessionBundle export."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ckpttool.errors import CorruptError, UnsupportedError
from ckpttool.metagraph.loading import make_loadable
from ckpttool.metagraph.saver import update_saver
from ckpttool.metagraph.session_bundle import ASSETS, GRAPH, INIT_OP, SIGNATURES, SessionBundle
from ckpttool.metagraph.session_signatures import MappedSignature, UnmappedSignature, map_signatures
from ckpttool.metagraph.tensors import GraphTensors
from ckpttool.pb.convert import MAX_BYTES

if TYPE_CHECKING:
    from ckpttool import pb

SAVED_MODEL_NAME = "saved_model.pb"
SERVE_TAG = "serve"
_SCHEMA_VERSION = 1
_ASSETS_KEY = "saved_model_assets"
_INIT_KEY = "legacy_init_op"
_MAIN_KEY = "saved_model_main_op"
_ANY_PREFIX = "type.googleapis.com/"


@dataclass(frozen=True, slots=True)
class BuiltModel:
    """A SavedModel to be written.

    Attributes:
        data: the bytes of `saved_model.pb`.
        signatures: its signatures.
        unmapped: those of the export that have no form in it; they stay in their collection.
        unfed: key of a signature, and a placeholder that its outputs need and its inputs lack.
        keys: of the variables that the graph restores, as far as known.
        notes: for the user.
    """

    data: bytes
    signatures: tuple[MappedSignature, ...]
    unmapped: tuple[UnmappedSignature, ...]
    unfed: tuple[tuple[str, str], ...]
    keys: tuple[str, ...]
    notes: tuple[str, ...]


def build_saved_model(bundle: SessionBundle) -> BuiltModel:
    """Build the SavedModel of an export.

    Raises:
        CorruptError: the init op, or the tensor for an asset, is not in the graph.
        UnsupportedError: the export has parts of a SavedModel already, or is too large for one.
    """
    from ckpttool import pb

    _refuse_saved_model(bundle)
    model = pb.SavedModel(saved_model_schema_version=_SCHEMA_VERSION)
    metagraph = model.meta_graphs.add()
    metagraph.CopyFrom(bundle.message)
    if GRAPH in metagraph.collection_def:
        metagraph.graph_def.CopyFrom(bundle.graph)
    tensors = GraphTensors(bundle.graph, metagraph.meta_info_def.stripped_op_list)
    keys = update_saver(metagraph)
    notes = make_loadable(metagraph)
    if SERVE_TAG not in metagraph.meta_info_def.tags:
        metagraph.meta_info_def.tags.append(SERVE_TAG)
    signatures, unmapped = map_signatures(bundle, tensors)
    for signature in signatures:
        message = metagraph.signature_def[signature.key]
        message.method_name = signature.method
        for role, name in signature.inputs:
            message.inputs[role].CopyFrom(tensors.info(name))
        for role, name in signature.outputs:
            message.outputs[role].CopyFrom(tensors.info(name))
    _move_collections(metagraph, bundle, tensors, keep_signatures=bool(unmapped))
    if model.ByteSize() > MAX_BYTES:
        raise UnsupportedError(
            f"its SavedModel would have {model.ByteSize()} bytes; the limit is {MAX_BYTES}",
            path=bundle.path,
        )
    return BuiltModel(
        data=model.SerializeToString(deterministic=True),
        signatures=signatures,
        unmapped=unmapped,
        unfed=tuple(_unfed(signatures, tensors)),
        keys=keys,
        notes=notes,
    )


def _refuse_saved_model(bundle: SessionBundle) -> None:
    """Refuse an export with parts of a SavedModel: they would mix with those made here."""
    message = bundle.message
    found = [key for key in (_ASSETS_KEY, _INIT_KEY, _MAIN_KEY) if key in message.collection_def]
    found += [
        field.name
        for field, _ in message.ListFields()
        if field.name in ("signature_def", "asset_file_def", "object_graph_def")
    ]
    if found:
        raise UnsupportedError(
            f"an export that has parts of a SavedModel already: {', '.join(found)}",
            path=bundle.path,
        )


def _move_collections(
    metagraph: pb.MetaGraphDef,
    bundle: SessionBundle,
    tensors: GraphTensors,
    *,
    keep_signatures: bool,
) -> None:
    """Move the contents of the export's collections to their places in a SavedModel."""
    from ckpttool import pb

    for key in (GRAPH, ASSETS, INIT_OP, *(() if keep_signatures else (SIGNATURES,))):
        metagraph.collection_def.pop(key, None)
    for asset in bundle.assets:
        name = tensors.full_name(asset.tensor)
        if name is None:
            raise CorruptError(
                f"asset '{asset.filename}' is for the tensor '{asset.tensor}', which is not in the"
                " graph",
                path=bundle.path,
            )
        carried = pb.AssetFileDef(filename=asset.filename)
        carried.tensor_info.name = name
        metagraph.collection_def[_ASSETS_KEY].any_list.value.add(
            type_url=_ANY_PREFIX + carried.DESCRIPTOR.full_name,
            value=carried.SerializeToString(deterministic=True),
        )
    if bundle.init_op is not None:
        if not tensors.has_node(bundle.init_op):
            raise CorruptError(
                f"the init op '{bundle.init_op}' is not in the graph", path=bundle.path
            )
        metagraph.collection_def[_INIT_KEY].node_list.value.append(bundle.init_op)


def _unfed(signatures: tuple[MappedSignature, ...], tensors: GraphTensors) -> list[tuple[str, str]]:
    return [
        (signature.key, placeholder)
        for signature in signatures
        for placeholder in tensors.unfed(
            [name for _, name in signature.outputs], [name for _, name in signature.inputs]
        )
    ]
