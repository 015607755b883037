"""Walking a table file.

Nothing is skipped: a block that cannot be read ends the walk with an error. A reader that moves on
past a damaged block shows a shorter list and no error, and whoever writes that list loses tensors.
"""

from __future__ import annotations

from collections.abc import Iterator

from ckpttool.errors import CorruptError
from ckpttool.storage.source import RandomAccessFile
from ckpttool.table.format import TRAILER_SIZE, BlockHandle
from ckpttool.table.stored import read_entries, read_footer


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
            if entries and (
                (low is not None and entries[0][0] <= low) or entries[-1][0] > separator
            ):
                raise CorruptError(
                    "the keys of a table block lie outside what the index says of it",
                    path=self._file.path,
                    offset=handle.offset,
                )
            yield entries
            low = separator


def read_index(file: RandomAccessFile) -> list[tuple[bytes, BlockHandle]]:
    """Return the separator and the place of every data block, in their order.

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
