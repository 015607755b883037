"""Finding single keys in a table, reading no more blocks than that takes."""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from operator import itemgetter

from ckpttool.errors import CorruptError
from ckpttool.storage.source import RandomAccessFile
from ckpttool.table.format import BlockHandle
from ckpttool.table.reader import read_index
from ckpttool.table.values import SMALL_BLOCK, TableValue, load_block

_MAX_BLOCKS = 4


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
        """What the index block has above all keys; None where there are no blocks."""
        return self._separators[-1] if self._separators else None

    def find(self, key: bytes, *, verify: bool = True) -> TableValue | None:
        """Return the value of a key; None where it is not in the table.

        The block that it would be in is checked, unless it is large and has been checked before.

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
            self._check_keys(at, handle, entries)
            if verify or handle.size <= SMALL_BLOCK:
                self._verified.add(at)
            # What was compressed would keep its bytes.
            if handle.size <= SMALL_BLOCK or not any(value.in_memory for _, value in entries):
                self._blocks[at] = entries
            while len(self._blocks) > _MAX_BLOCKS:
                self._blocks.popitem(last=False)
        return entries

    def _check_keys(
        self, at: int, handle: BlockHandle, entries: list[tuple[bytes, TableValue]]
    ) -> None:
        low = self._separators[at - 1] if at else None
        if entries and (
            (low is not None and entries[0][0] <= low) or entries[-1][0] > self._separators[at]
        ):
            raise CorruptError(
                "the keys of a table block lie outside what the index says of it",
                path=self._file.path,
                offset=handle.offset,
            )
