"""Preparing a plan, and writing it: every check comes before the first byte is written.

    prepare(plan, destination, options)   every check; the files of the source are noted
        .receipt()                        the result of writing: a dry run
        .write()                          lock the folder, the same checks again, write

So a dry run promises nothing that the run refuses. `bundle` (V2) and `legacy` (V1) define how the
files get their names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from ckpttool.checkpoint.generation import Generation
from ckpttool.checkpoint.nearest import require_one_of
from ckpttool.checkpoint.open import require_checkpoint
from ckpttool.storage.folders import new_folder
from ckpttool.storage.locks import Patience, locked_folder
from ckpttool.storage.system import require_writing
from ckpttool.storage.work import Progress
from ckpttool.surgery.plan import Plan, refuse_damage
from ckpttool.surgery.writing.bundle.carry import DATA_MODES, DataMode
from ckpttool.surgery.writing.bundle.commit import BundleInPlace, NewBundle
from ckpttool.surgery.writing.companions import (
    META_MODES,
    MetaMode,
    PlannedMeta,
    PlannedState,
    check_sequence,
    planned_meta,
    planned_state,
)
from ckpttool.surgery.writing.receipt import PlanWriter, Receipt, Written, already_written
from ckpttool.surgery.writing.recoding.spread import Recoding

# Forms whose files can be data shards as they are.
ADOPTED = ("V2", "safetensors")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options for writing a plan.

    Attributes:
        data: how to carry data shards.
        compact: rewrite data shards without dead bytes.
        force: replace an existing checkpoint.
        update_state: name the result as the latest in the state file of its folder.
        meta: what to do with the `.meta` file of the source.
        follow_links: carry data shards and the `.meta` file even if they are links out of the
            checkpoint's folder and its store.
        patience: how long to wait for another writer in the folder.
        generation: format to write; that of the source if None.
        recoding: rewrite every value, in this layout. A change of format always rewrites.
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

    def __post_init__(self) -> None:
        require_one_of("data", self.data, DATA_MODES)
        require_one_of("meta", self.meta, META_MODES)


def prepare(plan: Plan, destination: str | None, options: WriteOptions | None = None) -> Prepared:
    """Check that a plan can be written.

    Args:
        plan: the plan.
        destination: path of the checkpoint without the endings of its files. Its last folder is
            made if necessary. None to write in place, where `data`, `force`, `generation` and
            `recoding` do not apply to a bundle.
        options: the options.

    Raises:
        DestinationError: something exists at the destination, or it is the source itself.
        SurgeryError: the source is part of a SavedModel, or changed meanwhile.
        CkptError: the source is damaged, or a file of it cannot be read.
    """
    return Prepared(plan, destination, options or WriteOptions())


class Prepared:
    """A plan that can be written to `prefix`; made by `prepare`."""

    def __init__(self, plan: Plan, destination: str | None, options: WriteOptions) -> None:
        self.plan = plan
        self.prefix = plan.source.prefix if destination is None else destination
        in_place = destination is None
        wanted = None if in_place else options.generation
        self.generation = wanted or require_checkpoint(plan.source)
        self._in_place = in_place
        self._options = options
        require_writing(self.prefix)
        refuse_damage(plan)
        self._writer = self._choose_writer()
        self._check()

    def receipt(self) -> Receipt:
        """Return what writing would do, as far as known before."""
        plan = self.plan
        tensors = len(plan.tensors) + len(plan.added) + (plan.graph is not None)
        notes = (*plan.notes, *self._notes)
        return Receipt(self.prefix, tensors, (), 0, 0, None, None, notes)

    def write(self, *, on_progress: Progress | None = None) -> Receipt:
        """Write the plan.

        Args:
            on_progress: called with the bytes copied and their total, if any are.

        Raises:
            DestinationError, SurgeryError: as of `prepare`, if that has changed since.
            CkptError: a file could not be read or written. Then nothing is left behind, and a
                checkpoint in place is unchanged.
        """
        with self._locked():
            self._check()
            return self._finish(self._writer.write(on_progress))

    def _choose_writer(self) -> PlanWriter:
        """Return the writer for this plan."""
        plan, options = self.plan, self._options
        if self.generation == "V1":
            from ckpttool.surgery.writing.legacy.commit import NewLegacy  # it needs NumPy

            how = options.recoding or Recoding()
            force = options.force or self._in_place
            return NewLegacy(
                plan, None if self._in_place else self.prefix, how, options.data, force=force
            )
        if self._in_place:
            state = options.update_state
            return BundleInPlace(plan, compact=options.compact, updates_state=state)
        recoded = options.recoding is not None or plan.source.generation not in ADOPTED
        return NewBundle(
            plan,
            self.prefix,
            (options.recoding or Recoding()) if recoded else None,
            data=options.data,
            compact=options.compact,
            force=options.force,
            follow_links=options.follow_links,
        )

    def _check(self) -> None:
        """Make every check; once beforehand, and again when the folder is locked."""
        options = self._options
        self._notes = self._writer.check()
        if not (self._in_place or options.force):
            reached = self.plan.source.prefix if options.update_state else None
            check_sequence(self.prefix, reached=reached)
        self._meta: PlannedMeta = planned_meta(
            self.plan,
            self.prefix,
            options.meta,
            self.generation,
            follow_links=options.follow_links,
        )
        self._state: PlannedState | None = (
            planned_state(self.prefix, timed=self.plan.graph is not None)
            if options.update_state
            else None
        )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        folder = os.path.dirname(self.prefix)
        patience = self._options.patience
        if self._in_place:
            with locked_folder(folder or os.curdir, patience):
                yield
        else:
            with new_folder(folder) as made, locked_folder(made, patience):
                yield

    def _finish(self, written: Written) -> Receipt:
        """Write the other files after the checkpoint, and return the receipt."""
        with already_written(self.prefix):
            meta_path, meta_notes = self._meta.write()
        receipt = Receipt(
            prefix=self.prefix,
            tensors=written.tensors,
            shards=written.shards,
            bytes_written=written.bytes,
            bytes_dead=written.bytes_dead,
            meta=meta_path,
            state=self._state.path if self._state is not None else None,
            notes=(*self.plan.notes, *self._notes, *written.notes, *meta_notes),
        )
        if self._state is not None:
            with already_written(receipt.address):
                replace(self._state, prefix=receipt.address).write()
        return receipt
