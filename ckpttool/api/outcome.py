"""What became of a checkpoint or of all checkpoints of a folder, or would."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TextIO, overload

from ckpttool.api.answer import Answer
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.errors import CkptError, MissingFileError, SelectionError
from ckpttool.query.source import Source
from ckpttool.render.console import Terminal
from ckpttool.render.surgery import (
    Changed,
    changes_document,
    folder_document,
    summary_line,
    write_changes,
    write_folder_changes,
)
from ckpttool.storage.paths import StrPath, path_text
from ckpttool.surgery.plan import Change, Plan
from ckpttool.surgery.repetition import refuse_repetition
from ckpttool.surgery.writing.destination import destination_prefix, unused_place
from ckpttool.surgery.writing.folder import Planned, PreparedTargets, WriteTarget
from ckpttool.surgery.writing.receipt import Receipt
from ckpttool.surgery.writing.write import options_to_write, write

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ckpttool.surgery.writing.write import Writing


_UNTOUCHED = "no rule or pattern finds anything here, so nothing changes"


class Outcome(Answer):
    """What became of a checkpoint, or would; made by `ckpttool.rename` and `ckpttool.prune`.

    `str()` is the table of the command.

    Attributes:
        command: the command that does the same.
        source: the checkpoint as it was before.
        destination: prefix of the result; None where it was not said.
        dry_run: whether nothing was written.
        changes: what became of the tensors of the source: those renamed or dropped, by key.
        receipt: what was written, or would be.
    """

    def __init__(
        self,
        command: str,
        source: Source,
        plan: Plan,
        destination: str | None,
        receipt: Receipt,
        *,
        dry_run: bool,
    ) -> None:
        self.command = command
        self.source = source
        self.destination = destination
        self.dry_run = dry_run
        self.receipt = receipt
        self._plan = plan

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """What became of the tensors of the source: those renamed or dropped, by key."""
        return self._plan.changes

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know, in words."""
        return self.receipt.notes

    @property
    def summary(self) -> str:
        """In one line what was done, or would be."""
        return summary_line(self.changed)

    @property
    def changed(self) -> Changed:
        """The same for what makes text of it."""
        receipt = None if self.dry_run else self.receipt
        return Changed(self._plan, receipt, self.source, self.destination)

    def write_changes(
        self,
        format: str,
        stream: TextIO,
        terminal: Terminal,
        *,
        everything: bool = False,
        by_key: bool = False,
    ) -> None:
        """Write what became of each tensor, in a table by scope.

        Args:
            format: "json" or one of the row formats.
            stream: where to.
            terminal: what `stream` is.
            everything: list every tensor in a table too.
            by_key: show keys instead of object paths and variable names.
        """
        write_changes(
            self.changed,
            self.command,
            format,
            stream,
            terminal,
            everything=everything,
            by_key=by_key,
        )

    def _document(self) -> Mapping[str, Any]:
        return changes_document(self.changed, self.command)

    def _write_table(self, stream: TextIO, terminal: Terminal) -> None:
        self.write_changes("table", stream, terminal)

    def __repr__(self) -> str:
        return f"<Outcome of {self.command} {self.source.prefix!r}: {self.summary}>"


def write_plan(
    plan: Plan, destination: StrPath | None, command: str, **how: Unpack[Writing]
) -> Outcome:
    """Write a plan, or with `dry_run` only prepare to, and return what came of it.

    Args:
        plan: what to write.
        destination: where to, as `surgery.write` takes it.
        command: name of the command, for the JSON schema.
        how: the other arguments of `surgery.write`.
    """
    source = Source.of(plan.source)  # beforehand: in place there is no such checkpoint afterwards
    receipt = write(plan, destination, **how)
    prefix = None if destination is None else destination_prefix(path_text(destination))
    if how.get("in_place"):
        prefix = plan.source.prefix
    dry_run = how.get("dry_run", False)
    return Outcome(command, source, plan, prefix, receipt, dry_run=dry_run)


