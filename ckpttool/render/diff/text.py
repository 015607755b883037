"""What differs between two checkpoints, for people: a section for each sort of difference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import TextIO, cast

from ckpttool.printable import printable, shortened, unprintable
from ckpttool.query.diff.results import (
    CHANGES,
    Diff,
    GraphChange,
    GraphDiff,
    TensorChange,
    TensorDiff,
)
from ckpttool.query.grouping import fold_scopes
from ckpttool.query.rows import short_name
from ckpttool.render import humanize
from ckpttool.render.aligned import write_table
from ckpttool.render.cells import Column, kind_style, number_style
from ckpttool.render.console import Terminal
from ckpttool.render.diff.json import diff_document, write_lines
from ckpttool.render.diff.rows import (
    graph_text,
    note_on,
    write_diff_rows,
    write_names,
    write_stat,
)
from ckpttool.render.folded import ARROW, MOST, fold_moves
from ckpttool.render.jsonout import write_json
from ckpttool.render.names import NameColumns
from ckpttool.render.table import RowFormat
from ckpttool.render.wrap import write_flow, write_prose

_MARKS = {"added": "+ ", "removed": "- ", "equal": "= ", "unreadable": "! ", "incomparable": "? "}
_STYLES = {
    "added": "green",
    "removed": "red",
    "renamed": "cyan",
    "dtype": "magenta",
    "shape": "magenta",
    "value": "yellow",
    "incomparable": "yellow",
    "unreadable": "bold red",
    "equal": "dim",
}
CHANGE_TITLES = {"value": "changed", "incomparable": "not comparable", "dtype": "other dtype"} | {
    "shape": "other shape"
}
_TENSORS = Column("tensors", align="right", human=humanize.number)
# Of differences alike in the object graph so many are shown, unless all are asked for.
_SHOWN = 3
_LONGEST = 40


def write_diff(
    diff: Diff,
    format: str,
    stream: TextIO,
    terminal: Terminal,
    *,
    view: str | None = None,
    everything: bool = False,
    by_key: bool = False,
) -> None:
    """Write what differs.

    Args:
        diff: what differs.
        format: "json" or one of the row formats.
        stream: where to.
        terminal: what `stream` is.
        view: "stat", "name-only" or "name-status" in place of the whole.
        everything: list every tensor to people, and all of the object graph.
        by_key: show keys instead of object paths and variable names.
    """
    if view == "stat":
        write_stat(diff, cast(RowFormat, format), stream, terminal)
    elif view is not None:
        write_names(diff, stream, terminal, status=view == "name-status")
    elif format == "json":
        write_json(diff_document(diff), stream)
    elif format == "jsonl":
        write_lines(diff, stream)
    elif format == "table":
        _write_for_people(diff, stream, terminal, everything=everything, by_key=by_key)
    else:
        write_diff_rows(diff, cast(RowFormat, format), stream, terminal, by_key=by_key)


def _write_for_people(
    diff: Diff, stream: TextIO, terminal: Terminal, *, everything: bool, by_key: bool
) -> None:
    for mark, source, style in (("---", diff.a, "red"), ("+++", diff.b, "green")):
        head = (f"{mark} {printable(source.prefix)}", style)
        about = (f" {source.generation}, {source.style}-based", "dim")
        write_flow([head, about], stream, terminal)
    folded = False
    for change in CHANGES:
        if change == "renamed":
            folded |= _write_renames(diff, stream, terminal, everything=everything)
            continue
        chosen = [each for each in diff.tensors if each.change == change]
        scalars = [each for each in chosen if change == "value" and not each.row.shape]
        others = [each for each in chosen if change != "value" or each.row.shape]
        for part, single in ((scalars, True), (others, False)):
            if len(part) > MOST and not everything:
                _write_scopes(change, part, stream, terminal, by_key=by_key)
                folded = True
            elif part:
                _write_section(change, part, stream, terminal, by_key=by_key, scalars=single)
    _write_damaged(diff, stream, terminal, by_key=by_key)
    if diff.graph is not None:
        known = {(move.old, move.new) for move in diff.moves}
        _write_graph(diff.graph, known, stream, terminal, everything=everything)
    if diff.tensors or diff.graph is not None or any(diff.damaged):
        stream.write("\n")
    summary = summary_of(diff) + ("; -v lists every tensor" if folded else "")
    write_prose(summary, stream, terminal, style="dim")


def _write_section(
    change: TensorChange,
    tensors: Sequence[TensorDiff],
    stream: TextIO,
    terminal: Terminal,
    *,
    by_key: bool,
    scalars: bool = False,
) -> None:
    names = NameColumns([each.a or each.row for each in tensors], by_key=by_key)
    head = Column(CHANGE_TITLES.get(change, change), fold=True, style=_STYLES[change])
    dtype, shape = Column("dtype"), Column("shape")
    columns: tuple[Column, ...] = (head, *names.columns[1:], dtype, shape)
    if change in ("added", "removed", "equal"):
        columns += (
            Column("kind", style=kind_style),
            Column("bytes", align="right", human=humanize.size),
        )
    elif scalars:
        columns = (*columns[:-1], Column("value", fold=True, style=number_style))
    elif change == "value":
        columns += (
            Column("differ"),
            Column("max abs", align="right", style=number_style),
            Column("max rel", align="right", style=number_style),
            Column("rel norm", align="right", style=number_style),
            Column("worst", fold=True, style=number_style),
        )
    elif change in ("incomparable", "unreadable"):
        columns += (Column("why", fold=True),)
    stream.write("\n")
    rows = (
        (
            _mark(change) + _name(each, by_key=by_key),
            *names.cells(each.a or each.row)[1:],
            *_cells(each),
        )
        for each in tensors
    )
    write_table(rows, columns, stream, terminal)


def _write_scopes(
    change: TensorChange,
    tensors: Sequence[TensorDiff],
    stream: TextIO,
    terminal: Terminal,
    *,
    by_key: bool,
) -> None:
    """Write a section with a row for each scope."""
    head = Column(CHANGE_TITLES.get(change, change), fold=True, style=_STYLES[change])
    columns: tuple[Column, ...] = (head, _TENSORS)
    if change == "value":
        columns += (
            Column("differ"),
            Column("max abs", align="right"),
            Column("max rel", align="right"),
            Column("rel norm", align="right", style=number_style),
            Column("largest in", fold=True),
        )
    elif change in ("incomparable", "unreadable"):
        columns += (Column("why", fold=True),)
    elif change in ("dtype", "shape"):
        columns += (Column(change),)
    else:
        columns += (Column("kind"), Column("bytes", align="right", human=humanize.size))
    rows = []
    for group in fold_scopes([_name(each, by_key=by_key) for each in tensors], MOST):
        members = [tensors[at] for at in group.members]
        name = _mark(change) + group.name
        rows.append((name, len(members), *_scope_cells(change, members, by_key=by_key)))
    stream.write("\n")
    write_table(rows, columns, stream, terminal)


def _scope_cells(
    change: TensorChange, members: Sequence[TensorDiff], *, by_key: bool
) -> tuple[object, ...]:
    if change == "value":
        values = [(each.values, each) for each in members if each.values is not None]
        differing = sum(value.differing for value, _ in values)
        elements = sum(value.elements for value, _ in values)
        # What is not finite is as far away as can be.
        worst, where = max(
            values,
            key=lambda each: -1 if each[0].max_abs is None else each[0].max_abs,
            default=(None, None),
        )
        relative = max((v.max_rel for v, _ in values if v.max_rel is not None), default=None)
        of_norms = max((v.rel_norm for v, _ in values if v.rel_norm is not None), default=None)
        return (
            f"{humanize.number(differing)} of {humanize.number(elements)}",
            _number(worst.max_abs if worst is not None else None),
            _number(relative),
            _number(of_norms),
            _name(where, by_key=by_key) if where is not None else "",
        )
    if change in ("incomparable", "unreadable"):
        return (_common(each.reason for each in members),)
    if change == "dtype":
        return (_common(_both((e.a or e.row).dtype, (e.b or e.row).dtype) for e in members),)
    if change == "shape":
        return (_common(map(_shapes, members)),)
    size = sum(each.row.bytes or 0 for each in members)
    return _common(each.row.kind for each in members), size


def _common(texts: Iterable[str | None]) -> str:
    """Return what all have in common, or that they differ."""
    found = {text or "" for text in texts}
    return found.pop() if len(found) == 1 else "several"


def _cells(each: TensorDiff) -> tuple[object, ...]:
    row, change = each.row, each.change
    a, b = each.a or row, each.b or row
    cells = (_both(a.dtype, b.dtype), _shapes(each))
    if change in ("added", "removed", "equal"):
        return (*cells, row.kind, row.bytes)
    if change in ("incomparable", "unreadable"):
        return (*cells, each.reason)
    values = each.values
    if values is None or values.worst is None:
        return cells
    worst = values.worst
    # The texts are printable already, and a table makes its cells so.
    ends = (shortened(each, _LONGEST) for each in (worst.a_text, worst.b_text))
    text = unprintable(ARROW.join(ends))
    if not worst.index:
        return (*cells[:1], text)
    text = f"{humanize.shape(worst.index)}: {text}"
    differ = f"{humanize.number(values.differing)} of {humanize.number(values.elements)}"
    numbers = (values.max_abs, values.max_rel, values.rel_norm)
    return (*cells, differ, *map(_number, numbers), text)


def _write_renames(diff: Diff, stream: TextIO, terminal: Terminal, *, everything: bool) -> bool:
    """Write renamed scopes; return whether there are too many for that."""
    moves, left_out = (diff.moves, 0) if everything else fold_moves(diff.moves)
    if not moves:
        return False
    columns = [Column("renamed", fold=True, style=_STYLES["renamed"]), _TENSORS]
    rows: list[list[object]] = [[f"{move.old}{ARROW}{move.new}", move.tensors] for move in moves]
    if left_out:
        rows.append([f"… {humanize.number(left_out)} more", None])
    if any(move.guessed for move in moves):
        columns.append(Column("note"))
        for row, move in zip_longest(rows, moves):
            guessed = move.guessed if move is not None else 0
            row.append(humanize.counted(guessed, "guess", "guesses") if guessed else "")
    stream.write("\n")
    write_table(rows, columns, stream, terminal)
    return len(moves) < len(diff.moves)


def _write_damaged(diff: Diff, stream: TextIO, terminal: Terminal, *, by_key: bool) -> None:
    rows = [
        (f"! {row.key if by_key else short_name(row)}", side, row.error.message)
        for side, damaged in zip("AB", diff.damaged, strict=True)
        for row in damaged
    ]
    if rows:
        stream.write("\n")
        head = Column("damaged", fold=True, style=_STYLES["unreadable"])
        write_table(rows, (head, Column("in"), Column("why", fold=True)), stream, terminal)


def _write_graph(
    graph: GraphDiff,
    known: set[tuple[str, str]],
    stream: TextIO,
    terminal: Terminal,
    *,
    everything: bool,
) -> None:
    rows: list[tuple[str, str]] = []
    if None in graph.objects:
        side = "A" if graph.objects[1] is None else "B"
        count = next((count for count in graph.objects if count is not None), 0)
        rows.append((f"only {side} has one", humanize.counted(count, "object")))
    groups: dict[tuple[str | None, ...], list[GraphChange]] = {}
    for change in graph.changes:
        # What is said of the tensors need not be said again.
        if change.part != "edge" or (change.path, change.new_path or "") not in known:
            slot = change.part == "slot"
            kind = (change.part, change.change, change.optimizer if slot else change.name)
            groups.setdefault(kind, []).append(change)
    for changes in groups.values():
        rows += _graph_rows(changes, everything=everything)
    if rows:
        stream.write("\n")
        columns = (Column("object graph", fold=True, style="yellow"), Column("", fold=True))
        write_table(rows, columns, stream, terminal)


def _graph_rows(changes: Sequence[GraphChange], *, everything: bool) -> Iterator[tuple[str, str]]:
    first = changes[0]
    if first.part == "slot" and not everything:
        names = ", ".join(dict.fromkeys(each.name or "" for each in changes))
        mark = "+ " if first.change == "added" else "- "
        count = humanize.counted(len(changes), "slot variable")
        yield f"{mark}{first.optimizer or 'the root'}", f"{count} {first.change}: {names}"
        return
    shown = changes if everything or len(changes) <= _SHOWN else changes[:1]
    for change in shown:
        mark = {"added": "+ ", "removed": "- "}.get(change.change, "~ ")
        path = change.path or "the root"
        name = path if change.new_path is None else f"{path}{ARROW}{change.new_path}"
        text = graph_text(change)
        if change.a is not None or change.b is not None:
            ends = (
                shortened(each, _LONGEST) if each is not None else "none"
                for each in (change.a, change.b)
            )
            text += f": {ARROW.join(ends)}"
        yield mark + name, text
    if len(shown) < len(changes):
        rest = humanize.counted(len(changes) - len(shown), "more like this", "more like this")
        yield f"  … {rest}", ""


def summary_of(diff: Diff) -> str:
    """Return how many tensors came out as what, in words."""
    counts = diff.counts
    total = humanize.counted(counts.total(), "tensor")
    words: Iterable[str] = (
        f"{humanize.number(counts[change])} {CHANGE_TITLES.get(change, change)}"
        for change in CHANGES
        if counts[change]
    )
    text = ", ".join(words)
    if diff.verdict == "equal":
        return f"equal: {total}"
    if diff.problems:
        text += f"; {humanize.counted(len(diff.problems), 'problem')}"
    return f"{total}: {text}"


def _name(each: TensorDiff, *, by_key: bool) -> str:
    rows = [row for row in (each.a, each.b) if row is not None]
    names = [row.key if by_key else short_name(row) for row in rows]
    note = f" ({note_on(each)})" if each.matched == "full_name" else ""
    return ARROW.join(dict.fromkeys(names)) + note


def _mark(change: TensorChange) -> str:
    return _MARKS.get(change, "~ ")


def _shapes(each: TensorDiff) -> str:
    return ARROW.join(
        dict.fromkeys(humanize.shape(row.shape) for row in (each.a, each.b) if row is not None)
    )


def _both(a: str, b: str) -> str:
    return a if a == b else f"{a}{ARROW}{b}"


def _number(value: int | float | None) -> str:
    if value is None:
        return ""
    return str(value) if isinstance(value, int) else f"{value:.3g}"
