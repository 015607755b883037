"""A file under its temporary name, changed through its descriptor only."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from ckpttool.errors import ChangedError, DestinationError, FileAccessError
from ckpttool.storage.folders import NOT_SUPPORTED, OpenFolder
from ckpttool.storage.source import Inode, Permissions, RandomAccessFile, file_error, inode_of


class StagedFile:
    """A file under its temporary name; made by the methods of `StagedFiles`.

    Attributes:
        path: its final path.
        temporary: its present path.
        size: bytes written so far, or the size of the linked file.
        inode: device and inode; None until it is created.
    """

    def __init__(self, path: str, temporary: str, folder: OpenFolder) -> None:
        self.path = path
        self.temporary = temporary
        self.size = 0
        self.inode: Inode | None = None
        self._folder = folder
        self._fd = -1
        self._kind = stat.S_IFREG
        self._named = False
        self._synced = False
        # Looked at beforehand: nothing may lie between a caller's last look and the renaming.
        try:
            self._replaceable = _is_replaceable(folder.status(self.names[1]))
        except OSError as error:
            raise file_error(error, path) from error

    @property
    def names(self) -> tuple[str, str]:
        """Its present and its final name in the folder."""
        return os.path.basename(self.temporary), os.path.basename(self.path)

    def open(self, mode: int) -> None:
        """Make the file under its temporary name."""
        self._fd = self._folder.create(self.names[0], mode)
        try:
            self.inode = inode_of(os.fstat(self._fd))
        except OSError:
            self.close()
            raise

    def link_to(self, path: str, source: RandomAccessFile) -> None:
        """Make the temporary name a hard link to a file.

        Raises:
            ChangedError: the path now leads to another file than the open one.
        """
        self._folder.link_from(path, self.names[0])
        self.inode, self.size = source.identity[:2], source.size
        if not self._is_called(self.names[0]):
            raise ChangedError("the file was replaced while it was read", path=source.path)

    def symlink_to(self, target: str, size: int) -> None:
        """Make the temporary name a symbolic link to a file of that size."""
        self._folder.symlink(target, self.names[0])
        status = self._folder.status(self.names[0])
        self.inode = None if status is None else inode_of(status)
        self._kind, self.size = stat.S_IFLNK, size
        self._synced = True

    def fileno(self) -> int:
        """Return the file descriptor; -1 where the file is not open."""
        return self._fd

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append bytes."""
        rest = memoryview(data)
        while rest:
            try:
                done = os.write(self._fd, rest)
            except OSError as error:
                raise file_error(error, self.path).locate(offset=self.size) from error
            self.size += done
            rest = rest[done:]

    def take_permissions(self, like: Permissions) -> None:
        """Give the file the mode of another and, where permitted, its owner and group.

        Call it before writing, so that private bytes are never exposed. If the group cannot be
        the same, the group gets no more rights than others.

        Raises:
            FileAccessError: the operating system refused, and the file would be more open than the
                other.
        """
        try:
            for owner, group in ((-1, like.group), (like.owner, -1)):
                with suppress(OSError):
                    os.fchown(self._fd, owner, group)
            mode = like.for_group(os.fstat(self._fd).st_gid)
            try:
                os.fchmod(self._fd, mode)
            except PermissionError:
                # File systems without modes show one for all files.
                if os.fstat(self._fd).st_mode & ~mode & 0o777:
                    raise
        except OSError as error:
            raise file_error(error, self.path) from error

    def sync(self) -> None:
        """Wait until the bytes are on the disk, and close the file; later calls do nothing.

        Raises:
            FileAccessError: that failed, or bytes that were written are not there.
        """
        if self._synced:
            return
        fd, self._fd = self._fd, -1
        try:
            if fd < 0:  # a link, which nobody had to open
                fd = self._folder.open(self.names[0])
            try:
                os.fsync(fd)
                status = os.fstat(fd)
            finally:
                os.close(fd)
        except OSError as error:
            raise file_error(error, self.path) from error
        if status.st_size != self.size or inode_of(status) != self.inode:
            raise FileAccessError(
                f"{self.size} bytes were written, but the file has {status.st_size}",
                path=self.path,
            )
        self._synced = True

    def close(self) -> None:
        """Close the file without syncing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with suppress(OSError):
                os.close(fd)

    def remove(self) -> bool:
        """Remove the temporary name; tell whether it is gone."""
        self.close()
        return self._folder.remove(self.names[0])

    def publish(self, *, replace: bool) -> None:
        """Give the file its final name.

        Args:
            replace: replace an existing file. Else the name must be free, and the temporary name
                stays until the set is done.

        Raises:
            DestinationError: the name is taken, or by what is no file.
            ChangedError: somebody put another file under the name meanwhile.
        """
        folder, (now, then) = self._folder, self.names
        self._named = True  # beforehand: an interrupt may come right after
        try:
            if replace:
                self._refuse_special()
                folder.rename(now, then)
            else:
                self._take_free_name()
        except FileExistsError as error:
            # It may be a hard link to the same file, but it is not ours to remove.
            self._named = False
            raise DestinationError("already exists", path=self.path) from error
        except OSError as error:
            raise file_error(error, self.path) from error
        if not self.has_name():
            raise ChangedError("another process replaced the file", path=self.path)

    def _refuse_special(self) -> None:
        """Refuse to replace a device, a pipe or the like."""
        if not self._replaceable:
            self._named = False
            raise DestinationError("it is not a file", path=self.path)

    def _take_free_name(self) -> None:
        folder, (now, then) = self._folder, self.names
        try:
            # A rename would replace what is there; a link fails instead.
            folder.link(now, then)
        except OSError as error:
            if error.errno not in (*NOT_SUPPORTED, errno.EPERM, errno.EMLINK):
                raise
            # No hard links here: check, then rename.
            if folder.status(then) is not None:
                raise FileExistsError from error
            folder.rename(now, then)

    def has_name(self) -> bool:
        """Tell whether the file has its final name."""
        try:
            return self._is_called(self.names[1])
        except OSError:
            return False

    def _is_called(self, name: str) -> bool:
        """Tell whether a name belongs to this file.

        Inode numbers are reused, so the type and the size are compared too.
        """
        found = self._folder.status(name)
        return (
            found is not None
            and inode_of(found) == self.inode
            and stat.S_IFMT(found.st_mode) == self._kind
            and (found.st_size == self.size or self._kind == stat.S_IFLNK)
        )

    def take_back(self) -> None:
        """Remove the final name again, if `publish` gave it."""
        if self._named and self.has_name():
            self._folder.remove(self.names[1])


def _is_replaceable(found: os.stat_result | None) -> bool:
    """Tell whether a file may take the place of another; a link is replaced itself."""
    return found is None or stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)
