"""The bytes of a string tensor.

    varint(len 0) ... varint(len n-1)   masked crc u32   bytes 0 ... bytes n-1

The crc in the middle runs over the lengths, not as the varints lie there but as 32-bit numbers
(64-bit for a length that needs them). The tensor's own crc32c goes on from it: over the four bytes
of the stored length crc, then the contents. The varints are under no checksum at all.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from ckpttool.coding.checksum import crc32c, mask, unmask
from ckpttool.coding.varint import decode_varint, encode_varint
from ckpttool.errors import ChecksumError, CorruptError, TruncatedError

_CRC_SIZE = 4


def decode_strings(
    data: memoryview, count: int, *, big_endian: bool = False
) -> tuple[list[bytes], int]:
    """Decode the elements of a string tensor.

    Args:
        data: the tensor's bytes.
        count: number of elements.
        big_endian: byte order of the writer.

    Returns:
        The elements, and the crc32c that the tensor's entry should have, unmasked.

    Raises:
        CorruptError: lengths and bytes disagree, or the lengths are damaged.
    """
    if count + _CRC_SIZE > len(data):
        raise TruncatedError(f"{len(data)} bytes are too few for {count} strings")
    lengths = []
    pos, end = 0, len(data)
    for _ in range(count):
        length, pos = decode_varint(data, pos, end)
        lengths.append(length)
    contents = pos + _CRC_SIZE
    if contents + sum(lengths) != end:
        raise CorruptError(
            f"string lengths add up to {sum(lengths)} bytes, but {end - contents} are there",
            offset=pos,
        )
    order = ">" if big_endian else "<"
    computed = _crc_of_lengths(lengths, order)
    stored = unmask(struct.unpack_from(f"{order}I", data, pos)[0])
    if computed != stored:
        raise ChecksumError("string lengths are damaged", stored=stored, computed=computed)
    crc = crc32c(data[pos:], computed)
    elements = []
    at = contents
    for length in lengths:
        elements.append(bytes(data[at : at + length]))
        at += length
    return elements, crc


def encode_strings(elements: Sequence[bytes], *, big_endian: bool = False) -> tuple[bytes, int]:
    """Encode elements; return the tensor's bytes and its crc32c, unmasked.

    Args:
        elements: the strings.
        big_endian: byte order of the bundle that they become part of.
    """
    order = ">" if big_endian else "<"
    lengths = [len(element) for element in elements]
    crc = _crc_of_lengths(lengths, order)
    rest = struct.pack(f"{order}I", mask(crc)) + b"".join(elements)
    return b"".join(map(encode_varint, lengths)) + rest, crc32c(rest, crc)


def _crc_of_lengths(lengths: list[int], order: str) -> int:
    if not lengths or max(lengths) < 1 << 32:
        return crc32c(struct.pack(f"{order}{len(lengths)}I", *lengths))
    crc = 0
    for length in lengths:
        crc = crc32c(struct.pack(f"{order}{'Q' if length >> 32 else 'I'}", length), crc)
    return crc
