"""The files of the checkpoints that go, and how many bytes deleting them frees."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from ckpttool.checkpoint.folder import CheckpointFiles
from ckpttool.storage.source import Inode, inode_of


def freed_bytes(checkpoints: Sequence[CheckpointFiles]) -> list[int]:
    """Return how many bytes are freed by deleting each of some checkpoints, one after the other.

    A file is freed with its last name: one that others have as well, in whatever folder, frees
    nothing. Nor does a symbolic link, since what it leads to stays.
    """
    left: Counter[Inode] = Counter()
    freed = []
    for files in checkpoints:
        total = 0
        for path in files_of(files):
            with suppress(OSError, ValueError):
                status = os.lstat(path)
                if not stat.S_ISREG(status.st_mode):
                    continue
                inode = inode_of(status)
                left[inode] += 1
                if left[inode] == status.st_nlink:
                    total += status.st_size
        freed.append(total)
    return freed


def files_of(files: CheckpointFiles) -> tuple[str, ...]:
    """Return the files of a V2 checkpoint, in the order in which they are deleted."""
    return (*((files.index,) if files.index is not None else ()), *files.shards)
