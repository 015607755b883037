"""The full facts of a graph, for `ckpt show --graph`, without protobuf messages."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ckpttool.metagraph.effects import (
    Effect,
    every_node,
    find_effects,
    functions_called,
    placed_name,
)
from ckpttool.metagraph.facts import MetaGraph, metagraph_of, read_messages, readable_graph_of
from ckpttool.metagraph.saver import needed_nodes
from ckpttool.metagraph.variables import (
    GraphVariable,
    SavedNode,
    graph_variables,
    known_shape,
    saved_nodes,
)
from ckpttool.tensor.dtypes import dtype_of_number

if TYPE_CHECKING:
    from ckpttool import pb

# A constant of fewer bytes, or of these dtypes, holds no weights.
SMALLEST_CONSTANT = 1024
_NO_NUMBERS = frozenset({"string", "resource", "variant"})
_LARGEST_NODES = 100
# Collections that name operations to run after restoring, or to train.
_RUN = {
    "saved_model_main_op": "init",
    "legacy_init_op": "init",
    "saved_model_init_op": "init",
    "serving_init_op": "init",
    "saved_model_train_op": "train",
}
_RUN_SIGNATURES = {"__saved_model_init_op": "init", "__saved_model_train_op": "train"}


@dataclass(frozen=True, slots=True)
class NodeSize:
    """A node and its size; `name` is its `placed_name`."""

    name: str
    op: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant of some size.

    Attributes:
        name: `placed_name` of its node.
        dtype: TensorFlow's name.
        shape: None if not stated.
        bytes: of its value in the file.
    """

    name: str
    dtype: str
    shape: tuple[int, ...] | None
    bytes: int


@dataclass(frozen=True, slots=True)
class RunOp:
    """An operation that a loader runs.

    Attributes:
        purpose: "init" once the variables are restored, or "train".
        name: of the operation or tensor.
        stated_by: the collection or signature that names it.
    """

    purpose: str
    name: str
    stated_by: str


@dataclass(frozen=True, slots=True)
class FunctionFacts:
    """A function of the graph's library: its name, number of nodes, and size."""

    name: str
    nodes: int
    bytes: int


@dataclass(frozen=True, slots=True)
class GraphFacts:
    """A graph in full.

    Attributes:
        metagraph: the main facts.
        min_consumer: the oldest version of the graph format that can read it.
        bytes: of the graph in the file, functions included.
        sizes: the largest nodes, functions included, largest first.
        constants: numeric ones of `SMALLEST_CONSTANT` bytes or more, largest first.
        effects: the operations that reach beyond the graph.
        devices: number of nodes on each device, most first; nodes without a device left out.
        run_ops: what a loader runs.
        library: the functions, by name.
        variables: what the graph restores, and its other saved variables.
        objects: the objects of a SavedModel by number.
    """

    metagraph: MetaGraph
    min_consumer: int
    bytes: int
    sizes: tuple[NodeSize, ...]
    constants: tuple[Constant, ...]
    effects: tuple[Effect, ...]
    devices: tuple[tuple[str, int], ...]
    run_ops: tuple[RunOp, ...]
    library: tuple[FunctionFacts, ...]
    variables: tuple[GraphVariable, ...]
    objects: tuple[SavedNode, ...]


def read_graph_facts(path: str) -> tuple[GraphFacts, ...]:
    """Read the full facts of the MetaGraphs of a file; raises as `read_metagraphs`."""
    return facts_of(read_messages(path), path)


def facts_of(messages: tuple[pb.MetaGraphDef, ...], path: str) -> tuple[GraphFacts, ...]:
    """Return the full facts of MetaGraphs from a file."""
    return tuple(_facts(message, path) for message in messages)


def _facts(message: pb.MetaGraphDef, path: str) -> GraphFacts:
    metagraph = metagraph_of(message, path)
    graph = readable_graph_of(message, path, [])  # what is wrong is among its facts
    nodes = {node.name: node for node in graph.node}
    saving = _saving(graph, nodes, message.saver_def)
    return GraphFacts(
        metagraph=metagraph,
        min_consumer=graph.versions.min_consumer,
        bytes=graph.ByteSize(),
        sizes=_sizes(graph),
        constants=_constants(graph),
        effects=find_effects(every_node(graph), lambda *place: bool(saving & {*place[:1], place})),
        devices=_devices(graph),
        run_ops=tuple(_run_ops(message)),
        library=tuple(
            FunctionFacts(function.signature.name, len(function.node_def), function.ByteSize())
            for function in sorted(graph.library.function, key=lambda each: each.signature.name)
        ),
        variables=graph_variables(nodes, message.saver_def, metagraph.variables),
        objects=saved_nodes(message.object_graph_def),
    )


def _sizes(graph: pb.GraphDef) -> tuple[NodeSize, ...]:
    sized = (
        (node.ByteSize(), number, placed_name(function, node), node.op)
        for number, (function, node) in enumerate(every_node(graph))
    )
    largest = heapq.nsmallest(_LARGEST_NODES, sized, key=lambda each: (-each[0], each[1]))
    return tuple(NodeSize(name, op, size) for size, _, name, op in largest)


def _constants(graph: pb.GraphDef) -> tuple[Constant, ...]:
    found = []
    for function, node in every_node(graph):
        if node.op != "Const" or "value" not in node.attr:
            continue
        tensor = node.attr["value"].tensor
        size = tensor.ByteSize()
        dtype = dtype_of_number(tensor.dtype).name
        if size >= SMALLEST_CONSTANT and dtype not in _NO_NUMBERS:
            shape = known_shape(tensor.tensor_shape)
            found.append(Constant(placed_name(function, node), dtype, shape, size))
    return tuple(sorted(found, key=lambda each: (-each.bytes, each.name)))


def _devices(graph: pb.GraphDef) -> tuple[tuple[str, int], ...]:
    counts = Counter(node.device for _, node in every_node(graph) if node.device)
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _run_ops(message: pb.MetaGraphDef) -> Iterator[RunOp]:
    for key, purpose in _RUN.items():
        if key in message.collection_def:
            for name in message.collection_def[key].node_list.value:
                yield RunOp(purpose, name, key)
    for key, purpose in _RUN_SIGNATURES.items():
        if key in message.signature_def:
            for _, info in sorted(message.signature_def[key].outputs.items()):
                yield RunOp(purpose, info.name, key)


def _saving(
    graph: pb.GraphDef, nodes: dict[str, pb.NodeDef], saver: pb.SaverDef
) -> set[str | tuple[str, str]]:
    """Return what saves and restores: functions, and nodes outside of functions."""
    needed = needed_nodes(nodes, saver.restore_op_name) if saver.restore_op_name else []
    if saver.save_tensor_name:
        needed += needed_nodes(nodes, saver.save_tensor_name)
    found: set[str | tuple[str, str]] = {("", node.name) for node in needed}
    return found | functions_called(graph, needed)
