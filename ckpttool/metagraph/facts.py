"""The main facts of a MetaGraph, from a `.meta` or `saved_model.pb` file.

A MetaGraph is a graph with its writer's version, collections of names or serialized messages,
signatures and the saver. A `.meta` file holds one, a SavedModel any number; either may be text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar, cast

from ckpttool.errors import CkptError, CorruptError
from ckpttool.metagraph.collections import VARIABLES
from ckpttool.metagraph.file import read_graph_file
from ckpttool.metagraph.session_bundle import Asset
from ckpttool.metagraph.signatures import (
    OtherSignature,
    Signature,
    read_signatures,
)
from ckpttool.metagraph.updates import UPDATES, Update, optimizer_updates

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from ckpttool import pb

_M = TypeVar("_M", bound="Message")

CollectionKind = Literal["node_list", "bytes_list", "int64_list", "float_list", "any_list", "empty"]

_SAVER_VERSIONS = ("LEGACY", "V1", "V2")


@dataclass(frozen=True, slots=True)
class Collection:
    """A named list of the graph; the size is the number of its items."""

    key: str
    kind: CollectionKind
    size: int


@dataclass(frozen=True, slots=True)
class VariableSlice:
    """The place of a part of a partitioned variable in the whole; the checkpoint has the whole."""

    full_name: str
    full_shape: tuple[int, ...]
    offset: tuple[int, ...]
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of the graph, as its collection describes it.

    Attributes:
        name: of its tensor, such as "w:0".
        trainable: as in the file; TensorFlow writes it since 1.15.
    """

    name: str
    is_resource: bool = False
    trainable: bool = False
    part: VariableSlice | None = None

    @property
    def full_name(self) -> str:
        """The key that a v1 Saver stores it under."""
        if self.part is not None:
            return self.part.full_name
        return self.name.rpartition(":")[0] or self.name


@dataclass(frozen=True, slots=True)
class Saver:
    """How the graph saves and restores itself, by names of its tensors and operations."""

    filename_tensor: str
    save_tensor: str
    restore_op: str
    max_to_keep: int
    keep_every_n_hours: float
    sharded: bool
    version: str


@dataclass(frozen=True, slots=True)
class MetaGraph:
    """The main facts of a MetaGraph.

    Attributes:
        path: of the file.
        tensorflow_version: of the writer; empty if not stated, as is `git_version`.
        producer: the writer's version of the graph format.
        tags: tell the MetaGraphs of a SavedModel apart.
        nodes: number of nodes, functions left out.
        functions: number of functions in the graph's library.
        ops: number of nodes of each op, functions included; most frequent first.
        objects: number of objects in the object graph of a SavedModel.
        collections: by key.
        variables: by collection, in its order.
        signatures: of a SessionBundle export those of the SavedModel made from it.
        saver: None if the graph cannot save.
        other_signatures: those of an export that have no form in a SavedModel.
        updates: what optimizers do to its variables.
        problems: errors in parts that cannot be read and are left out above.
    """

    path: str
    tensorflow_version: str
    git_version: str
    producer: int
    stripped_default_attrs: bool
    tags: tuple[str, ...]
    nodes: int
    functions: int
    ops: tuple[tuple[str, int], ...]
    objects: int
    collections: tuple[Collection, ...]
    variables: Mapping[str, tuple[Variable, ...]]
    signatures: tuple[Signature, ...]
    saver: Saver | None
    assets: tuple[Asset, ...]
    other_signatures: tuple[OtherSignature, ...] = ()
    updates: tuple[Update, ...] = ()
    problems: tuple[CkptError, ...] = ()


def read_metagraphs(path: str) -> tuple[MetaGraph, ...]:
    """Read the MetaGraphs of a file, binary or text.

    Args:
        path: a `.meta` file, which holds one, or `saved_model.pb` or `.pbtxt`, with one or more.

    Raises:
        MissingFileError: there is no such file.
        CorruptError: it holds no MetaGraph.
        UnsupportedError: it is 2 GiB or more.
    """
    return tuple(metagraph_of(message, path) for message in read_messages(path))


def read_messages(path: str) -> tuple[pb.MetaGraphDef, ...]:
    """Read the MetaGraphs of a file as messages; as `read_metagraphs` otherwise."""
    file = read_graph_file(path)
    if file.kind == "FingerprintDef":
        raise CorruptError("the fingerprint of a SavedModel, not a MetaGraph", path=path)
    if file.kind == "MetaGraphDef":
        return (cast("pb.MetaGraphDef", file.message),)
    found = tuple(cast("pb.SavedModel", file.message).meta_graphs)
    if not found:
        raise CorruptError("a SavedModel without MetaGraphs", path=path)
    return found


