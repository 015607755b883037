"""Writing files that become visible together, or not at all.

Each file is written under a temporary name beside its destination:

    ckpt-3.index  ->  .ckpt-3.index.9f86d081884c7d65.ckpt-tmp

What a killed run left of these is removed by the next one that writes to the same destination.

Whoever reads a checkpoint starts from its index. So `commit` makes all bytes durable, then gives
the other files their names and makes those durable, and only then the last one, the index, its: in
one step, which is the only one that a reader can notice.

The files of a V1 checkpoint have no index; readers take what names there are for all of it. There
the last name is claimed first, by an empty file, with which no reader opens the others.

Others may be able to write to the folder, and exchange any name in it for a link to a file that is
not theirs. So the folder is held open, files are changed through their descriptors only, and that
a name belongs to the file that was written is checked when it has been given.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

from ckpttool.errors import ChangedError, CkptError, DestinationError, FileAccessError
from ckpttool.storage.folders import NOT_SUPPORTED, OpenFolder
from ckpttool.storage.leftovers import SetLock, clear_leftovers, destination_of
from ckpttool.storage.source import RandomAccessFile, file_error, inode_of
from ckpttool.storage.staged_file import StagedFile
from ckpttool.storage.temporary import temporary_path

# Linux: share the blocks of a file.
_FICLONE = 0x40049409


class StagedFiles:
    """A set of files that appear together.

    As a context manager it removes the temporary files unless `commit` was reached.
    """

    def __init__(self) -> None:
        self._files: list[StagedFile] = []
        self._spare: list[str] = []
        self._folders: dict[str, OpenFolder] = {}
        self._locks: list[SetLock] = []
        self._tag = secrets.token_hex(8)

    def __enter__(self) -> StagedFiles:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.abandon()

    def create(self, path: str, *, mode: int = 0o666) -> StagedFile:
        """Start a file that will be called `path`; the process's mask narrows its mode."""
        staged = self._add(path)
        try:
            staged.open(mode)
        except OSError as error:
            self._drop(staged)
            raise file_error(error, path) from error
        except ValueError as error:  # a NUL, or text that no file system can spell
            self._drop(staged)
            raise FileAccessError(str(error), path=path) from error
        return staged

    def link(self, source: RandomAccessFile, path: str) -> StagedFile | None:
        """Stage a second name for a file: the one that is open, whatever links led to it.

        Args:
            source: the file; it is not changed.
            path: what the second name will be.

        Returns:
            The file, or None where the file system cannot have links between the two places.

        Raises:
            ChangedError: there is another file at its path by now.
        """
        staged = self._add(path)
        try:
            staged.link_to(os.path.realpath(source.path), source)
        except OSError as error:
            self._drop(staged)
            if error.errno in (*NOT_SUPPORTED, errno.EPERM, errno.EXDEV, errno.EMLINK):
                return None
            raise file_error(error, path) from error
        return staged

    def symlink(self, source: RandomAccessFile, path: str) -> StagedFile | None:
        """Stage a symbolic link that says what another in its folder does.

        Args:
            source: the file that the other leads to, opened by the path of the link.
            path: what the new one will be called.

        Returns:
            The link; None if the path of the source is no link.

        Raises:
            ChangedError: the link leads to another file by now.
        """
        try:
            target = os.readlink(source.path)
        except OSError:
            return None
        staged = self._add(path)
        try:
            staged.symlink_to(target, source.size)
            same = inode_of(os.stat(staged.temporary)) == source.identity[:2]
        except OSError as error:
            self._drop(staged)
            raise file_error(error, path) from error
        if not same:
            raise ChangedError("the link was replaced while it was read", path=source.path)
        return staged

    def clone(self, source: RandomAccessFile, path: str) -> StagedFile | None:
        """Stage a copy of a file that shares its blocks until one of the two is changed.

        Args:
            source: the file; it is not changed.
            path: what the copy will be called.

        Returns:
            The file, or None where the file system cannot do this.
        """
        staged = self.create(path, mode=0o600)
        staged.take_permissions(source.permissions)
        try:
            fcntl.ioctl(staged.fileno(), _FICLONE, source.fileno())
        except OSError:
            self._drop(staged)
            return None
        staged.size = source.size
        return staged

    @property
    def last(self) -> StagedFile:
        """The file created last, whose name makes the set visible."""
        return self._files[-1]

    def commit(
        self, *, replace_last: bool = False, before_last: Callable[[], None] | None = None
    ) -> None:
        """Give the files their names, the one created last after all others.

        Args:
            replace_last: let the last file take the place of one that exists.
            before_last: called right before the last file gets its name; what it raises ends it.

        Raises:
            DestinationError: a file of such a name exists; no name of this set stays.
            FileAccessError: the operating system refused; likewise.
            ChangedError: somebody else put another file in the place of one of them; likewise.
        """
        for staged in self._files:
            staged.sync()
        *others, last = self._files
        try:
            for staged in others:
                staged.publish(replace=False)
            self._sync_folders()
            if before_last is not None:
                before_last()
            last.publish(replace=replace_last)
        except BaseException:
            # An interrupt may come just after the step that counts: then all of them stay.
            if not last.has_name():
                for staged in others:
                    staged.take_back()
            raise
        self._tidy()

    def commit_together(
        self, *, replace: bool = False, before_last: Callable[[], None] | None = None
    ) -> None:
        """Give their names to files that are read without an index, the one created last at last.

        Until then its name is that of an empty file, with which no reader opens any of them.

        Args:
            replace: let files take the place of what exists; while that is done there is neither
                the old nor the new, so the old must be nothing that could be read.
            before_last: called right before the last file gets its name; what it raises ends it.

        Raises:
            DestinationError: a file of such a name exists; no name of this set stays.
            FileAccessError: the operating system refused; likewise.
        """
        for staged in self._files:
            staged.sync()
        *others, last = self._files
        claim = self._claim(last.path)
        try:
            claim.publish(replace=replace)
            self._sync_folders()
            for staged in others:
                staged.publish(replace=replace)
            self._sync_folders()
            if before_last is not None:
                before_last()
            if not claim.has_name():
                raise DestinationError("somebody else took that name", path=last.path)
            last.publish(replace=True)
        except BaseException:
            if not last.has_name():
                for staged in others:
                    staged.take_back()
                with suppress(CkptError):
                    # The others must not come back without it after a crash.
                    self._sync_folders()
                    claim.take_back()
            raise
        if remove_quietly(claim.temporary):
            self._spare.remove(claim.temporary)
        self._tidy()

    def _claim(self, path: str) -> StagedFile:
        """Make the empty file that holds a name until the one to be called so is due."""
        folder = self._folders[os.path.dirname(path)]
        claim = StagedFile(path, self.spare_name(path + ".claim"), folder)
        try:
            claim.open(0o600)
        except OSError as error:
            claim.close()
            raise file_error(error, path) from error
        claim.close()
        return claim

    def _tidy(self) -> None:
        """Remove the temporary names when the files have their own, and those of dead runs."""
        done: dict[str, set[str]] = {}
        for staged in self._files:
            folder, name = os.path.split(staged.path)
            done.setdefault(folder, set()).add(destination_of(name))
        last = self.last
        self._remove_files()
        try:
            self._sync_folders()
        except CkptError as error:
            if not self._spare:  # else somebody takes it back
                error.message += f"; '{last.path}' is written, but may not outlast a power failure"
            raise
        for folder, names in done.items():
            clear_leftovers(folder, names, self._tag)
        if not self._spare:  # else there is something that is needed until `abandon`
            self._release()

    def abandon(self) -> None:
        """Remove what has been written and not committed."""
        for step in (self._remove_all, self._release):
            try:
                step()
            except BaseException:  # an interrupt: what it came upon is tried once more
                step()
                self._release()
                raise

    @property
    def files(self) -> tuple[StagedFile, ...]:
        """All files of the set, in the order in which they were created."""
        return tuple(self._files)

    def folder_of(self, staged: StagedFile) -> OpenFolder:
        """Return the folder of one of them, open until `abandon` if there is a spare name."""
        return self._folders[os.path.dirname(staged.path)]

    def spare_name(self, path: str) -> str:
        """Return a temporary name for something else, which is removed in the end."""
        self._spare.append(temporary_path(path, self._tag))
        return self._spare[-1]

    def _add(self, path: str) -> StagedFile:
        """Return a file that is not there yet."""
        folder = os.path.dirname(path)
        try:
            if folder not in self._folders:
                self._folders[folder] = OpenFolder(folder)
                self._locks.append(SetLock(self._folders[folder], self._tag))
                self._locks[-1].acquire()
            staged = StagedFile(path, temporary_path(path, self._tag), self._folders[folder])
            # A name that is too long is refused now, not when all has been written.
            self._folders[folder].status(os.path.basename(path))
        except OSError as error:
            raise file_error(error, path) from error
        except ValueError as error:
            raise FileAccessError(str(error), path=path) from error
        # Remembered before it is made: an interrupt may come right after that.
        self._files.append(staged)
        return staged

    def _remove_all(self) -> None:
        self._remove_files()
        self._spare = [name for name in self._spare if not remove_quietly(name)]

    def _remove_files(self) -> None:
        """Remove the temporary names; those that cannot be removed are tried again later."""
        self._files = [staged for staged in self._files if not staged.remove()]

    def _drop(self, staged: StagedFile) -> None:
        staged.remove()
        self._files.remove(staged)

    def _sync_folders(self) -> None:
        for path, folder in self._folders.items():
            try:
                folder.sync()
            except OSError as error:
                raise file_error(error, path or os.curdir) from error

    def _release(self) -> None:
        """Let go of the locks, and of the folders, after the last of the temporary names."""
        while self._locks:
            self._locks[-1].release(remove=not (self._files or self._spare))
            self._locks.pop()
        while self._folders:
            self._folders.popitem()[1].close()


def remove_quietly(path: str) -> bool:
    """Remove a file; tell whether it is gone. That it cannot be removed is no error."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
