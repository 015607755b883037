"""Blocks whose values may be too large to be read at once.

In most tables a value is a few bytes. A V1 checkpoint stores its tensors in a table: a value may
have 2 GiB, and then has a block to itself. Such a block is read once for its checksum, in pieces;
its values stay in the file.
"""

from __future__ import annotations

from collections.abc import Iterator

from ckpttool.coding.checksum import crc32c
from ckpttool.errors import CkptError
from ckpttool.storage.source import CHUNK_SIZE, RandomAccessFile
from ckpttool.table.block import check_place, check_trailer, decompress, read_entries, walk_block
from ckpttool.table.format import NO_COMPRESSION, TRAILER_SIZE, BlockHandle

# TensorFlow's blocks are larger only where they hold a single value.
SMALL_BLOCK = 1 << 22
_PAGE = 1 << 12


class TableValue:
    """A value in a table, read piece by piece.

    Args:
        size: in bytes.
        file: the table.
        offset: of the value in the file; of its block if that is compressed.
        data: the value, if it has been read.
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


class _Paged:
    """The bytes of a block that are looked at, a page at a time."""

    def __init__(self, block: TableValue) -> None:
        self._block = block
        self._page = b""
        self._at = 0

    def __len__(self) -> int:
        return self._block.size

    def __getitem__(self, index: slice) -> bytes:
        start, stop = index.start, index.stop
        if stop - start > _PAGE:
            return self._block.read_at(start, stop - start)
        if start < self._at or stop > self._at + len(self._page):
            self._at = start
            self._page = self._block.read_at(start, min(_PAGE, len(self) - start))
        return self._page[start - self._at : stop - self._at]


def load_block(
    file: RandomAccessFile, handle: BlockHandle, *, verify: bool = True
) -> list[tuple[bytes, TableValue]]:
    """Return the keys and values of a block in order.

    Args:
        file: the table.
        handle: where the block lies.
        verify: whether to check the checksum of a large block; small blocks are always checked.

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
                TableValue(stop - start, file, handle.offset + start)
                if block is None
                else TableValue(stop - start, file, handle.offset, block[start:stop]),
            )
            for key, start, stop in walk_block(_Paged(whole))
        ]
    except CkptError as error:
        # What is wrong in a decompressed block has no offset in the file.
        error.offset = handle.offset + (error.offset or 0 if block is None else 0)
        error.locate(path=file.path)
        raise
