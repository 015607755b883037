"""What is wrong with a graph by itself: what no loader accepts, and what misleads one."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ckpttool.errors import CkptError
from ckpttool.metagraph.facts import assets_of, readable_graph_of
from ckpttool.tensor.dtypes import dtype_of_number
from ckpttool.tensor.shape import decode_shape, element_count

if TYPE_CHECKING:
    from ckpttool import pb

# A constant of one repeated value may claim any shape; no computer holds more than this.
_MAX_CONSTANT = 1 << 40


class GraphProblem(NamedTuple):
    """What is wrong.

    Attributes:
        code: `"node-twice"`, `"input-missing"`, `"constant"` or `"empty"`.
        message: in words.
        node: the node concerned; None for the graph as a whole.
    """

    code: str
    message: str
    node: str | None = None


def graph_problems(message: pb.MetaGraphDef, path: str) -> Iterator[GraphProblem]:
    """Yield what is wrong with the graph of a MetaGraph.

    Args:
        message: the MetaGraph.
        path: the file that it is from.
    """
    graph = readable_graph_of(message, path, [])
    if not graph.node:
        yield GraphProblem("empty", "the graph has no nodes")
    counts = Counter(node.name for node in graph.node)
    for name, count in counts.items():
        if count > 1:
            yield GraphProblem("node-twice", f"{count} nodes have this name", name)
    for node in graph.node:
        for each in dict.fromkeys(node.input):
            if each.removeprefix("^").partition(":")[0] not in counts:
                yield GraphProblem(
                    "input-missing", f"its input '{each}' is not in the graph", node.name
                )
    yield from _constants(graph)


def asset_names(message: pb.MetaGraphDef, path: str) -> tuple[str, ...]:
    """Return the files that the graph reads, each once, as it names them."""
    return tuple(dict.fromkeys(asset.filename for asset in assets_of(message, path, [])))


def leads_outside(name: str) -> bool:
    """Tell whether the name of an asset leads out of the folder of the assets."""
    normal = os.path.normpath(name)
    return not name or "\0" in name or os.path.isabs(name) or normal.split(os.sep)[0] in ("..", ".")


def _constants(graph: pb.GraphDef) -> Iterator[GraphProblem]:
    for function, nodes in [
        ("", graph.node),
        *((each.signature.name + "/", each.node_def) for each in graph.library.function),
    ]:
        for node in nodes:
            if node.op == "Const" and "value" in node.attr:
                wrong = _wrong_constant(node.attr["value"].tensor)
                if wrong is not None:
                    yield GraphProblem("constant", wrong, function + node.name)


def _wrong_constant(tensor: pb.TensorProto) -> str | None:
    try:
        shape = decode_shape(tensor.tensor_shape.SerializeToString())
    except CkptError as error:
        return f"the value of the constant: {error.message}"
    dtype = dtype_of_number(tensor.dtype)
    if dtype.size is None:
        return None  # strings, and what is no number
    size = element_count(shape) * dtype.size
    if tensor.tensor_content and len(tensor.tensor_content) != size:
        return (
            f"{dtype} {list(shape)} takes {size} bytes; the constant has"
            f" {len(tensor.tensor_content)}"
        )
    return f"the constant claims {size} bytes" if size > _MAX_CONSTANT else None
