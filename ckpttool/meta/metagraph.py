"""The facts of a MetaGraph that people ask for, from a `.meta` or `saved_model.pb` file.

A MetaGraph is a graph with what belongs to it: who wrote it, collections of names or serialized
messages, signatures, the saver. A `.meta` file holds one, a SavedModel any number; either may be
text. Only the facts below are kept, the graph itself is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

from ckpttool.errors import CorruptError
from ckpttool.meta.metagraph_collections import VARIABLES
from ckpttool.meta.metagraph_file import read_graph_file
from ckpttool.tensor.dtypes import dtype_of_number

if TYPE_CHECKING:
    from ckpttool import pb

CollectionKind = Literal["node_list", "bytes_list", "int64_list", "float_list", "any_list", "empty"]

# Dtypes of reference variables have the number of the dtype they refer to, and this.
_REFERENCE = 100
_SAVER_VERSIONS = ("LEGACY", "V1", "V2")


@dataclass(frozen=True, slots=True)
class SignatureTensor:
    """An input or output of a signature.

    Attributes:
        key: what the signature calls it.
        tensors: names in the graph: one, or those a sparse or composite tensor is made of.
        dtype: TensorFlow's name; "invalid" where the file does not say.
        shape: -1 for a dimension that may vary; None if even the rank may.
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
class Collection:
    """A named list of the graph; the size is the number of its items."""

    key: str
    kind: CollectionKind
    size: int


@dataclass(frozen=True, slots=True)
class VariableSlice:
    """Where a part of a partitioned variable lies in the whole, which the checkpoint knows."""

    full_name: str
    full_shape: tuple[int, ...]
    offset: tuple[int, ...]
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of the graph, as its collection describes it.

    Attributes:
        name: of its tensor, such as "w:0".
        trainable: as it is in the file; before 1.15 TensorFlow did not write it.
    """

    name: str
    initializer: str = ""
    snapshot: str = ""
    initial_value: str = ""
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
    """How the graph saves and restores itself; names are of tensors and operations in it."""

    filename_tensor: str
    save_tensor: str
    restore_op: str
    max_to_keep: int
    keep_every_n_hours: float
    sharded: bool
    version: str


@dataclass(frozen=True, slots=True)
class Asset:
    """A file that the graph reads; the tensor is to be fed its path."""

    tensor: str
    filename: str


@dataclass(frozen=True, slots=True)
class MetaGraph:
    """What a MetaGraph is made of.

    Attributes:
        path: the file it is from.
        tensorflow_version: of the writer; empty where it is not stated, like the next.
        producer: the version of the graph format that the writer had.
        tags: what a SavedModel tells its MetaGraphs apart by.
        nodes: number of nodes of the graph, functions left out.
        functions: number of functions in the graph's library.
        ops: how many nodes there are of each op, functions included; most frequent first.
        objects: number of objects in the object graph of a SavedModel.
        collections: by key.
        variables: by collection, the variables in it, in its order.
        saver: None if the graph cannot save.
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


def read_metagraphs(path: str) -> tuple[MetaGraph, ...]:
    """Read the MetaGraphs of a file, binary or text.

    Args:
        path: a `.meta` file, which holds one, or `saved_model.pb` or `.pbtxt`, with one or more.

    Raises:
        MissingFileError: there is no such file.
        CorruptError: it holds no MetaGraph.
        UnsupportedError: it is 2 GiB or more.
    """
    file = read_graph_file(path)
    if file.kind == "FingerprintDef":
        raise CorruptError("the fingerprint of a SavedModel, not a MetaGraph", path=path)
    if file.kind == "MetaGraphDef":
        return (_facts(cast("pb.MetaGraphDef", file.message), path),)
    found = cast("pb.SavedModel", file.message).meta_graphs
    if not found:
        raise CorruptError("a SavedModel without MetaGraphs", path=path)
    return tuple(_facts(message, path) for message in found)


def _facts(message: pb.MetaGraphDef, path: str) -> MetaGraph:
    info = message.meta_info_def
    graph = _graph(message, path)
    collections = sorted(message.collection_def.items())
    ops = Counter(node.op for node in graph.node)
    for function in graph.library.function:
        ops.update(node.op for node in function.node_def)
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
        variables={
            key: tuple(_variable(item, path) for item in collection.bytes_list.value)
            for key, collection in collections
            if key in VARIABLES and collection.WhichOneof("kind") == "bytes_list"
        },
        signatures=tuple(
            _signature(key, signature) for key, signature in sorted(message.signature_def.items())
        ),
        saver=_saver(message.saver_def) if message.HasField("saver_def") else None,
        assets=tuple(_assets(message, path)),
    )


def _graph(message: pb.MetaGraphDef, path: str) -> pb.GraphDef:
    """Return the graph: a SessionBundle export may keep the one that counts in a collection."""
    from ckpttool import pb
    from ckpttool.pb.convert import parse

    packed = _any_values(message, "serving_graph")
    return parse(pb.GraphDef, packed[0], path=path) if packed else message.graph_def


def _any_values(message: pb.MetaGraphDef, key: str) -> list[bytes]:
    if key not in message.collection_def:
        return []
    return [item.value for item in message.collection_def[key].any_list.value]


def _collection(key: str, collection: pb.CollectionDef) -> Collection:
    kind: CollectionKind | None = collection.WhichOneof("kind")
    if kind is None:
        return Collection(key, "empty", 0)
    return Collection(key, kind, len(getattr(collection, kind).value))


def _variable(data: bytes, path: str) -> Variable:
    from ckpttool import pb
    from ckpttool.pb.convert import parse

    found = parse(pb.VariableDef, data, path=path)
    part = None
    if found.HasField("save_slice_info_def"):
        info = found.save_slice_info_def
        part = VariableSlice(
            info.full_name, tuple(info.full_shape), tuple(info.var_offset), tuple(info.var_shape)
        )
    return Variable(
        found.variable_name,
        found.initializer_name,
        found.snapshot_name,
        found.initial_value_name,
        found.is_resource,
        found.trainable,
        part,
    )


def _signature(key: str, signature: pb.SignatureDef) -> Signature:
    return Signature(
        key,
        signature.method_name,
        tuple(_signature_tensors(signature.inputs, signature.defaults)),
        tuple(_signature_tensors(signature.outputs, {})),
    )


def _signature_tensors(
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
        # Components of a component are beyond what TensorFlow makes.
        return [component.name for component in info.composite_tensor.components]
    return [info.name]


def _dtype_name(number: int) -> str:
    if number == 0:
        return "invalid"
    if number > _REFERENCE:
        return dtype_of_number(number - _REFERENCE).name + "_ref"
    return dtype_of_number(number).name


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


def _assets(message: pb.MetaGraphDef, path: str) -> Iterable[Asset]:
    """Yield the assets, which each way to export keeps in a place of its own."""
    from ckpttool import pb
    from ckpttool.pb.convert import parse

    found = list(message.asset_file_def)
    for data in _any_values(message, "saved_model_assets"):
        found.append(parse(pb.AssetFileDef, data, path=path))
    for asset in found:
        yield Asset(asset.tensor_info.name, asset.filename)
    for data in _any_values(message, "serving_assets"):
        exported = parse(pb.AssetFile, data, path=path)
        yield Asset(exported.tensor_binding.tensor_name, exported.filename)
