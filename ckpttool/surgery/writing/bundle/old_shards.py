"""The data shards beside a destination before anything is written there: which of them go.

A trainer that saves a checkpoint of that name gives data shards their names before the index its.
So a shard that the index does not name may be litter, or what somebody is about to name. It is
taken for litter only if there is a reason:

- it is of the set of the index that is replaced;
- it is a second name of a file of that set, or a link that says what one of its links does;
- it is older than the index, which comes last, and nobody is saving;
- a run of ours that was killed has put it there, which its temporary files tell.

And it goes only if it is still the one that was found then.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable
from contextlib import suppress

from ckpttool.bundle.entry import decode_header
from ckpttool.bundle.index import BundleIndex
from ckpttool.bundle.naming import find_shards, index_path, split_shard_path
from ckpttool.errors import CkptError
from ckpttool.storage.folders import OpenFolder
from ckpttool.storage.leftovers import DeadSet, dead_sets
from ckpttool.storage.source import Inode, RandomAccessFile, file_error, identity_of, inode_of
from ckpttool.storage.temporary import temporary_stem
from ckpttool.table.reader import TableReader

_MOST_LINKS = 40


class OldShards:
    """All data shards of a prefix, as they are now; a context manager, which closes the folder.

    Args:
        prefix: of the destination; the caller has locked its folder.

    Attributes:
        counts: how many shards the sets have that they are of.

    Raises:
        CkptError: the folder cannot be read.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._path = os.path.dirname(prefix)
        try:
            # From now on everything is looked at and removed here, wherever the path leads.
            self._folder = OpenFolder(self._path)
        except OSError as error:
            raise file_error(error, self._path) from error
        self._found: dict[str, os.stat_result] = {}
        self._counts: dict[str, int] = {}
        try:
            paths = find_shards(prefix)
        except CkptError:
            self._folder.close()
            raise
        for path, split in zip(paths, map(split_shard_path, paths), strict=True):
            if split is not None:
                self._counts[path] = split[2]
            with suppress(OSError):  # then it stays
                status = self._folder.status(os.path.basename(path))
                if status is not None:
                    self._found[path] = status
        self.counts = frozenset(self._counts.values())

    def __enter__(self) -> OldShards:
        return self

    def __exit__(self, *error: object) -> None:
        self._folder.close()

    @property
    def all(self) -> list[str]:
        """The paths of those that could be looked at."""
        return list(self._found)

    def superseded(
        self, index: BundleIndex, read: Collection[str], *, rewritten: bool
    ) -> list[str]:
        """Return those that nobody needs once another index is there.

        Args:
            index: the one that is replaced.
            read: shards of its set of which it is known that they belong to it.
            rewritten: whether the other index has shards of its own.

        Raises:
            CkptError: the index cannot be looked at.
        """
        count = index.header.num_shards
        own = {path for path, found in self._counts.items() if found == count}
        same = {self._file(path) for path in own & self._found.keys()}
        try:
            written = os.stat(index.path)
        except OSError as error:
            raise file_error(error, index.path) from error
        saving = self._is_being_saved()
        name = os.path.basename(self._prefix)
        dead = [_Claims(each, self._folder, self._path) for each in dead_sets(self._folder, name)]
        going = []
        for path, status in self._found.items():
            older = status.st_mtime_ns < written.st_mtime_ns
            if path in own:
                # One that was not read and is younger may be there for the next index.
                if rewritten and (path in read or older):
                    going.append(path)
            elif (
                self._file(path) in same
                # A rename leaves the time of the last writing alone.
                or (older and status.st_ctime_ns <= written.st_ctime_ns and not saving)
                or any(each.has_made(path, self._counts[path], status) for each in dead)
            ):
                going.append(path)
        return going

    def remove(self, paths: Iterable[str]) -> list[str]:
        """Remove some of them, as far as they are still what was found.

        Returns:
            A note for each that could not be removed.

        Raises:
            FileAccessError: that they are gone cannot be made durable.
        """
        notes = []
        needed = self._led_through()
        for path in paths:
            name = os.path.basename(path)
            try:
                now = self._folder.status(name)
                if now is None or inode_of(now) in needed:
                    continue
                if identity_of(now) == identity_of(self._found[path]):
                    self._folder.unlink(name)
            except FileNotFoundError:
                continue
            except OSError as error:
                reason = (error.strerror or "").lower()
                notes.append(f"'{path}' could not be removed: {reason}")
        try:
            self._folder.sync()
        except OSError as error:
            raise file_error(error, self._path or os.curdir) from error
        return notes

    def _file(self, path: str) -> Inode | str:
        """Return what two shards have in common that are one file, or say the same."""
        status = self._found[path]
        if stat.S_ISLNK(status.st_mode):
            with suppress(OSError):
                return self._folder.target(os.path.basename(path))
        return inode_of(status)

    def _is_being_saved(self) -> bool:
        """Tell whether TensorFlow saves a checkpoint of this name, or was stopped in doing so."""
        begin = os.path.basename(self._prefix) + "_temp"
        try:
            return any(name.startswith(begin) for name in self._folder.names())
        except OSError:
            return True

    def _led_through(self) -> set[Inode]:
        """Return the files and links that links among the shards lead to by now."""
        found: set[Inode] = set()
        for path in find_shards(self._prefix):
            for _ in range(_MOST_LINKS):
                try:
                    path = os.path.join(os.path.dirname(path), os.readlink(path))
                    found.add(inode_of(os.lstat(path)))
                except OSError:
                    break
        return found


class _Claims:
    """What a run that was killed has put in place, as far as can be told."""

    def __init__(self, dead: DeadSet, folder: OpenFolder, path: str) -> None:
        self._dead = dead
        self._folder = folder
        self._path = path
        self._index: tuple[int, int] | None = None

    def has_made(self, path: str, count: int, status: os.stat_result) -> bool:
        """Tell whether a shard is of that run.

        Where there are links, its temporary name stays until the whole set is there. Where there
        are none, it is written between the lock and the index, which tells the count.
        """
        stem = temporary_stem(os.path.basename(path))
        name = self._dead.names.get(stem)
        if name is not None:
            with suppress(OSError):
                found = self._folder.status(name)
                return found is not None and os.path.samestat(found, status)
            return False
        prefix = os.path.basename(path).rpartition(".data-")[0]
        index = self._dead.names.get(temporary_stem(index_path(prefix)))
        if index is None:
            return False
        if self._index is None:
            # By its path: whoever could redirect that could remove the shards themselves.
            self._index = _staged_index(os.path.join(self._path, index))
        staged, written = self._index
        return count == staged and self._dead.begun <= status.st_mtime_ns <= written


def _staged_index(path: str) -> tuple[int, int]:
    """Return how many shards an index has, and when it was written; zeros for what is none."""
    try:
        with RandomAccessFile(path) as file:
            written = file.identity[3]
            for key, record in TableReader(file).items():
                return (0 if key else decode_header(record).num_shards), written
    except CkptError:
        pass
    return 0, 0