class Outcomes(Answer, Sequence[Outcome]):
    """What became of the checkpoints of a folder, or would; in the order of writing.

    Made by `ckpttool.rename` and `ckpttool.prune` with `all=True`. `str()` is the table of the
    command.

    Attributes:
        command: the command that does the same.
        dry_run: whether nothing was written.
        state: path of the state file that was written.
        notes: what the user should know of the state file, in words.
    """

    def __init__(
        self,
        command: str,
        done: Sequence[Outcome],
        *,
        dry_run: bool,
        state: str | None,
        notes: Sequence[str],
    ) -> None:
        self.command = command
        self.dry_run = dry_run
        self.state = state
        self.notes = tuple(notes)
        self._done = tuple(done)

    @overload
    def __getitem__(self, at: int) -> Outcome: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Outcome]: ...
    def __getitem__(self, at: int | slice) -> Outcome | Sequence[Outcome]:
        return self._done[at]

    def __len__(self) -> int:
        return len(self._done)

    def write_changes(
        self,
        format: str,
        stream: TextIO,
        terminal: Terminal,
        *,
        everything: bool = False,
        by_key: bool = False,
    ) -> None:
        """Write what became of each tensor; arguments as of `Outcome.write_changes`."""
        changed = [each.changed for each in self]
        write_folder_changes(
            changed,
            self.command,
            format,
            stream,
            terminal,
            dry_run=self.dry_run,
            state=self.state,
            everything=everything,
            by_key=by_key,
        )

    def _document(self) -> Mapping[str, Any]:
        changed = [each.changed for each in self]
        return folder_document(changed, self.command, dry_run=self.dry_run, state=self.state)

    def _write_table(self, stream: TextIO, terminal: Terminal) -> None:
        self.write_changes("table", stream, terminal)

    def __repr__(self) -> str:
        return f"<Outcomes of {self.command}: {len(self):,} checkpoints>"


@dataclass(frozen=True, slots=True)
class _Planned(Planned):
    source: Source
    untouched: SelectionError | None


def finds_nothing(plan_of: Callable[..., Plan], *arguments: object) -> bool:
    """Tell whether planning fails because a rule or pattern finds nothing."""
    try:
        plan_of(*arguments)
    except SelectionError:
        return True
    except CkptError:
        return False
    return False


def write_plans(
    folder: StrPath | Checkpoint,
    destination: StrPath | None,
    command: str,
    plan_of: Callable[[Checkpoint], Plan],
    touches: Callable[[Checkpoint], bool],
    on_done: Callable[[Outcome], None] | None,
    **how: Unpack[Writing],
) -> Outcomes:
    """Write the plans of all checkpoints of a folder, or with `dry_run` only prepare to.

    A checkpoint in which no rule or pattern finds anything stays as it is: a folder holds those of
    an older program too, or of a run of this command that was interrupted.

    Args:
        folder: the folder.
        destination: the folder of the results.
        command: name of the command, for the JSON schema.
        plan_of: plans one checkpoint; raises `SelectionError` if a rule or pattern finds nothing.
        touches: whether any of them finds something in a checkpoint.
        on_done: told of each checkpoint that is written.
        how: the other arguments of `surgery.write`.

    Raises:
        SelectionError: a rule or pattern finds nothing in a checkpoint, but others do, or none
            finds anything in any checkpoint.
        SurgeryError: in place, and the rules may have been applied to some already.
    """
    if isinstance(folder, Checkpoint):
        raise TypeError("all=True takes the path of a folder, not an open checkpoint")
    path = path_text(folder)
    if not os.path.isdir(path):
        raise MissingFileError("not a folder of checkpoints", path=path)
    options = options_to_write(destination, **how)
    in_place, dry_run = how.get("in_place", False), how.get("dry_run", False)
    output = None if destination is None else path_text(destination)
    if output is None and not in_place:
        output = unused_place(path)

    def planned(ckpt: Checkpoint, target: WriteTarget) -> _Planned:
        source, untouched = Source.of(ckpt), None
        try:
            plan = plan_of(ckpt)
        except SelectionError as error:
            error.path = error.path or ckpt.prefix
            if touches(ckpt):
                raise
            plan, untouched = Plan.of(ckpt).with_notes(_UNTOUCHED), error
        return _Planned(plan, options, source, untouched)

    done = []
    prepared = PreparedTargets(path, output, planned, options)
    if not prepared.whole:
        raise MissingFileError("no checkpoints in the folder itself", path=path)
    errors = [each.untouched for each in prepared.planned]
    if errors[0] is not None and all(errors):
        raise errors[0]
    if in_place:
        refuse_repetition([each.plan for each in prepared.planned])
    for each in prepared.write(dry_run=dry_run, on_progress=how.get("on_progress")):
        to = None if destination is None and not in_place else each.target.place
        source, plan = each.planned.source, each.planned.plan
        done.append(Outcome(command, source, plan, to, each.receipt, dry_run=dry_run))
        if on_done is not None:
            on_done(done[-1])
    return Outcomes(command, done, dry_run=dry_run, state=prepared.state, notes=prepared.notes)
