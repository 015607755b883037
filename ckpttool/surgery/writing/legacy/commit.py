"""Writing a plan as a checkpoint of format V1.

Every value is rewritten, because each record contains the name of its tensor. A single file appears
in one step, and so do several: the first of them gets its name last, and until then an empty file
has it, with which no reader opens the others. A set that replaces a whole one is written under
another count, as bundles are.
"""

from __future__ import annotations

import os
from functools import partial

from ckpttool.checkpoint.named import checkpoint_name
from ckpttool.errors import DestinationError, SurgeryError
from ckpttool.legacy.naming import shard_stem, v1_shard_path
from ckpttool.legacy.writer import LegacyWriter
from ckpttool.storage.work import Progress
from ckpttool.surgery.plan import Plan, PlannedTensor
from ckpttool.surgery.values import NewValue
from ckpttool.surgery.writing.bundle.carry import DataMode
from ckpttool.surgery.writing.destination import check_destination, refuse_in_place
from ckpttool.surgery.writing.legacy.old_files import old_files
from ckpttool.surgery.writing.links import replacement_notes
from ckpttool.surgery.writing.receipt import ShardReceipt, Written
from ckpttool.surgery.writing.recoding.payloads import check_slices, payload_shapes
from ckpttool.surgery.writing.recoding.spread import Recoding, spread
from ckpttool.surgery.writing.watch import Watch, watched
from ckpttool.tensor.shape import element_count
from ckpttool.tensor.slices import TensorSlice
from ckpttool.tensor.values import Array, joined_array


