"""Writing files that become visible together, or not at all.

Each file is written under a temporary name beside its destination:

    ckpt-3.index  ->  .ckpt-3.index.9f86d081884c7d65.ckpt-tmp

Leftovers of a killed run are removed by the next one that writes to the same destination.

Readers start from the index. So `commit` makes all bytes durable, gives the other files their names
and makes those durable, and names the index last: in one step, the only one that a reader can
notice.

A V1 checkpoint has no index; readers take the names they find for the whole set. There an empty
file claims the last name first: with it no reader opens the others.

Others who may write to the folder could replace any name in it by a link to somebody else's file.
So the folder is held open, files are changed through their descriptors only, and after a rename the
name is checked to belong to the written file.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress

from ckpttool.errors import ChangedError, CkptError, DestinationError
from ckpttool.storage.folders import NOT_SUPPORTED, OpenFolder
from ckpttool.storage.leftovers import SetLock, clean_up, clear_leftovers, destination_of
from ckpttool.storage.source import RandomAccessFile, file_error, inode_of
from ckpttool.storage.staged_file import StagedFile
from ckpttool.storage.system import fcntl
from ckpttool.storage.temporary import new_tag, temporary_path

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
        self._tag = new_tag()

    def __enter__(self) -> StagedFiles:
        return self

    def __exit__(self, *error: object) -> None:
        self.abandon()

    def create(self, path: str, *, mode: int = 0o666) -> StagedFile:
        """Start the file for `path`; the process's umask narrows its mode."""
        staged = self._add(path)
        try:
            staged.open(mode)
        except (OSError, ValueError) as error:
            self._drop(staged)
            raise file_error(error, path) from error
        return staged

    def link(self, source: RandomAccessFile, path: str) -> StagedFile | None:
        """Stage a hard link to an open file, whatever symbolic links led to it.

        Args:
            source: the file; it is not changed.
            path: the final name of the link.

        Returns:
            The file, or None where the file system cannot link the two places.

        Raises:
            ChangedError: its path now leads to another file.
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
        """Stage a copy of a symbolic link in the same folder.

        Args:
            source: the file behind the link, opened by the path of the link.
            path: the final name of the new link.

        Returns:
            The link; None if the path of the source is not a link.

        Raises:
            ChangedError: the link now leads to another file.
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
            path: the final name of the copy.

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
            replace_last: let the last file replace an existing one.
            before_last: called right before the last file gets its name; if it raises, the commit
                fails.

        Raises:
            DestinationError: a name is taken. After any of these errors no name of this set stays.
            FileAccessError: the operating system refused.
            ChangedError: somebody put another file in the place of one of them.
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
            # An interrupt may come right after the last rename: then all of them stay.
            if not last.has_name():
                for staged in others:
                    staged.take_back()
            raise
        self._tidy()

    def commit_together(
        self, *, replace: bool = False, before_last: Callable[[], None] | None = None
    ) -> None:
        """Give their names to files that are read without an index, the one created last at last.

        Until then an empty file has the last name; with it no reader opens any of them.

        Args:
            replace: let files replace existing ones. Meanwhile neither the old nor the new set is
                whole, so the old one must be unreadable already.
            before_last: as for `commit`, and so are the errors.
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
                raise DestinationError("another process took that name", path=last.path)
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
        if self._remove_spare(claim.temporary):
            self._spare.remove(claim.temporary)
        self._tidy()

    def _claim(self, path: str) -> StagedFile:
        """Create the empty file that claims a name."""
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
        """Remove the temporary names of the committed files, and those of dead runs."""
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
            clear_leftovers(self._folders[folder], names, self._tag)
        if not self._spare:  # else there is something that is needed until `abandon`
            self._release()

    def abandon(self) -> None:
        """Remove what has been written and not committed."""
        clean_up(self._remove_all, self._release)

    @property
    def files(self) -> tuple[StagedFile, ...]:
        """All files of the set, in the order in which they were created."""
        return tuple(self._files)

    def folder_of(self, staged: StagedFile) -> OpenFolder:
        """Return the folder of a file, open until `abandon` if a spare name exists."""
        return self._folders[os.path.dirname(staged.path)]

    def spare_name(self, path: str) -> str:
        """Return a further temporary name; a file of that name is removed in the end."""
        self._spare.append(temporary_path(path, self._tag))
        return self._spare[-1]

    def _add(self, path: str) -> StagedFile:
        """Return a new member of the set, not yet created."""
        folder = os.path.dirname(path)
        try:
            if folder not in self._folders:
                self._folders[folder] = OpenFolder(folder)
                self._locks.append(SetLock(self._folders[folder], self._tag))
                self._locks[-1].acquire()
            staged = StagedFile(path, temporary_path(path, self._tag), self._folders[folder])
            # Refuse a name that is too long now, not after everything is written.
            self._folders[folder].status(os.path.basename(path))
        except (OSError, ValueError) as error:
            raise file_error(error, path) from error
        # Remembered before it is made: an interrupt may come right after that.
        self._files.append(staged)
        return staged

    def _remove_all(self) -> None:
        self._remove_files()
        self._spare = [path for path in self._spare if not self._remove_spare(path)]

    def _remove_spare(self, path: str) -> bool:
        folder, name = os.path.split(path)
        opened = self._folders.get(folder)  # not there any more where this was tried before
        return opened is not None and opened.remove(name)

    def _remove_files(self) -> None:
        """Remove the temporary names; keep for later those that cannot be removed."""
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
        """Release the locks and close the folders, after the temporary names are gone."""
        while self._locks:
            self._locks[-1].release(remove=not (self._files or self._spare))
            self._locks.pop()
        while self._folders:
            self._folders.popitem()[1].close()
