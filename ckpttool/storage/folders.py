"""Folders: making one, making its names durable, keeping other writers out of it."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ckpttool.errors import FileAccessError
from ckpttool.storage.source import file_error

# How file systems say that they cannot do this at all.
NOT_SUPPORTED = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


@contextmanager
def new_folder(folder: str) -> Iterator[str]:
    """Make the last folder of a path if it is not there; remove it again if the block fails.

    As in TensorFlow, folders above it are not made: a wrong path is an error.

    Args:
        folder: the path; empty for the current folder.

    Yields:
        A path that is never empty.

    Raises:
        CkptError: it cannot be made.
    """
    # Looked at before it is made: an interrupt may come right after that.
    there = not folder or os.path.isdir(folder)
    try:
        make_folder(folder)
        yield folder or os.curdir
    except BaseException:
        if not there:
            with suppress(OSError, ValueError):  # if others put something there, it stays
                os.rmdir(folder)
        raise


def make_folder(folder: str) -> None:
    """Make the last folder of a path, durably, if it is not there.

    Raises:
        MissingFileError, FileAccessError: it cannot be made.
    """
    if not folder or os.path.isdir(folder):
        return
    try:
        os.mkdir(folder)
    except OSError as error:
        raise file_error(error, folder) from error
    except ValueError as error:  # a NUL, or text that no file system can spell
        raise FileAccessError(str(error), path=folder) from error
    try:
        sync_folder(os.path.dirname(folder) or os.curdir)
    except BaseException:
        with suppress(OSError):
            os.rmdir(folder)
        raise


def sync_folder(folder: str) -> None:
    """Make the names in a folder durable, where its file system can."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        if error.errno not in NOT_SUPPORTED:
            raise file_error(error, folder) from error


@contextmanager
def locked_folder(folder: str) -> Iterator[None]:
    """Hold the lock of a folder; wait for it if another process has it.

    The lock is on the open folder itself, so nothing is left behind, whatever way the process ends.
    Programs that do not ask for it, such as a trainer, are not kept out. On file systems without
    locks there is none.

    Args:
        folder: an existing folder.
    """
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise file_error(error, folder) from error
    except ValueError as error:
        raise FileAccessError(str(error), path=folder) from error
    try:
        with suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        with suppress(OSError):
            os.close(fd)
