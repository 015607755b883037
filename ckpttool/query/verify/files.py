"""Open data shards that several threads read from."""

from __future__ import annotations

import threading
from collections import OrderedDict

from ckpttool.errors import CkptError
from ckpttool.storage.source import RandomAccessFile

_MAX_OPEN = 32


class ShardFiles:
    """Open data shards; of many the last ones used.

    A file that is let go stays open for as long as a thread still reads from it.
    """

    def __init__(self) -> None:
        self._open: OrderedDict[str, RandomAccessFile | CkptError] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, path: str) -> RandomAccessFile:
        """Return the open file; raise the same error each time if it cannot be opened."""
        with self._lock:
            file = self._open.pop(path, None)
            if file is None:
                try:
                    file = RandomAccessFile(path)
                except CkptError as error:
                    file = error
            self._open[path] = file
            if len(self._open) > _MAX_OPEN:
                self._open.popitem(last=False)
        if isinstance(file, CkptError):
            raise file
        return file
