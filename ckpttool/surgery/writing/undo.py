"""Taking back what was published, as long as it is not known to be right."""

from __future__ import annotations

import contextlib
import os
from types import TracebackType

from ckpttool.bundle.naming import index_path
from ckpttool.checkpoint.nearest import listed
from ckpttool.errors import CkptError, SurgeryError
from ckpttool.storage.folders import sync_folder
from ckpttool.storage.source import Identity, identity_of
from ckpttool.storage.staging import StagedFiles, remove_quietly
from ckpttool.surgery.writing.layout import Layout


class Undo:
    """Puts the old state back if what was published turns out not to be right.

    Until then the old index has a second name. What is undone is only what this set put there: a
    trainer that saves a checkpoint of that name meanwhile writes into the very index of this set,
    and what it writes must not vanish.

    Raises:
        SurgeryError: on leaving after an error, if that is how the error came about.
    """

    def __init__(self, prefix: str, staged: StagedFiles, layout: Layout) -> None:
        self._path = index_path(prefix)
        self.old_index = staged.spare_name(self._path + ".old")
        self._staged_index = staged.last
        self._new = {shard.path for shard in layout.shards if shard.how != "kept"}

    def __enter__(self) -> Undo:
        self._before = {path: _inode(path) for path in (self._path, *self._new)}
        self._staged_index.sync()
        self._ours = _identity(self._staged_index.temporary)
        try:
            with contextlib.suppress(OSError):  # no index there, or no links: then it has no name
                os.link(self._path, self.old_index)
        except BaseException:
            remove_quietly(self.old_index)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        left: list[str] = []
        if kind is not None and self._ours is not None:
            now = _identity(self._path)
            if now == self._ours:
                left = self._put_back()
            elif now is not None and now[:2] == self._ours[:2] and issubclass(kind, CkptError):
                raise SurgeryError("somebody else writes to it", path=self._path)
        remove_quietly(self.old_index)
        if left and isinstance(error, CkptError):
            what = "of no checkpoint" if self._before[self._path] is None else "not of the old one"
            error.message += f"; left behind, and {what}: {listed(left)}"

    def _put_back(self) -> list[str]:
        """Put the old state back; return the new shards that had to stay."""
        with contextlib.suppress(OSError):
            if _inode(self.old_index) is not None:
                os.rename(self.old_index, self._path)
            elif self._before[self._path] is None:
                os.unlink(self._path)
        if _inode(self._path) != self._before[self._path]:
            return []  # it is the new index still, which has its shards
        new = sorted(path for path in self._new if self._before[path] is None)
        with contextlib.suppress(CkptError):
            # As long as the old index is not back for good, the new one needs its shards.
            sync_folder(os.path.dirname(self._path) or os.curdir)
            for path in new:
                remove_quietly(path)
        return [path for path in new if _inode(path) is not None]


def _identity(path: str) -> Identity | None:
    try:
        return identity_of(os.lstat(path))
    except OSError:
        return None


def _inode(path: str) -> tuple[int, int] | None:
    identity = _identity(path)
    return identity[:2] if identity is not None else None
