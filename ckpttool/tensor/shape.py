"""Shapes, and the message that holds one.

    TensorShapeProto    dim=2 repeated { size=1 int64, name=2 string }  unknown_rank=3 bool

A scalar is an empty message; a dimension of no extent is an empty dim.
"""

from __future__ import annotations

from math import prod

from ckpttool.coding import wire
from ckpttool.errors import CorruptError, UnsupportedError

Shape = tuple[int, ...]

_MAX_RANK = 254
# Elements of up to 16 bytes must still have a size that 63 bits can count.
_MAX_ELEMENTS = (1 << 59) - 1


def element_count(shape: Shape) -> int:
    """Return how many elements a tensor of this shape has."""
    return prod(shape)


def decode_shape(data: bytes) -> Shape:
    """Decode a TensorShapeProto.

    Raises:
        CorruptError: a dimension is negative, or there are too many of them or of elements.
        UnsupportedError: the rank is not known.
    """
    dims = []
    for number, kind, value, _ in wire.decode_fields(data):
        if number == 2 and kind == wire.BYTES:
            dims.append(_decode_dim(bytes(value)))
        elif number == 3 and value:
            raise UnsupportedError("the shape has no known rank")
    shape = tuple(dims)
    check_shape(shape)
    return shape


def check_shape(shape: Shape) -> None:
    """Raise `CorruptError` if a shape has more dimensions or elements than a file can have."""
    if len(shape) > _MAX_RANK:
        raise CorruptError(f"a shape of {len(shape)} dimensions is more than {_MAX_RANK}")
    if prod(dim for dim in shape if dim) > _MAX_ELEMENTS:
        raise CorruptError("the shape has more elements than any file could hold")


def encode_shape(shape: Shape) -> bytes:
    """Encode a shape as TensorFlow does."""
    return b"".join(wire.bytes_field(2, wire.varint_field(1, dim)) for dim in shape)


def _decode_dim(data: bytes) -> int:
    size = 0
    for number, kind, value, _ in wire.decode_fields(data):
        if number == 1 and kind == wire.VARINT and isinstance(value, int):
            size = wire.signed64(value)
    if size < 0:
        raise CorruptError(f"the shape has a dimension of {size}")
    return size
