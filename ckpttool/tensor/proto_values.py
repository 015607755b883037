"""Reading the elements of a TensorProto, piece by piece.

    float_val=5     packed fixed32                    float32
    double_val=6    packed fixed64                    float64
    int_val=7       packed varint, sign-extended      int32 uint8 int16 int8 uint16, quantised
    string_val=8    repeated bytes                    string
    scomplex_val=9  packed fixed32: re im re im ...   complex64
    int64_val=10    packed varint                     int64
    bool_val=11     packed varint                     bool
    dcomplex_val=12 packed fixed64: re im re im ...   complex128
    half_val=13     packed varint of the 16 bits      float16

A message may have gigabytes, so it is never in memory as a whole; `proto_writing` writes them.
Instead of the field of its dtype a message may have tensor_content=4, the elements as in memory.

Hand-written in place of the protobuf library, which needs the whole message and a second copy of
its elements: for 10,000,000 int64 (80 MB as an array) 308 MiB instead of 104 MiB.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ckpttool.coding import wire
from ckpttool.coding.walk import Bytes, MessageWalk
from ckpttool.errors import CorruptError, UnsupportedError
from ckpttool.tensor.dtypes import STRING, DType
from ckpttool.tensor.shape import Shape, element_count
from ckpttool.tensor.values import Array, object_array

_CONTENT = 4
_FIRST_VALUE, _LAST_VALUE = 5, 17
# Bytes per piece; varints take more room decoded.
_FIXED_PIECE = 1 << 20
_VARINT_PIECE = 1 << 17
ELEMENTS_AT_ONCE = 1 << 16
_MAX_VARINT = 10
# A tag and a length.
_MIN_STRING = 2


@dataclass(frozen=True, slots=True)
class ValueField:
    """The field that holds the elements of a dtype.

    Attributes:
        number: of the field.
        form: how elements are coded.
        size: bytes of an element; for varints and strings the least possible.
    """

    number: int
    form: Literal["fixed", "varint", "strings"]
    size: int


_INT = ValueField(7, "varint", 1)
FIELDS: dict[str, ValueField] = {
    "float32": ValueField(5, "fixed", 4),
    "float64": ValueField(6, "fixed", 8),
    **dict.fromkeys(("int32", "uint8", "int16", "int8", "uint16"), _INT),
    **dict.fromkeys(("qint8", "quint8", "qint32", "qint16", "quint16"), _INT),
    "string": ValueField(8, "strings", _MIN_STRING),
    "complex64": ValueField(9, "fixed", 8),
    "int64": ValueField(10, "varint", 1),
    "bool": ValueField(11, "varint", 1),
    "complex128": ValueField(12, "fixed", 16),
    "float16": ValueField(13, "varint", 1),
}


def value_field(dtype: DType) -> ValueField:
    """Return the field of a dtype; `UnsupportedError` if there is none."""
    field = FIELDS.get(dtype.name)
    if field is None:
        raise UnsupportedError(f"values of dtype {dtype} cannot be read from a TensorProto")
    return field


def check_room(dtype: DType, count: int, room: int) -> None:
    """Raise `CorruptError` if `room` bytes cannot hold `count` elements; call before allocating."""
    least = value_field(dtype).size
    if dtype.size is not None:
        least = min(least, dtype.size)  # as tensor_content may have them
    if count * least > room:
        raise CorruptError(f"{room} bytes are too few for {count} elements of {dtype}")


def decode_proto(dtype: DType, shape: Shape, source: Bytes, start: int, stop: int) -> Array:
    """Return the elements of a TensorProto as a new array.

    Args:
        dtype: of the elements; that in the message is not read.
        shape: likewise.
        source: the bytes that hold the message.
        start: where it begins.
        stop: where it ends.

    Raises:
        CorruptError: the message is malformed, has another number of elements, or one that the
            dtype does not have.
        UnsupportedError: the dtype has no field, or its elements are not packed.
    """
    count = element_count(shape)
    check_room(dtype, count, stop - start)
    if dtype == STRING:
        return object_array(list(_strings(count, source, start, stop)), shape)
    out = np.empty(shape, dtype.numpy_dtype)
    flat = out.reshape(-1).view(plain_dtype(dtype))
    at = 0
    for piece in proto_pieces(dtype, count, source, start, stop):
        flat[at : at + len(piece)] = piece
        at += len(piece)
    return out


def proto_pieces(dtype: DType, count: int, source: Bytes, start: int, stop: int) -> Iterator[Array]:
    """Yield the elements of a TensorProto in order, as arrays valid until the next is asked for.

    Elements of quantised dtypes come as plain integers. `count` is the number of elements; the
    other arguments and the errors are those of `decode_proto`.
    """
    if dtype == STRING:
        elements = []
        for element in _strings(count, source, start, stop):
            elements.append(element)
            if len(elements) == ELEMENTS_AT_ONCE:
                yield object_array(elements, (len(elements),))
                elements = []
        yield object_array(elements, (len(elements),))
        return
    done = 0
    for run_start, run_stop, form in _runs(dtype, source, start, stop):
        if form == "varint":
            pieces = _varints(dtype, source, run_start, run_stop)
        else:
            pieces = _fixed(dtype, source, run_start, run_stop)
        for piece in pieces:
            done += len(piece)
            if done > count:
                raise _wrong_count("more than", count)
            yield piece
    if done < count:
        raise _wrong_count(f"{done} instead of", count)


def check_proto(dtype: DType, count: int, source: Bytes, start: int, stop: int) -> None:
    """Check that a TensorProto has `count` elements, keeping none of them.

    The arguments and errors are those of `decode_proto`.
    """
    check_room(dtype, count, stop - start)
    if dtype != STRING:
        for _ in proto_pieces(dtype, count, source, start, stop):
            pass
        return
    for _ in _strings(count, source, start, stop, keep=False):
        pass


def stored_run(dtype: DType, source: Bytes, start: int, stop: int) -> tuple[int, int] | None:
    """Return where all elements lie in one piece, as in memory; None if they do not.

    Only the tags of the message are read.
    """
    runs = list(_runs(dtype, source, start, stop)) if dtype != STRING else []
    if len(runs) == 1 and runs[0][2] == "fixed" and sys.byteorder == "little":
        return runs[0][:2]
    return None


def _runs(dtype: DType, source: Bytes, start: int, stop: int) -> Iterator[tuple[int, int, str]]:
    """Yield start, stop and form of each run of elements."""
    wanted = value_field(dtype)
    seen: set[int] = set()
    for field in MessageWalk(source, start, stop).fields():
        if field.number == wanted.number:
            form: str = wanted.form
        elif field.number == _CONTENT:
            form = "fixed"
        elif _FIRST_VALUE <= field.number <= _LAST_VALUE:
            raise CorruptError(
                f"the values are in field {field.number}, which is not that of {dtype}",
                offset=field.start,
            )
        else:
            continue
        if field.kind != wire.BYTES:
            raise UnsupportedError("values that are not packed", offset=field.start)
        seen.add(field.number)
        if len(seen) > 1:
            raise CorruptError("the values are stored in two fields", offset=field.start)
        yield field.start, field.stop, form


def _fixed(dtype: DType, source: Bytes, start: int, stop: int) -> Iterator[Array]:
    size = dtype.size or 1
    if (stop - start) % size:
        raise CorruptError(f"{stop - start} bytes are not elements of {dtype}", offset=start)
    plain = plain_dtype(dtype)
    for chunk in source.chunks(start, stop - start, chunk_size=_FIXED_PIECE):
        if plain == np.bool_:
            yield np.frombuffer(chunk, np.uint8) != 0
        else:
            yield np.frombuffer(chunk, plain.newbyteorder("<"))


def _varints(dtype: DType, source: Bytes, start: int, stop: int) -> Iterator[Array]:
    rest = b""
    at = start
    for chunk in source.chunks(start, stop - start, chunk_size=_VARINT_PIECE):
        data = np.frombuffer(rest + bytes(chunk) if rest else chunk, np.uint8)
        ends = np.flatnonzero(data < 0x80) + 1
        used = int(ends[-1]) if len(ends) else 0
        if len(data) - used > _MAX_VARINT:
            raise CorruptError("a varint has more than 64 bits", offset=at)
        if used:
            yield _as_dtype(dtype, _decode_varints(data[:used], ends, at), at)
        rest = data[used:].tobytes()
        at += used
    if rest:
        raise CorruptError("a varint runs past its end", offset=at)


def _decode_varints(data: Array, ends: Array, at: int) -> Array:
    if len(ends) == len(data):
        return data.astype(np.uint64)
    starts = np.empty_like(ends)
    starts[0] = 0
    starts[1:] = ends[:-1]
    lengths = ends - starts
    longest = int(lengths.max())
    if longest > _MAX_VARINT or (
        longest == _MAX_VARINT and data[ends[lengths == _MAX_VARINT] - 1].max() > 1
    ):
        raise CorruptError("a varint has more than 64 bits", offset=at)
    # Take eight bytes from the start of each varint, then join the groups of seven bits in pairs.
    padded = np.zeros(len(data) + 8, np.uint8)
    padded[: len(data)] = data
    windows = np.ndarray((len(data),), "<u8", buffer=padded.data, strides=(1,))
    numbers: Array = windows[starts].astype(np.uint64, copy=False)
    numbers &= _GROUPS[np.minimum(lengths, 8)]
    for bits in (7, 14, 28):
        low, high, by = _HALVES[bits]
        numbers = (numbers & low) | ((numbers >> by) & high)
    for place in range(8, longest):
        longer = np.flatnonzero(lengths > place)
        byte = data[starts[longer] + place] & 0x7F
        numbers[longer] |= byte.astype(np.uint64) << np.uint64(7 * place)
    return numbers


def _halves(bits: int) -> tuple[np.uint64, np.uint64, np.uint64]:
    """Return the masks of the lower and the upper groups of so many bits, and their shift."""
    wide = 8 * bits // 7
    low = sum(((1 << bits) - 1) << at for at in range(0, 64, 2 * wide))
    return np.uint64(low), np.uint64(low << bits), np.uint64(wide - bits)


# By size in bytes: the mask of the value bits.
_GROUPS = np.array([0x7F7F7F7F7F7F7F7F & ((1 << (8 * size)) - 1) for size in range(9)], np.uint64)
_HALVES = {bits: _halves(bits) for bits in (7, 14, 28)}


def _as_dtype(dtype: DType, numbers: Array, at: int) -> Array:
    """Return varints, as unsigned 64-bit numbers, as elements."""
    elements: Array
    if dtype.name == "bool":
        elements = numbers != 0
        return elements
    plain = plain_dtype(dtype)
    if dtype.name == "float16":
        low, high = 0, 0xFFFF
    else:
        low, high = int(np.iinfo(plain).min), int(np.iinfo(plain).max)
    signed = numbers.view(np.int64)
    if plain.itemsize < 8 and (signed.min() < low or signed.max() > high):
        raise CorruptError(f"a value is outside the range of {dtype}", offset=at)
    if dtype.name == "float16":
        return numbers.astype(np.uint16).view(np.float16)
    elements = signed.astype(plain, copy=False)
    return elements


def _strings(
    count: int, source: Bytes, start: int, stop: int, *, keep: bool = True
) -> Iterator[bytes]:
    walk = MessageWalk(source, start, stop)
    done = 0
    for field in walk.fields():
        if field.number == FIELDS["string"].number and field.kind == wire.BYTES:
            done += 1
            if done > count:
                raise _wrong_count("more than", count)
            yield walk.take(field) if keep else b""
        elif _CONTENT <= field.number <= _LAST_VALUE:
            raise CorruptError(
                f"the values are in field {field.number}, which is not that of string",
                offset=field.start,
            )
    if done < count:
        raise _wrong_count(f"{done} instead of", count)


def _wrong_count(found: str, count: int) -> CorruptError:
    return CorruptError(f"{found} {count} elements are stored")


def plain_dtype(dtype: DType) -> np.dtype[Any]:
    """Return the NumPy dtype; for quantised dtypes that of the underlying integer."""
    whole = dtype.numpy_dtype
    return whole if whole.names is None else whole[0]
