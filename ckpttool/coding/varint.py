"""Variable-length integers of 32 and 64 bits.

    300 = 0b10_0101100  ->  1_0101100 0_0000010  =  ac 02

Seven bits a byte, lowest first; the top bit says that another byte follows.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from ckpttool.errors import CorruptError, TruncatedError

Buffer = bytes | bytearray | memoryview

_MAX_64 = (1 << 64) - 1
MAX_COLUMNS = 7  # bytes of a varint that is decoded with others beside it
_CONTINUED = bytes(range(0x80, 0x100))
_LOW_BITS = bytes(byte & 0x7F for byte in range(0x100))


def decode_varint(data: Buffer, pos: int, end: int) -> tuple[int, int]:
    """Decode the varint at `pos`, which must end before `end`.

    Returns:
        The value, at most 64 bits wide, and the position after it.

    Raises:
        TruncatedError: it runs past `end`.
        CorruptError: it has more than ten bytes or 64 bits.
    """
    value = shift = 0
    start = pos
    while pos < end:
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > _MAX_64:
                break
            return value, pos
        shift += 7
        if shift > 63:
            break
    else:
        raise TruncatedError("a varint runs past its end", offset=start)
    raise CorruptError("a varint has more than 64 bits", offset=start)


def encode_varint(value: int) -> bytes:
    """Encode a number from 0 to 2**64 - 1 in as few bytes as it takes."""
    if value < 0x80:
        return bytes((value,))
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def decode_varint_columns(columns: Sequence[bytes]) -> tuple[int, ...] | None:
    """Decode varints of the same length, given by their first bytes, their second bytes and so on.

    Returns None if their lengths differ, or are too long for this function.
    """
    if not 0 < len(columns) <= MAX_COLUMNS or not columns[-1].isascii():
        return None
    if any(column.translate(None, _CONTINUED) for column in columns[:-1]):
        return None
    count = len(columns[0])
    # One big number with eight bytes for each varint, which has at most seven: shifted,
    # they do not run into one another.
    total = 0
    for at, column in enumerate(columns):
        lane = bytearray(8 * count)
        lane[::8] = column.translate(_LOW_BITS)
        total |= int.from_bytes(lane, "little") << 7 * at
    return struct.unpack(f"<{count}q", total.to_bytes(8 * count, "little"))
