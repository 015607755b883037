"""Which checkpoints of a folder are kept, and what deleting one removes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from ckpttool.bundle.naming import find_shards, index_path
from ckpttool.storage.source import file_error


@dataclass(frozen=True, slots=True)
class Sweep:
    """What a sweep does.

    Attributes:
        active: what is kept and may go later: path -> time, oldest first.
        deleted: what goes, in that order.
        preserved: what is kept for good, and no longer listed.
        last_preserved: time of the last checkpoint that was kept for good.
    """

    active: dict[str, float]
    deleted: tuple[str, ...]
    preserved: tuple[str, ...]
    last_preserved: float


def plan_sweep(
    active: Mapping[str, float],
    last_preserved: float,
    *,
    max_to_keep: int | None,
    keep_every_hours: float | None = None,
) -> Sweep:
    """Return what TensorFlow's manager would do next.

    Args:
        active: path -> time, in seconds since 1970, oldest first.
        last_preserved: time of the last checkpoint that was kept for good.
        max_to_keep: how many stay; None for all.
        keep_every_hours: of those that do not, keep one for good after each time of this length.
    """
    kept = dict(active)
    deleted, preserved = [], []
    while max_to_keep is not None and len(kept) > max_to_keep:
        path = next(iter(kept))
        when = kept.pop(path)
        if keep_every_hours and when - keep_every_hours * 3600 >= last_preserved:
            last_preserved = when
            preserved.append(path)
        else:
            deleted.append(path)
    return Sweep(kept, tuple(deleted), tuple(preserved), last_preserved)


def delete_checkpoint(prefix: str) -> None:
    """Delete the files of a checkpoint, the index first; what is missing is no error.

    Raises:
        FileAccessError: a file cannot be deleted.
    """
    for path in (index_path(prefix), *find_shards(prefix)):
        try:
            with suppress(FileNotFoundError, NotADirectoryError):
                os.unlink(path)
        except (OSError, ValueError) as error:
            raise file_error(error, path) from error
