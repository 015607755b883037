"""What a disk may hold after the power went.

A weak file system is assumed: bytes that were not synced may be missing, zero or cut; names that
were not synced with their folder may be there or not, each by itself. A rename happens as a whole.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.support.faults import Call

_ABSENT, _ZEROS, _CUT, _WRITTEN = "absent", "zeros", "cut", "written"
# How the bytes may look that were written and not synced.
WAYS = (_WRITTEN, _ABSENT, _ZEROS, _CUT)

Disk = Mapping[str, bytes | None]
"""Bytes by path; None for a folder."""


@dataclass
class _File:
    """A file, whatever names it has: what was written, and how much of it is safe."""

    data: bytearray = field(default_factory=bytearray)
    safe: int = 0

    def copy(self) -> _File:
        return _File(bytearray(self.data), self.safe)

    def after_crash(self, way: str) -> bytes:
        if way == _WRITTEN:
            return bytes(self.data)
        if way == _ABSENT:
            return bytes(self.data[: self.safe])
        if way == _CUT:
            return bytes(self.data[: (self.safe + len(self.data)) // 2])
        return bytes(self.data[: self.safe]) + bytes(len(self.data) - self.safe)


@dataclass(frozen=True)
class _Change:
    """A change to the names of a folder; `gone` is the name that a rename takes away."""

    name: str
    file: int | None
    gone: str = ""

    @property
    def folder(self) -> str:
        return os.path.dirname(self.name)


class Disks:
    """All that may be on the disk, at any moment of a log of calls.

    Args:
        start: what was there, all of it safe.
        log: the calls in order.
    """

    def __init__(self, start: Disk, log: Sequence[Call]) -> None:
        self._files: list[_File] = []
        self._names: dict[str, int | None] = {}
        for name, data in start.items():
            self._names[name] = None if data is None else self._new(bytearray(data))
        for file in self._files:
            file.safe = len(file.data)
        self._safe_names = dict(self._names)
        self._pending: list[_Change] = []
        self._log = log

    def states(self) -> Iterator[tuple[int, Disk]]:
        """Yield each state once for each number of calls that had been made."""
        yield from ((0, disk) for disk in self._now())
        for number, call in enumerate(self._log, 1):
            if self._apply(call):
                yield from ((number, disk) for disk in self._now())

    def last(self) -> Iterator[Disk]:
        """Yield the states after all calls."""
        for call in self._log:
            self._apply(call)
        yield from self._now()

    def _new(self, data: bytearray) -> int:
        self._files.append(_File(data))
        return len(self._files) - 1

    def _apply(self, call: Call) -> bool:
        """Let a call have its effect; return whether it had one."""
        name = call.name
        if name == "create":
            self._change(_Change(call.path, self._new(bytearray())))
        elif name in ("write", "pwrite"):
            self._file(call.path).data += call.data
        elif name == "ioctl" and call.data:
            self._file(call.path).data[:] = call.data
        elif name in ("link", "symlink"):  # what a link leads to is safe, as nobody writes to it
            self._change(_Change(call.target, self._names[call.path]))
        elif name in ("rename", "replace"):
            if self._names[call.path] == self._names.get(call.target):
                return False  # two names of one file: nothing happens
            self._change(_Change(call.target, self._names[call.path], call.path))
        elif name in ("unlink", "remove", "rmdir"):
            self._change(_Change(call.path, -1))
        elif name == "mkdir":
            self._change(_Change(call.path, None))
        elif name == "fsync":
            file = self._file(call.path)
            file.safe = len(file.data)
        elif name == "fsync_folder":
            folder = "" if call.path == "." else call.path
            done = [change for change in self._pending if change.folder == folder]
            self._pending = [change for change in self._pending if change.folder != folder]
            for change in done:
                _carry_out(change, self._safe_names)
        else:
            return False
        return True

    def _file(self, path: str) -> _File:
        number = self._names[path]
        assert number is not None
        return self._files[number]

    def _change(self, change: _Change) -> None:
        _carry_out(change, self._names)
        self._pending.append(change)

    def _now(self) -> Iterator[Disk]:
        # Where all bytes are safe there is one way for them to look.
        waiting = any(file.safe < len(file.data) for file in self._files)
        contents = [
            [file.after_crash(way) for file in self._files]
            for way in (WAYS if waiting else WAYS[:1])
        ]
        seen = set()
        for kept in _subsets(len(self._pending)):
            names = dict(self._safe_names)
            for at in kept:
                _carry_out(self._pending[at], names)
            present = [
                (name, number)
                for name, number in names.items()
                # Else its folder is not there.
                if "/" not in name or name.rpartition("/")[0] in names
            ]
            for data in contents:
                disk = {name: None if number is None else data[number] for name, number in present}
                key = frozenset(disk.items())
                if key not in seen:
                    seen.add(key)
                    yield disk


def _carry_out(change: _Change, names: dict[str, int | None]) -> None:
    if change.gone:
        names.pop(change.gone, None)
    if change.file == -1:
        names.pop(change.name, None)
    else:
        names[change.name] = change.file


def _subsets(count: int) -> Iterator[tuple[int, ...]]:
    """Yield which of so many changes are there: all sets of few, of many the likely ones."""
    everything = tuple(range(count))
    if count <= 4:
        for size in range(count, -1, -1):
            yield from itertools.combinations(everything, size)
        return
    for end in range(count, -1, -1):
        yield everything[:end]
    for at in everything:
        yield everything[:at] + everything[at + 1 :]
        yield (at,)
