"""Rows of cells in every output format; each command describes its columns once."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Literal, TextIO

from ckpttool.render.aligned import write_table
from ckpttool.render.cells import ByColumn, Column, Row, cell_text, human_texts, texts
from ckpttool.render.console import Terminal
from ckpttool.render.jsonout import write_jsonl

RowFormat = Literal["table", "plain", "jsonl", "csv", "markdown", "names"]
_BATCH = 4096
_FORMULA_STARTS = ("=", "+", "-", "@")
_REAL = r"(?:(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|inf|nan|Infinity)"
_NUMBER = re.compile(rf"[-+]?{_REAL}(?:[-+]{_REAL}j|j)?\Z")


def write_rows(
    rows: Iterable[Row],
    columns: Sequence[Column],
    format: RowFormat,
    stream: TextIO,
    *,
    terminal: Terminal | None = None,
) -> tuple[str, ...]:
    """Write rows in a `RowFormat`; return the headings of columns that have no room.

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
        return write_table(rows, columns, stream, terminal or Terminal())
    if format == "jsonl":
        names = [column.name for column in columns]
        write_jsonl((dict(zip(names, row, strict=True)) for row in rows), stream)
    elif format == "csv":
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow([column.name for column in columns])
        writer.writerows(map(_csv_row, rows))
    elif format == "names":
        for batch in _by_columns(rows):
            _write_lines(texts(batch[0]), stream)
    elif format == "plain":
        _write_lines(["\t".join(column.name for column in columns)], stream)
        for batch in _by_columns(rows):
            cells = [texts(values) for values in batch]
            _write_lines(map("\t".join, zip(*cells, strict=True)), stream)
    else:
        _write_markdown(rows, columns, stream)
    return ()


def _csv_row(row: Row) -> list[object]:
    return [_csv_cell(value) for value in row]


def _csv_cell(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    text = cell_text(value)
    # A spreadsheet would take such text for a formula, which a name in a file from a stranger may
    # be. A number is one even as text: the value of an element that a difference names.
    guarded = text.startswith(_FORMULA_STARTS) and not _NUMBER.match(text)
    return f"'{text}" if guarded else text


def _write_markdown(rows: Iterable[Row], columns: Sequence[Column], stream: TextIO) -> None:
    rules = ["---:" if column.align == "right" else "---" for column in columns]
    headings = [_escape_markdown(column.heading) for column in columns]
    _write_lines([f"| {' | '.join(headings)} |", f"| {' | '.join(rules)} |"], stream)
    for batch in _by_columns(rows):
        cells = [
            list(map(_escape_markdown if number else code_span, human_texts(values, column)))
            for number, (values, column) in enumerate(zip(batch, columns, strict=True))
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


def _by_columns(rows: Iterable[Row]) -> Iterator[Sequence[Sequence[object]]]:
    """Yield the cells of some thousand rows at a time, by columns."""
    if isinstance(rows, ByColumn):
        yield from rows.parts(_BATCH)
        return
    each = iter(rows)
    while batch := list(islice(each, _BATCH)):
        yield list(zip(*batch, strict=True))
