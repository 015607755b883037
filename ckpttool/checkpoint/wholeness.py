"""Whether a checkpoint has all of its files, as its index and the sizes of the files tell."""

from __future__ import annotations

import os
import stat
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass

from ckpttool.bundle.index import BundleIndex
from ckpttool.bundle.naming import shard_path, split_shard_path
from ckpttool.checkpoint.folder import CheckpointFiles
from ckpttool.errors import CkptError
from ckpttool.objects.keys import GRAPH_KEY
from ckpttool.table.format import FOOTER_SIZE


@dataclass(frozen=True, slots=True)
class Wholeness:
    """What a checkpoint has and lacks.

    Attributes:
        tensors: how many it has, the object graph among them; None if unknown.
        missing: what it lacks, in words; empty if it is complete.
        graph: whether it has an object graph.
    """

    tensors: int | None
    missing: tuple[str, ...]
    graph: bool = False


def inspect_files(files: CheckpointFiles) -> Wholeness:
    """Read the index of a checkpoint and compare it with the sizes of the data shards."""
    return _inspect(files) if files.generation == "V2" else _inspect_legacy(files)


def has_all_files(files: CheckpointFiles) -> bool:
    """Tell whether a V2 checkpoint has an index and a whole set of data shards; none is opened."""
    if files.index is None:
        return False
    try:
        index = os.stat(files.index)
    except (OSError, ValueError):
        return False
    if not stat.S_ISREG(index.st_mode) or index.st_size < FOOTER_SIZE:
        return False
    counts = Counter(split[2] for path in files.shards if (split := split_shard_path(path)))
    return any(present == count for count, present in counts.items())


def _inspect(files: CheckpointFiles) -> Wholeness:
    try:
        index = BundleIndex(files.prefix)
        needed: dict[int, int] = {}
        for key, entry in index.entries.items():
            parts = [part for _, part in index.slice_entries(key)] if entry.slices else [entry]
            for part in parts:
                needed[part.shard_id] = max(needed.get(part.shard_id, 0), part.offset + part.size)
    except CkptError as error:
        error.path = None
        return Wholeness(None, (f"a sound index ({error})",))
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
    return Wholeness(len(index.entries), tuple(missing), GRAPH_KEY in index.entries)


def _inspect_legacy(files: CheckpointFiles) -> Wholeness:
    """Do the same for format V1."""
    from ckpttool.legacy.reader import LegacyReader

    missing = tuple(os.path.basename(path) for path in files.missing())
    try:
        with LegacyReader(files.prefix, files.files) as reader:
            unsound = tuple(
                f"a sound description of its tensors ({error})" for error in reader.damaged.values()
            )
            return Wholeness(len(reader.entries), missing + unsound[:1])
    except CkptError as error:
        return Wholeness(None, (*missing, f"a sound description of its tensors ({error})"))
