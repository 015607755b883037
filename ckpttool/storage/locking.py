"""Keeping other processes of this program out of a folder while one writes there."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ckpttool.storage.source import file_error


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
    try:
        with suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
