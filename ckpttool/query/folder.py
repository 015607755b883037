"""The checkpoints of a folder."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ckpttool.checkpoint.folder import (
    CheckpointFiles,
    by_step,
    folders_with_checkpoints,
    list_checkpoints,
)
from ckpttool.checkpoint.locate import graph_file_of
from ckpttool.checkpoint.named import checkpoint_name
from ckpttool.checkpoint.state import STATE_NAME
from ckpttool.checkpoint.wholeness import inspect_files
from ckpttool.errors import CkptError

if TYPE_CHECKING:
    from ckpttool.checkpoint.state import CheckpointState


@dataclass(frozen=True, slots=True)
class CheckpointRow:
    """A checkpoint in a folder.

    Attributes:
        name: its prefix, relative to the folder that was listed.
        latest: whether the folder's state file says it is the latest.
        saved: when it was saved, in seconds since 1970: by the state file, else by its index.
        step: the number at the end of its name; None without one.
        generation: `"V1"` or `"V2"`.
        tensors: how many it has, the object graph among them; None if unknown.
        bytes: size of its files.
        complete: whether the index is sound and all data shards are long enough.
        missing: what it lacks, in words; empty if it is complete.
        graph: whether it has an object graph.
    """

    name: str
    latest: bool
    saved: float
    step: int | None
    generation: str
    tensors: int | None
    bytes: int
    complete: bool
    missing: tuple[str, ...]
    graph: bool = False


def list_folder(folder: str) -> list[CheckpointRow]:
    """List the checkpoints in a folder, oldest step first; if it has none, those below it.

    Each one's index is read; no data shard is opened. A damaged checkpoint is listed as such.

    Raises:
        MissingFileError, FileAccessError: the folder cannot be read.
    """
    rows = _rows_in(folder)
    if rows:
        return rows
    for place in (folder, *folders_with_checkpoints(folder)):
        found = os.path.join(place, "variables") if graph_file_of(place) else place
        if found == folder or not os.path.isdir(found):
            continue
        scope = os.path.relpath(found, folder or os.curdir)
        rows += [replace(row, name=os.path.join(scope, row.name)) for row in _rows_in(found)]
    return rows


def _rows_in(folder: str) -> list[CheckpointRow]:
    saved = _saved_times(folder)
    return [_row(files, saved) for files in list_by_step(folder)]


def list_by_step(folder: str) -> list[CheckpointFiles]:
    """Return the files of the checkpoints in a folder, oldest step first.

    Raises:
        MissingFileError, FileAccessError: the folder cannot be read.
    """
    return sorted(list_checkpoints(folder), key=by_step)


def _row(files: CheckpointFiles, saved: dict[str, float]) -> CheckpointRow:
    whole = inspect_files(files)
    return CheckpointRow(
        name=files.name,
        latest=files.latest,
        saved=files.modified if files.shadowed else saved.get(files.name, files.modified),
        step=files.step,
        generation=files.generation,
        tensors=whole.tensors,
        bytes=files.size,
        complete=not whole.missing,
        missing=whole.missing,
        graph=whole.graph,
    )


def _saved_times(folder: str) -> dict[str, float]:
    """Return the times in the state file, if any, by name."""
    from ckpttool.checkpoint.state import read_state

    state: CheckpointState | None = None
    with suppress(CkptError):
        state = read_state(os.path.join(folder, STATE_NAME))
    if state is None:
        return {}
    paths = state.all_model_checkpoint_paths
    times = state.all_model_checkpoint_timestamps
    if len(times) != len(paths):
        return {}
    return dict(zip(map(checkpoint_name, paths), times, strict=True))