def metagraph_of(message: pb.MetaGraphDef, path: str) -> MetaGraph:
    """Return the facts of a MetaGraph from a file."""
    problems: list[CkptError] = []
    info = message.meta_info_def
    graph = readable_graph_of(message, path, problems)
    collections = sorted(message.collection_def.items())
    ops = Counter(node.op for node in graph.node)
    for function in graph.library.function:
        ops.update(node.op for node in function.node_def)
    try:
        signatures, others = read_signatures(message, path)
    except CkptError as error:
        problems.append(error)
        signatures, others = (), ()
    variables = {
        key: tuple(_variables(key, collection, path, problems))
        for key, collection in collections
        if key in VARIABLES and collection.WhichOneof("kind") == "bytes_list"
    }
    assets = tuple(assets_of(message, path, problems))
    return MetaGraph(
        path=path,
        tensorflow_version=info.tensorflow_version,
        git_version=info.tensorflow_git_version,
        producer=graph.versions.producer,
        stripped_default_attrs=info.stripped_default_attrs,
        tags=tuple(info.tags),
        nodes=len(graph.node),
        functions=len(graph.library.function),
        ops=tuple(sorted(ops.items(), key=lambda item: (-item[1], item[0]))),
        objects=len(message.object_graph_def.nodes),
        collections=tuple(_collection(key, collection) for key, collection in collections),
        variables=variables,
        signatures=signatures,
        saver=_saver(message.saver_def) if message.HasField("saver_def") else None,
        assets=assets,
        other_signatures=others,
        updates=_updates(graph, ops),
        problems=tuple({str(error): error for error in problems}.values()),
    )


def _updates(graph: pb.GraphDef, ops: Counter[str]) -> tuple[Update, ...]:
    if not UPDATES.keys() & ops.keys():
        return ()
    return tuple(optimizer_updates({node.name: node for node in graph.node}))


def graph_of(message: pb.MetaGraphDef, path: str) -> pb.GraphDef:
    """Return the graph; a SessionBundle export may keep it in a collection.

    Raises:
        CorruptError: that collection has no graph.
    """
    problems: list[CkptError] = []
    graph = readable_graph_of(message, path, problems)
    if problems:
        raise problems[0]
    return graph


def readable_graph_of(
    message: pb.MetaGraphDef, path: str, problems: list[CkptError]
) -> pb.GraphDef:
    """Return the graph as `graph_of`; after an error, added to `problems`, the MetaGraph's own."""
    from ckpttool import pb

    packed = list(_unpacked(message, "serving_graph", pb.GraphDef, path, problems))
    return packed[0] if packed else message.graph_def


def _unpacked(
    message: pb.MetaGraphDef,
    key: str,
    message_class: type[_M],
    path: str,
    problems: list[CkptError],
) -> Iterable[_M]:
    """Yield the messages of a collection of Anys; others are added to `problems`."""
    if key not in message.collection_def:
        return
    wanted = message_class.DESCRIPTOR.full_name
    for number, item in enumerate(message.collection_def[key].any_list.value):
        if item.type_url.rpartition("/")[2] != wanted:
            problems.append(
                CorruptError(
                    f"item {number} of the collection '{key}' is an Any of type '{item.type_url}',"
                    f" not of {wanted}",
                    path=path,
                )
            )
            continue
        found = _item(message_class, item.value, key, number, path, problems)
        if found is not None:
            yield found


def _item(
    message_class: type[_M],
    data: bytes,
    key: str,
    number: int,
    path: str,
    problems: list[CkptError],
) -> _M | None:
    from ckpttool.pb.convert import parse

    try:
        return parse(message_class, data, path=path)
    except CorruptError as error:
        error.message = f"item {number} of the collection '{key}': {error.message}"
        problems.append(error)
        return None


def _collection(key: str, collection: pb.CollectionDef) -> Collection:
    kind: CollectionKind | None = collection.WhichOneof("kind")
    if kind is None:
        return Collection(key, "empty", 0)
    return Collection(key, kind, len(getattr(collection, kind).value))


def _variables(
    key: str, collection: pb.CollectionDef, path: str, problems: list[CkptError]
) -> Iterable[Variable]:
    from ckpttool import pb

    for number, data in enumerate(collection.bytes_list.value):
        found = _item(pb.VariableDef, data, key, number, path, problems)
        if found is not None:
            yield _variable(found)


def _variable(found: pb.VariableDef) -> Variable:
    part = None
    if found.HasField("save_slice_info_def"):
        info = found.save_slice_info_def
        part = VariableSlice(
            info.full_name, tuple(info.full_shape), tuple(info.var_offset), tuple(info.var_shape)
        )
    return Variable(found.variable_name, found.is_resource, found.trainable, part)


def _saver(saver: pb.SaverDef) -> Saver:
    known = 0 <= saver.version < len(_SAVER_VERSIONS)
    return Saver(
        saver.filename_tensor_name,
        saver.save_tensor_name,
        saver.restore_op_name,
        saver.max_to_keep,
        saver.keep_checkpoint_every_n_hours,
        saver.sharded,
        _SAVER_VERSIONS[saver.version] if known else f"unknown({saver.version})",
    )


def assets_of(message: pb.MetaGraphDef, path: str, problems: list[CkptError]) -> Iterable[Asset]:
    """Yield the assets, from each place that an exporter uses; errors are added to `problems`."""
    from ckpttool import pb

    found = [*message.asset_file_def]
    found += _unpacked(message, "saved_model_assets", pb.AssetFileDef, path, problems)
    for asset in found:
        yield Asset(asset.tensor_info.name, asset.filename)
    for exported in _unpacked(message, "serving_assets", pb.AssetFile, path, problems):
        yield Asset(exported.tensor_binding.tensor_name, exported.filename)