class NewLegacy:
    """Writes a plan as a V1 checkpoint.

    Args:
        plan: the plan, name-based.
        prefix: path of the one file, or common beginning of several; None to write in place.
        how: the layout; it may ask for several files.
        data: how to carry data; values are always copied.
        force: replace all V1 checkpoints of that prefix, whole or torn.
    """

    def __init__(
        self, plan: Plan, prefix: str | None, how: Recoding, data: DataMode, *, force: bool
    ) -> None:
        self._plan = plan
        self._in_place = prefix is None
        self._prefix = plan.source.prefix if prefix is None else prefix
        self._how = how
        self._data = data
        self._force = force
        self._watch: Watch | None = None

    def check(self) -> list[str]:
        """Make every check; return notes for the user.

        Only the sizes of string tensors are unknown before they are read.

        Raises:
            SurgeryError: an object graph cannot be stored, or the source changed meanwhile.
            InvalidTensorError: a tensor is of a dtype or size that the format does not have.
            DestinationError: a file of such a name exists.
            CkptError: a file cannot be read.
        """
        plan, prefix = self._plan, self._prefix
        if self._in_place:
            refuse_in_place(plan)
        else:
            check_destination(plan, prefix, generation="V1", force=self._force)
        self._watch = watched(plan, self._watch)
        if self._data not in ("auto", "copy"):
            raise DestinationError(
                f"a file of format V1 also holds names, so a {self._data} cannot make it",
                path=prefix,
            )
        self._old = old_files(plan, prefix)
        self._progress = _Bytes()
        self._writer = self._filled_writer()
        return replacement_notes([plan.source.reader.path]) if self._in_place else []

    def write(self, on_progress: Progress | None) -> Written:
        """Write the files; the folder is locked, and `check` has just passed.

        Args:
            on_progress: called with the bytes written and their total, as in memory.
        """
        watch = self._watch = watched(self._plan, self._watch)
        self._progress.tell = on_progress
        with watch.guarding(), self._writer as writer:
            files = writer.finish(before_last=watch.check_last)
        notes = self._old.retire(writer.paths) if self._force else []
        shards = tuple(ShardReceipt(path, size, "rewritten") for path, size in files)
        size = sum(shard.bytes for shard in shards)
        tensors = len(self._plan.tensors) + len(self._plan.added)
        return Written(shards, tensors, size, 0, tuple(notes))

    def _filled_writer(self) -> LegacyWriter:
        """Return a writer with all tensors added and nothing written."""
        plan, how, source = self._plan, self._how, self._plan.source
        if plan.graph is not None:
            raise SurgeryError(
                "format V1 has no object graph; make it name-based", path=source.prefix
            )
        if not plan.tensors:
            raise SurgeryError("nothing would be left to write", path=source.prefix)
        check_slices(plan)
        sizes = [_sizes(tensor, join=how.join_slices) for tensor in plan.tensors]
        self._progress.total = sum(map(sum, sizes))
        places, count = spread(sizes, how, source.reader.num_shards)
        # TensorFlow numbers the files of a sharded Saver, even a single one.
        numbered = source.generation == "V1" and source.location.files != (source.prefix,)
        single = count == 1 and not (numbered and how.shards is None)
        while self._force and not single and count in self._old.taken:
            count += 1
        self._check_names(None if single else count)
        writer = LegacyWriter(
            self._prefix,
            num_shards=None if single else count,
            force=self._force,
            like=source.reader.permissions,
        )
        for tensor, shard_ids in zip(plan.tensors, places, strict=True):
            shapes = payload_shapes(tensor, join=how.join_slices)
            for (part, _), size, shard_id in zip(
                shapes, _sizes(tensor, join=how.join_slices), shard_ids, strict=True
            ):
                read = partial(_read, plan, tensor, part, size, self._progress)
                dtype, shape = tensor.dtype, tensor.shape
                if part is None:
                    writer.add(tensor.key, dtype, shape, read, shard_id=shard_id)
                else:
                    writer.add_slice(tensor.key, dtype, shape, part, read, shard_id=shard_id)
        for each in plan.added:
            dtype, shape = each.value.dtype, each.value.shape
            writer.add(each.key, dtype, shape, partial(_computed, each.value))
        return writer

    def _check_names(self, count: int | None) -> None:
        """Refuse names under which readers would find other files.

        Raises:
            DestinationError: such files exist, or the prefix is the name of one of several.
        """
        prefix, old, force = self._prefix, self._old, self._force
        name = os.path.basename(prefix)
        if shard_stem(name) != name or checkpoint_name(name) != name:
            raise DestinationError(
                "the name of one file of several; "
                f"name the checkpoint '{checkpoint_name(shard_stem(name))}'",
                path=prefix,
            )
        own = {os.path.realpath(path) for path in self._plan.source.location.files}
        paths = (
            [prefix] if count is None else [v1_shard_path(prefix, at, count) for at in range(count)]
        )
        if self._in_place and (len(paths) > 1 or os.path.realpath(paths[0]) not in own):
            raise DestinationError(
                "a file can only be replaced, in one step, by one of the same name", path=prefix
            )
        for path in paths:
            if not os.path.lexists(path) or (self._in_place and os.path.realpath(path) in own):
                continue
            if os.path.realpath(path) in own:
                raise DestinationError("shares a file with the source", path=path)
            if not (force and old.replaceable(path, count)):
                torn = old.replaceable(path, count)
                why = "a checkpoint that is not complete" if torn else "it is not a checkpoint"
                raise DestinationError(f"already exists; {why}", path=path)


class _Bytes:
    def __init__(self) -> None:
        self.total = 0
        self.tell: Progress | None = None
        self._done = 0

    def advance(self, size: int) -> None:
        self._done += size
        if self.tell is not None:
            self.tell(self._done, max(self.total, self._done))


def _sizes(tensor: PlannedTensor, *, join: bool) -> list[int]:
    """Return the size of each payload in a file, an estimate for strings."""
    item = tensor.dtype.size or 1
    return [item * element_count(shape) for _, shape in payload_shapes(tensor, join=join)]


def _read(
    plan: Plan, tensor: PlannedTensor, part: TensorSlice | None, size: int, progress: _Bytes
) -> Array:
    reader = plan.source.reader
    if tensor.value is not None:
        value = _computed(tensor.value)
    elif part is None:
        value = reader.read(tensor.source_key)
    else:
        value = reader.read_slice(tensor.source_key, part)
    progress.advance(size)
    return value


def _computed(value: NewValue) -> Array:
    return joined_array(value.dtype, value.shape, value.chunks())
