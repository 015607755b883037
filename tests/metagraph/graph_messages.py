"""Small graphs for tests, made of protobuf's messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ckpttool import pb

FLOAT, INT32, STRING, INT64 = 1, 3, 7, 9


def node(graph: Any, name: str, op: str, *inputs: str, device: str = "", **attrs: Any) -> Any:
    """Add a node; attributes are types (a number behind "type"), shapes, strings or messages."""
    made = graph.node.add(name=name, op=op, input=inputs, device=device)
    for key, value in attrs.items():
        attr = made.attr[key]
        if isinstance(value, list):
            attr.shape.SetInParent()
            for size in value:
                attr.shape.dim.add(size=size)
        elif isinstance(value, str):
            attr.s = value.encode()
        elif isinstance(value, bool):
            attr.b = value
        elif isinstance(value, int):
            attr.type = value
        else:
            attr.CopyFrom(value)
    return made


def constant(graph: Any, name: str, tensor: pb.TensorProto, **attrs: Any) -> Any:
    """Add a constant."""
    return node(
        graph, name, "Const", dtype=tensor.dtype, value=pb.AttrValue(tensor=tensor), **attrs
    )


def strings(*values: str) -> pb.TensorProto:
    """Return a vector of strings."""
    shape = pb.TensorShapeProto()
    shape.dim.add(size=len(values))
    return pb.TensorProto(
        dtype=STRING, tensor_shape=shape, string_val=[each.encode() for each in values]
    )


def with_saver(
    variables: Mapping[str, tuple[int, Sequence[int]]],
    keys: Mapping[str, str] | None = None,
    *,
    resource: bool = False,
) -> pb.MetaGraphDef:
    """Return a graph with variables that its Saver restores.

    Args:
        variables: number of the dtype and shape, by name.
        keys: under which each is restored; by default its name.
        resource: whether the variables are resources.
    """
    message = pb.MetaGraphDef()
    graph = message.graph_def
    keys = {name: name for name in variables} if keys is None else keys
    for name, (dtype, shape) in variables.items():
        op = "VarHandleOp" if resource else "VariableV2"
        node(graph, name, op, dtype=dtype, shape=list(shape))
        definition = pb.VariableDef(variable_name=f"{name}:0", is_resource=resource)
        values = message.collection_def["variables"].bytes_list.value
        values.append(definition.SerializeToString())
    constant(graph, "save/names", strings(*keys.values()))
    constant(graph, "save/slices", strings(*("" for _ in keys)))
    restore = node(graph, "save/RestoreV2", "RestoreV2", "save/Const", "save/names", "save/slices")
    assigns = []
    for index, name in enumerate(keys):
        restore.attr["dtypes"].list.type.append(variables[name][0])
        source = f"save/RestoreV2:{index}" if index else "save/RestoreV2"
        if resource:
            node(graph, f"save/Identity_{index}", "Identity", source)
            node(graph, f"a{index}", "AssignVariableOp", name, f"save/Identity_{index}")
        else:
            node(graph, f"a{index}", "Assign", name, source)
        assigns.append(f"^a{index}")
    node(graph, "save/restore_all", "NoOp", *assigns)
    message.saver_def.restore_op_name = "save/restore_all"
    message.saver_def.version = pb.SaverDef.V2
    return message


def written(message: Any, path: Path) -> str:
    """Write a message to a file and return its path."""
    path.write_bytes(message.SerializeToString())
    return str(path)
