"""Reading a table file: walking all of it, finding single keys.

A walk skips nothing: an unreadable block ends it with an error. Skipping a damaged block would give
a shorter list without an error, and writing that list would lose tensors.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator
from operator import itemgetter

from ckpttool.errors import CkptError, CorruptError, TruncatedError
from ckpttool.storage.source import RandomAccessFile
from ckpttool.table.block import read_entries
from ckpttool.table.format import FOOTER_SIZE, TRAILER_SIZE, BlockHandle, Footer
from ckpttool.table.values import SMALL_BLOCK, TableValue, load_block

_MAX_BLOCKS = 4


class TableReader:
    """Reads a table block by block.

    Opening reads the footer and the index block; data blocks are read as the walk reaches them.

    Args:
        file: the open file; the caller closes it.

    Raises:
        CorruptError: the file is not a table or contradicts itself.
    """

    def __init__(self, file: RandomAccessFile) -> None:
        self._file = file
        self._index = read_index(file)

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield every key and value, in key order; raises what `blocks` does."""
        for entries in self.blocks():
            yield from entries

    def blocks(self) -> Iterator[list[tuple[bytes, bytes]]]:
        """Yield the keys and values of each data block, in key order.

        Raises:
            CorruptError: a block is damaged or its keys do not lie between its separators.
            UnsupportedError: a block is compressed in a way that is not known.
        """
        low: bytes | None = None
        for separator, handle in self._index:
            entries = read_entries(self._file, handle)
            if entries:
                keys = entries[0][0], entries[-1][0]
                _check_keys(keys, low, separator, path=self._file.path, offset=handle.offset)
            yield entries
            low = separator


class TableLookup:
    """Looks keys up in a table.

    Opening reads the footer and the index block.

    Args:
        file: the open file; the caller closes it.

    Raises:
        CorruptError: the file is not a table or contradicts itself.
    """

    def __init__(self, file: RandomAccessFile) -> None:
        self._file = file
        index = read_index(file)
        self._separators = [separator for separator, _ in index]
        self._handles = [handle for _, handle in index]
        self._blocks: OrderedDict[int, list[tuple[bytes, TableValue]]] = OrderedDict()
        self._verified: set[int] = set()

    @property
    def last_separator(self) -> bytes | None:
        """The highest separator of the index block; None where there are no blocks."""
        return self._separators[-1] if self._separators else None

    def find(self, key: bytes, *, verify: bool = True) -> TableValue | None:
        """Return the value of a key; None if it is not in the table.

        The key's block is checked, unless it is large and has been checked before.

        Args:
            key: the key.
            verify: whether to check a large block at all.

        Raises:
            CorruptError: that block is damaged or its keys do not lie between its separators.
            UnsupportedError: it is compressed in a way that is not known.
        """
        at = bisect_left(self._separators, key)
        if at == len(self._separators):
            return None
        entries = self._block(at, verify=verify)
        place = bisect_left(entries, key, key=itemgetter(0))
        if place < len(entries) and entries[place][0] == key:
            return entries[place][1]
        return None

    def _block(self, at: int, *, verify: bool) -> list[tuple[bytes, TableValue]]:
        handle = self._handles[at]
        entries = self._blocks.get(at)
        if entries is None or (verify and at not in self._verified):
            entries = load_block(self._file, handle, verify=verify)
            if entries:
                keys = entries[0][0], entries[-1][0]
                low = self._separators[at - 1] if at else None
                high = self._separators[at]
                _check_keys(keys, low, high, path=self._file.path, offset=handle.offset)
            if verify or handle.size <= SMALL_BLOCK:
                self._verified.add(at)
            # A large compressed block would keep its decompressed bytes in memory.
            if handle.size <= SMALL_BLOCK or not any(value.in_memory for _, value in entries):
                self._blocks[at] = entries
            while len(self._blocks) > _MAX_BLOCKS:
                self._blocks.popitem(last=False)
        return entries


def read_index(file: RandomAccessFile) -> list[tuple[bytes, BlockHandle]]:
    """Return the separator and the handle of every data block, in order.

    Raises:
        CorruptError: the file is not a table or contradicts itself.
    """
    index = read_footer(file).index
    out = []
    end = 0
    for separator, value in read_entries(file, index):
        try:
            handle, _ = BlockHandle.decode(value)
        except CorruptError as error:
            raise CorruptError(error.message, path=file.path, offset=index.offset) from error
        if handle.offset < end:
            raise CorruptError("table blocks overlap", path=file.path, offset=handle.offset)
        end = handle.offset + handle.size + TRAILER_SIZE
        out.append((separator, handle))
    return out


def read_footer(file: RandomAccessFile) -> Footer:
    """Read the last bytes of a table.

    Raises:
        CorruptError: the file is not a table.
    """
    if file.size < FOOTER_SIZE:
        raise TruncatedError(
            f"not a table file: {file.size} bytes are fewer than its footer has{_what(file)}",
            path=file.path,
        )
    at = file.size - FOOTER_SIZE
    try:
        return Footer.decode(file.read_at(at, FOOTER_SIZE))
    except CkptError as error:
        error.offset = at + (error.offset or 0)
        error.message += _what(file)
        error.locate(path=file.path)
        raise


def _what(file: RandomAccessFile) -> str:
    """Say what a file is that is no table, if it is of another program."""
    from ckpttool.coding.foreign import HEAD_SIZE, foreign_bytes

    found = foreign_bytes(file.read_at(0, min(file.size, HEAD_SIZE)), file.size)
    return f"; it is {found}" if found else ""


def _check_keys(
    keys: tuple[bytes, bytes], low: bytes | None, high: bytes, *, path: str, offset: int
) -> None:
    """Check that the first and the last key of a block lie between its separators."""
    first, last = keys
    if (low is not None and first <= low) or last > high:
        raise CorruptError(
            "the keys of a table block lie outside what the index says of it",
            path=path,
            offset=offset,
        )
