"""Temporary files of killed runs, as opposed to those of runs still at work.

All temporary names of a set of files contain its tag. A lock file is made before the first of them
and removed after the last:

    .ckpt-3.index.9f86d081884c7d65.ckpt-tmp
    .9f86d081884c7d65.ckpt-lock

A running process holds the lock; when it ends, in whatever way, the operating system releases it.
So a tag whose lock is free belongs to a dead run. Without a lock file (as on a file system without
locks) a set counts as dead after a day without a change.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from ckpttool.storage.folders import OpenFolder
from ckpttool.storage.source import inode_of
from ckpttool.storage.system import fcntl
from ckpttool.storage.temporary import TEMPORARY_SUFFIX, split_temporary, stands_for_part

LOCK_SUFFIX = ".ckpt-lock"

_LOCK = re.compile(rf"\.([0-9a-f]{{16}}){re.escape(LOCK_SUFFIX)}\Z")
# What is added to the name of a checkpoint for a file of it, and to that for what stands for it.
_MEMBER = re.compile(
    r"(?:\.index|\.meta|\.data-\d{5,}-of-\d{5,}|-\d{5}-of-\d{5})?(?:\.old|\.claim)?\Z"
)
_ABANDONED = 86400.0


def lock_tag(name: str) -> str | None:
    """Return the tag of the set whose lock file has this name; None for another name."""
    match = _LOCK.match(name)
    return match[1] if match else None


class SetLock:
    """The lock of a set of files in one folder, held from `acquire` until `release`.

    Where the file system has no locks there is no lock file either.

    Args:
        folder: the folder.
        tag: of the set.
    """

    def __init__(self, folder: OpenFolder, tag: str) -> None:
        self._folder = folder
        self._name = f".{tag}{LOCK_SUFFIX}"
        self._fd = -1
        self._held = False

    def __del__(self) -> None:
        self._close()  # the next run that writes there removes the file

    def acquire(self) -> None:
        """Make the lock file and lock it.

        Raises:
            OSError: the file cannot be made.
        """
        self._held = True  # set first: an interrupt may come right after the file is made
        while True:
            self._fd = self._folder.create(self._name, 0o600)
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX)
            except OSError:
                self.release()
                return
            if self._is_there():
                return
            self._close()  # somebody removed it as that of a dead run

    def release(self, *, remove: bool = True) -> None:
        """Release the lock; the folder must still be open.

        Args:
            remove: remove the lock file; not where files of the set could not be removed.
        """
        if self._held:
            if remove:
                self._folder.remove(self._name)
            self._held = False  # not before: an interrupt may come between
        self._close()

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with suppress(OSError):
                os.close(fd)

    def _is_there(self) -> bool:
        found = self._folder.status(self._name)
        return found is not None and os.path.samestat(found, os.fstat(self._fd))


def clean_up(*steps: Callable[[], object]) -> None:
    """Take steps that release something, in order; each of them may be taken twice.

    An interrupt does not leave anything behind: the interrupted step is taken once more, then the
    others.
    """
    for at, step in enumerate(steps):
        try:
            step()
        except BaseException:
            for each in steps[at:]:
                each()
            raise


def destination_of(name: str) -> str:
    """Return the name of the checkpoint that a file of this name is part of, or else the name."""
    for at in range(1, len(name)):
        if name[at] in ".-" and _MEMBER.match(name, at):
            return name[:at]
    return name


@dataclass(frozen=True, slots=True)
class DeadSet:
    """The temporary files of a killed run.

    Attributes:
        begun: when its lock was made, in ns.
        names: stem of each file's final name -> its temporary name.
    """

    begun: int
    names: dict[str, str]


def dead_sets(folder: OpenFolder, destination: str) -> list[DeadSet]:
    """Return what runs known to be dead left behind for a destination.

    Args:
        folder: the folder.
        destination: name of a checkpoint, or of a single file, in it.
    """
    found = []
    for tag, members in _sets(folder).items():
        names = {stem: name for name, stem in members}
        if any(_belongs(stem, destination) for stem in names):
            with suppress(OSError), _lock_of_dead(folder, f".{tag}{LOCK_SUFFIX}") as fd:
                found.append(DeadSet(os.fstat(fd).st_mtime_ns, names))
    return found


def clear_leftovers(folder: OpenFolder, destinations: Collection[str], own: str = "") -> None:
    """Remove what dead runs left behind for the same destinations, as far as possible.

    Args:
        folder: the folder.
        destinations: names of checkpoints or of single files in it.
        own: the tag of the set that asks.
    """
    sets = _sets(folder)
    sets.pop(own, None)
    for tag, members in sets.items():
        wanted = any(_belongs(stem, each) for _, stem in members for each in destinations)
        if wanted or not members:  # a run may die before it has made any file
            with _if_dead(folder, tag, [name for name, _ in members]) as dead:
                for name, _ in members if dead else ():
                    _remove(folder, name)


@contextmanager
def _if_dead(folder: OpenFolder, tag: str, names: list[str]) -> Iterator[bool]:
    """Tell whether the run that had a tag is dead; if so, remove its lock file at the end."""
    lock = f".{tag}{LOCK_SUFFIX}"
    with ExitStack() as held:
        try:
            held.enter_context(_lock_of_dead(folder, lock))
        except FileNotFoundError:
            yield all(_is_abandoned(folder, name) for name in names)
            return
        except OSError:
            yield False
            return
        yield True
        folder.remove(lock)


@contextmanager
def _lock_of_dead(folder: OpenFolder, name: str) -> Iterator[int]:
    """Hold the lock of a run that is dead; raises `OSError` if it lives or that is not known."""
    fd = folder.open(name, write=True)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield fd
    finally:
        with suppress(OSError):
            os.close(fd)


def _sets(folder: OpenFolder) -> dict[str, list[tuple[str, str]]]:
    """Return the temporary names in a folder and the stems in them, by tag."""
    sets: dict[str, list[tuple[str, str]]] = {}
    try:
        names = folder.names()
    except OSError:
        return sets
    for name in names:
        if name.endswith(TEMPORARY_SUFFIX):
            found = split_temporary(name)
            if found:
                sets.setdefault(found[1], []).append((name, found[0]))
        elif name.endswith(LOCK_SUFFIX) and (match := _LOCK.match(name)):
            sets.setdefault(match[1], [])
    return sets


def _is_abandoned(folder: OpenFolder, name: str) -> bool:
    """Tell whether nothing has happened to a file for a long time."""
    try:
        status = folder.status(name)
    except OSError:
        return False
    # Not mtime: a hard link shares that of the original file.
    return status is not None and time.time() - status.st_ctime > _ABANDONED


def _belongs(stem: str, destination: str) -> bool:
    """Tell whether the stem of a temporary name is that of a file of a destination."""
    if stem.startswith(destination) and _MEMBER.match(stem, len(destination)):
        return True
    return stands_for_part(stem, destination)


def _remove(folder: OpenFolder, name: str) -> None:
    """Remove a file, or a folder of one's own with all that is in it."""
    with suppress(OSError):
        status = folder.status(name)
        if status is None or not stat.S_ISDIR(status.st_mode):
            folder.remove(name)
        elif status.st_uid == os.geteuid():
            folder.remove_tree(name, inode_of(status))
