"""The checkpoints of a folder."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ckpttool.bundle.index import BundleIndex
from ckpttool.bundle.naming import shard_path
from ckpttool.checkpoint.folder import (
    CheckpointFiles,
    by_step,
    folders_with_checkpoints,
    list_checkpoints,
)
from ckpttool.checkpoint.locate import graph_file_of
from ckpttool.checkpoint.named import checkpoint_name
from ckpttool.checkpoint.state import STATE_NAME
from ckpttool.errors import CkptError
from ckpttool.objects.keys import GRAPH_KEY

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
    inspect = _inspect if files.generation == "V2" else _inspect_legacy
    tensors, missing, graph = inspect(files)
    return CheckpointRow(
        name=files.name,
        latest=files.latest,
        saved=files.modified if files.shadowed else saved.get(files.name, files.modified),
        step=files.step,
        generation=files.generation,
        tensors=tensors,
        bytes=files.size,
        complete=not missing,
        missing=missing,
        graph=graph,
    )


def _inspect(files: CheckpointFiles) -> tuple[int | None, tuple[str, ...], bool]:
    """Return how many tensors a checkpoint has, what it lacks, and whether it has a graph."""
    try:
        index = BundleIndex(files.prefix)
        needed: dict[int, int] = {}
        for key, entry in index.entries.items():
            parts = [part for _, part in index.slice_entries(key)] if entry.slices else [entry]
            for part in parts:
                needed[part.shard_id] = max(needed.get(part.shard_id, 0), part.offset + part.size)
    except CkptError as error:
        error.path = None
        return None, (f"a sound index ({error})",), False
    missing = []
    for shard_id in sorted(needed):
        path = shard_path(files.prefix, shard_id, index.header.num_shards)
        name = os.path.basename(path)
        size = None
        with suppress(OSError):
            size = os.stat(path).st_size
        if size is None:
            missing.append(name)
        elif size < needed[shard_id]:
            missing.append(f"{needed[shard_id] - size} bytes at the end of {name}")
    return len(index.entries), tuple(missing), GRAPH_KEY in index.entries


def _inspect_legacy(files: CheckpointFiles) -> tuple[int | None, tuple[str, ...], bool]:
    """Do the same for format V1."""
    from ckpttool.legacy.reader import LegacyReader

    missing = tuple(os.path.basename(path) for path in files.missing())
    try:
        with LegacyReader(files.prefix, files.files) as reader:
            unsound = tuple(
                f"a sound description of its tensors ({error})" for error in reader.damaged.values()
            )
            return len(reader.entries), missing + unsound[:1], False
    except CkptError as error:
        return None, (*missing, f"a sound description of its tensors ({error})"), False


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
