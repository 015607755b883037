"""Preparing a plan, and writing it: whatever can be refused is refused before a byte is written.

    prepare(plan, destination, options)   every check, the files of the source noted
        .receipt()                        what writing would do: a dry run
        .write()                          lock the folder, the same checks again, write

So a dry run promises nothing that the run refuses. How the files get their names is in `bundle` for
format V2 and in `legacy` for V1.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from ckpttool.checkpoint.generation import Generation
from ckpttool.storage.folders import new_folder
from ckpttool.storage.locks import LOCK_TIMEOUT as LOCK_TIMEOUT
from ckpttool.storage.locks import Patience as Patience
from ckpttool.storage.locks import locked_folder
from ckpttool.storage.work import Progress
from ckpttool.surgery.plan import Plan, refuse_damage
from ckpttool.surgery.writing.bundle import BundleInPlace, NewBundle
from ckpttool.surgery.writing.carry import DataMode
from ckpttool.surgery.writing.companions import (
    MetaMode,
    PlannedMeta,
    PlannedState,
    planned_meta,
    planned_state,
)
from ckpttool.surgery.writing.receipt import PlanWriter, Receipt, Written, already_written
from ckpttool.surgery.writing.spread import Recoding


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


def prepare(plan: Plan, destination: str | None, options: WriteOptions | None = None) -> Prepared:
    """Check that a plan can be written.

    Args:
        plan: what to write.
        destination: path of the checkpoint without the endings of its files. The last folder in it
            is made if need be. None to write in place of the source, where `data`, `force`,
            `generation` and `recoding` do not apply to a bundle.
        options: how.

    Raises:
        DestinationError: there is something at the destination, or it is the source itself.
        SurgeryError: the source is part of a SavedModel, or changed meanwhile.
        CkptError: the source is damaged, or a file of it cannot be read.
    """
    return Prepared(plan, destination, options or WriteOptions())


class Prepared:
    """A plan that can be written. Made by `prepare`.

    Attributes:
        plan: what is written.
        prefix: where to.
        generation: in which format.
    """

    def __init__(self, plan: Plan, destination: str | None, options: WriteOptions) -> None:
        self.plan = plan
        self.prefix = plan.source.prefix if destination is None else destination
        in_place = destination is None
        self.generation = plan.source.generation if in_place else _generation(plan, options)
        self._in_place = in_place
        self._options = options
        refuse_damage(plan)
        self._writer = self._choose_writer()
        self._check()

    def receipt(self) -> Receipt:
        """Return what writing would do, as far as it can be told without it."""
        notes = (*self.plan.notes, *self._notes)
        return Receipt(self.prefix, len(self.plan.tensors), (), 0, 0, None, None, notes)

    def write(self, *, on_progress: Progress | None = None) -> Receipt:
        """Write the plan.

        Args:
            on_progress: told bytes copied and bytes to copy, if any are.

        Raises:
            DestinationError, SurgeryError: as of `prepare`, if that has come true since.
            CkptError: a file could not be read or written. A new checkpoint leaves nothing behind
                then, and one in place is as it was.
        """
        with self._locked():
            self._check()
            return self._finish(self._writer.write(on_progress))

    def _choose_writer(self) -> PlanWriter:
        """Return the one of three ways to write that this plan takes."""
        plan, options = self.plan, self._options
        if self.generation == "V1":
            from ckpttool.surgery.writing.legacy import NewLegacy  # it needs NumPy

            how = options.recoding or Recoding()
            force = options.force or self._in_place
            return NewLegacy(
                plan, None if self._in_place else self.prefix, how, options.data, force=force
            )
        if self._in_place:
            state = options.update_state
            return BundleInPlace(plan, compact=options.compact, updates_state=state)
        recoded = options.recoding is not None or plan.source.generation == "V1"
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
        """Refuse whatever can be refused; once beforehand, and again when the folder is locked."""
        options = self._options
        self._notes = self._writer.check()
        self._meta: PlannedMeta = planned_meta(
            self.plan,
            self.prefix,
            options.meta,
            self.generation,
            follow_links=options.follow_links,
        )
        self._state: PlannedState | None = (
            planned_state(self.prefix) if options.update_state else None
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
        """Do what is left to do when the checkpoint is there, and tell what was done."""
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


def _generation(plan: Plan, options: WriteOptions) -> Generation:
    return options.generation or plan.source.generation
