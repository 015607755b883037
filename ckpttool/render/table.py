"""Rows of cells in every output format; each command describes its columns once.

A cell is None, a bool, int, float, str, bytes, or a sequence of whole numbers (a shape) or texts.
Text from files is made printable in every form but JSON, which carries it exactly.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, TextIO

from ckpttool.printable import printable
from ckpttool.render.console import Terminal
from ckpttool.render.humanize import shape
from ckpttool.render.jsonout import write_jsonl

RowFormat = Literal["table", "plain", "jsonl", "csv", "markdown", "names"]
ROW_FORMATS: tuple[RowFormat, ...] = ("table", "plain", "jsonl", "csv", "markdown", "names")
NOTHING = "-"
_BATCH = 4096
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")

Row = Sequence[object]


@dataclass(frozen=True, slots=True)
class Column:
    """What one column holds and how it looks.

    Attributes:
        name: its name in `plain`, `csv` and `jsonl`.
        title: its heading in `table` and `markdown`; the name by default.
        align: where cells stand in `table` and `markdown`.
        human: makes the text of a cell in `table` and `markdown`, where that is not the plain
            one; not called for None.
        fold: whether cells may be broken over several lines on a narrow terminal.
        style: words for `Terminal.style`.
    """

    name: str
    title: str | None = None
    align: Literal["left", "right"] = "left"
    human: Callable[[Any], str] | None = None
    fold: bool = False
    style: str = ""

    @property
    def heading(self) -> str:
        """The title, or the name where there is none."""
        return self.name if self.title is None else self.title


def write_rows(
    rows: Iterable[Row],
    columns: Sequence[Column],
    format: RowFormat,
    stream: TextIO,
    *,
    terminal: Terminal | None = None,
) -> None:
    """Write rows in one of `ROW_FORMATS`.

    Args:
        rows: the cells of each row, as many as there are columns. All formats but `table` write
            them as they come.
        columns: the columns; the first one holds the name of what a row is about.
        format: `table`, aligned and fitted to the terminal; `plain`, tab-separated under one line
            of names; `jsonl`, an object a line; `csv`; `markdown`; `names`, the first column.
        stream: where to.
        terminal: what `stream` is; of use to `table` alone.
    """
    if format == "table":
        from ckpttool.render.aligned import write_table

        write_table(rows, columns, stream, terminal or Terminal())
    elif format == "jsonl":
        names = [column.name for column in columns]
        write_jsonl((dict(zip(names, row, strict=True)) for row in rows), stream)
    elif format == "csv":
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow([column.name for column in columns])
        writer.writerows(map(_csv_row, rows))
    elif format == "names":
        for batch in _batches(rows):
            _write_lines(_texts([row[0] for row in batch]), stream)
    elif format == "plain":
        _write_lines(["\t".join(column.name for column in columns)], stream)
        for batch in _batches(rows):
            cells = [_texts(values) for values in zip(*batch, strict=True)]
            _write_lines(map("\t".join, zip(*cells, strict=True)), stream)
    else:
        _write_markdown(rows, columns, stream)


def cell_text(value: object) -> str:
    """Return the plain text of a cell."""
    if isinstance(value, str):
        return printable(value)
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (bytes, bytearray)):
        return printable(bytes(value).decode("utf-8", "surrogateescape"))
    if isinstance(value, (tuple, list)):
        if all(isinstance(each, int) for each in value):
            return shape(value)
        return ", ".join(map(cell_text, value))
    return printable(str(value))


def human_texts(values: Sequence[object], column: Column) -> Sequence[str]:
    """Return the texts of cells of one column in the forms that people read."""
    show = column.human
    if show is None:
        return _texts(values)
    return [NOTHING if value is None else printable(show(value)) for value in values]


def _texts(values: Sequence[Any]) -> Sequence[str]:
    """Return the plain texts of cells of one column, which mostly have one type."""
    types = set(map(type, values))
    if types == {str}:
        return values if _is_printable("".join(values)) else list(map(printable, values))
    if types == {int}:
        return list(map(str, values))
    if types == {tuple}:
        known = {value: cell_text(value) for value in set(values)}
        return [known[value] for value in values]
    return list(map(cell_text, values))


def _is_printable(text: str) -> bool:
    return text.isascii() and printable(text) == text


def _csv_row(row: Row) -> list[object]:
    return [_csv_cell(value) for value in row]


def _csv_cell(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    text = cell_text(value)
    # A spreadsheet would take such text for a formula.
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def _write_markdown(rows: Iterable[Row], columns: Sequence[Column], stream: TextIO) -> None:
    rules = ["---:" if column.align == "right" else "---" for column in columns]
    headings = [_escape_markdown(column.heading) for column in columns]
    _write_lines([f"| {' | '.join(headings)} |", f"| {' | '.join(rules)} |"], stream)
    for batch in _batches(rows):
        cells = [
            list(map(_escape_markdown if number else code_span, human_texts(values, column)))
            for number, (values, column) in enumerate(
                zip(zip(*batch, strict=True), columns, strict=True)
            )
        ]
        _write_lines((f"| {' | '.join(row)} |" for row in zip(*cells, strict=True)), stream)


def _escape_markdown(text: str) -> str:
    for mark in "\\`*_[]<>|&":
        if mark in text:
            text = text.replace(mark, "\\" + mark)
    return text


def code_span(text: str) -> str:
    """Return text as code, fenced by more backticks than it has in a row."""
    if not text:
        return ""
    fence = "`"
    while fence in text:
        fence += "`"
    pad = " " if text[0] in " `" or text[-1] in " `" else ""
    return f"{fence}{pad}{text}{pad}{fence}".replace("|", "\\|")


def _write_lines(lines: Iterable[str], stream: TextIO) -> None:
    """Write lines, of which there is at least one."""
    stream.write("\n".join(lines) + "\n")


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    each = iter(rows)
    while batch := list(islice(each, _BATCH)):
        yield batch
