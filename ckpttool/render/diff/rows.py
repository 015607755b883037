"""What differs between two checkpoints as rows, one for each tensor, and as lists of names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TextIO

from ckpttool.printable import printable
from ckpttool.query.diff.results import CHANGES, LETTERS, Diff, GraphChange, TensorDiff
from ckpttool.query.rows import Totals
from ckpttool.render import humanize
from ckpttool.render.cells import Column
from ckpttool.render.console import Terminal
from ckpttool.render.names import NameColumns
from ckpttool.render.table import RowFormat, write_rows

_COLUMNS = (
    Column("kind"),
    Column("dtype"),
    Column("new_dtype"),
    Column("shape"),
    Column("new_shape"),
    Column("differing", align="right"),
    Column("elements", align="right"),
    Column("max_abs", align="right"),
    Column("max_rel", align="right"),
    Column("mean_abs", align="right"),
    Column("rel_norm", align="right"),
    Column("index"),
    Column("a", fold=True),
    Column("b", fold=True),
    Column("note", fold=True),
)
_STAT = (
    Column("change"),
    Column("tensors", align="right", human=humanize.number),
    Column("elements", align="right", human=humanize.number),
    Column("bytes", align="right", human=humanize.size),
)
_STYLES = {"A": "green", "D": "red", "R": "cyan", "T": "magenta", "M": "yellow", "X": "bold red"}
_LETTERS_OF_GRAPHS = {"added": "A", "removed": "D", "renamed": "R", "changed": "M"}


def write_diff_rows(
    diff: Diff, format: RowFormat, stream: TextIO, terminal: Terminal, *, by_key: bool = False
) -> None:
    """Write a row for each tensor, and one for each difference of the object graphs.

    Args:
        diff: what differs.
        format: one of the row formats.
        stream: where to.
        terminal: what `stream` is.
        by_key: show keys instead of object paths and variable names.
    """
    by_key = by_key or format == "names"
    names = NameColumns([each.a or each.row for each in diff.tensors], by_key=by_key)
    new = NameColumns([each.b for each in diff.tensors if each.b is not None], by_key=by_key)
    called = replace(new.columns[0], name=f"new_{new.columns[0].name}", title=None)
    columns = (*names.columns, Column("status"), Column("change"), called, *_COLUMNS)

    def rows() -> Iterator[tuple[object, ...]]:
        for each in diff.tensors:
            a, b = each.a, each.b
            renamed = a is not None and b is not None and a.key != b.key
            yield (
                *names.cells(a or each.row),
                LETTERS[each.change],
                each.change,
                new.shown(b) if renamed and b is not None else None,
                *_tensor_cells(each),
            )
        if diff.graph is not None and format != "names":
            for change in diff.graph.changes:
                yield _graph_row(change, len(columns), named=len(names.columns) > 1)

    write_rows(rows(), columns, format, stream, terminal=terminal)


def write_names(diff: Diff, stream: TextIO, terminal: Terminal, *, status: bool) -> None:
    """Write the name of each tensor that differs on a line, as `git diff --name-only` does.

    Args:
        diff: what differs.
        stream: where to.
        terminal: what `stream` is.
        status: put the letter of the change before the name, and of renames show both names.
    """
    for each in diff.tensors:
        name = printable(each.row.key)
        if status:
            letter = LETTERS[each.change]
            if each.change == "renamed" and each.a is not None:
                name = f"{printable(each.a.key)}\t{name}"
            name = f"{terminal.style(letter, _STYLES.get(letter, ''))}\t{name}"
        stream.write(f"{name}\n")


def write_stat(diff: Diff, format: RowFormat, stream: TextIO, terminal: Terminal) -> None:
    """Write how many tensors came out as what."""
    rows = []
    for change in CHANGES:
        totals = Totals.of([each.row for each in diff.tensors if each.change == change])
        if diff.counts[change]:
            rows.append((change, totals.tensors, totals.elements, totals.bytes))
    write_rows(rows, _STAT, format, stream, terminal=terminal)


def graph_text(change: GraphChange) -> str:
    """Say in words what differs in an object graph, without the object itself."""
    if change.part == "edge":
        count = f", {humanize.counted(change.objects, 'object')}" if change.objects else ""
        return f"object {change.change}{count}"
    if change.part == "slot":
        return f"slot {change.name} of {change.optimizer or 'the root'} {change.change}"
    if change.part == "sharing":
        return "leads to another object"
    if change.part == "saver":
        return "saved by another function"
    return f"attribute {change.name} {change.change}"


def _tensor_cells(each: TensorDiff) -> tuple[object, ...]:
    a, b, values = each.a, each.b, each.values
    worst = values.worst if values is not None else None
    return (
        each.row.kind,
        a.dtype if a is not None else None,
        b.dtype if b is not None else None,
        a.shape if a is not None else None,
        b.shape if b is not None else None,
        values.differing if values is not None else None,
        values.elements if values is not None else None,
        values.max_abs if values is not None else None,
        values.max_rel if values is not None else None,
        values.mean_abs if values is not None else None,
        values.rel_norm if values is not None else None,
        worst.index if worst is not None else None,
        _exact(worst.a, worst.a_text) if worst is not None else None,
        _exact(worst.b, worst.b_text) if worst is not None else None,
        note_on(each),
    )


def note_on(each: TensorDiff) -> str | None:
    """Return what else there is to say of a tensor."""
    if each.guessed:
        count = humanize.counted(len(each.candidates), "tensor")
        return f"a guess: {count} of B hold the same"
    if each.reason is not None:
        return each.reason
    if each.matched == "full_name":
        return "the same by its full name"
    if each.matched == "object_path":
        return "the same by its object path"
    return None


def _exact(value: object, text: str) -> object:
    """Return an element as a cell: a string as its bytes, a number as its text."""
    return value if isinstance(value, bytes) else text


def _graph_row(change: GraphChange, length: int, *, named: bool) -> tuple[object, ...]:
    row: list[object] = [change.path, _LETTERS_OF_GRAPHS[change.change], "graph", change.new_path]
    if named:
        row.insert(1, None)
    last = (change.a, change.b, graph_text(change))
    return (*row, *[None] * (length - len(row) - len(last)), *last)
