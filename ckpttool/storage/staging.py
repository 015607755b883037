"""Writing files that become visible together, or not at all.

Each file is written under a temporary name beside its destination:

    ckpt-3.index  ->  .ckpt-3.index.9f86d081884c7d65.ckpt-tmp

Whoever reads a checkpoint starts from its index. So `commit` makes all bytes durable, then gives
the other files their names and makes those durable, and only then the last one, the index, its: in
one step, which is the only one that a reader can notice.

The files of a V1 checkpoint have no index; readers take what names there are for all of it. There
the last name is claimed first, by an empty file, with which no reader opens the others.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Callable, Iterable
from types import TracebackType

from ckpttool.errors import CkptError, DestinationError, FileAccessError
from ckpttool.storage.folders import NOT_SUPPORTED, sync_folder
from ckpttool.storage.source import RandomAccessFile, file_error

TEMPORARY_SUFFIX = ".ckpt-tmp"

# Linux: share the blocks of a file.
_FICLONE = 0x40049409


class StagedFile:
    """A file under its temporary name; made by the methods of `StagedFiles`.

    Attributes:
        path: what it will be called.
        temporary: what it is called now.
        size: bytes written so far, or of the file that it is a link to.
    """

    def __init__(self, path: str, temporary: str) -> None:
        self.path = path
        self.temporary = temporary
        self.size = 0
        self._fd = -1
        self._synced = False

    def open(self, flags: int, mode: int) -> None:
        """Open the file under its temporary name."""
        self._fd = os.open(self.temporary, flags, mode)

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

    def take_permissions(self, like: str) -> None:
        """Give the file the mode of another and, where we may, its owner.

        Raises:
            FileAccessError: the operating system refused, and others may read what only the owner
                of the other file may.
        """
        try:
            status = os.stat(like)
            with contextlib.suppress(OSError):
                os.chown(self.temporary, status.st_uid, status.st_gid)
            try:
                os.chmod(self.temporary, stat.S_IMODE(status.st_mode))
            except PermissionError:
                # File systems without modes show one for all files.
                if os.stat(self.temporary).st_mode & ~status.st_mode & 0o777:
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
                fd = os.open(self.temporary, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
                size = os.fstat(fd).st_size
            finally:
                os.close(fd)
        except OSError as error:
            raise file_error(error, self.path) from error
        if size != self.size:
            raise FileAccessError(
                f"{self.size} bytes were written, but the file has {size}", path=self.path
            )
        self._synced = True

    def close(self) -> None:
        """Close the file without waiting for anything."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with contextlib.suppress(OSError):
                os.close(fd)


