"""Reading the stored bytes of many small tensors: more than is asked for, where that pays."""

from __future__ import annotations

from collections.abc import Callable

from ckpttool.storage.source import RandomAccessFile

# Bytes read at once, at most; what lies between two tensors that are read in order, at most.
_MOST, _GAP = 1 << 20, 1 << 12


class ReadAhead:
    """Reads extents of data shards, those that lie in order by few system calls.

    What is read ahead doubles while the order holds, and ends with it: extents in any other order
    cost no more than a read of each.

    Args:
        open_shard: returns the open shard of a number.
    """

    def __init__(self, open_shard: Callable[[int], RandomAccessFile]) -> None:
        self._open_shard = open_shard
        self._shard_id = -1
        self._start = self._end = 0
        self._data = memoryview(b"")

    def read(self, shard_id: int, offset: int, size: int) -> memoryview:
        """Return bytes of a shard; they stay as they are.

        Raises:
            CkptError: they are not there, or cannot be read.
        """
        start = self._start
        if shard_id != self._shard_id or offset < start or offset + size > self._end:
            shard = self._open_shard(shard_id)
            length = size
            if shard_id == self._shard_id and start <= offset <= self._end + _GAP:
                ahead = min(max(2 * (self._end - start), size), _MOST)
                length = max(size, min(ahead, shard.size - offset))
            self._data = memoryview(shard.read_at(offset, length))
            self._shard_id, self._start, self._end = shard_id, offset, offset + length
            start = offset
        return self._data[offset - start : offset - start + size]
