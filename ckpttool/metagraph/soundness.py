"""Faults of a graph by itself: what no loader accepts, and what misleads one."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ckpttool.errors import CkptError
from ckpttool.metagraph.effects import every_node, placed_name
from ckpttool.metagraph.facts import assets_of, readable_graph_of
from ckpttool.metagraph.saver import node_name
from ckpttool.tensor.dtypes import dtype_of_number
from ckpttool.tensor.shape import decode_shape, element_count

if TYPE_CHECKING:
    from ckpttool import pb

# A constant of one repeated value may claim any shape; more than this fits no computer.
_MAX_CONSTANT = 1 << 40
# Operations that only pass a value on, or store it.
_KEEPING = frozenset({"Assign", "Identity", "NoOp", "Save", "SaveSlices", "SaveV2"})


class GraphProblem(NamedTuple):
    """A fault.

    Attributes:
        code: `"node-twice"`, `"input-missing"`, `"constant"` or `"empty"`.
        message: in words.
        node: the node concerned; None for the graph as a whole.
    """

    code: str
    message: str
    node: str | None = None


def graph_problems(message: pb.MetaGraphDef, path: str) -> Iterator[GraphProblem]:
    """Yield the faults of the graph of a MetaGraph."""
    graph = readable_graph_of(message, path, [])
    if not graph.node:
        yield GraphProblem("empty", "the graph has no nodes")
    counts = Counter(node.name for node in graph.node)
    for name, count in counts.items():
        if count > 1:
            yield GraphProblem("node-twice", f"{count} nodes have this name", name)
    for node in graph.node:
        for each in dict.fromkeys(node.input):
            if node_name(each) not in counts:
                yield GraphProblem(
                    "input-missing", f"its input '{each}' is not in the graph", node.name
                )
    yield from _constants(graph)


def assets_read(message: pb.MetaGraphDef, path: str) -> dict[str, bool]:
    """Return the assets that the graph names, and whether anything may read each."""
    found: dict[str, bool] = {}
    readers = _Readers(message, path)
    for asset in assets_of(message, path, []):
        found[asset.filename] = found.get(asset.filename, False) or readers.may_read(asset.tensor)
    return found


class _Readers:
    """Tells whether a graph uses a string other than to keep it.

    Programs and functions may also take a string from the objects of a SavedModel, so with objects
    everything counts as read.
    """

    def __init__(self, message: pb.MetaGraphDef, path: str) -> None:
        self._objects = bool(message.object_graph_def.nodes)
        self._users: dict[str, list[pb.NodeDef]] = {}
        for node in readable_graph_of(message, path, []).node:
            for each in node.input:
                self._users.setdefault(node_name(each), []).append(node)

    def may_read(self, tensor: str) -> bool:
        """Tell whether a node takes this tensor for more than keeping or saving it."""
        seen: set[str] = set()
        names = [node_name(tensor)]
        while names and not self._objects:
            name = names.pop()
            if name in seen:
                continue
            seen.add(name)
            for user in self._users.get(name, ()):
                if user.op not in _KEEPING:
                    return True
                names.append(user.name)
                if user.op == "Assign":
                    names.append(node_name(user.input[0]))
        return self._objects


def leads_outside(name: str) -> bool:
    """Tell whether the name of an asset leads out of the assets folder."""
    normal = os.path.normpath(name)
    return not name or "\0" in name or os.path.isabs(name) or normal.split(os.sep)[0] in ("..", ".")


def _constants(graph: pb.GraphDef) -> Iterator[GraphProblem]:
    for function, node in every_node(graph):
        if node.op == "Const":
            wrong: str | None = "the constant has no value"
            if "value" in node.attr:
                wrong = _wrong_constant(node.attr["value"].tensor)
            if wrong is not None:
                yield GraphProblem("constant", wrong, placed_name(function, node))


def _wrong_constant(tensor: pb.TensorProto) -> str | None:
    try:
        shape = decode_shape(tensor.tensor_shape.SerializeToString())
    except CkptError as error:
        return f"the value of the constant: {error.message}"
    dtype = dtype_of_number(tensor.dtype)
    if dtype.size is None:
        return None  # strings and other non-numbers
    size = element_count(shape) * dtype.size
    if tensor.tensor_content and len(tensor.tensor_content) != size:
        return (
            f"{dtype} {list(shape)} takes {size} bytes; the constant has"
            f" {len(tensor.tensor_content)}"
        )
    return f"the constant claims {size} bytes" if size > _MAX_CONSTANT else None
