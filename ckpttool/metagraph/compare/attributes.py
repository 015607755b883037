"""The attributes of nodes, compared by meaning and put into a few words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ckpttool.metagraph.compare.constants import same_tensor
from ckpttool.metagraph.variables import known_shape
from ckpttool.tensor.dtypes import REFERENCE, dtype_of_number

if TYPE_CHECKING:
    from ckpttool import pb

# A writer may add these; they follow from the rest.
DERIVED = frozenset({"_output_shapes"})
_MOST_ITEMS = 8
_LONGEST = 80


def same_attribute(a: pb.AttrValue, b: pb.AttrValue, functions: Mapping[str, str]) -> bool:
    """Tell whether two attributes mean the same; `functions` maps names in A to those in B."""
    if a.SerializeToString(deterministic=True) == b.SerializeToString(deterministic=True):
        return True
    kind = a.WhichOneof("value")
    if kind != b.WhichOneof("value"):
        return False
    if kind == "tensor":
        return same_tensor(a.tensor, b.tensor)
    if kind == "func":
        return _same_function(a.func, b.func, functions)
    if kind != "list" or len(a.list.func) != len(b.list.func):
        return False
    if a.list.func:
        return all(
            _same_function(one, other, functions)
            for one, other in zip(a.list.func, b.list.func, strict=True)
        )
    tensors = a.list.tensor, b.list.tensor
    return 0 < len(tensors[0]) == len(tensors[1]) and all(map(same_tensor, *tensors))


def _same_function(a: pb.NameAttrList, b: pb.NameAttrList, functions: Mapping[str, str]) -> bool:
    return (
        functions.get(a.name, a.name) == b.name
        and a.attr.keys() == b.attr.keys()
        and all(same_attribute(a.attr[key], b.attr[key], functions) for key in a.attr)
    )


def attribute_text(value: pb.AttrValue) -> str:
    """Return an attribute in a few words: "float32", "[?, 3]", "float32 [2, 2], 16 bytes"."""
    kind = value.WhichOneof("value")
    if kind == "list":
        return _list_text(value.list)
    return "" if kind is None else _text(kind, getattr(value, kind))


def _list_text(found: pb.AttrValue.ListValue) -> str:
    for field, items in found.ListFields():
        shown = [_text(field.name, item) for item in items[:_MOST_ITEMS]]
        more = [f"{len(items) - len(shown)} more"] if len(shown) < len(items) else []
        return short_text(f"[{', '.join(shown + more)}]")
    return "[]"


def _text(kind: str, value: object) -> str:
    if kind == "type" and isinstance(value, int):
        number = value % REFERENCE
        return dtype_of_number(number).name + ("_ref" if value > REFERENCE else "")
    if isinstance(value, bytes):
        return bytes_text(value)
    if kind == "shape":
        return shape_text(known_shape(value))  # type: ignore[arg-type]
    if kind == "tensor":
        return tensor_text(value)  # type: ignore[arg-type]
    if kind == "func":
        return short_text(value.name)  # type: ignore[attr-defined]
    return short_text(str(value))


def tensor_text(tensor: pb.TensorProto) -> str:
    """Return dtype, shape and size of a tensor."""
    dtype = dtype_of_number(tensor.dtype).name
    shape = shape_text(known_shape(tensor.tensor_shape))
    return f"{dtype} {shape}, {tensor.ByteSize()} bytes"


def shape_text(shape: tuple[int, ...] | None) -> str:
    """Return a shape as text, with ? for a variable dimension."""
    if shape is None:
        return "any"
    return short_text(f"[{', '.join('?' if dim < 0 else str(dim) for dim in shape)}]")


def bytes_text(data: bytes) -> str:
    """Return bytes as quoted text, or their beginning."""
    return short_text(repr(data[: _LONGEST + 1].decode("utf-8", "backslashreplace")))


def short_text(text: str) -> str:
    """Return a text, or the beginning of a long one."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
