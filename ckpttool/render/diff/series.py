"""How tensors change through the checkpoints of a folder, in every format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TextIO, cast

from ckpttool.printable import printable
from ckpttool.query.diff.series import Series, StepRow
from ckpttool.render import humanize
from ckpttool.render.aligned import write_table
from ckpttool.render.cells import Column, cell_text, number_style
from ckpttool.render.console import Terminal
from ckpttool.render.diff.json import series_document, step_document
from ckpttool.render.jsonout import write_json, write_jsonl
from ckpttool.render.names import NameColumns
from ckpttool.render.sparklines import WIDEST, Scale, sparkline
from ckpttool.render.table import RowFormat, write_rows
from ckpttool.render.wrap import text_width, write_prose

_NORM = Column("norm", align="right", human=lambda value: f"{value:.6g}", style=number_style)
_RATIO = Column("ratio", align="right", human=lambda value: f"{value:.3g}", style=number_style)
_COLUMNS = (
    Column("checkpoint", fold=True),
    Column("step", align="right"),
    Column("change"),
    _NORM,
    replace(_RATIO, name="update"),
    _RATIO,
)
_FIRST_NORM, _LAST_NORM = replace(_NORM, title="first norm"), replace(_NORM, title="last norm")
_LAST_RATIO = replace(_RATIO, title="last ratio")
_NOTE = Column("note", fold=True)
# What the numbers of a row take up on a terminal; the sparklines share the rest.
_NUMBERS, _NARROWEST, _GAP = 41, 8, 2
_EVENTS = {"first": "new", "reshaped": "reshaped", "gone": "gone", "unreadable": "unreadable"}
_MOST_EVENTS = 3


def write_series(
    series: Series, format: str, stream: TextIO, terminal: Terminal, *, by_key: bool = False
) -> None:
    """Write how tensors change through the checkpoints of a folder.

    To people that is a row for each tensor, in every other format one for each tensor in each
    checkpoint.

    Args:
        series: what was found.
        format: "json" or one of the row formats.
        stream: where to.
        terminal: what `stream` is.
        by_key: show keys instead of object paths and variable names.
    """
    if format == "json":
        write_json(series_document(series), stream)
    elif format == "jsonl":
        write_jsonl(map(step_document, series.rows), stream)
    elif format == "table":
        _write_for_people(series, stream, terminal, by_key=by_key)
    else:
        names = NameColumns([row.row for row in series.rows], by_key=by_key or format == "names")
        rows = (
            (
                *names.cells(row.row),
                row.checkpoint,
                row.step,
                row.change,
                row.norm,
                row.update,
                row.ratio,
            )
            for row in series.rows
        )
        columns = (*names.columns, *_COLUMNS)
        write_rows(rows, columns, cast(RowFormat, format), stream, terminal=terminal)


def _write_for_people(series: Series, stream: TextIO, terminal: Terminal, *, by_key: bool) -> None:
    tensors = [list(rows) for _, rows in groupby(series.rows, key=lambda each: each.row.key)]
    names = NameColumns([rows[0].row for rows in tensors], by_key=by_key)
    notes = [_note(rows, series.checkpoints[:1]) for rows in tensors]
    noted = any(notes)
    width = WIDEST
    if terminal.width is not None:
        rest = terminal.width - _NUMBERS
        beside = max((_name_width(names.cells(rows[0].row)) for rows in tensors), default=0)
        beside += max(map(text_width, notes), default=0)
        # Where names and notes leave no room, the table gives them lines of their own.
        room = rest - beside if rest - beside >= 2 * _NARROWEST else rest
        width = min(max(room // 2, _NARROWEST), WIDEST)
    columns = (*names.columns, _FIRST_NORM, _LAST_NORM, _LAST_RATIO)
    if terminal.unicode:
        pictures = Column("norm"), Column("ratio")
        columns = (*names.columns, _FIRST_NORM, pictures[0], _LAST_NORM, pictures[1], _LAST_RATIO)

    def cells(rows: Sequence[StepRow], note: str) -> Iterator[object]:
        yield from names.cells(rows[0].row)
        steps = {row.checkpoint: row for row in rows}
        there = [steps.get(checkpoint) for checkpoint in series.checkpoints]
        norms = [None if step is None else step.norm for step in there]
        ratios = [None if step is None else step.ratio for step in there]
        known = [norm for norm in norms if norm is not None]
        yield known[0] if known else None
        if terminal.unicode:
            yield sparkline(norms, Scale.of(norms), width) if known else None
        yield known[-1] if known else None
        if terminal.unicode:
            yield sparkline(ratios, Scale.of(ratios, logarithmic=True), width) if known else None
        yield rows[-1].ratio
        if noted:
            yield note

    table = (tuple(cells(*each)) for each in zip(tensors, notes, strict=True))
    write_table(table, (*columns, *([_NOTE] if noted else [])), stream, terminal)
    stream.write("\n")
    write_prose(_summary(series, len(tensors)), stream, terminal, style="dim")


def _name_width(cells: Sequence[object]) -> int:
    return sum(text_width(cell_text(cell)) + _GAP for cell in cells)


def _note(rows: Sequence[StepRow], begun: Sequence[str]) -> str:
    """Return what the numbers of a tensor do not tell."""
    events = [
        f"{_EVENTS[row.change]} in {row.checkpoint}"
        for row in rows
        if row.change in _EVENTS and (row.change != "first" or row.checkpoint not in begun)
    ]
    if len(events) > _MOST_EVENTS:
        left_out = len(events) - _MOST_EVENTS
        events[_MOST_EVENTS:] = [f"{humanize.number(left_out)} more"]
    if all(row.norm is None for row in rows):
        changed = sum(row.change == "changed" for row in rows)
        if changed:
            events.insert(0, f"changed {humanize.counted(changed, 'time')}")
    return "; ".join(events)


def _summary(series: Series, tensors: int) -> str:
    text = (
        f"{humanize.counted(tensors, 'tensor')} in "
        f"{humanize.counted(len(series.checkpoints), 'checkpoint')}"
    )
    if len(series.checkpoints) > 1:
        text += f", {series.checkpoints[0]} to {series.checkpoints[-1]}"
    if series.problems:
        text += f"; {humanize.counted(len(series.problems), 'problem')}"
    return printable(text)
