r"""Numbers and strings whose encoded bytes sort as the values do ("OrderedCode").

num 300       02 01 2c           count of significant bytes, then those, highest first
str "a\0b"    61 00 ff 62 00 01  00 -> 00 ff, ff -> ff 00; 00 01 ends it
snum 5        85                 the leading run of ones counts the bytes
snum 64       c0 40
snum -1       7f                 negative: every bit inverted
"""

from __future__ import annotations

from ckpttool.errors import CorruptError, TruncatedError

# By length in bytes: the mask for the first two bytes of a signed number, a run of ones.
_HEADERS = tuple(divmod(0xFFFF << 16 - length & 0xFFFF, 256) for length in range(11))


def encode_num(value: int) -> bytes:
    """Encode an unsigned number of at most 64 bits."""
    significant = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return bytes((len(significant),)) + significant


def decode_num(data: bytes, pos: int) -> tuple[int, int]:
    """Decode an unsigned number; return it and the position after it."""
    if pos >= len(data):
        raise TruncatedError("an ordered number is missing", offset=pos)
    end = pos + 1 + data[pos]
    if data[pos] > 8:
        raise CorruptError("an ordered number has more than 8 bytes", offset=pos)
    if end > len(data):
        raise TruncatedError("an ordered number runs past its end", offset=pos)
    if data[pos] and not data[pos + 1]:
        raise CorruptError("an ordered number starts with a zero byte", offset=pos)
    return int.from_bytes(data[pos + 1 : end], "big"), end


def encode_str(value: bytes) -> bytes:
    """Encode a string of any bytes."""
    parts = (part.replace(b"\xff", b"\xff\x00") for part in value.split(b"\x00"))
    return b"\x00\xff".join(parts) + b"\x00\x01"


def decode_str(data: bytes, pos: int) -> tuple[bytes, int]:
    """Decode a string; return it and the position after its terminator."""
    out = bytearray()
    start = pos
    while pos + 1 < len(data):
        byte, following = data[pos], data[pos + 1]
        if byte == 0x00 and following == 0x01:
            return bytes(out), pos + 2
        if (byte == 0x00 and following != 0xFF) or (byte == 0xFF and following != 0x00):
            raise CorruptError("an ordered string has an unknown escape", offset=pos)
        out.append(byte)
        pos += 2 if byte in (0x00, 0xFF) else 1
    raise TruncatedError("an ordered string is not terminated", offset=start)


def encode_signed(value: int) -> bytes:
    """Encode a signed number of at most 64 bits."""
    magnitude = value if value >= 0 else ~value
    if magnitude < 64:
        return bytes((0x80 ^ (value & 0xFF),))
    length = magnitude.bit_length() // 7 + 1
    out = bytearray(value.to_bytes(10, "big", signed=True)[-length:])
    out[0] ^= _HEADERS[length][0]
    out[1] ^= _HEADERS[length][1]
    return bytes(out)


def decode_signed(data: bytes, pos: int) -> tuple[int, int]:
    """Decode a signed number; return it and the position after it."""
    if pos >= len(data):
        raise TruncatedError("an ordered number is missing", offset=pos)
    turned = 0x00 if data[pos] & 0x80 else 0xFF
    lead = (data[pos] ^ turned) << 8
    if pos + 1 < len(data):
        lead |= data[pos + 1] ^ turned
    length = 16 - (lead ^ 0xFFFF).bit_length()
    if length > 10:
        raise CorruptError("an ordered number has more than 10 bytes", offset=pos)
    raw = bytearray(data[pos : pos + length])
    if len(raw) < length:
        raise TruncatedError("an ordered number runs past its end", offset=pos)
    raw[0] ^= _HEADERS[length][0]
    if length > 1:
        raw[1] ^= _HEADERS[length][1]
    # The bits above the value are copies of the sign; a single byte has none.
    value = int.from_bytes((b"\xff" if turned else b"\x00") + bytes(raw), "big", signed=True)
    if not -(1 << 63) <= value < 1 << 63 or encode_signed(value) != data[pos : pos + length]:
        raise CorruptError("an ordered number is not in its shortest form", offset=pos)
    return value, pos + length
