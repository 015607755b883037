"""What became of a checkpoint, or would."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TextIO

from ckpttool.api.answer import Answer
from ckpttool.query.source import Source
from ckpttool.render.console import Terminal
from ckpttool.render.surgery import changes_document, summary_line, write_changes
from ckpttool.storage.paths import StrPath, path_text
from ckpttool.surgery.plan import Change, Plan
from ckpttool.surgery.writing.destination import destination_prefix
from ckpttool.surgery.writing.receipt import Receipt
from ckpttool.surgery.writing.write import write

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ckpttool.surgery.writing.write import Writing


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
        return summary_line(self._plan, self._written, self.destination)

    @property
    def _written(self) -> Receipt | None:
        return None if self.dry_run else self.receipt

    def write_changes(self, format: str, stream: TextIO, terminal: Terminal) -> None:
        """Write what became of each tensor.

        Args:
            format: "json" or one of the row formats.
            stream: where to.
            terminal: what `stream` is.
        """
        plan, done = self._plan, self._written
        about = (self.source, self.destination, self.command)
        write_changes(plan, done, *about, format, stream, terminal)

    def _document(self) -> Mapping[str, Any]:
        about = (self.source, self.destination, self.command)
        return changes_document(self._plan, self._written, *about)

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
