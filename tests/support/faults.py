"""The file system calls of the code under test: counted, recorded, and any of them made to fail.

Only calls on what lies in one folder count. Calls that would wait for a disk do nothing, unless
that is asked for: what they promise is held to in tests/faults/test_crash_states.py.
"""

from __future__ import annotations

import builtins
import errno
import fcntl
import mmap
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

FICLONE = 0x40049409
# A path from an open folder on.
_ANCHOR = re.compile(r"/proc/self/fd/(\d+)(?:/(.*))?\Z", re.DOTALL)
_PATH_CALLS = (
    "stat",
    "lstat",
    "statvfs",
    "listdir",
    "scandir",
    "unlink",
    "remove",
    "mkdir",
    "rmdir",
    "chmod",
    "chown",
    "truncate",
)
_PAIR_CALLS = ("link", "rename", "replace", "symlink")
_FD_CALLS = (
    "close",
    "write",
    "pwrite",
    "fsync",
    "fdatasync",
    "fstat",
    "fchmod",
    "fchown",
    "ftruncate",
    "pread",
    "preadv",
    "read",
)
# What each call may say on a machine in trouble.
PLAUSIBLE: dict[str, tuple[int, ...]] = {
    "create": (errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EMFILE),
    "open": (errno.EACCES, errno.EMFILE),
    "open_folder": (errno.EIO, errno.EMFILE),
    "write": (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG, errno.EINTR),
    "fsync": (errno.EIO, errno.ENOSPC),
    "fsync_folder": (errno.EIO, errno.ENOSPC),
    "close": (errno.EIO,),
    "link": (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOSPC, errno.EROFS, errno.EACCES),
    "symlink": (errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EPERM),
    "rename": (errno.EXDEV, errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EIO, errno.EBUSY),
    "unlink": (errno.EROFS, errno.EIO),
    "mkdir": (errno.ENOSPC, errno.EACCES, errno.EROFS),
    "rmdir": (errno.ENOTEMPTY, errno.EIO),
    "stat": (errno.EIO,),
    "lstat": (errno.EACCES,),
    "fstat": (errno.EIO,),
    "statvfs": (errno.EIO, errno.ENOSYS),
    "listdir": (errno.EIO,),
    "scandir": (errno.EIO,),
    "fchmod": (errno.EPERM, errno.EROFS),
    "fchown": (errno.EPERM,),
    "chmod": (errno.EPERM, errno.EROFS),
    "chown": (errno.EPERM,),
    "ioctl": (errno.EOPNOTSUPP, errno.EXDEV, errno.EIO, errno.ENOSPC),
    "flock": (errno.ENOLCK,),
    "pread": (errno.EIO,),
    "preadv": (errno.EIO,),
    "mmap": (errno.ENODEV,),
}
# Calls after which a file system is not as it was.
CHANGES = frozenset(
    (
        *("create", "write", "pwrite", "ioctl", "link", "symlink", "rename", "replace"),
        *("unlink", "remove", "mkdir", "rmdir", "chmod", "fchmod"),
    )
)
# Calls that take away what was made.
REMOVALS = frozenset(("unlink", "remove", "rmdir"))


@dataclass(frozen=True, slots=True)
class Call:
    """A call on something in the folder.

    Attributes:
        number: counts from 1.
        name: of the function in `os`, or `create`, `open_folder`, `fsync_folder`, `mmap`, `ioctl`,
            `flock`.
        path: what it is about, relative to the folder.
        target: the second path of `link` and `rename`.
        data: what was written, or cloned.
    """

    number: int
    name: str
    path: str
    target: str = ""
    data: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Fault:
    """How a call ends otherwise than it would.

    Attributes:
        number: the error; 0 for none.
        short: how many bytes a write or read is cut to; -1 for as many as asked for.
        lost: whether a write says that it was done, and was not.
    """

    number: int = 0
    short: int = -1
    lost: bool = False


