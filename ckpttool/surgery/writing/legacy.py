"""Writing a plan as a checkpoint of format V1.

Every value is written anew: each record has the name of its tensor in it. A single file appears in
one step, and so do several: the first of them gets its name last, and until then an empty file has
it, with which no reader opens the others. A set that takes the place of a whole one is written
under another count, as bundles are.
"""

from __future__ import annotations

import os
from functools import partial

from ckpttool.checkpoint.folder import checkpoint_stem
from ckpttool.checkpoint.named import checkpoint_name
from ckpttool.errors import DestinationError, SurgeryError
from ckpttool.legacy.naming import shard_path
from ckpttool.legacy.writer import LegacyWriter
from ckpttool.storage.work import Progress
from ckpttool.surgery.plan import Plan, PlannedTensor
from ckpttool.surgery.writing.legacy_sets import OldFiles, old_files
from ckpttool.surgery.writing.payloads import check_slices, payload_shapes
from ckpttool.surgery.writing.receipt import ShardReceipt
from ckpttool.surgery.writing.spread import Recoding, spread
from ckpttool.surgery.writing.watch import Watch
from ckpttool.tensor.shape import element_count
from ckpttool.tensor.slices import TensorSlice
from ckpttool.tensor.values import Array


def write_legacy(
    plan: Plan,
    prefix: str,
    how: Recoding,
    *,
    force: bool,
    on_progress: Progress | None = None,
) -> tuple[tuple[ShardReceipt, ...], list[str]]:
    """Write a plan as a V1 checkpoint; the caller has locked the folder.

    Args:
        plan: what to write, name-based.
        prefix: path of the one file, or what the names of several begin with; that of the source
            to write in place.
        how: the layout; one file becomes several where it asks for more than one.
        force: replace what V1 checkpoints of that prefix there are, whole or torn.
        on_progress: told bytes written and bytes to write, as the values take them in memory.

    Returns:
        The files, and notes for the user.

    Raises:
        SurgeryError: an object graph cannot be stored, or the source changed meanwhile.
        InvalidTensorError: a tensor is of a dtype or size that the format does not have.
        DestinationError: a file of such a name exists.
        CkptError: a file could not be read or written.
    """
    watch = Watch(plan)
    old = old_files(plan, prefix)
    with (
        watch.guarding(),
        _filled_writer(plan, prefix, how, old, force=force, on_progress=on_progress) as writer,
    ):
        files = writer.finish(before_last=watch.check_last)
    notes = old.retire(writer.paths) if force else []
    return tuple(ShardReceipt(path, size, "rewritten") for path, size in files), notes


def check_legacy(plan: Plan, prefix: str, how: Recoding, *, force: bool) -> None:
    """Check all that can be checked before values are read; arguments and errors: `write_legacy`.

    Only the sizes of string tensors are not known before.
    """
    _filled_writer(plan, prefix, how, old_files(plan, prefix), force=force, on_progress=None)


def _filled_writer(
    plan: Plan,
    prefix: str,
    how: Recoding,
    old: OldFiles,
    *,
    force: bool,
    on_progress: Progress | None,
) -> LegacyWriter:
    """Return a writer that has been told of all tensors and has written nothing."""
    source = plan.source
    if plan.graph is not None:
        raise SurgeryError("format V1 has no object graph; make it name-based", path=source.prefix)
    if not plan.tensors:
        raise SurgeryError("nothing would be left to write", path=source.prefix)
    check_slices(plan)
    sizes = [_sizes(tensor, join=how.join_slices) for tensor in plan.tensors]
    progress = _Bytes(on_progress, sum(map(sum, sizes)))
    places, count = spread(sizes, how, source.reader.num_shards)
    # TensorFlow numbers the files of a sharded Saver even if there is only one.
    numbered = source.generation == "V1" and source.location.files != (source.prefix,)
    single = count == 1 and not (numbered and how.shards is None)
    while force and not single and count in old.taken:
        count += 1
    _check_names(plan, prefix, None if single else count, old, force=force)
    writer = LegacyWriter(
        prefix, num_shards=None if single else count, force=force, like=source.reader.permissions
    )
    for tensor, shard_ids in zip(plan.tensors, places, strict=True):
        shapes = payload_shapes(tensor, join=how.join_slices)
        for (part, _), size, shard_id in zip(
            shapes, _sizes(tensor, join=how.join_slices), shard_ids, strict=True
        ):
            read = partial(_read, plan, tensor, part, size, progress)
            dtype, shape = tensor.entry.dtype, tensor.entry.shape
            if part is None:
                writer.add(tensor.key, dtype, shape, read, shard_id=shard_id)
            else:
                writer.add_slice(tensor.key, dtype, shape, part, read, shard_id=shard_id)
    return writer


def _check_names(plan: Plan, prefix: str, count: int | None, old: OldFiles, *, force: bool) -> None:
    """Refuse names under which something else than these files would be found.

    Raises:
        DestinationError: there are such files, or the prefix is the name of one of several files.
    """
    name = os.path.basename(prefix)
    if checkpoint_stem(name) != name or checkpoint_name(name) != name:
        raise DestinationError(
            f"that is the name of one of several files; '{checkpoint_name(checkpoint_stem(name))}' "
            "is what they would have in common",
            path=prefix,
        )
    own = {os.path.realpath(path) for path in plan.source.location.files}
    in_place = prefix == plan.source.prefix
    paths = [prefix] if count is None else [shard_path(prefix, at, count) for at in range(count)]
    if in_place and (len(paths) > 1 or os.path.realpath(paths[0]) not in own):
        raise DestinationError("one file is replaced in one step by one of its name", path=prefix)
    for path in paths:
        if not os.path.lexists(path) or (in_place and os.path.realpath(path) in own):
            continue
        if os.path.realpath(path) in own:
            raise DestinationError("it shares a file with the source", path=path)
        if not (force and old.replaceable(path, count)):
            torn = old.replaceable(path, count)
            why = "a checkpoint that is not complete" if torn else "it is no checkpoint"
            raise DestinationError(f"it exists already; {why}", path=path)


class _Bytes:
    def __init__(self, on_progress: Progress | None, total: int) -> None:
        self._done = 0
        self._total = total
        self._on_progress = on_progress

    def advance(self, size: int) -> None:
        self._done += size
        if self._on_progress is not None:
            self._on_progress(self._done, max(self._total, self._done))


def _sizes(tensor: PlannedTensor, *, join: bool) -> list[int]:
    """Return how much of a file each payload fills, roughly for strings."""
    item = tensor.entry.dtype.size or 1
    return [item * element_count(shape) for _, shape in payload_shapes(tensor, join=join)]


def _read(
    plan: Plan, tensor: PlannedTensor, part: TensorSlice | None, size: int, progress: _Bytes
) -> Array:
    reader = plan.source.reader
    value = (
        reader.read(tensor.source_key)
        if part is None
        else reader.read_slice(tensor.source_key, part)
    )
    progress.advance(size)
    return value
