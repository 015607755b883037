"""Whether two TensorProto hold the same elements, in whichever form.

The elements are in `tensor_content` as in memory, or one by one in the field of the dtype, where
the last one stands for all that follow.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ckpttool.tensor.dtypes import STRING, dtype_of_number
from ckpttool.tensor.shape import element_count

if TYPE_CHECKING:
    from ckpttool import pb

# By dtype: the field, the type code of `array`, and the number of items per element.
_FIELDS: dict[str, tuple[str, str, int]] = {
    "float32": ("float_val", "f", 1),
    "float64": ("double_val", "d", 1),
    "complex64": ("scomplex_val", "f", 2),
    "complex128": ("dcomplex_val", "d", 2),
    "int64": ("int64_val", "q", 1),
    "uint32": ("uint32_val", "I", 1),
    "uint64": ("uint64_val", "Q", 1),
    "bool": ("bool_val", "B", 1),
    **dict.fromkeys(("float16", "bfloat16"), ("half_val", "H", 1)),
    **dict.fromkeys(("int32", "qint32"), ("int_val", "i", 1)),
    **dict.fromkeys(("int16", "qint16"), ("int_val", "h", 1)),
    **dict.fromkeys(("uint16", "quint16"), ("int_val", "H", 1)),
    **dict.fromkeys(("int8", "qint8", "int4", "int2"), ("int_val", "b", 1)),
    **dict.fromkeys(("uint8", "quint8", "uint4", "uint2"), ("int_val", "B", 1)),
}


def same_tensor(a: pb.TensorProto, b: pb.TensorProto) -> bool:
    """Tell whether two messages hold the same tensor; for variants and the like, bytes decide."""
    if a.dtype != b.dtype or _shape(a) != _shape(b):
        return False
    if a.SerializeToString(deterministic=True) == b.SerializeToString(deterministic=True):
        return True
    dtype = dtype_of_number(a.dtype)
    if dtype == STRING:
        return _trimmed(a.string_val) == _trimmed(b.string_val)
    place = _FIELDS.get(dtype.name)
    if place is None or None in _shape(a):
        return False
    if a.tensor_content and b.tensor_content:
        return a.tensor_content == b.tensor_content
    field, code, parts = place
    size = array(code).itemsize * parts
    try:
        # Numbers that do not fit the dtype: malformed.
        one, other = (array(code, getattr(each, field)).tobytes() for each in (a, b))
    except OverflowError:
        return False
    if not a.tensor_content and not b.tensor_content:
        return _cut(one, size) == _cut(other, size)
    items, content = (other, a.tensor_content) if a.tensor_content else (one, b.tensor_content)
    # The items may be fewer than the content, not more.
    rest, odd = divmod(len(content) - len(items), size)
    whole = element_count(tuple(dim.size for dim in a.tensor_shape.dim)) * size == len(content)
    if not items or odd or rest < 0 or not whole:
        return False
    return items + items[-size:] * rest == content


def _shape(tensor: pb.TensorProto) -> tuple[int | None, ...]:
    if tensor.tensor_shape.unknown_rank:
        return (None,)
    return tuple(dim.size if dim.size >= 0 else None for dim in tensor.tensor_shape.dim)


def _cut(data: bytes, size: int) -> bytes:
    """Return elements without repeats of the last one."""
    last, end = data[-size:], len(data)
    step = 1 << (len(data) // size).bit_length()
    while step:
        start = end - step * size
        if start >= 0 and data[start:end] == last * step:
            end = start
        step //= 2
    return data[:end] + last


def _trimmed(items: Sequence[bytes]) -> Sequence[bytes]:
    """Do the same for strings."""
    end = len(items)
    while end > 1 and items[end - 1] == items[end - 2]:
        end -= 1
    return list(items[:end])
