"""How tensors change through the checkpoints of a folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import TextIO

from ckpttool.api.answer import Answer
from ckpttool.checkpoint.selection.select import Selector
from ckpttool.printable import printable
from ckpttool.query.diff import series as query
from ckpttool.render import humanize
from ckpttool.render.console import Terminal
from ckpttool.render.diff.json import series_document
from ckpttool.render.diff.series import write_series
from ckpttool.storage.paths import StrPath
from ckpttool.storage.work import Progress


@dataclass(frozen=True, repr=False)
class CheckpointSeries(query.Series, Answer):
    """How tensors change through the checkpoints of a folder; made by `ckpttool.diff_series`.

    `rows` are the tensors, by key and then by checkpoint, `problems` the errors. `str()` is the
    table of `ckpt diff --series`.
    """

    def _document(self) -> Mapping[str, object]:
        return series_document(self)

    def _write_table(self, stream: TextIO, terminal: Terminal) -> None:
        write_series(self, "table", stream, terminal)

    def __repr__(self) -> str:
        count = humanize.counted(len(self.checkpoints), "checkpoint")
        return f"<CheckpointSeries {printable(self.folder)!r}: {count}>"


def diff_series(
    folder: StrPath,
    patterns: str | Iterable[str] | Selector = (),
    *,
    exclude: str | Iterable[str] = (),
    kinds: str | Iterable[str] = (),
    on_progress: Progress | None = None,
) -> CheckpointSeries:
    """Tell how tensors change through the checkpoints of a folder, as `ckpt diff --series` does.

    Args:
        folder: the folder.
        patterns: which tensors, by their names in any of the checkpoints; all by default.
        exclude: patterns of tensors to leave out.
        kinds: which kinds of tensors, such as "weight"; all by default.
        on_progress: called with the number of checkpoints that are done, and of all.

    Raises:
        NotFoundError: there are no checkpoints.
        FileAccessError: the folder cannot be read.
        SelectionError: a pattern selects nothing in any of them.

    >>> found = ckpttool.diff_series("tf_ckpts", kinds="weight")
    >>> found.checkpoints[-1], found.rows[-1].change
    ('ckpt-10', 'changed')
    """
    selector = Selector.from_patterns(patterns, exclude=exclude, kinds=kinds)
    found = query.diff_series(folder, selector, on_progress=on_progress)
    return CheckpointSeries(*(getattr(found, each.name) for each in fields(found)))
