"""Writing a plan: the only place where surgery touches files.

A new checkpoint is staged beside its destination, its data shards first, and appears with its
index, in one step. In place, the new index takes the place of the old one in one step; if shards
change, the new set has another count in its names, so that both indexes have their own shards
until the old ones are removed. Killed at any instant, a reader finds the old checkpoint or the new
one whole; what may be left over has names that end in `.ckpt-tmp`, or another shard count.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass

from ckpttool.bundle.index import BundleIndex
from ckpttool.bundle.naming import (
    INDEX_SUFFIX,
    find_shards,
    index_path,
    split_shard_path,
)
from ckpttool.checkpoint.folder import META_SUFFIX
from ckpttool.errors import (
    CkptError,
    CorruptError,
    DestinationError,
    MissingFileError,
    SurgeryError,
)
from ckpttool.storage.folders import locked_folder, new_folder, sync_folder
from ckpttool.storage.source import RandomAccessFile
from ckpttool.storage.staging import StagedFiles, remove_quietly
from ckpttool.surgery.carry import DataMode
from ckpttool.surgery.companions import (
    MetaMode,
    PlannedState,
    carry_meta,
    check_sequence,
    planned_state,
    removal_notes,
)
from ckpttool.surgery.layout import Layout
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.receipt import Receipt
from ckpttool.surgery.stage import Stage
from ckpttool.surgery.watch import Watch

OnProgress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How a plan is written.

    Attributes:
        data: how data shards get to the destination.
        compact: rewrite data shards without dead bytes.
        force: replace a checkpoint at the destination.
        update_state: name the result as the latest in the state file of its folder.
        meta: what becomes of a `.meta` file beside the source.
    """

    data: DataMode = "auto"
    compact: bool = False
    force: bool = False
    update_state: bool = False
    meta: MetaMode = "auto"


def destination_prefix(typed: str) -> str:
    """Return the prefix that is meant by the name of a checkpoint to come, or of its index."""
    return typed.removesuffix(INDEX_SUFFIX)


def write_plan(
    plan: Plan,
    prefix: str,
    options: WriteOptions | None = None,
    *,
    on_progress: OnProgress | None = None,
) -> Receipt:
    """Write a plan as a new checkpoint.

    Args:
        plan: what to write.
        prefix: path of the checkpoint without the endings of its files. The last folder in it is
            made if need be.
        options: how.
        on_progress: told bytes copied and bytes to copy, if any are.

    Raises:
        DestinationError: there is something at the destination, or it is the source itself.
        SurgeryError: the source changed meanwhile.
        CkptError: a file could not be read or written. Nothing is left behind in any case.
    """
    options = options or WriteOptions()
    _check_destination(plan, prefix, options)
    state = planned_state(prefix) if options.update_state else None
    with new_folder(os.path.dirname(prefix)) as folder, locked_folder(folder):
        _check_destination(plan, prefix, options)
        old = find_shards(prefix)
        with StagedFiles() as staged:
            watch = Watch(plan)
            stage = Stage(plan, staged, prefix, options.data, on_progress)
            with watch.guarding():
                layout = stage.all_shards(compact=options.compact, taken=_counts(old))
                stage.index(layout)
            with _Undo(prefix, staged, layout):
                replacing = options.force and os.path.lexists(index_path(prefix))
                staged.commit(replace_last=replacing, before_last=watch.check)
                _read_back(layout, prefix)
        stage.notes += removal_notes(old)
        return _finish(plan, prefix, layout, stage, options, state)


def replace_source(
    plan: Plan,
    options: WriteOptions | None = None,
    *,
    on_progress: OnProgress | None = None,
) -> Receipt:
    """Write a plan in place of its source.

    Args:
        plan: what to write.
        options: how; `data` and `force` do not apply.
        on_progress: told bytes copied and bytes to copy, if any are.

    Raises:
        SurgeryError: the source is part of a SavedModel, or changed meanwhile.
        CkptError: a file could not be read or written; the source is as it was.
    """
    options = options or WriteOptions()
    prefix = plan.source.prefix
    _refuse_saved_model(plan)
    state = planned_state(prefix) if options.update_state else None
    with locked_folder(os.path.dirname(prefix) or os.curdir):
        old = find_shards(prefix)
        with StagedFiles() as staged:
            watch = Watch(plan)
            stage = Stage(plan, staged, prefix, "auto", on_progress)
            with watch.guarding():
                if options.compact or plan.graph_changed:
                    layout = stage.all_shards(compact=options.compact, taken=_counts(old))
                else:
                    layout, old = stage.no_shards(), []
                stage.index(layout)
            with _Undo(prefix, staged, layout) as undo:
                staged.commit(replace_last=True, before_last=watch.check)
                # Somebody may have saved this very checkpoint anew in the last moment.
                watch.check(index=undo.old_index)
                _read_back(layout, prefix)
        stage.notes += watch.remove(old)
        return _finish(plan, prefix, layout, stage, options, state)


