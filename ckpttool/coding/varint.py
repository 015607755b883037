"""Variable-length integers of 32 and 64 bits.

    300 = 0b10_0101100  ->  1_0101100 0_0000010  =  ac 02

Seven bits a byte, lowest first; the top bit says that another byte follows.
"""

from __future__ import annotations

from ckpttool.errors import CorruptError, TruncatedError

Buffer = bytes | bytearray | memoryview

_MAX_64 = (1 << 64) - 1


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
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
