"""A page on a checkpoint."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from typing import TextIO

from ckpttool.api.answer import Answer
from ckpttool.checkpoint.open import Checkpoint, opened
from ckpttool.checkpoint.selection.select import Selector
from ckpttool.errors import DestinationError
from ckpttool.query.report.facts import ReportFacts, report_facts
from ckpttool.render import humanize
from ckpttool.render.console import Terminal
from ckpttool.render.jsonout import write_json
from ckpttool.render.report.json import facts_document
from ckpttool.render.report.page import page_text
from ckpttool.storage.paths import StrPath, path_text
from ckpttool.storage.staging import StagedFiles
from ckpttool.storage.work import Progress


class CheckpointReport(Answer):
    """A page on a checkpoint; made by `ckpttool.report`.

    `to_dict()` is the JSON of `ckpt report`, and `str()` says in a line what the page shows.

    Attributes:
        facts: what the page shows.
        title: its heading; None for the name of the checkpoint.
    """

    def __init__(self, facts: ReportFacts, title: str | None, own: tuple[str, ...]) -> None:
        self.facts = facts
        self.title = title
        self._own = own

    @property
    def complete(self) -> bool:
        """Whether all could be read, and no checksum is wrong."""
        return self.facts.complete

    @property
    def problems(self) -> tuple[str, ...]:
        """What could not be read, or is damaged, and why."""
        return self.facts.problems

    @property
    def data(self) -> dict[str, object]:
        """The facts, as JSON has them."""
        return self.to_dict()

    @cached_property
    def html(self) -> str:
        """The page."""
        return page_text(self.facts, self.title)

    def save(self, path: StrPath, force: bool = False) -> None:
        """Write the page, which appears when it is complete.

        Args:
            path: where to; the folder must exist.
            force: replace a file that exists.

        Raises:
            DestinationError: the file exists, or is one of the checkpoint's own.
        """
        target = path_text(path)
        if any(os.path.exists(own) and _is_same(own, target) for own in self._own):
            raise DestinationError("it is a file of the checkpoint itself", path=target)
        if os.path.lexists(target) and not force:
            raise DestinationError("already exists; --force replaces it", path=target)
        if os.path.isdir(target):
            raise DestinationError("it is a folder", path=target)
        with StagedFiles() as files:
            files.create(target).write(self.html.encode("utf-8"))
            files.commit(replace_last=force)

    def _repr_html_(self) -> str:
        """Return a card for a notebook, in which the page itself would take megabytes."""
        from ckpttool.render.notebook.report import report_html

        return report_html(self.facts)

    def write_json(self, stream: TextIO) -> None:
        """Write the facts as JSON."""
        write_json(self._document(), stream)

    def _document(self) -> Mapping[str, object]:
        return facts_document(self.facts)

    def _write_table(self, stream: TextIO, terminal: Terminal) -> None:
        facts = self.facts
        tensors, size = humanize.counted(facts.tensors, "tensor"), humanize.size(facts.totals.bytes)
        trouble = f", {humanize.counted(len(facts.problems), 'problem')}" if facts.problems else ""
        stream.write(f"report on {facts.source.path}: {tensors}, {size}{trouble}\n")

    def __repr__(self) -> str:
        return f"<CheckpointReport {self.facts.source.path!r}: {self.facts.tensors} tensors>"


def report(
    source: StrPath | Checkpoint,
    selector: Selector | None = None,
    *,
    title: str | None = None,
    values: bool = True,
    jobs: int | None = None,
    on_progress: Progress | None = None,
) -> CheckpointReport:
    """Make a page on a checkpoint, as `ckpt report` does.

    A tensor that is damaged stops nothing: the page says so.

    Args:
        source: anything that names a checkpoint, or an open one.
        selector: which tensors; all without one.
        title: the heading; the name of the checkpoint by default.
        values: whether to read the data shards; else only the index is read.
        jobs: how many threads may count; as many as there are processors by default.
        on_progress: called with how many bytes were read, and with all.

    Raises:
        CkptError: the index cannot be read.
        SelectionError: a pattern selects nothing.

    >>> made = ckpttool.report("tf_ckpts")
    >>> made.complete
    True
    >>> made.save("report.html")
    """
    with opened(source) as ckpt:
        facts = report_facts(ckpt, selector, values=values, jobs=jobs, on_progress=on_progress)
        location = ckpt.location
        own = [ckpt.reader.path, *(file.path for file in ckpt.reader.shard_files())]
        own += filter(None, (location.meta_path, location.state_path))
    return CheckpointReport(facts, title, tuple(own))


def _is_same(own: str, target: str) -> bool:
    return os.path.exists(target) and os.path.samefile(own, target)
