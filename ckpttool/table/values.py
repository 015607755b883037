"""Blocks whose values may be too large to be read at once.

In most tables a value is a few bytes. A checkpoint of format V1 has its tensors in a table: a value
may take 2 GiB, and has a block to itself then. Such a block is read once for its checksum, in
pieces; its values stay in the file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from ckpttool.coding.checksum import crc32c
from ckpttool.coding.varint import decode_varint
from ckpttool.errors import CkptError, CorruptError
from ckpttool.storage.source import CHUNK_SIZE, RandomAccessFile
from ckpttool.table.block import MAX_EXPANSION, wrong_order
from ckpttool.table.format import NO_COMPRESSION, TRAILER_SIZE, BlockHandle
from ckpttool.table.stored import check_place, check_trailer, decompress, read_entries

# TensorFlow's blocks are larger only where they hold a single value.
SMALL_BLOCK = 1 << 22
# Three lengths of at most five bytes.
_MAX_LENGTHS = 15
_RESTARTS_AT_ONCE = 1 << 14


class TableValue:
    """A value in a table, read piece by piece.

    Args:
        size: in bytes.
        file: the table, where the value is still in it.
        offset: where it begins in the file; that of its block where the value was compressed.
        data: the value, where it has been read.

    Attributes:
        size: in bytes.
        offset: as given.
    """

    __slots__ = ("_data", "_file", "offset", "size")

    def __init__(
        self, size: int, file: RandomAccessFile, offset: int, data: memoryview | None = None
    ) -> None:
        self.size = size
        self.offset = offset
        self._file = file
        self._data = data

    @property
    def path(self) -> str:
        """The file that it is in."""
        return self._file.path

    @property
    def in_memory(self) -> bool:
        """Whether its bytes have been read already."""
        return self._data is not None

    def read_at(self, pos: int, length: int) -> bytes:
        """Return `length` bytes from `pos`, which must lie within the value."""
        if self._data is not None:
            return bytes(self._data[pos : pos + length])
        return self._file.read_at(self.offset + pos, length)

    def chunks(
        self, pos: int, length: int, *, chunk_size: int = CHUNK_SIZE
    ) -> Iterator[memoryview]:
        """Yield bytes in pieces of `chunk_size` or less, each valid until the next is asked for."""
        if self._data is None:
            yield from self._file.chunks(self.offset + pos, length, chunk_size=chunk_size)
            return
        for at in range(pos, pos + length, chunk_size):
            yield self._data[at : min(at + chunk_size, pos + length)]


def load_block(
    file: RandomAccessFile, handle: BlockHandle, *, verify: bool = True
) -> list[tuple[bytes, TableValue]]:
    """Return the keys and values of a block, in the order they lie.

    Args:
        file: the table.
        handle: where the block lies.
        verify: whether to check the checksum of a large block; that of a small one always is.

    Raises:
        CorruptError: the block is damaged or lies outside of the file.
        UnsupportedError: it is compressed in a way that is not known, or too large.
    """
    check_place(file, handle)
    if handle.size <= SMALL_BLOCK:
        return [
            (key, TableValue(len(value), file, handle.offset, memoryview(value)))
            for key, value in read_entries(file, handle)
        ]
    trailer = file.read_at(handle.offset + handle.size, TRAILER_SIZE)
    if verify:
        crc = 0
        for chunk in file.chunks(handle.offset, handle.size + 1):
            crc = crc32c(chunk, crc)
        check_trailer(trailer, crc, path=file.path, offset=handle.offset)
    block: memoryview | None = None
    if trailer[0] != NO_COMPRESSION:
        raw = memoryview(file.read_at(handle.offset, handle.size))
        block = decompress(trailer[0], raw, path=file.path, offset=handle.offset)
    whole = TableValue(handle.size if block is None else len(block), file, handle.offset, block)
    try:
        return [
            (
                key,
                TableValue(size, file, handle.offset + at)
                if block is None
                else TableValue(size, file, handle.offset, block[at : at + size]),
            )
            for key, at, size in _walk(whole)
        ]
    except CkptError as error:
        # What is wrong in a decompressed block has no offset in the file.
        error.offset = handle.offset + (error.offset or 0 if block is None else 0)
        error.locate(path=file.path)
        raise


def _walk(block: TableValue) -> Iterator[tuple[bytes, int, int]]:
    """Yield key, place and size of every value in a block."""
    restarts = _restarts(block)
    end = next(restarts)
    next_restart = next(restarts)
    pos = 0
    key = b""
    room = MAX_EXPANSION * (block.size + 1024)
    while pos < end:
        start = pos
        head = block.read_at(pos, min(_MAX_LENGTHS, end - pos))
        shared, at = decode_varint(head, 0, len(head))
        fresh, at = decode_varint(head, at, len(head))
        size, at = decode_varint(head, at, len(head))
        pos += at
        if shared > len(key) or pos + fresh + size > end:
            raise CorruptError("a table entry has impossible lengths", offset=start)
        previous, key = key, key[:shared] + block.read_at(pos, fresh)
        if key <= previous and start:
            raise wrong_order(previous, key, start)
        room -= len(key)
        if room < 0:
            raise CorruptError("the keys of a table block share more than a writer lets them")
        if start == next_restart:
            if shared:
                raise CorruptError("a table key is cut short at a restart", offset=start)
            next_restart = next(restarts, -1)
        yield key, pos + fresh, size
        pos += fresh + size
    if next_restart not in (-1, 0) or next(restarts, None) is not None:
        raise CorruptError("a table restart points at no entry", offset=next_restart)


def _restarts(block: TableValue) -> Iterator[int]:
    """Yield where the entries of a block end, then its restarts."""
    count = struct.unpack("<I", block.read_at(block.size - 4, 4))[0] if block.size >= 4 else 0
    if count < 1 or 4 * (count + 1) > block.size:
        raise CorruptError("a table block has an impossible count of restarts")
    end = block.size - 4 * (count + 1)
    yield end
    last = -1
    for at in range(0, count, _RESTARTS_AT_ONCE):
        some = min(_RESTARTS_AT_ONCE, count - at)
        for restart in struct.unpack(f"<{some}I", block.read_at(end + 4 * at, 4 * some)):
            if restart <= last or (last < 0 and restart):
                raise CorruptError("the restarts of a table block do not rise from 0")
            yield restart
            last = restart
