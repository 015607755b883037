"""The files of a V1 checkpoint, open for reading."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import MutableMapping, Sequence

from ckpttool.errors import (
    ChangedError,
    CkptError,
    CorruptError,
    MissingFileError,
    UnsupportedError,
)
from ckpttool.legacy.records import SliceMeta, decode_meta
from ckpttool.storage.source import Identity, Permissions, RandomAccessFile
from ckpttool.table.reader import TableLookup

# A checkpoint may have more files than a process may have open.
_MAX_OPEN = 32
# Enough for some ten million tensors. It is held in memory, and a hostile sparse file is cheap.
MAX_META_SIZE = 1 << 30


class LegacyFiles:
    """Opens the files of a checkpoint when they are needed.

    Args:
        paths: of all files in shard order, missing ones included.

    Attributes:
        sizes: size of each file once opened; None for a missing one.
        permissions: those of the file that was opened first.
        identities: of each file when it was first opened.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = tuple(paths)
        self.sizes: list[int | None] = [None] * len(self.paths)
        self.permissions: Permissions | None = None
        self.identities: dict[int, Identity] = {}
        self._open: OrderedDict[int, tuple[RandomAccessFile, TableLookup]] = OrderedDict()

    def close(self) -> None:
        """Close all files."""
        while self._open:
            self._open.popitem()[1][0].close()

    def lookup(self, shard_id: int) -> TableLookup:
        """Return the table of a file.

        Raises:
            MissingFileError: it does not exist.
            ChangedError: it was replaced or written since it was first opened.
            CorruptError: it is not a table.
        """
        opened = self._open.pop(shard_id, None)
        if opened is None:
            file = RandomAccessFile(self.paths[shard_id])
            try:
                if self.identities.setdefault(shard_id, file.identity) != file.identity:
                    raise ChangedError("the file changed while it was read", path=file.path)
                self.sizes[shard_id] = file.size
                self.permissions = self.permissions or file.permissions
                opened = file, TableLookup(file)
            except BaseException:
                file.close()
                raise
        self._open[shard_id] = opened
        if len(self._open) > _MAX_OPEN:
            self._open.popitem(last=False)[1][0].close()
        return opened[1]

    def describe(
        self, shard_id: int, damaged: MutableMapping[str, CkptError] | None = None
    ) -> list[SliceMeta] | None:
        """Return the tensors that a file describes; None if it does not exist.

        Args:
            shard_id: number of the file.
            damaged: takes the errors of single tensors, as for `decode_meta`.

        Raises:
            CorruptError: the description is missing or damaged.
            UnsupportedError: the file is of an unknown version.
        """
        path = self.paths[shard_id]
        try:
            record = self.lookup(shard_id).find(b"")
        except MissingFileError:
            return None
        if record is None:
            raise CorruptError("no record describes the tensors: no key is empty", path=path)
        if record.size > MAX_META_SIZE:
            raise UnsupportedError(
                f"a description of {record.size} bytes is more than {MAX_META_SIZE}", path=path
            )
        found: dict[str, CkptError] | None = None if damaged is None else {}
        try:
            tensors = decode_meta(record.read_at(0, record.size), found)
        except CkptError as error:
            error.offset = None  # counts from a message inside of the record
            error.locate(path=path)
            raise
        if damaged is not None:
            for key, problem in (found or {}).items():
                damaged.setdefault(key, problem.locate(path=path))
        return tensors
