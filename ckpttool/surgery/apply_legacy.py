"""Writing a plan as a checkpoint of format V1.

Every value is written anew: each record has the name of its tensor in it. A single file appears in
one step; several files are a checkpoint once the last one is there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ckpttool.errors import SurgeryError
from ckpttool.legacy.writer import LegacyWriter
from ckpttool.surgery.payloads import payload_shapes
from ckpttool.surgery.plan import Plan, PlannedTensor
from ckpttool.surgery.receipt import ShardReceipt
from ckpttool.surgery.spread import Recoding, spread
from ckpttool.surgery.watch import Watch
from ckpttool.tensor.shape import element_count
from ckpttool.tensor.slices import TensorSlice
from ckpttool.tensor.values import Array

OnProgress = Callable[[int, int], None]


def write_legacy(
    plan: Plan,
    prefix: str,
    how: Recoding,
    *,
    force: bool,
    on_progress: OnProgress | None = None,
) -> tuple[ShardReceipt, ...]:
    """Write a plan as a V1 checkpoint; the caller has locked the folder.

    Args:
        plan: what to write, name-based.
        prefix: path of the one file, or what the names of several begin with.
        how: the layout; one file becomes several where it asks for more than one.
        force: replace one file that exists; several files cannot be replaced in one step.
        on_progress: told bytes written and bytes to write, as the values take them in memory.

    Raises:
        SurgeryError: an object graph cannot be stored, or the source changed meanwhile.
        InvalidTensorError: a tensor is of a dtype or size that the format does not have.
        DestinationError: a file of such a name exists.
        CkptError: a file could not be read or written.
    """
    if plan.graph is not None:
        raise SurgeryError(
            "format V1 has no object graph; make it name-based", path=plan.source.prefix
        )
    progress = _Progress(on_progress)
    sizes = [_sizes(tensor, join=how.join_slices) for tensor in plan.tensors]
    progress.total = sum(map(sum, sizes))
    places, count = spread(sizes, how, plan.source.reader.num_shards)
    single = count == 1 and plan.source.location.files in ((), (plan.source.prefix,))
    watch = Watch(plan)
    with (
        watch.guarding(),
        LegacyWriter(
            prefix,
            num_shards=None if single else count,
            force=force,
            like=plan.source.reader.path,
        ) as writer,
    ):
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
        files = writer.finish(before_last=watch.check)
    return tuple(ShardReceipt(path, size, "rewritten") for path, size in files)


class _Progress:
    def __init__(self, on_progress: OnProgress | None) -> None:
        self.done = self.total = 0
        self._on_progress = on_progress

    def advance(self, size: int) -> None:
        self.done += size
        if self._on_progress is not None:
            self._on_progress(self.done, max(self.total, self.done))


def _sizes(tensor: PlannedTensor, *, join: bool) -> list[int]:
    """Return how much of a file each payload fills, roughly for strings."""
    item = tensor.entry.dtype.size or 1
    return [item * element_count(shape) for _, shape in payload_shapes(tensor, join=join)]


def _read(
    plan: Plan, tensor: PlannedTensor, part: TensorSlice | None, size: int, progress: _Progress
) -> Array:
    reader = plan.source.reader
    value = (
        reader.read(tensor.source_key)
        if part is None
        else reader.read_slice(tensor.source_key, part)
    )
    progress.advance(size)
    return value
