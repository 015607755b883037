"""A regular file, open for reading at any offset."""

from __future__ import annotations

import contextlib
import mmap
import os
import stat
import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from ckpttool.errors import CkptError, FileAccessError, MissingFileError, TruncatedError
from ckpttool.storage.system import READ_FLAGS, number_of_files

CHUNK_SIZE = 1 << 20
# Below this a copy costs less than a map.
_MAP_FROM = 1 << 17
# Each map holds a file descriptor; at most a quarter of the process's limit is used.
_MAX_FILES = number_of_files()
_MAX_MAPS = 4096 if _MAX_FILES is None else min(_MAX_FILES // 4, 4096)
_live_maps: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()


def file_error(error: OSError | ValueError, path: str) -> CkptError:
    """Return our own error for what the operating system, or Python, said of a path."""
    if isinstance(error, ValueError):  # a NUL, or text that no file system can spell
        return FileAccessError(str(error), path=path)
    if isinstance(error, FileNotFoundError):
        return MissingFileError("no such file", path=path)
    return FileAccessError((error.strerror or str(error)).lower(), path=path)


@contextlib.contextmanager
def open_input(path: str) -> Iterator[BinaryIO]:
    """Open a file or pipe that the user names; "-" is standard input, which stays open.

    Raises:
        MissingFileError, FileAccessError: it cannot be opened, or not be read to the end.
    """
    try:
        file = open(0 if path == "-" else path, "rb", closefd=path != "-")  # noqa: SIM115 - closed below
    except (OSError, ValueError) as error:
        raise file_error(error, path) from error
    with file:
        try:
            yield file
        except OSError as error:
            raise file_error(error, path) from error


# Device and inode: which file it is.
Inode = tuple[int, int]
# Device, inode, size and time of the last change of the contents.
Identity = tuple[int, int, int, int]


def inode_of(status: os.stat_result) -> Inode:
    """Return which file a status belongs to, whatever its name."""
    return status.st_dev, status.st_ino


def identity_of(status: os.stat_result) -> Identity:
    """Return a value that changes when the file is replaced or written to."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


@dataclass(frozen=True, slots=True)
class Permissions:
    """Mode bits (without setuid and setgid), user number and group number of a file."""

    mode: int
    owner: int
    group: int

    @classmethod
    def of(cls, status: os.stat_result) -> Permissions:
        """Return the permissions in a file's status."""
        return cls(status.st_mode & 0o777, status.st_uid, status.st_gid)

    def for_group(self, group: int) -> int:
        """Return a mode, no wider than this one, for a file that belongs to `group`."""
        if group == self.group:
            return self.mode
        return self.mode & ~0o070 | self.mode & 0o070 & self.mode << 3


@dataclass(frozen=True, slots=True)
class ShardFile:
    """A file of a checkpoint: its path, and its size in bytes or None where it is missing."""

    path: str
    size: int | None


if hasattr(os, "preadv"):

    def _read_at(fd: int, length: int, offset: int) -> bytes:
        return os.pread(fd, length, offset)

    def _read_into(fd: int, buffer: memoryview, offset: int) -> int:
        return os.preadv(fd, [buffer], offset)

else:  # Windows: a descriptor has one place, and one thread at a time may move it
    _one_at_a_time = threading.Lock()

    def _read_at(fd: int, length: int, offset: int) -> bytes:
        with _one_at_a_time:
            os.lseek(fd, offset, os.SEEK_SET)
            return os.read(fd, length)

    def _read_into(fd: int, buffer: memoryview, offset: int) -> int:
        data = _read_at(fd, min(len(buffer), CHUNK_SIZE), offset)
        buffer[: len(data)] = data
        return len(data)


class RandomAccessFile:
    """A file of known size; every read is checked against it first.

    The size is taken once, on opening. A file that shrinks afterwards gives `TruncatedError`.

    Args:
        path: a regular file or a link to one. Anything else (a folder, a device, a named pipe)
            is refused.

    Attributes:
        size: in bytes.
        modified: time of the last write, in seconds since 1970.
        identity: changes if the file is replaced or written to.
        permissions: of the file.

    Raises:
        MissingFileError: there is no such file.
        FileAccessError: it cannot be opened or is not a regular file.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = -1
        try:
            self._fd = os.open(path, READ_FLAGS)
            status = os.fstat(self._fd)
        except (OSError, ValueError) as error:
            self.close()
            raise file_error(error, path) from error
        if not stat.S_ISREG(status.st_mode):
            self.close()
            raise FileAccessError("not a regular file", path=path)
        self.size: int = status.st_size
        self.modified: float = status.st_mtime
        self.identity = identity_of(status)
        self.permissions = Permissions.of(status)

    def __enter__(self) -> RandomAccessFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; views handed out before stay valid."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with contextlib.suppress(OSError):
                os.close(fd)

    def fileno(self) -> int:
        """Return the file descriptor."""
        return self._fd

    def check_range(self, offset: int, length: int) -> None:
        """Raise `TruncatedError` unless `length` bytes at `offset` lie within the file."""
        if offset < 0 or length < 0 or offset + length > self.size:
            raise TruncatedError(
                f"{length} bytes wanted here, but the file has {self.size} in all"
                + self._pointer(),
                path=self.path,
                offset=offset,
            )

    def _pointer(self) -> str:
        """Say what stands in place of the file, if it is a pointer to where that lies."""
        from ckpttool.coding.foreign import POINTER_SIZE, foreign_bytes

        if not 0 < self.size <= POINTER_SIZE:
            return ""
        found = foreign_bytes(self.read_at(0, self.size), self.size)
        return f"; it is {found}" if found else ""

    def read_at(self, offset: int, length: int) -> bytes:
        """Return exactly `length` bytes from `offset`."""
        self.check_range(offset, length)
        try:
            data = _read_at(self._fd, length, offset)
        except OSError as error:
            raise file_error(error, self.path).locate(offset=offset) from error
        # One call gives less than asked for only beyond 2 GiB, or when the file shrank.
        return data if len(data) == length else bytes(self._read(offset, length))

    def read_into(self, buffer: memoryview, offset: int) -> None:
        """Fill a buffer of bytes from `offset`."""
        self.check_range(offset, len(buffer))
        self._fill(buffer, offset)

    def mapped(self, offset: int, length: int) -> memoryview:
        """Return `length` bytes from `offset` as a map of the file where that is possible.

        Commands must not use it. Pages are read when touched; writing to the view changes neither
        the file nor any other view. But changes by others show in the view, and if the file was
        cut short or the disk fails, touching the view ends the process by a signal.
        """
        self.check_range(offset, length)
        if length >= _MAP_FROM and self._fd >= 0 and len(_live_maps) < _MAX_MAPS:
            start = offset - offset % mmap.ALLOCATIONGRANULARITY
            # No map of this file system, or the file became shorter: reading tells what is wrong.
            with contextlib.suppress(OSError, ValueError):
                mapped = mmap.mmap(
                    self._fd,
                    length + offset - start,
                    access=mmap.ACCESS_COPY,
                    offset=start,
                )
                _live_maps.add(mapped)
                return memoryview(mapped)[offset - start :]
        return memoryview(self._read(offset, length))

    def chunks(
        self, offset: int, length: int, *, chunk_size: int = CHUNK_SIZE
    ) -> Iterator[memoryview]:
        """Yield `length` bytes from `offset` in order, in pieces of `chunk_size` or less.

        All pieces share one buffer: each is valid until the next is asked for.
        """
        self.check_range(offset, length)
        buffer = memoryview(bytearray(min(chunk_size, length)))
        end = offset + length
        while offset < end:
            piece = buffer[: min(chunk_size, end - offset)]
            self._fill(piece, offset)
            yield piece
            offset += len(piece)

    def _read(self, offset: int, length: int) -> bytearray:
        self.check_range(offset, length)
        data = bytearray(length)
        self._fill(memoryview(data), offset)
        return data

    def _fill(self, buffer: memoryview, offset: int) -> None:
        done = 0
        while done < len(buffer):
            try:
                got = _read_into(self._fd, buffer[done:], offset + done)
            except OSError as error:
                raise file_error(error, self.path).locate(offset=offset + done) from error
            if not got:
                raise TruncatedError(
                    "the file was truncated while it was read",
                    path=self.path,
                    offset=offset + done,
                )
            done += got
