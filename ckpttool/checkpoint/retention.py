"""Which checkpoints of a folder a manager keeps, and what deleting one removes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ckpttool.bundle.naming import find_shards, index_path
from ckpttool.checkpoint.folder import step_of
from ckpttool.checkpoint.state import CheckpointState
from ckpttool.storage.source import file_error


@dataclass(frozen=True, slots=True)
class ActiveSet:
    """The checkpoints of a state file that may be deleted some day.

    Attributes:
        times: path -> when it was saved, oldest first.
        last_preserved: time of the last checkpoint that was kept for good.
        ahead: how many seconds the times in the file are ahead of the clock, if they are.
    """

    times: dict[str, float]
    last_preserved: float
    ahead: float


def active_set(state: CheckpointState, now: float) -> ActiveSet:
    """Return what TensorFlow's manager takes from a state file.

    A checkpoint without a time, or saved before the last one that was kept for good, is none that
    it will ever delete. Times of the future count as now.
    """
    paths, times = state.all_model_checkpoint_paths, state.all_model_checkpoint_timestamps
    preserved = min(state.last_preserved_timestamp, now)
    ahead = max([state.last_preserved_timestamp, *times]) - now
    active = {
        path: min(when, now)
        for path, when in zip(paths, times or [preserved] * len(paths), strict=False)
        if min(when, now) > preserved
    }
    return ActiveSet(active, preserved, ahead)


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
    keep_every_steps: int | None = None,
) -> Sweep:
    """Return what TensorFlow's manager would do next.

    Args:
        active: path -> time, in seconds since 1970, oldest first.
        last_preserved: time of the last checkpoint that was kept for good.
        max_to_keep: how many stay; None for all.
        keep_every_hours: of those that do not, keep one for good after each time of this length.
        keep_every_steps: of those that do not, keep for good whose number is a multiple of this.
            TensorFlow has nothing like it.
    """
    kept = dict(active)
    deleted, preserved = [], []
    while max_to_keep is not None and len(kept) > max_to_keep:
        path = next(iter(kept))
        when = kept.pop(path)
        step = step_of(path)
        if keep_every_hours and when - keep_every_hours * 3600 >= last_preserved:
            last_preserved = when
            preserved.append(path)
        elif keep_every_steps and step is not None and step % keep_every_steps == 0:
            preserved.append(path)
        else:
            deleted.append(path)
    return Sweep(kept, tuple(deleted), tuple(preserved), last_preserved)


def delete_checkpoint(prefix: str, shards: Sequence[str] | None = None) -> None:
    """Delete the files of a checkpoint, the index first; what is missing is no error.

    Args:
        prefix: of the checkpoint.
        shards: its data shards, if they are known; the folder is listed to find them otherwise.

    Raises:
        FileAccessError: a file cannot be deleted.
    """
    for path in (index_path(prefix), *(find_shards(prefix) if shards is None else shards)):
        try:
            with suppress(FileNotFoundError, NotADirectoryError):
                os.unlink(path)
        except (OSError, ValueError) as error:
            raise file_error(error, path) from error