class StagedFiles:
    """A set of files that appear together.

    As a context manager it removes the temporary files unless `commit` was reached.
    """

    def __init__(self) -> None:
        self._files: list[StagedFile] = []
        self._spare: list[str] = []
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
        temporary = self.temporary_name(path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        # Remembered before it is made: an interrupt may come right after that.
        staged = StagedFile(path, temporary)
        self._files.append(staged)
        try:
            staged.open(flags, mode)
        except OSError as error:
            self._files.remove(staged)
            raise file_error(error, path) from error
        except ValueError as error:  # a NUL, or text that no file system can spell
            self._files.remove(staged)
            raise FileAccessError(str(error), path=path) from error
        return staged

    def link(self, source: str, path: str) -> StagedFile | None:
        """Stage a second name for a file.

        Args:
            source: the file; it is not changed.
            path: what the second name will be.

        Returns:
            The file, or None where the file system cannot have links between the two places.
        """
        temporary = self.temporary_name(path)
        staged = StagedFile(path, temporary)
        self._files.append(staged)
        try:
            os.link(source, temporary)
        except OSError as error:
            self._files.remove(staged)
            if error.errno in (*NOT_SUPPORTED, errno.EPERM, errno.EXDEV, errno.EMLINK):
                return None
            raise file_error(error, path) from error
        try:
            staged.size = os.stat(temporary).st_size
        except OSError as error:
            raise file_error(error, path) from error
        return staged

    def clone(self, source: str, path: str) -> StagedFile | None:
        """Stage a copy of a file that shares its blocks until one of the two is changed.

        Args:
            source: the file; it is not changed.
            path: what the copy will be called.

        Returns:
            The file, or None where the file system cannot do this.
        """
        staged = self.create(path, mode=0o600)
        with RandomAccessFile(source) as file:
            try:
                fcntl.ioctl(staged.fileno(), _FICLONE, file.fileno())
            except OSError:
                staged.close()
                remove_quietly(staged.temporary)
                self._files.remove(staged)
                return None
            staged.size = file.size
        return staged

    @property
    def last(self) -> StagedFile:
        """The file created last, whose name makes the set visible."""
        return self._files[-1]

    def temporary_name(self, path: str) -> str:
        """Return the name that something to be called `path` has until then."""
        folder, name = os.path.split(path)
        return os.path.join(folder, f".{name}.{self._tag}{TEMPORARY_SUFFIX}")

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
        """
        for staged in self._files:
            staged.sync()
        *others, last = self._files
        published: list[StagedFile] = []
        try:
            _give(others, _publish, published)
            self._sync_folders()
            if before_last is not None:
                before_last()
            if replace_last:
                _rename(last)
            else:
                _publish(last)
        except BaseException:
            # An interrupt may come just after the step that counts: then all of them stay.
            if not _has_name(last):
                _take_back(published)
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
        name = _rename if replace else _publish
        claim = self._claim(last.path)
        claimed: list[StagedFile] = []
        published: list[StagedFile] = []
        try:
            _give([claim], name, claimed)
            self._sync_folders()
            _give(others, name, published)
            self._sync_folders()
            if before_last is not None:
                before_last()
            if not _has_name(claim):
                raise DestinationError("somebody else took that name", path=last.path)
            _rename(last)
        except BaseException:
            if not _has_name(last):
                _take_back(published)
                with contextlib.suppress(CkptError):
                    # The others must not come back without it after a crash.
                    self._sync_folders()
                    _take_back(claimed)
            raise
        self._tidy()

    def _claim(self, path: str) -> StagedFile:
        """Make the empty file that holds a name until the one to be called so is due."""
        claim = StagedFile(path, self.spare_name(path + ".claim"))
        try:
            claim.open(os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise file_error(error, path) from error
        claim.close()
        return claim

    def _tidy(self) -> None:
        """Remove the temporary names when the files have their own."""
        for staged in self._files:
            remove_quietly(staged.temporary)
        self._sync_folders()
        self._files.clear()

    def abandon(self) -> None:
        """Remove what has been written and not committed."""
        for staged in self._files:
            staged.close()
            remove_quietly(staged.temporary)
        self._files.clear()
        for name in self._spare:
            remove_quietly(name)

    def spare_name(self, path: str) -> str:
        """Return a temporary name for something else, which is removed in the end."""
        self._spare.append(self.temporary_name(path))
        return self._spare[-1]

    def _sync_folders(self) -> None:
        for folder in {os.path.dirname(staged.path) or os.curdir for staged in self._files}:
            sync_folder(folder)


def _has_name(staged: StagedFile) -> bool:
    """Tell whether a file has its final name already."""
    try:
        return os.path.samefile(staged.temporary, staged.path)
    except FileNotFoundError:
        return not os.path.lexists(staged.temporary)
    except OSError:
        return False


def _give(
    files: Iterable[StagedFile], name: Callable[[StagedFile], None], named: list[StagedFile]
) -> None:
    """Give files their names, and add each to a list before: an interrupt may come right after."""
    for staged in files:
        named.append(staged)
        try:
            name(staged)
        except DestinationError:
            named.pop()  # what is there may be a second name of the same file, but is not ours
            raise


def _take_back(published: Iterable[StagedFile]) -> None:
    """Remove those names that files have got so far."""
    for staged in published:
        if _has_name(staged):
            remove_quietly(staged.path)


def _publish(staged: StagedFile) -> None:
    """Give a file its name, which must be free; the temporary name stays until the set is done."""
    try:
        # A rename would replace what is there; a link fails instead.
        os.link(staged.temporary, staged.path)
    except FileExistsError as error:
        raise DestinationError("it exists already", path=staged.path) from error
    except OSError as error:
        if error.errno not in (*NOT_SUPPORTED, errno.EPERM, errno.EMLINK):
            raise file_error(error, staged.path) from error
        # No links here: the next best thing.
        if os.path.lexists(staged.path):
            raise DestinationError("it exists already", path=staged.path) from error
        _rename(staged)


def _rename(staged: StagedFile) -> None:
    try:
        os.rename(staged.temporary, staged.path)
    except OSError as error:
        raise file_error(error, staged.path) from error


def remove_quietly(path: str) -> None:
    """Remove a file; that it cannot be removed is no matter."""
    with contextlib.suppress(OSError):
        os.unlink(path)
