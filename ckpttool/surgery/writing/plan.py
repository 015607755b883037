"""Writing a plan: the only place where surgery touches files.

A new checkpoint is staged beside its destination, its data shards first, and appears with its
index, in one step. In place, the new index takes the place of the old one in one step; if shards
change, the new set has another count in its names, so that both indexes have their own shards
until the old ones are removed. Killed at any instant, a reader finds the old checkpoint or the new
one whole; what may be left over has names that end in `.ckpt-tmp`, or another shard count.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ckpttool.bundle.index import BundleIndex
from ckpttool.bundle.naming import index_path
from ckpttool.checkpoint.generation import Generation
from ckpttool.checkpoint.locate import leads_elsewhere
from ckpttool.checkpoint.state import STATE_NAME
from ckpttool.errors import (
    CkptError,
    CorruptError,
    DestinationError,
    SurgeryError,
)
from ckpttool.storage.folders import new_folder
from ckpttool.storage.locks import LOCK_TIMEOUT as LOCK_TIMEOUT
from ckpttool.storage.locks import Patience as Patience
from ckpttool.storage.locks import locked_folder
from ckpttool.storage.source import RandomAccessFile
from ckpttool.storage.staging import StagedFiles
from ckpttool.storage.work import Progress
from ckpttool.surgery.plan import Plan, refuse_damage
from ckpttool.surgery.writing.carry import DataMode
from ckpttool.surgery.writing.companions import (
    MetaMode,
    PlannedMeta,
    PlannedState,
    planned_meta,
    planned_state,
)
from ckpttool.surgery.writing.destination import check_destination
from ckpttool.surgery.writing.layout import Layout
from ckpttool.surgery.writing.legacy_sets import old_files
from ckpttool.surgery.writing.links import replacement_notes
from ckpttool.surgery.writing.old_shards import OldShards
from ckpttool.surgery.writing.receipt import Receipt, ShardReceipt
from ckpttool.surgery.writing.spread import Recoding
from ckpttool.surgery.writing.stage import Stage
from ckpttool.surgery.writing.undo import Undo
from ckpttool.surgery.writing.watch import Watch

if TYPE_CHECKING:
    from ckpttool.surgery.writing.recode import RecodedStage


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How a plan is written.

    Attributes:
        data: how data shards get to the destination.
        compact: rewrite data shards without dead bytes.
        force: replace a checkpoint at the destination.
        update_state: name the result as the latest in the state file of its folder.
        meta: what becomes of a `.meta` file beside the source.
        follow_links: carry data shards and the `.meta` file along even if they are links to what
            lies neither in the folder of the checkpoint nor in the store that its index is in.
        patience: how long to wait for another writer in the folder.
        generation: format to write; that of the source if None.
        recoding: write every value anew, laid out like this. What changes its format is always
            written anew.
    """

    data: DataMode = "auto"
    compact: bool = False
    force: bool = False
    update_state: bool = False
    meta: MetaMode = "auto"
    follow_links: bool = False
    patience: Patience = field(default_factory=Patience)
    generation: Generation | None = None
    recoding: Recoding | None = None


