"""The lock of a folder: one writer of ours at a time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from ckpttool.errors import FileAccessError
from ckpttool.storage.source import file_error
from ckpttool.storage.system import fcntl, flags, require_writing

LOCK_TIMEOUT = 60.0
_FIRST_WORD = 1.0
_PAUSES = (0.01, 0.25)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for a lock that another process holds.

    Attributes:
        seconds: at most.
        tell: called once, after a second, with a message that names the holder.
    """

    seconds: float = LOCK_TIMEOUT
    tell: Callable[[str], None] | None = None


@contextmanager
def locked_folder(folder: str, patience: Patience | None = None) -> Iterator[None]:
    """Hold the lock of an existing folder; wait if another process holds it.

    The lock is on the open folder itself, so nothing is left behind however the process ends. It is
    advisory: a trainer that does not ask for it is not kept out. On file systems without locks
    there is none.

    Raises:
        FileAccessError: the folder cannot be opened, or another process kept its lock.
        UnsupportedError: the system lacks what writing takes.
    """
    require_writing(folder)
    try:
        fd = os.open(folder, flags("O_RDONLY", "O_DIRECTORY", "O_CLOEXEC"))
    except (OSError, ValueError) as error:
        raise file_error(error, folder) from error
    try:
        _wait(fd, folder, patience or Patience())
        yield
    finally:
        with suppress(OSError):
            os.close(fd)


def _wait(fd: int, folder: str, patience: Patience) -> None:
    start = time.monotonic()
    pause, most = _PAUSES
    told = patience.tell is None
    while not _taken(fd):
        waited = time.monotonic() - start
        if waited >= patience.seconds:
            raise FileAccessError(
                f"{_holder(fd)} has the lock of the folder; gave up after {patience.seconds:g}"
                " seconds",
                path=folder,
            )
        if not told and patience.tell is not None and waited >= _FIRST_WORD:
            patience.tell(f"waiting for {_holder(fd)}, which has the lock of '{folder}'")
            told = True
        time.sleep(min(pause, patience.seconds - waited))
        pause = min(2 * pause, most)


def _taken(fd: int) -> bool:
    """Take the lock if it is free; also True on a file system without locks."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _holder(fd: int) -> str:
    """Return who holds the lock, as far as the operating system tells."""
    with suppress(OSError, ValueError, IndexError):
        status = os.fstat(fd)
        place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
        with open("/proc/locks", encoding="ascii", errors="replace") as locks:
            for line in locks:
                # 1: FLOCK  ADVISORY  WRITE 1234 08:01:4711 0 EOF
                words = line.split()
                if words[1] == "FLOCK" and words[5] == place:
                    return _process(int(words[4]))
    return "another process"


def _process(number: int) -> str:
    if number <= 0:  # it is in another container
        return "another process"
    path = f"/proc/{number}/comm"
    with suppress(OSError), open(path, encoding="utf-8", errors="replace") as name:
        return f"process {number} ({name.read().strip()})"
    return f"process {number}"
