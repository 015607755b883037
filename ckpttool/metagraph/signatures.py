"""The signatures of a MetaGraph: ways to call the graph, with inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ckpttool.tensor.dtypes import REFERENCE, dtype_of_number

if TYPE_CHECKING:
    from ckpttool import pb

_EXPORT = "serving_signatures"


@dataclass(frozen=True, slots=True)
class SignatureTensor:
    """An input or output of a signature.

    Attributes:
        key: its name in the signature.
        tensors: names in the graph: one, or the components of a sparse or composite tensor.
        dtype: TensorFlow's name; "invalid" if not stated.
        shape: -1 for a variable dimension; None for a variable rank.
        has_default: whether the caller may leave it out.
    """

    key: str
    tensors: tuple[str, ...]
    dtype: str
    shape: tuple[int, ...] | None
    has_default: bool = False


@dataclass(frozen=True, slots=True)
class Signature:
    """A way to call the graph."""

    key: str
    method: str
    inputs: tuple[SignatureTensor, ...]
    outputs: tuple[SignatureTensor, ...]


@dataclass(frozen=True, slots=True)
class OtherSignature:
    """A signature of a SessionBundle export that cannot be called like one of a SavedModel.

    Attributes:
        name: in words.
        kind: "regression", "classification", "generic" or "unknown".
        reason: why it cannot.
        tensors: each tensor's name in the signature and in the graph.
    """

    name: str
    kind: str
    reason: str
    tensors: tuple[tuple[str, str], ...]


def read_signatures(
    message: pb.MetaGraphDef, path: str
) -> tuple[tuple[Signature, ...], tuple[OtherSignature, ...]]:
    """Return the signatures of a MetaGraph, and those of an export that cannot be called.

    Args:
        message: the MetaGraph; for a SessionBundle export the answer is that of the SavedModel made
            from it.
        path: of the file.

    Raises:
        CorruptError: the collections of an export are malformed.
    """
    if _EXPORT in message.collection_def and not message.signature_def:
        return _of_export(message, path)
    found = sorted(message.signature_def.items())
    return tuple(_signature(key, signature) for key, signature in found), ()


def _of_export(
    message: pb.MetaGraphDef, path: str
) -> tuple[tuple[Signature, ...], tuple[OtherSignature, ...]]:
    """Return the signatures of a SessionBundle export, and those that cannot be called."""
    from ckpttool.metagraph.session_bundle import session_bundle_of
    from ckpttool.metagraph.session_signatures import map_signatures
    from ckpttool.metagraph.tensors import GraphTensors

    bundle = session_bundle_of(message, path)
    tensors = GraphTensors(bundle.graph, message.meta_info_def.stripped_op_list)
    mapped, unmapped = map_signatures(bundle, tensors)
    signatures = tuple(
        Signature(
            each.key,
            each.method,
            *(
                tuple(_tensors({key: tensors.info(name) for key, name in pairs}, {}))
                for pairs in (each.inputs, each.outputs)
            ),
        )
        for each in mapped
    )
    stored = {each.name: each for each in (bundle.default, *bundle.named) if each is not None}
    others = tuple(
        OtherSignature(str(stored[each.name]), each.kind, each.reason, stored[each.name].tensors)
        for each in unmapped
    )
    return signatures, others


def _signature(key: str, signature: pb.SignatureDef) -> Signature:
    return Signature(
        key,
        signature.method_name,
        tuple(_tensors(signature.inputs, signature.defaults)),
        tuple(_tensors(signature.outputs, {})),
    )


def _tensors(
    tensors: Mapping[str, pb.TensorInfo], defaults: Mapping[str, object]
) -> Iterable[SignatureTensor]:
    for key, info in sorted(tensors.items()):
        shape = None
        if info.HasField("tensor_shape") and not info.tensor_shape.unknown_rank:
            shape = tuple(dim.size for dim in info.tensor_shape.dim)
        names = tuple(filter(None, _tensor_names(info)))
        yield SignatureTensor(key, names, _dtype_name(info.dtype), shape, key in defaults)


def _tensor_names(info: pb.TensorInfo) -> list[str]:
    if info.HasField("coo_sparse"):
        sparse = info.coo_sparse
        return [
            sparse.values_tensor_name,
            sparse.indices_tensor_name,
            sparse.dense_shape_tensor_name,
        ]
    if info.HasField("composite_tensor"):
        # TensorFlow makes no components of components.
        return [component.name for component in info.composite_tensor.components]
    return [info.name]


def _dtype_name(number: int) -> str:
    if number == 0:
        return "invalid"
    if number > REFERENCE:
        return dtype_of_number(number - REFERENCE).name + "_ref"
    return dtype_of_number(number).name
