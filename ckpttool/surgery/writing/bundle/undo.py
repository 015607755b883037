"""Taking back published files that fail their check."""

from __future__ import annotations

import contextlib
import os

from ckpttool.bundle.naming import index_path
from ckpttool.checkpoint.nearest import listed
from ckpttool.errors import CkptError, SurgeryError
from ckpttool.storage.source import Identity, Inode, identity_of
from ckpttool.storage.staging import StagedFiles


class Undo:
    """Puts the old state back if the block raises.

    Until then the old index has a second name. Only the files of this set are undone: a trainer
    that saves a checkpoint of that name meanwhile writes into the same index file, and its data
    must stay. Everything happens in the folder in which the set was staged.

    Raises:
        SurgeryError: after an error, if such a trainer caused it.
    """

    def __init__(self, prefix: str, staged: StagedFiles) -> None:
        self._path = index_path(prefix)
        self.old_index = staged.spare_name(self._path + ".old")
        *self._shards, self._staged_index = staged.files
        self._folder = staged.folder_of(self._staged_index)
        self._name, self._old = os.path.basename(self._path), os.path.basename(self.old_index)

    def __enter__(self) -> Undo:
        self._before = self._inode(self._name)
        self._staged_index.sync()
        self._ours = self._identity(self._staged_index.names[0])
        try:
            with contextlib.suppress(OSError):  # no index there, or no links: then it has no name
                self._folder.link(self._name, self._old)
        except BaseException:
            self._folder.remove(self._old)
            raise
        return self

    def __exit__(self, kind: object, error: object, *rest: object) -> None:
        left: list[str] = []
        if kind is not None and self._ours is not None:
            now = self._identity(self._name)
            if now == self._ours:
                left = self._put_back()
                if isinstance(error, CkptError) and self._identity(self._name) == self._ours:
                    # Without links there was no way to keep the old one.
                    error.message += f"; '{self._path}' is written all the same"
            elif now is not None and now[:2] == self._ours[:2] and isinstance(error, CkptError):
                raise SurgeryError("another process writes to it", path=self._path)
        self._folder.remove(self._old)
        if left and isinstance(error, CkptError):
            what = "of no checkpoint" if self._before is None else "not of the old one"
            error.message += f"; left behind, and {what}: {listed(left)}"

    def _put_back(self) -> list[str]:
        """Put the old state back; return new shards that could not be removed."""
        with contextlib.suppress(OSError):
            if self._inode(self._old) is not None:
                self._folder.rename(self._old, self._name)
            elif self._before is None:
                self._folder.unlink(self._name)
        if self._inode(self._name) != self._before:
            return []  # the new index is still there and needs its shards
        with contextlib.suppress(OSError):
            # The new index needs its shards until the old one is durably back.
            self._folder.sync()
            for shard in self._shards:
                shard.take_back()
        return sorted(shard.path for shard in self._shards if shard.has_name())

    def _identity(self, name: str) -> Identity | None:
        try:
            status = self._folder.status(name)
        except OSError:
            return None
        return None if status is None else identity_of(status)

    def _inode(self, name: str) -> Inode | None:
        identity = self._identity(name)
        return identity[:2] if identity is not None else None
