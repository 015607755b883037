"""The parts of a SessionBundle export, in the collections of its `export.meta`.

serving_signatures   one Any of Signatures: a default signature and named ones
serving_assets       an Any of AssetFile for each file that the graph reads
serving_graph        at most one Any of GraphDef, used in place of the MetaGraph's own
serving_init_op      at most one name: of the operation to run after restoring
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar, cast

from ckpttool.errors import CorruptError
from ckpttool.metagraph.file import read_graph_file

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from ckpttool import pb

_M = TypeVar("_M", bound="Message")

SignatureKind = Literal["regression", "classification", "generic", "unknown"]

SIGNATURES = "serving_signatures"
ASSETS = "serving_assets"
GRAPH = "serving_graph"
INIT_OP = "serving_init_op"


@dataclass(frozen=True, slots=True)
class Asset:
    """A file that the graph reads; the tensor is fed its path."""

    tensor: str
    filename: str


@dataclass(frozen=True, slots=True)
class ExportSignature:
    """A signature of an export.

    Attributes:
        name: among the named signatures; None for the default signature.
        kind: `"unknown"` for one of an unknown type or without contents.
        tensors: each tensor's name in the signature and in the graph. A regression has `input` and
            `output`, a classification `input`, `classes` and `scores`, where names in the graph
            may be empty; a generic signature has its writer's names, sorted.
    """

    name: str | None
    kind: SignatureKind
    tensors: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return "the default signature" if self.name is None else f"signature '{self.name}'"


@dataclass(frozen=True, slots=True)
class SessionBundle:
    """An export without its variables.

    Attributes:
        path: of its `export.meta`.
        message: the whole MetaGraph.
        graph: the graph in use.
        default: the default signature.
        named: the named ones, sorted.
        assets: in the order of the collection.
        init_op: name of the operation that finishes loading.
    """

    path: str
    message: pb.MetaGraphDef
    graph: pb.GraphDef
    default: ExportSignature | None
    named: tuple[ExportSignature, ...]
    assets: tuple[Asset, ...]
    init_op: str | None


def read_session_bundle(path: str) -> SessionBundle:
    """Read the `export.meta` of an export.

    Raises:
        MissingFileError: there is no such file.
        CorruptError: it is no MetaGraph, or one of the collections is malformed.
        UnsupportedError: it is 2 GiB or more.
    """
    file = read_graph_file(path)
    if file.kind != "MetaGraphDef":
        raise CorruptError(f"a {file.kind}, not the MetaGraph of an export", path=path)
    return session_bundle_of(cast("pb.MetaGraphDef", file.message), path)


def session_bundle_of(message: pb.MetaGraphDef, path: str) -> SessionBundle:
    """Decode the MetaGraph of an export; `CorruptError` if one of the collections is malformed."""
    from ckpttool import pb

    graphs = _unpacked(message, GRAPH, pb.GraphDef, path)
    manifests = _unpacked(message, SIGNATURES, pb.Signatures, path)
    for key, found in ((GRAPH, graphs), (SIGNATURES, manifests)):
        if len(found) > 1:
            raise CorruptError(f"collection '{key}' has {len(found)} items, not one", path=path)
    manifest = manifests[0] if manifests else pb.Signatures()
    default = None
    if manifest.HasField("default_signature"):
        default = _signature(None, manifest.default_signature)
    return SessionBundle(
        path=path,
        message=message,
        graph=graphs[0] if graphs else message.graph_def,
        default=default,
        named=tuple(_signature(*item) for item in sorted(manifest.named_signatures.items())),
        assets=tuple(
            Asset(asset.tensor_binding.tensor_name, asset.filename)
            for asset in _unpacked(message, ASSETS, pb.AssetFile, path)
        ),
        init_op=_init_op(message, path),
    )


def _items(message: pb.MetaGraphDef, key: str, kind: str, path: str) -> Iterable[object]:
    """Return the items of a collection; check its kind."""
    if key not in message.collection_def:
        return ()
    collection = message.collection_def[key]
    found = collection.WhichOneof("kind")
    if found not in (kind, None):
        raise CorruptError(f"collection '{key}' is of kind {found}, not {kind}", path=path)
    return cast("Iterable[object]", getattr(collection, kind).value)


def _unpacked(message: pb.MetaGraphDef, key: str, message_class: type[_M], path: str) -> list[_M]:
    from ckpttool.pb.convert import parse

    found = []
    for item in cast("Iterable[pb.Any]", _items(message, key, "any_list", path)):
        wanted = message_class.DESCRIPTOR.full_name
        type_name = item.type_url.rpartition("/")[2]
        if type_name != wanted:
            raise CorruptError(
                f"collection '{key}' has an Any of type '{item.type_url}', not of {wanted}",
                path=path,
            )
        found.append(parse(message_class, item.value, path=path))
    return found


def _init_op(message: pb.MetaGraphDef, path: str) -> str | None:
    names = [str(item) for item in _items(message, INIT_OP, "node_list", path)]
    if len(names) > 1:
        raise CorruptError(f"collection '{INIT_OP}' has {len(names)} items, not one", path=path)
    return names[0] if names else None


def _signature(name: str | None, message: pb.Signature) -> ExportSignature:
    kind = message.WhichOneof("type")
    if kind == "regression_signature":
        regression = message.regression_signature
        return ExportSignature(
            name,
            "regression",
            (("input", regression.input.tensor_name), ("output", regression.output.tensor_name)),
        )
    if kind == "classification_signature":
        classification = message.classification_signature
        return ExportSignature(
            name,
            "classification",
            (
                ("input", classification.input.tensor_name),
                ("classes", classification.classes.tensor_name),
                ("scores", classification.scores.tensor_name),
            ),
        )
    if kind == "generic_signature":
        bindings = sorted(message.generic_signature.map.items())
        return ExportSignature(
            name, "generic", tuple((key, binding.tensor_name) for key, binding in bindings)
        )
    return ExportSignature(name, "unknown", ())
