"""Operations that reach beyond the graph: to files, to other machines, to code outside of it.

The table lists TensorFlow's operations. One from a library that the user loads may reach out too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from ckpttool import pb

Reach = Literal["reads", "writes", "network", "code"]
_SHOWN = 5  # nodes named for each operation

_CHECKPOINT_READ = "reads tensors from a checkpoint"
_CHECKPOINT_WRITE = "writes tensors to a checkpoint"
_RECORDS = "reads records from files"
_LISTS = "lists the files that match a pattern"
_DATASET = "reads its elements from files"
_SNAPSHOT = "writes its elements to files and reads them again"
_CACHE = f"{_SNAPSHOT}, if they have a name"
_SUMMARY = "writes event files"
_PYTHON = "calls a Python function of the program that made the graph"
_SERVICE = "talks to a tf.data service"
_COMPILED = "runs a compiled program that the node carries"
_DEBUG = "sends tensors to where its URLs point, files or servers"
_DATABASE = "opens a database"

_TABLE: dict[str, tuple[Reach, str]] = {
    "ReadFile": ("reads", "reads a whole file"),
    "WriteFile": ("writes", "writes a file, and makes its folder"),
    "ImmutableConst": ("reads", "maps a file into memory"),
    "LoadAndRemapMatrix": ("reads", _CHECKPOINT_READ),
    "GenerateVocabRemapping": ("reads", "reads two vocabulary files"),
    "DecodeProtoV2": ("reads", "may read a file of message descriptors"),
    "EncodeProto": ("reads", "may read a file of message descriptors"),
    "DatasetToTFRecord": ("writes", "writes its elements to a file"),
    "ExperimentalDatasetToTFRecord": ("writes", "writes its elements to a file"),
    "DistributedSave": ("writes", "writes a snapshot of a dataset"),
    "MergeV2Checkpoints": ("writes", "renames the files of checkpoints, and deletes folders"),
    "GeneratorDataset": ("code", "takes its elements from functions, most often Python ones"),
    "RemoteCall": ("network", "calls a function on a device that may be remote"),
    "Rpc": ("network", "calls a server"),
    "TryRpc": ("network", "calls a server"),
    "TRTEngineOp": ("code", "runs an engine of TensorRT that the node may carry"),
    "RemoteFusedGraphExecute": ("code", "hands a graph to another runtime"),
    "IteratorFromStringHandle": ("code", "uses an iterator of the process by its handle"),
    "CreateSummaryDbWriter": ("writes", _DATABASE),
    **dict.fromkeys(("SqlDataset", "ExperimentalSqlDataset"), ("reads", _DATABASE)),
    **dict.fromkeys(("Restore", "RestoreSlice", "RestoreV2"), ("reads", _CHECKPOINT_READ)),
    **dict.fromkeys(("Save", "SaveSlices", "SaveV2"), ("writes", _CHECKPOINT_WRITE)),
    **dict.fromkeys(
        ("MatchingFiles", "MatchingFilesDataset", "ExperimentalMatchingFilesDataset"),
        ("reads", _LISTS),
    ),
    **dict.fromkeys(
        (
            *("WholeFileReader", "WholeFileReaderV2", "TextLineReader", "TextLineReaderV2"),
            *("TFRecordReader", "TFRecordReaderV2", "LMDBReader"),
            *("FixedLengthRecordReader", "FixedLengthRecordReaderV2"),
        ),
        ("reads", _RECORDS),
    ),
    **dict.fromkeys(
        ("InitializeTableFromTextFile", "InitializeTableFromTextFileV2"),
        ("reads", "fills a table from a text file"),
    ),
    **dict.fromkeys(
        (
            *("TextLineDataset", "TFRecordDataset", "TFRecordDatasetV2"),
            *("FixedLengthRecordDataset", "FixedLengthRecordDatasetV2"),
            *("LMDBDataset", "ExperimentalLMDBDataset", "LoadDataset"),
            *("CSVDataset", "CSVDatasetV2", "ExperimentalCSVDataset"),
            *("SnapshotDatasetReader", "SnapshotNestedDatasetReader", "SnapshotChunkDataset"),
            *("ListSnapshotChunksDataset",),
        ),
        ("reads", _DATASET),
    ),
    **dict.fromkeys(("SnapshotDataset", "SnapshotDatasetV2"), ("writes", _SNAPSHOT)),
    **dict.fromkeys(("CacheDataset", "CacheDatasetV2"), ("writes", _CACHE)),
    **dict.fromkeys(("SaveDataset", "SaveDatasetV2"), ("writes", "writes its elements to files")),
    **dict.fromkeys(("CreateSummaryFileWriter", "FlushSummaryWriter"), ("writes", _SUMMARY)),
    **dict.fromkeys(
        (
            *("WriteSummary", "WriteScalarSummary", "WriteHistogramSummary", "WriteImageSummary"),
            *("WriteAudioSummary", "WriteGraphSummary", "WriteRawProtoSummary", "ImportEvent"),
        ),
        ("writes", _SUMMARY),
    ),
    **dict.fromkeys(("PyFunc", "PyFuncStateless", "EagerPyFunc"), ("code", _PYTHON)),
    **dict.fromkeys(
        (
            *("DataServiceDataset", "DataServiceDatasetV2"),
            *("DataServiceDatasetV3", "DataServiceDatasetV4"),
            *("RegisterDataset", "RegisterDatasetV2"),
        ),
        ("network", _SERVICE),
    ),
    **dict.fromkeys(
        (
            *("XlaCallModule", "XlaCustomCall", "XlaCustomCallV2"),
            *("TPUExecute", "TPUExecuteAndUpdateVariables"),
        ),
        ("code", _COMPILED),
    ),
    **dict.fromkeys(
        (
            *("DebugIdentity", "DebugIdentityV2", "DebugIdentityV3", "DebugNanCount"),
            *("DebugNumericSummary", "DebugNumericSummaryV2"),
        ),
        ("writes", _DEBUG),
    ),
}
_FILE_STREAM = b"file://"


@dataclass(frozen=True, slots=True)
class Effect:
    """An operation that reaches beyond the graph.

    Attributes:
        op: the operation.
        reach: it reads or writes files, uses the network, or runs code outside of the graph.
        reason: what it does, in words.
        count: number of nodes.
        of_saver: how many of them save and restore the graph's variables.
        nodes: `placed_name` of the first few.
    """

    op: str
    reach: Reach
    reason: str
    count: int
    of_saver: int
    nodes: tuple[str, ...]


def find_effects(
    nodes: Iterable[tuple[str, pb.NodeDef]], of_saver: Callable[[str, str], bool]
) -> tuple[Effect, ...]:
    """Return the operations that reach beyond a graph, sorted.

    Args:
        nodes: all nodes, as `every_node` gives them.
        of_saver: whether a node (function, name) is part of saving or restoring.
    """
    found: dict[tuple[str, Reach, str], list[str]] = {}
    saving: dict[tuple[str, Reach, str], int] = {}
    counts: dict[tuple[str, Reach, str], int] = {}
    for function, node in nodes:
        what = _TABLE.get(node.op) or _print_to_file(node)
        if what is None:
            continue
        key = (node.op, *what)
        counts[key] = counts.get(key, 0) + 1
        named = found.setdefault(key, [])
        if len(named) < _SHOWN:
            named.append(placed_name(function, node))
        saving[key] = saving.get(key, 0) + of_saver(function, node.name)
    return tuple(
        Effect(*key, counts[key], saving[key], tuple(found[key])) for key in sorted(counts)
    )


def every_node(graph: pb.GraphDef) -> Iterator[tuple[str, pb.NodeDef]]:
    """Yield all nodes, each with the name of its function, empty outside of functions."""
    for node in graph.node:
        yield "", node
    for function in graph.library.function:
        for node in function.node_def:
            yield function.signature.name, node


def placed_name(function: str, node: pb.NodeDef) -> str:
    """Return the name of a node, after that of its function and a slash if it is in one."""
    return f"{function}/{node.name}" if function else node.name


def _print_to_file(node: pb.NodeDef) -> tuple[Reach, str] | None:
    if node.op != "PrintV2" or "output_stream" not in node.attr:
        return None
    if not node.attr["output_stream"].s.startswith(_FILE_STREAM):
        return None
    return "writes", "appends a line to a file"


def functions_called(graph: pb.GraphDef, roots: Iterable[pb.NodeDef]) -> Set[str]:
    """Return the names of a graph's functions that some nodes call, directly or not."""
    functions = {function.signature.name: function for function in graph.library.function}
    found: set[str] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        for name in _called(node):
            if name in functions and name not in found:
                found.add(name)
                stack += functions[name].node_def
    return found


def _called(node: pb.NodeDef) -> Iterable[str]:
    """Yield the names of functions that a node may call."""
    yield node.op
    for value in node.attr.values():
        kind = value.WhichOneof("value")
        if kind == "func":
            yield value.func.name
        elif kind == "list":
            for one in value.list.func:
                yield one.name
