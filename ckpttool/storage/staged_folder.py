"""A folder that appears whole, or not at all.

It is filled beside its destination under a temporary name,

    model  ->  .model.9f86d081884c7d65.ckpt-tmp

and renamed in one step. To replace a folder, the two names are exchanged, also in one step. A file
system that cannot exchange needs two: the old folder is first renamed to a temporary name, and a
reader between the steps finds nothing.

As for single files, both folders are held open, so that somebody who may write to the parent
cannot redirect our writes, renames or removals. Leftovers of killed runs for the same destination
are removed by the next success.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from ckpttool.errors import ChangedError, CkptError, DestinationError
from ckpttool.storage.folders import OpenFolder
from ckpttool.storage.leftovers import SetLock, clean_up, clear_leftovers
from ckpttool.storage.source import Inode, file_error, inode_of
from ckpttool.storage.temporary import new_tag, temporary_path


class StagedFolder:
    """A folder under its temporary name; leaving the block removes it unless it was published.

    Nobody else may enter it until it is published.

    Attributes:
        path: its final path.
        temporary: its present path.
        inside: the path by which files are put into it; it stays valid if the name is taken away.

    Raises:
        CkptError: on entering, it cannot be made.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._tag = new_tag()
        self.temporary = self.inside = temporary_path(path, self._tag)
        self._published = False
        self._gone = True
        self._replaced: tuple[str, Inode] | None = None
        self._folder: OpenFolder | None = None
        self._inode: Inode | None = None
        self._mode = 0

    @property
    def _names(self) -> tuple[str, str]:
        return os.path.basename(self.temporary), os.path.basename(self.path)

    def __enter__(self) -> StagedFolder:
        try:
            self._above = OpenFolder(os.path.dirname(self.path))
            self._lock = SetLock(self._above, self._tag)
            try:
                self._lock.acquire()
                self._make()
            except BaseException:
                self._leave()
                raise
        except (OSError, ValueError) as error:
            raise file_error(error, self.path) from error
        return self

    def _make(self) -> None:
        name = self._names[0]
        self._above.make(name)
        self._folder = OpenFolder(name, within=self._above)
        status = self._folder.own_status()
        self._inode, self._mode = inode_of(status), stat.S_IMODE(status.st_mode)
        # Group permissions come when it is published.
        _set_mode(self._folder, 0o700)
        if self._folder.names() or status.st_uid != os.geteuid():
            raise ChangedError("another process writes to the new folder", path=self.path)
        anchor = self._folder.anchor()
        if anchor is not None:
            self.inside = anchor

    def __exit__(self, kind: object, error: object, *rest: object) -> None:
        try:
            if isinstance(error, CkptError):  # who reads it knows the folder by its name
                error.message = error.message.replace(self.inside, self.path)
                if error.path is not None and error.path.startswith(self.inside):
                    error.path = self.path + error.path[len(self.inside) :]
        finally:
            self._leave()

    def _leave(self) -> None:
        """Remove what must not stay, and release everything."""
        clean_up(self._clear, self._let_go)

    def _clear(self) -> None:
        """Remove this folder unless it was published, else the one whose place it took."""
        waste = self._replaced if self._published else (self._names[0], self._inode)
        self._gone = waste is None or self._above.remove_tree(*waste)

    def _let_go(self) -> None:
        self._lock.release(remove=self._gone and not self._is_put_aside())
        self._above.close()
        if self._folder is not None:
            self._folder.close()

    def publish(self, *, replace: bool) -> list[str]:
        """Give the folder its name; its files must be durable already.

        Args:
            replace: replace an existing folder with its contents. Else only an empty one is
                replaced.

        Returns:
            Notes for the user.

        Raises:
            DestinationError: something is there.
            ChangedError: another process replaced the folder.
            FileAccessError: the operating system refused.
        """
        try:
            self._take_place(replace=replace)
        except OSError as error:
            self._put_back()
            told = file_error(error, self.path)
            told.message += self._whereabouts()
            raise told from error
        except BaseException:
            self._put_back()
            raise
        self._published = True
        self._clear()
        notes = []
        if self._replaced is not None and not self._gone:
            notes.append(f"'{self._beside(self._replaced[0])}' could not be removed")
        clear_leftovers(self._above, {self._names[1]}, self._tag)
        return notes

    def _take_place(self, *, replace: bool) -> None:
        above, (now, then) = self._above, self._names
        if self._folder is not None:
            _set_mode(self._folder, self._mode)
            self._folder.sync()
        status = above.status(then)
        if replace and status is not None and stat.S_ISDIR(status.st_mode):
            # Remembered before it is done: an interrupt may come right after that.
            self._replaced = now, inode_of(status)
            if not above.exchange(now, then):
                old = os.path.basename(temporary_path(self.path + ".old", self._tag))
                self._replaced = old, inode_of(status)
                above.rename(then, old)
                self._rename()
        else:
            self._rename()
        if not self._is_at(then, self._inode):
            with suppress(OSError):  # what was renamed in place of ours goes back
                exchanged = self._replaced is not None and self._replaced[0] == now
                if not (exchanged and above.exchange(then, now)):
                    above.rename(then, now)
            raise ChangedError("another process replaced the folder", path=self.path)
        above.sync()

    def _rename(self) -> None:
        now, then = self._names
        try:
            self._above.rename(now, then)  # an empty folder there is replaced
        except OSError as error:
            if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise DestinationError("already exists", path=self.path) from error
            raise

    def _put_back(self) -> None:
        """Undo the step that counts, as far as it was done; leaving the block does the rest."""
        now, then = self._names
        with suppress(OSError):
            if self._is_at(then, self._inode):
                if self._replaced is not None and self._replaced[0] == now:
                    self._above.exchange(then, now)
                    return
                self._above.rename(then, now)
            if self._replaced is not None and self._above.status(then) is None:
                self._above.rename(self._replaced[0], then)

    def _whereabouts(self) -> str:
        """Say, after an error, what is where it should not be because it could not be put back."""
        with suppress(OSError):
            if self._is_at(self._names[1], self._inode):
                return "; the new folder is written, but may not outlast a power failure"
        if self._replaced is not None and self._is_put_aside():
            return f"; what was there is '{self._beside(self._replaced[0])}' now"
        return ""

    def _is_put_aside(self) -> bool:
        """Tell whether the folder to be replaced is away from its place."""
        with suppress(OSError):
            return self._replaced is not None and self._is_at(*self._replaced)
        return True

    def _is_at(self, name: str, inode: Inode | None) -> bool:
        found = self._above.status(name)
        return found is not None and inode_of(found) == inode

    def _beside(self, name: str) -> str:
        return os.path.join(os.path.dirname(self.path), name)


def _set_mode(folder: OpenFolder, mode: int) -> None:
    """Set the mode of a folder, where the file system has modes."""
    with suppress(PermissionError):
        folder.set_mode(mode)
