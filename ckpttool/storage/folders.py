"""Folders: held open, made, their names made durable."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ckpttool.storage.source import Inode, file_error, inode_of
from ckpttool.storage.system import flags, require_writing

# The errors of a file system that lacks an operation.
NOT_SUPPORTED = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
_RENAME_EXCHANGE = 2  # a flag of `renameat2`
_FLAGS = flags("O_RDONLY", "O_DIRECTORY", "O_CLOEXEC")


class OpenFolder:
    """A folder held open: all work happens in this folder, even if its path changes meanwhile.

    Arguments called `name` are names in the folder, not paths. No link is followed. Errors are
    `OSError`.

    Args:
        path: of the folder; empty for the current one.
        within: an open folder in which `path` is a name; a link is refused.

    Raises:
        OSError, ValueError: it cannot be opened.
        UnsupportedError: the system lacks what writing takes.
    """

    def __init__(self, path: str, within: OpenFolder | None = None) -> None:
        self._fd = -1
        require_writing(path or os.curdir)
        if within is None:
            self._fd = os.open(path or os.curdir, _FLAGS)
        else:
            self._fd = os.open(path, _FLAGS | os.O_NOFOLLOW, dir_fd=within._fd)

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptor."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with suppress(OSError):
                os.close(fd)

    def anchor(self) -> str | None:
        """Return a path that stays valid when the folder is renamed; None if there is none."""
        path = f"/proc/self/fd/{self._fd}"
        with suppress(OSError):
            if os.path.samestat(os.stat(path), self.own_status()):
                return path
        return None

    def own_status(self) -> os.stat_result:
        """Return the status of the folder itself."""
        return os.fstat(self._fd)

    def set_mode(self, mode: int) -> None:
        """Set its permission bits."""
        os.fchmod(self._fd, mode)

    def names(self) -> list[str]:
        """Return all names in it."""
        return os.listdir(self._fd)

    def make(self, name: str) -> None:
        """Make a folder; the process's mask narrows its mode."""
        os.mkdir(name, dir_fd=self._fd)

    def create(self, name: str, mode: int) -> int:
        """Create a new file and return a descriptor to write to it."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(name, flags, mode, dir_fd=self._fd)

    def open(self, name: str, *, write: bool = False) -> int:
        """Return a descriptor to read a file; does not wait for the writer of a named pipe.

        Args:
            name: of the file.
            write: whether to write to it, too; some file systems lock no other.
        """
        flags = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        return os.open(name, flags | (os.O_RDWR if write else os.O_RDONLY), dir_fd=self._fd)

    def status(self, name: str) -> os.stat_result | None:
        """Return the status of a name; None if there is no such name."""
        try:
            return os.stat(name, dir_fd=self._fd, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def link(self, name: str, other: str) -> None:
        """Give a file a second name."""
        fd = self._fd
        os.link(name, other, src_dir_fd=fd, dst_dir_fd=fd, follow_symlinks=False)

    def link_from(self, path: str, name: str) -> None:
        """Give a file from anywhere a name here."""
        os.link(path, name, dst_dir_fd=self._fd, follow_symlinks=False)

    def symlink(self, target: str, name: str) -> None:
        """Make a symbolic link."""
        os.symlink(target, name, dir_fd=self._fd)

    def rename(self, name: str, other: str) -> None:
        """Rename a file; a file of the new name is replaced."""
        os.rename(name, other, src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def target(self, name: str) -> str:
        """Return the target of a symbolic link."""
        return os.readlink(name, dir_fd=self._fd)

    def unlink(self, name: str) -> None:
        """Remove a name."""
        os.unlink(name, dir_fd=self._fd)

    def remove(self, name: str) -> bool:
        """Remove a name; tell whether it is gone. Failure is no error."""
        try:
            self.unlink(name)
        except FileNotFoundError:
            return True
        except (OSError, ValueError):
            return False
        return True

    def exchange(self, name: str, other: str) -> bool:
        """Exchange two names in one step; tell whether that was possible."""
        if not sys.platform.startswith("linux"):
            return False
        import ctypes

        try:
            rename = ctypes.CDLL(None).renameat2
        except (AttributeError, OSError):
            return False
        one, two = os.fsencode(name), os.fsencode(other)
        return bool(rename(self._fd, one, self._fd, two, _RENAME_EXCHANGE) == 0)

    def remove_tree(self, name: str, inode: Inode | None) -> bool:
        """Remove a folder with its contents; tell whether its name is gone.

        Args:
            name: of the folder.
            inode: of the folder; any other folder, or a link, stays. If None, only an empty folder
                is removed.
        """
        try:
            if inode is not None:
                folder = OpenFolder(name, within=self)
                try:
                    if inode_of(folder.own_status()) != inode:
                        return False
                    folder._empty()
                finally:
                    folder.close()
            os.rmdir(name, dir_fd=self._fd)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    def _empty(self) -> None:
        for name in self.names():
            if not self.remove(name):
                status = self.status(name)
                if status is not None:
                    self.remove_tree(name, inode_of(status))

    def sync(self) -> None:
        """Make the names durable, where the file system can."""
        try:
            os.fsync(self._fd)
        except OSError as error:
            if error.errno not in NOT_SUPPORTED:
                raise


@contextmanager
def new_folder(folder: str, *, parents: bool = False) -> Iterator[str]:
    """Make the last folder of a path if it is not there; remove it again if the block fails.

    Folders above it are not made unless asked for: a wrong path is an error.

    Args:
        folder: the path; empty for the current folder.
        parents: make the folders above it too, as `tf.train.Checkpoint` does.

    Yields:
        A path that is never empty.

    Raises:
        CkptError: it cannot be made.
    """
    # Checked first: an interrupt may come right after the folder is made.
    missing: list[str] = []
    path = folder
    while path and not os.path.isdir(path) and (parents or not missing):
        missing.append(path)
        path = os.path.dirname(path.rstrip(os.sep))
    try:
        for each in reversed(missing):
            make_folder(each)
        yield folder or os.curdir
    except BaseException:
        for each in missing:
            with suppress(OSError, ValueError):  # if others put something there, it stays
                os.rmdir(each)
        raise


def make_folder(folder: str) -> None:
    """Make the last folder of a path, durably, if it is not there.

    Raises:
        MissingFileError, FileAccessError: it cannot be made.
        UnsupportedError: the system lacks what writing takes.
    """
    if not folder or os.path.isdir(folder):
        return
    require_writing(folder)
    try:
        os.mkdir(folder)
    except (OSError, ValueError) as error:
        raise file_error(error, folder) from error
    try:
        sync_folder(os.path.dirname(folder) or os.curdir)
    except BaseException:
        with suppress(OSError):
            os.rmdir(folder)
        raise


def sync_folder(folder: str) -> None:
    """Make the names in a folder durable, where its file system can."""
    try:
        fd = os.open(folder, _FLAGS)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        if error.errno not in NOT_SUPPORTED:
            raise file_error(error, folder) from error
