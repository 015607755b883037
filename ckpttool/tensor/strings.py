"""The bytes of a string tensor.

    varint(len 0) ... varint(len n-1)   masked crc u32   bytes 0 ... bytes n-1

The crc in the middle covers the lengths, not as varints but as 32-bit numbers (64-bit for a length
that needs them). The tensor's own crc32c continues from it, over the four bytes of the stored crc
and the contents. No checksum covers the varints themselves.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from ckpttool.coding.checksum import crc32c, mask, unmask
from ckpttool.coding.varint import decode_varint, encode_varint
from ckpttool.errors import ChecksumError, CorruptError, TruncatedError

_CRC_SIZE = 4
# Elements per mark. A position for each element would take more memory than short strings
# themselves, and a Python object for each ten times as much.
_RUN = 1 << 12


class Strings:
    """The elements of a string tensor; they become objects only when asked for.

    Args:
        data: the tensor's bytes.
        count: number of elements.
        marks: where the lengths and the contents of every `_RUN` elements begin.
    """

    def __init__(self, data: memoryview, count: int, marks: Sequence[tuple[int, int]]) -> None:
        self._data = data
        self._count = count
        self._marks = marks

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[bytes]:
        return self.take(range(self._count))

    def take(self, places: Iterable[int]) -> Iterator[bytes]:
        """Yield the elements at these places, quickest where they come in order."""
        current = -1
        bounds: list[int] = []
        for place in places:
            run, at = divmod(place, _RUN)
            if run != current:
                current, bounds = run, self._bounds(run)
            yield bytes(self._data[bounds[at] : bounds[at + 1]])

    def _bounds(self, run: int) -> list[int]:
        """Return where the elements of a run begin, and where the last of them ends."""
        pos, start = self._marks[run]
        count = min(_RUN, self._count - run * _RUN)
        return list(accumulate(_decode_lengths(self._data, pos, count)[0], initial=start))


def decode_strings(
    data: memoryview, count: int, *, big_endian: bool = False
) -> tuple[Strings, int]:
    """Check the bytes of a string tensor, and find its elements.

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
    order = ">" if big_endian else "<"
    marks = []
    pos, end = 0, len(data)
    total = computed = 0
    for first in range(0, count, _RUN):
        marks.append((pos, total))
        lengths, pos = _decode_lengths(data, pos, min(_RUN, count - first))
        total += sum(lengths)
        computed = crc32c(pack_lengths(lengths, order), computed)
    contents = pos + _CRC_SIZE
    if contents + total != end:
        raise CorruptError(
            f"string lengths add up to {total} bytes, but {end - contents} are there",
            offset=pos,
        )
    stored = unmask(struct.unpack_from(f"{order}I", data, pos)[0])
    if computed != stored:
        raise ChecksumError("string lengths are damaged", stored=stored, computed=computed)
    crc = crc32c(data[pos:], computed)
    return Strings(data, count, [(place, contents + start) for place, start in marks]), crc


def encode_strings(elements: Sequence[bytes], *, big_endian: bool = False) -> tuple[bytes, int]:
    """Encode elements; return the tensor's bytes and its crc32c, unmasked.

    Args:
        elements: the strings.
        big_endian: byte order of the bundle that they become part of.
    """
    order = ">" if big_endian else "<"
    lengths = [len(element) for element in elements]
    crc = crc32c(pack_lengths(lengths, order))
    rest = struct.pack(f"{order}I", mask(crc)) + b"".join(elements)
    return b"".join(map(encode_varint, lengths)) + rest, crc32c(rest, crc)


def pack_lengths(lengths: bytes | Sequence[int], order: str) -> bytes | bytearray:
    """Return the bytes of the lengths that their crc covers.

    Args:
        lengths: as numbers; bytes stand for lengths below 256.
        order: "<" or ">", the byte order of the writer.
    """
    if isinstance(lengths, bytes):
        numbers = bytearray(4 * len(lengths))
        numbers[3 if order == ">" else 0 :: 4] = lengths
        return numbers
    if max(lengths, default=0) < 1 << 32:
        return struct.pack(f"{order}{len(lengths)}I", *lengths)
    return b"".join(
        struct.pack(f"{order}{'Q' if length >> 32 else 'I'}", length) for length in lengths
    )


def _decode_lengths(data: memoryview, pos: int, count: int) -> tuple[bytes | list[int], int]:
    """Return `count` lengths, as bytes where each takes one, and the position after them."""
    run = bytes(data[pos : pos + count])
    if len(run) == count and run.isascii():
        return run, pos + count
    end = len(data)
    lengths = []
    for _ in range(count):
        length, pos = decode_varint(data, pos, end)
        lengths.append(length)
    return lengths, pos