class System:
    """Stands between the code and the file system while it is entered.

    Args:
        root: the folder whose calls count.
        before: told of each call before it is made; may return how it fails.
        after: told of each call after it was made.
        clones: have `FICLONE` copy the bytes, as a file system that can clone would.
        links: whether hard links can be made.
        durable: wait for the disk.

    Attributes:
        calls: those made so far.
        failed: the numbers of those that failed.
        modes: the widest permissions that a file had while it was written to, by path.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        before: Callable[[Call], Fault | None] | None = None,
        after: Callable[[Call], None] | None = None,
        clones: bool = False,
        links: bool = True,
        durable: bool = False,
    ) -> None:
        self.root = os.path.realpath(root)
        self.calls: list[Call] = []
        self.failed: set[int] = set()
        self.modes: dict[str, int] = {}
        self._before = before
        self._after = after
        self._clones = clones
        self._links = links
        self._durable = durable
        self._true: list[tuple[Any, str, Any]] = []
        self._paths: dict[int, str] = {}
        self._folders: set[int] = set()
        self._asleep = False

    def __enter__(self) -> System:
        wrapped = [(os, name) for name in (*_PATH_CALLS, *_PAIR_CALLS, *_FD_CALLS, "open")]
        wrapped += [(fcntl, "flock"), (fcntl, "ioctl"), (mmap, "mmap"), (builtins, "open")]
        for module, name in wrapped:
            true = getattr(module, name)
            self._true.append((module, name, true))
            setattr(module, name, self._wrap(module, name, true))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        while self._true:
            module, name, true = self._true.pop()
            setattr(module, name, true)

    @property
    def open_files(self) -> list[str]:
        """Paths of the files that have been opened and not closed."""
        return list(self._paths.values())

    def _wrap(self, module: Any, name: str, true: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **more: Any) -> Any:
            if self._asleep:
                return true(*arguments, **more)
            found = self._describe(module, name, arguments, more)
            if found is None:
                return true(*arguments, **more)
            self.calls.append(found)
            fault = self._ask(found)
            if fault is not None and fault.number:
                self.failed.add(found.number)
                if found.name == "close":
                    self._do(found, true, arguments, more)
                raise OSError(fault.number, os.strerror(fault.number), found.path)
            if fault is not None and fault.lost:
                return len(found.data)
            if fault is not None and fault.short >= 0:
                arguments = _shortened(found.name, arguments, fault.short)
            try:
                return self._do(found, true, arguments, more)
            except BaseException:
                self.failed.add(found.number)
                raise
            finally:
                self._tell(found)

        return call

    def _ask(self, call: Call) -> Fault | None:
        if self._before is None:
            return None
        self._asleep = True
        try:
            return self._before(call)
        finally:
            self._asleep = False

    def _tell(self, call: Call) -> None:
        if self._after is None:
            return
        self._asleep = True
        try:
            self._after(call)
        finally:
            self._asleep = False

    def _do(self, call: Call, true: Callable[..., Any], arguments: Any, more: Any) -> Any:
        if call.name in ("fsync", "fsync_folder") and not self._durable:
            return None
        if call.name == "ioctl" and self._clones and arguments[1] == FICLONE:
            return self._clone(arguments[0], call.data)
        if call.name == "link" and not self._links:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), call.path)
        self._asleep = True
        try:
            result = true(*arguments, **more)
            if call.name in ("write", "pwrite"):
                mode = os.fstat(arguments[0]).st_mode & 0o777
                self.modes[call.path] = self.modes.get(call.path, 0) | mode
        finally:
            self._asleep = False
        if call.name in ("create", "open", "open_folder") and isinstance(result, int):
            self._paths[result] = call.path
            if call.name == "open_folder":
                self._folders.add(result)
        if call.name == "close":
            self._paths.pop(arguments[0], None)
            self._folders.discard(arguments[0])
        return result

    def _clone(self, target: int, data: bytes) -> int:
        self._asleep = True
        try:
            at = 0
            while at < len(data):
                at += os.pwrite(target, data[at:], at)
            return 0
        finally:
            self._asleep = False

    def _contents(self, fd: int) -> bytes:
        self._asleep = True
        try:
            return os.pread(fd, os.fstat(fd).st_size, 0)
        finally:
            self._asleep = False

    def _describe(self, module: Any, name: str, arguments: Any, more: Any) -> Call | None:
        if not arguments or (module is os and name in _PAIR_CALLS and len(arguments) < 2):
            return None
        subject = arguments[0]
        target = ""
        data = b""
        at = more.get("src_dir_fd", more.get("dir_fd"))
        path = self._paths.get(subject) if isinstance(subject, int) else self._inside(subject, at)
        if name in _PAIR_CALLS:
            at = more.get("dst_dir_fd", more.get("dir_fd"))
            target = self._inside(arguments[1], at) or ""
        if path is None and not target:
            return None
        if name == "open":
            name = self._kind_of_open(module, arguments, more)
        elif name == "fsync" and subject in self._folders:
            name = "fsync_folder"
        elif name in ("write", "pwrite"):
            data = bytes(arguments[1])
        elif name == "ioctl" and self._clones and arguments[1] == FICLONE:
            data = self._contents(arguments[2])
        return Call(len(self.calls) + 1, name, path or "", target, data)

    def _kind_of_open(self, module: Any, arguments: Any, more: Any) -> str:
        if module is builtins:
            mode = arguments[1] if len(arguments) > 1 else more.get("mode", "r")
            return "open" if set(mode) <= set("rbt") else "create"
        flags = arguments[1]
        if flags & os.O_DIRECTORY:
            return "open_folder"
        return "create" if flags & os.O_CREAT else "open"

    def _inside(self, path: Any, folder: int | None = None) -> str | None:
        """Return a path relative to the folder, None for one that is elsewhere.

        Args:
            path: what a call was given.
            folder: the open folder that it is relative to, if not the current one.
        """
        if not isinstance(path, (str, os.PathLike)):
            return None
        above = os.getcwd() if folder is None else self._paths.get(folder)
        if above is None:
            return None
        if match := _ANCHOR.match(os.fspath(path)):
            above = self._paths.get(int(match[1]), "/")
            path = match[2] or ""
        full = os.path.normpath(os.path.join(self.root, above, os.fspath(path)))
        if full != self.root and not full.startswith(self.root + os.sep):
            return None
        return full[len(self.root) + 1 :] or os.curdir


def _shortened(name: str, arguments: Any, size: int) -> Any:
    """Return the arguments of a call that reads or writes fewer bytes than asked for."""
    if name == "pread":
        return (arguments[0], min(size, arguments[1]), *arguments[2:])
    if name == "preadv":
        return (arguments[0], [memoryview(arguments[1][0])[:size]], *arguments[2:])
    return (arguments[0], memoryview(arguments[1])[:size], *arguments[2:])