def write_plan(
    plan: Plan,
    prefix: str,
    options: WriteOptions | None = None,
    *,
    on_progress: Progress | None = None,
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
    refuse_damage(plan)
    options = options or WriteOptions()
    generation = options.generation or plan.source.generation
    check_destination(plan, prefix, generation=generation, force=options.force)
    state = planned_state(prefix) if options.update_state else None
    meta = planned_meta(plan, prefix, options.meta, generation, follow_links=options.follow_links)
    with new_folder(os.path.dirname(prefix)) as folder, locked_folder(folder, options.patience):
        check_destination(plan, prefix, generation=generation, force=options.force)
        if generation == "V1":
            return _write_legacy(
                plan, prefix, options, state, meta, on_progress, force=options.force
            )
        with OldShards(prefix) as old:
            replaced = old_files(plan, prefix)
            with StagedFiles() as staged:
                watch = Watch(plan)
                stage: Stage | RecodedStage
                with watch.guarding():
                    if options.recoding is None and plan.source.generation == "V2":
                        stage = Stage(
                            plan,
                            staged,
                            prefix,
                            options.data,
                            watch,
                            on_progress,
                            follow_links=options.follow_links,
                        )
                        layout = stage.all_shards(compact=options.compact, taken=old.counts)
                    else:
                        from ckpttool.surgery.writing.recode import RecodedStage  # it needs NumPy

                        how = options.recoding or Recoding()
                        stage = RecodedStage(plan, staged, prefix, how, on_progress)
                        layout = stage.all_shards(taken=old.counts)
                    stage.index(layout)
                with Undo(prefix, staged):
                    replacing = options.force and os.path.lexists(index_path(prefix))
                    staged.commit(replace_last=replacing, before_last=watch.check)
                    _read_back(layout, prefix)
            with _already_written(prefix):
                stage.notes += old.remove(old.all)
            stage.notes += replaced.retire()
            return _finished(plan, prefix, layout, stage, state, meta)


def replace_source(
    plan: Plan,
    options: WriteOptions | None = None,
    *,
    on_progress: Progress | None = None,
) -> Receipt:
    """Write a plan in place of its source.

    Args:
        plan: what to write.
        options: how; `data`, `force`, `generation` and `recoding` do not apply to a bundle.
        on_progress: told bytes copied and bytes to copy, if any are.

    Raises:
        SurgeryError: the source is part of a SavedModel, or changed meanwhile.
        CkptError: a file could not be read or written; the source is as it was.
    """
    refuse_damage(plan)
    options = options or WriteOptions()
    prefix = plan.source.prefix
    _refuse_in_place(plan)
    notes = _link_notes(plan, options)
    state = planned_state(prefix) if options.update_state else None
    meta = planned_meta(
        plan, prefix, options.meta, plan.source.generation, follow_links=options.follow_links
    )
    with locked_folder(os.path.dirname(prefix) or os.curdir, options.patience):
        if plan.source.generation == "V1":
            plan = plan.with_notes(*notes)
            return _write_legacy(plan, prefix, options, state, meta, on_progress, force=True)
        with OldShards(prefix) as old:
            with StagedFiles() as staged:
                watch = Watch(plan)
                stage = Stage(plan, staged, prefix, "auto", watch, on_progress)
                with watch.guarding():
                    rewritten = options.compact or plan.graph_changed
                    if rewritten:
                        layout = stage.all_shards(compact=options.compact, taken=old.counts)
                    else:
                        layout = stage.no_shards()
                    stage.index(layout)
                    going = old.superseded(
                        plan.source.bundle.index, watch.files, rewritten=rewritten
                    )
                with Undo(prefix, staged) as undo:
                    staged.commit(replace_last=True, before_last=watch.check)
                    # Somebody may have saved this very checkpoint anew in the last moment.
                    watch.check(index=undo.old_index)
                    _read_back(layout, prefix)
            with _already_written(prefix):
                stage.notes += [*notes, *old.remove(going)]
            return _finished(plan, prefix, layout, stage, state, meta)


def plan_receipt(plan: Plan, prefix: str | None, options: WriteOptions | None = None) -> Receipt:
    """Return what writing would do, as far as it can be told without it.

    Args:
        plan: the plan.
        prefix: the destination; None for `replace_source`.
        options: how it would be written.

    Raises:
        SurgeryError, DestinationError: as writing would.
    """
    refuse_damage(plan)
    options = options or WriteOptions()
    generation = options.generation or plan.source.generation
    if prefix is None:
        _refuse_in_place(plan)
    else:
        check_destination(plan, prefix, generation=generation, force=options.force)
    target = prefix or plan.source.prefix
    watch = Watch(plan)
    notes = plan.notes
    if prefix is None:
        notes = (*notes, *_link_notes(plan, options))
    elif options.recoding is None and not options.compact and generation == "V2":
        watch.refuse_foreign(follow=options.follow_links)
    if generation == "V1":
        from ckpttool.surgery.writing.legacy import check_legacy

        _refuse_modes(options, target)
        force = options.force or prefix is None
        check_legacy(plan, target, options.recoding or Recoding(), force=force)
    elif options.recoding is not None or plan.source.generation == "V1":
        from ckpttool.surgery.writing.recode import recoding_notes

        notes = (*notes, *recoding_notes(plan, options.recoding or Recoding()))
    planned_meta(plan, target, options.meta, generation, follow_links=options.follow_links)
    if options.update_state:
        planned_state(target)
    return Receipt(target, len(plan.tensors), (), 0, 0, None, None, notes)


def _refuse_in_place(plan: Plan) -> None:
    if plan.source.generation == "V1" and len(plan.source.location.files) > 1:
        raise SurgeryError(
            "a V1 checkpoint in several files cannot be replaced in one step; write another "
            "with -o",
            path=plan.source.prefix,
        )
    if leads_elsewhere(plan.source.location):
        raise SurgeryError(
            f"the checkpoint that is meant lies outside of that folder: '{plan.source.prefix}'; to"
            " change it, name it itself",
            path=plan.source.location.typed,
        )
    if plan.source.location.saved_model is not None:
        raise SurgeryError(
            "the variables of a SavedModel are tied to its graph by their names; write a plain "
            "checkpoint with -o",
            path=plan.source.location.saved_model,
        )


def _link_notes(plan: Plan, options: WriteOptions) -> list[str]:
    """Return what the user should know of links that changing a checkpoint in place replaces."""
    source = plan.source
    paths = [source.reader.path]
    if options.compact and source.generation == "V2":
        paths += [file.path for file in source.reader.shard_files()]
    if options.update_state:
        paths.append(os.path.join(os.path.dirname(source.prefix), STATE_NAME))
    return replacement_notes(paths)


def _write_legacy(
    plan: Plan,
    prefix: str,
    options: WriteOptions,
    state: PlannedState | None,
    meta: PlannedMeta,
    on_progress: Progress | None,
    *,
    force: bool,
) -> Receipt:
    from ckpttool.surgery.writing.legacy import write_legacy

    _refuse_modes(options, prefix)
    recoding = options.recoding or Recoding()
    shards, notes = write_legacy(plan, prefix, recoding, force=force, on_progress=on_progress)
    written = sum(shard.bytes for shard in shards)
    return _finish(plan, prefix, shards, state, meta, written=written, notes=notes)


def _refuse_modes(options: WriteOptions, prefix: str) -> None:
    if options.data not in ("auto", "copy"):
        raise DestinationError(
            f"format V1 has names among the values, so there is no {options.data}", path=prefix
        )


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


def _finished(
    plan: Plan,
    prefix: str,
    layout: Layout,
    stage: Stage | RecodedStage,
    state: PlannedState | None,
    meta: PlannedMeta,
) -> Receipt:
    return _finish(
        plan,
        prefix,
        layout.shards,
        state,
        meta,
        tensors=len(layout.entries),
        written=stage.bytes_written,
        dead=sum(shard.bytes for shard in layout.shards) - layout.bytes_used,
        notes=stage.notes,
    )


def _finish(
    plan: Plan,
    prefix: str,
    shards: tuple[ShardReceipt, ...],
    state: PlannedState | None,
    meta: PlannedMeta,
    *,
    written: int,
    tensors: int | None = None,
    dead: int = 0,
    notes: Iterable[str] = (),
) -> Receipt:
    """Do what is left to do when the checkpoint is there, and tell what was done."""
    with _already_written(prefix):
        meta_path, meta_notes = meta.write()
    receipt = Receipt(
        prefix=prefix,
        tensors=len(plan.tensors) if tensors is None else tensors,
        shards=shards,
        bytes_written=written,
        bytes_dead=max(0, dead),
        meta=meta_path,
        state=state.path if state is not None else None,
        notes=(*plan.notes, *notes, *meta_notes),
    )
    if state is not None:
        with _already_written(receipt.address):
            replace(state, prefix=receipt.address).write()
    return receipt


@contextmanager
def _already_written(address: str) -> Iterator[None]:
    """Say of an error that the checkpoint itself is there all the same."""
    try:
        yield
    except CkptError as error:
        error.message += f"; the checkpoint '{address}' itself is written"
        raise