def plan_receipt(plan: Plan, prefix: str | None, options: WriteOptions | None = None) -> Receipt:
    """Return what writing would do, as far as it can be told without it.

    Args:
        plan: the plan.
        prefix: the destination; None for `replace_source`.
        options: how it would be written.

    Raises:
        SurgeryError, DestinationError: as writing would.
    """
    options = options or WriteOptions()
    if prefix is None:
        _refuse_saved_model(plan)
    else:
        _check_destination(plan, prefix, options)
    Watch(plan)
    if options.update_state:
        planned_state(prefix or plan.source.prefix)
    return Receipt(
        prefix or plan.source.prefix, len(plan.tensors), (), 0, 0, None, None, plan.notes
    )


def _refuse_saved_model(plan: Plan) -> None:
    if plan.source.location.saved_model is not None:
        raise SurgeryError(
            "the variables of a SavedModel are tied to its graph by their names; write a plain "
            "checkpoint with -o",
            path=plan.source.location.saved_model,
        )


class _Undo:
    """Puts the old state back if what was published turns out not to be right.

    Until then the old index has a second name. What is undone is only what this set put there.
    """

    def __init__(self, prefix: str, staged: StagedFiles, layout: Layout) -> None:
        self._path = index_path(prefix)
        self.old_index = staged.spare_name(self._path + ".old")
        self._staged_index = staged.last.temporary
        self._new = {shard.path for shard in layout.shards if shard.how != "kept"}

    def __enter__(self) -> _Undo:
        self._before = {path: _inode(path) for path in (self._path, *self._new)}
        self._ours = _inode(self._staged_index)
        try:
            with contextlib.suppress(OSError):  # no index there, or no links: then it has no name
                os.link(self._path, self.old_index)
        except BaseException:
            remove_quietly(self.old_index)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        # What somebody else put there, or took away, meanwhile is none of our business.
        if kind is not None and self._ours is not None and _inode(self._path) == self._ours:
            with contextlib.suppress(OSError):
                if _inode(self.old_index) is not None:
                    os.rename(self.old_index, self._path)
                elif self._before[self._path] is None:
                    os.unlink(self._path)
            if _inode(self._path) == self._before[self._path]:
                with contextlib.suppress(CkptError):
                    # As long as the old index is not back for good, the new one needs its shards.
                    sync_folder(os.path.dirname(self._path) or os.curdir)
                    for path in self._new:
                        if self._before[path] is None:
                            remove_quietly(path)
        remove_quietly(self.old_index)


def _inode(path: str) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _check_destination(plan: Plan, prefix: str, options: WriteOptions) -> None:
    folder = os.path.dirname(prefix)
    if not prefix:
        raise DestinationError("an empty path names no checkpoint")
    if not os.path.basename(prefix) or os.path.isdir(prefix):
        raise DestinationError("a folder; a name for the checkpoint must follow", path=prefix)
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise DestinationError("not a folder", path=folder)
    above = os.path.dirname(folder)
    if above and not os.path.isdir(above):
        raise MissingFileError("there is no such folder", path=above)
    present = [path for path in (index_path(prefix), *find_shards(prefix)) if os.path.lexists(path)]
    own = [index_path(plan.source.prefix), *find_shards(plan.source.prefix)]
    for path in present:
        if any(_same_name(path, other) for other in own) or _same_file(path, own[0]):
            raise DestinationError("it shares a file with the source", path=path)
    meta = prefix + META_SUFFIX
    if os.path.lexists(meta):
        present.append(meta)
    if present and not options.force:
        raise DestinationError("it exists already", path=present[0])
    if not options.force:
        check_sequence(prefix)


def _same_name(path: str, other: str) -> bool:
    """Tell whether two paths are one name, links followed.

    A data shard that is a second name of the source's is no matter: it is replaced, not written to.
    """
    return os.path.realpath(path) == os.path.realpath(other)


def _same_file(path: str, other: str) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False


def _counts(shards: list[str]) -> set[int]:
    return {split[2] for split in map(split_shard_path, shards) if split}


def _read_back(layout: Layout, prefix: str) -> None:
    """Check that what can be read now is what was meant."""
    written = BundleIndex(prefix)
    found = dict(written.entries.items())
    same = written.header == layout.header and found.keys() == layout.entries.keys()
    if not same or any(found[key] != entry for key, entry in layout.entries.items()):
        raise CorruptError("the index reads back otherwise than written", path=written.path)
    for key, slices in layout.slices.items():
        if tuple(written.slice_entries(key)) != slices:
            raise CorruptError(
                "slices read back otherwise than written", path=written.path, key=key
            )
    for shard in layout.shards:
        with RandomAccessFile(shard.path) as file:
            size = file.size
        if size != shard.bytes:
            raise CorruptError("the data shard has another size than written", path=shard.path)


def _finish(
    plan: Plan,
    prefix: str,
    layout: Layout,
    stage: Stage,
    options: WriteOptions,
    state: PlannedState | None,
) -> Receipt:
    meta, meta_notes = carry_meta(plan, prefix, options.meta)
    if state is not None:
        state.write()
    used = sum(part.size for tensor in plan.tensors for part in tensor.parts)
    total = sum(shard.bytes for shard in layout.shards)
    return Receipt(
        prefix=prefix,
        tensors=len(layout.entries),
        shards=layout.shards,
        bytes_written=stage.bytes_written,
        bytes_dead=max(0, total - used - layout.graph_size),
        meta=meta,
        state=state.path if state is not None else None,
        notes=(*plan.notes, *stage.notes, *meta_notes),
    )
