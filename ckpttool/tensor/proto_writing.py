"""Writing the elements of a TensorProto, piece by piece; `proto_values` lists the fields."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ckpttool.coding import wire
from ckpttool.coding.varint import encode_varint
from ckpttool.tensor.dtypes import DType
from ckpttool.tensor.proto_values import ELEMENTS_AT_ONCE, ValueField, plain_dtype, value_field
from ckpttool.tensor.values import Array, string_bytes

# Few enough that the intermediate arrays stay in the processor's caches.
_VARINTS_AT_ONCE = 1 << 13


def encoded_size(dtype: DType, array: Array) -> int:
    """Return how many bytes `encode_proto` makes of an array.

    Raises:
        InvalidTensorError: an element is no string although the dtype is.
    """
    field = value_field(dtype)
    if not array.size:
        return 0
    if field.form == "strings":
        return sum(
            1 + len(encode_varint(len(text))) + len(text) for text in map(string_bytes, array.flat)
        )
    payload = _payload_size(dtype, field, array)
    return 1 + len(encode_varint(payload)) + payload


def encode_proto(dtype: DType, array: Array) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a TensorProto that has only elements, in pieces.

    Args:
        dtype: of the elements.
        array: of any layout; a C-contiguous one is not copied.
    """
    field = value_field(dtype)
    if not array.size:
        return
    tag = encode_varint(field.number << 3 | wire.BYTES)
    if field.form == "strings":
        for text in map(string_bytes, array.flat):
            yield tag + encode_varint(len(text)) + text
        return
    yield tag + encode_varint(_payload_size(dtype, field, array))
    if field.form == "varint":
        for piece in _pieces_of(dtype, array, _VARINTS_AT_ONCE):
            yield _encode_varints(_numbers(piece))
    else:
        for piece in _pieces_of(dtype, array, ELEMENTS_AT_ONCE):
            yield piece.astype(piece.dtype.newbyteorder("<"), copy=False).view(np.uint8).data


def _pieces_of(dtype: DType, array: Array, count: int) -> Iterator[Array]:
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    flat = np.ascontiguousarray(native).reshape(-1).view(plain_dtype(dtype))
    for at in range(0, len(flat), count):
        yield flat[at : at + count]


def _payload_size(dtype: DType, field: ValueField, array: Array) -> int:
    if field.form == "fixed":
        return field.size * array.size
    pieces = _pieces_of(dtype, array, _VARINTS_AT_ONCE)
    return sum(int(_lengths(_numbers(piece)).sum()) for piece in pieces)


def _numbers(piece: Array) -> Array:
    """Return elements as the unsigned 64-bit numbers that their varints spell."""
    if piece.dtype == np.float16:
        return piece.view(np.uint16).astype(np.uint64)
    if piece.dtype.kind == "i":
        return piece.astype(np.int64).view(np.uint64)
    return piece.astype(np.uint64)


def _lengths(numbers: Array) -> Array:
    lengths = np.ones(len(numbers), np.int64)
    for bits in range(7, 64, 7):
        longer = numbers >= np.uint64(1 << bits)
        if not longer.any():
            break
        lengths += longer
    return lengths


def _encode_varints(numbers: Array) -> memoryview:
    lengths = _lengths(numbers)
    longest = int(lengths.max())
    groups = np.empty((len(numbers), longest), np.uint8)
    rest = numbers.copy()
    for place in range(longest):
        groups[:, place] = rest
        rest >>= np.uint64(7)
    if longest == 1:
        return groups.reshape(-1).data
    groups |= 0x80
    groups[np.arange(len(numbers)), lengths - 1] &= 0x7F
    used = np.arange(longest, dtype=np.uint8) < lengths.astype(np.uint8)[:, None]
    return groups.reshape(-1)[used.reshape(-1)].data
