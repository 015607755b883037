"""The tensors of a graph by name: dtype, shape, and what they need."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from ckpttool.metagraph.loading import SCALAR_PLACEHOLDERS
from ckpttool.tensor.dtypes import REFERENCE

if TYPE_CHECKING:
    from ckpttool import pb

PLACEHOLDERS = frozenset({"Placeholder", "PlaceholderV2", "PlaceholderWithDefault"})
_TENSOR = re.compile(r"([^:^]+)(?::([0-9]{1,9}))?\Z")


class GraphTensors:
    """The tensors of a graph by name.

    Args:
        graph: the graph.
        ops: the outputs of its operations, as far as the writer stored them.
    """

    def __init__(self, graph: pb.GraphDef, ops: pb.OpList) -> None:
        self._producer = graph.versions.producer
        self._nodes = {node.name: node for node in graph.node}
        self._ops = {op.name: op for op in ops.op}

    def has_node(self, name: str) -> bool:
        """Tell whether the graph has an operation, or that of a tensor."""
        return name.partition(":")[0] in self._nodes

    def full_name(self, name: str) -> str | None:
        """Return the full name of a tensor, "x:0" for "x"; None if the graph has no such tensor."""
        match = _TENSOR.match(name)
        node = self._nodes.get(match[1]) if match else None
        if match is None or node is None:
            return None
        index = int(match[2] or 0)
        if node.op in self._ops and _output_type(node, self._ops[node.op], index) is None:
            return None
        return f"{match[1]}:{index}"

    def is_placeholder(self, name: str) -> bool:
        """Tell whether a tensor, named in full, is a placeholder."""
        return self._nodes[name.rpartition(":")[0]].op in PLACEHOLDERS

    def info(self, name: str) -> pb.TensorInfo:
        """Return the TensorInfo of a tensor, named in full, with dtype and shape if known."""
        from ckpttool import pb

        node_name, _, digits = name.rpartition(":")
        node, index = self._nodes[node_name], int(digits)
        info = pb.TensorInfo(name=name)
        number = self._dtype(node, index)
        if number:
            info.dtype = number % REFERENCE
        shape = self._shape(node, index)
        # A missing shape would mean a scalar.
        info.tensor_shape.CopyFrom(shape or pb.TensorShapeProto(unknown_rank=True))
        return info

    def unfed(self, outputs: Collection[str], inputs: Collection[str]) -> list[str]:
        """Return the placeholders that `outputs` need although `inputs` are fed, sorted.

        Both are full names of tensors.
        """
        fed = set(inputs)
        # A control input is satisfied once an output of its node is fed.
        fed.update(f"^{name.rpartition(':')[0]}" for name in inputs)
        seen: set[str] = set()
        needed: set[str] = set()
        stack = [*outputs]
        while stack:
            name = stack.pop()
            if name in fed:
                continue
            node_name = name.lstrip("^").rpartition(":")[0] or name.lstrip("^")
            node = self._nodes.get(node_name)
            if node is None or node_name in seen:
                continue
            seen.add(node_name)
            if node.op in PLACEHOLDERS and node.op != "PlaceholderWithDefault":
                needed.add(node_name)
            # In a graph the first output has no number.
            stack += [
                each if ":" in each or each[:1] == "^" else f"{each}:0" for each in node.input
            ]
        return sorted(needed)

    def _dtype(self, node: pb.NodeDef, index: int) -> int | None:
        op = self._ops.get(node.op)
        if op is not None:
            return _output_type(node, op, index)
        return node.attr["dtype"].type if node.op in PLACEHOLDERS else None

    def _shape(self, node: pb.NodeDef, index: int) -> pb.TensorShapeProto | None:
        if "_output_shapes" in node.attr:
            shapes = node.attr["_output_shapes"].list.shape
            return shapes[index] if index < len(shapes) else None
        if node.op not in PLACEHOLDERS or "shape" not in node.attr:
            return None
        shape = node.attr["shape"].shape
        return shape if shape.dim or self._producer >= SCALAR_PLACEHOLDERS else None


def _output_type(node: pb.NodeDef, op: pb.OpDef, index: int) -> int | None:
    """Return the dtype of an output, 0 if not stated; None if there is no such output."""
    for output in op.output_arg:
        if output.type_list_attr:
            types = _attribute(node, op, output.type_list_attr).list.type
            if index < len(types):
                return types[index]
            index -= len(types)
            continue
        count = _attribute(node, op, output.number_attr).i if output.number_attr else 1
        if index < count:
            return output.type or _attribute(node, op, output.type_attr).type
        index -= max(count, 0)
    return None


def _attribute(node: pb.NodeDef, op: pb.OpDef, name: str) -> pb.AttrValue:
    from ckpttool import pb

    if name in node.attr:
        return node.attr[name]
    return next((attr.default_value for attr in op.attr if attr.name == name), pb.AttrValue())
