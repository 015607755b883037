"""Writing files that become visible together, in order, or not at all.

Each file is written under a temporary name beside its destination:

    ckpt-3.index  ->  .ckpt-3.index.9f86d081884c7d65.ckpt-tmp

`commit` makes the bytes durable before any name appears, then the names in the order in which the
files were created, then makes the names durable. Whoever reads a checkpoint starts from its index,
so the index is created last.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from types import TracebackType

from ckpttool.errors import DestinationError
from ckpttool.storage.source import file_error

TEMPORARY_SUFFIX = ".ckpt-tmp"


class StagedFile:
    """A file being written under its temporary name; made by `StagedFiles.create`."""

    def __init__(self, path: str, temporary: str) -> None:
        self.path = path
        self.temporary = temporary
        self.size = 0
        try:
            self._fd = os.open(
                temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666
            )
        except OSError as error:
            raise file_error(error, temporary) from error

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

    def sync(self) -> None:
        """Wait until the bytes are on the disk, then close the file."""
        try:
            os.fsync(self._fd)
        except OSError as error:
            raise file_error(error, self.path) from error
        self.close()

    def close(self) -> None:
        """Close the file, if it is open."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class StagedFiles:
    """A set of files that appear together.

    As a context manager it removes the temporary files unless `commit` was reached.
    """

    def __init__(self) -> None:
        self._files: list[StagedFile] = []
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

    def create(self, path: str) -> StagedFile:
        """Start a file that will be called `path`."""
        folder, name = os.path.split(path)
        temporary = os.path.join(folder, f".{name}.{self._tag}{TEMPORARY_SUFFIX}")
        staged = StagedFile(path, temporary)
        self._files.append(staged)
        return staged

    def commit(self, *, replace: bool = False) -> None:
        """Give the files their names.

        Args:
            replace: take the place of files that exist; without it one that exists is an error
                and no name of this set stays.

        Raises:
            DestinationError: a file of that name exists.
            FileAccessError: the operating system refused.
        """
        for staged in self._files:
            staged.sync()
        published: list[StagedFile] = []
        try:
            for staged in self._files:
                _publish(staged, replace=replace)
                published.append(staged)
        except BaseException:
            if not replace:
                for staged in published:
                    _remove(staged.path)
            raise
        for folder in {os.path.dirname(staged.path) or "." for staged in self._files}:
            sync_folder(folder)
        self._files.clear()

    def abandon(self) -> None:
        """Remove what has been written and not committed."""
        while self._files:
            staged = self._files.pop()
            staged.close()
            _remove(staged.temporary)


def sync_folder(folder: str) -> None:
    """Make the names in a folder durable."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise file_error(error, folder) from error
    try:
        os.fsync(fd)
    except OSError as error:
        raise file_error(error, folder) from error
    finally:
        os.close(fd)


def _publish(staged: StagedFile, *, replace: bool) -> None:
    try:
        if replace:
            os.rename(staged.temporary, staged.path)
            return
        # A rename would replace what is there; a link fails instead.
        os.link(staged.temporary, staged.path)
    except FileExistsError as error:
        raise DestinationError("it exists already", path=staged.path) from error
    except OSError as error:
        raise file_error(error, staged.path) from error
    _remove(staged.temporary)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
