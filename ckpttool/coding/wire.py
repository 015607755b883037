"""The protobuf wire format, as far as the small messages of an index need it.

    field    tag varint = number << 3 | wire type, then by wire type
             0 varint   1 eight bytes   2 length varint, bytes   5 four bytes

Hand-written, because importing the protobuf library and our schema would add 35 ms to the 85 ms of
a small `ckpt ls`. Large messages go through the library.
"""

from __future__ import annotations

from collections.abc import Iterator

from ckpttool.coding.varint import decode_varint, encode_varint
from ckpttool.errors import CorruptError, TruncatedError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def decode_fields(data: bytes) -> Iterator[tuple[int, int, int | bytes, bytes]]:
    """Yield (field number, wire type, value, the field's bytes with its tag) in order.

    The value is an int for wire types 0, 1 and 5, bytes for 2.

    Raises:
        CorruptError: the bytes are not a sequence of fields; `offset` counts from their start.
    """
    pos, end = 0, len(data)
    while pos < end:
        start = pos
        tag, pos = decode_varint(data, pos, end)
        number, kind = tag >> 3, tag & 7
        value: int | bytes
        if not 0 < number < 1 << 29:
            raise CorruptError(f"{number} is not a protobuf field number", offset=start)
        if kind == VARINT:
            value, pos = decode_varint(data, pos, end)
        else:
            size, pos = _payload_size(data, kind, pos, end)
            if size > end - pos:
                raise TruncatedError("a protobuf field runs past its end", offset=start)
            value = data[pos : pos + size]
            if kind != BYTES:
                value = int.from_bytes(value, "little")
            pos += size
        yield number, kind, value, data[start:pos]


def _payload_size(data: bytes, kind: int, pos: int, end: int) -> tuple[int, int]:
    if kind == BYTES:
        return decode_varint(data, pos, end)
    if kind == FIXED32:
        return 4, pos
    if kind == FIXED64:
        return 8, pos
    raise CorruptError(f"protobuf wire type {kind} is not allowed here", offset=pos)


def varint_field(number: int, value: int) -> bytes:
    """Encode an integer field; zero, the default, takes no bytes, a negative number ten."""
    if not value:
        return b""
    return encode_varint(number << 3 | VARINT) + encode_varint(value & 0xFFFFFFFFFFFFFFFF)


def fixed32_field(number: int, value: int) -> bytes:
    """Encode a fixed32 field; zero, the default, takes no bytes."""
    if not value:
        return b""
    return encode_varint(number << 3 | FIXED32) + value.to_bytes(4, "little")


def bytes_field(number: int, value: bytes) -> bytes:
    """Encode a field of bytes or a message; an empty one takes two bytes."""
    return encode_varint(number << 3 | BYTES) + encode_varint(len(value)) + value


def signed64(value: int) -> int:
    """Return what an int32 or int64 field means by a varint: its two's complement."""
    return value - (1 << 64) if value >> 63 else value
