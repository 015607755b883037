"""What changed between two checkpoints, in a notebook."""

from __future__ import annotations

import heapq
from math import inf

from ckpttool.printable import shortened
from ckpttool.query.diff.results import CHANGES, Diff, TensorChange, TensorDiff
from ckpttool.query.rows import short_name
from ckpttool.render import humanize
from ckpttool.render.diff.text import CHANGE_TITLES
from ckpttool.render.drawing.labels import elided
from ckpttool.render.drawing.palette import AREA_REST, AREAS
from ckpttool.render.folded import ARROW, fold_moves
from ckpttool.render.markup import Markup
from ckpttool.render.notebook.frame import (
    Heading,
    Share,
    facts_line,
    share_bar,
    strong,
    view_frame,
    view_table,
)
from ckpttool.render.notebook.layers import layer_strips

# The legend says in words what is which.
_COLORS = {
    "added": AREAS["ema"],
    "removed": AREAS["optimizer"],
    "renamed": AREAS["weight"],
    "equal": AREA_REST,
}
_LISTED: tuple[TensorChange, ...] = ("value", "incomparable", "dtype", "shape", "unreadable")
_CHANGED = (
    Heading("largest changes", "name"),
    *(Heading(text) for text in ("", "shape")),
    *(Heading(text, "number") for text in ("differ", "max abs", "rel norm")),
)
_MOVED = (Heading("renamed", "name"), Heading("to", "name"), Heading("tensors", "number"))
_LAYERS = (Heading("change by layer", "name"), Heading("layers"), Heading("", "strip"))
_KEY = "▁ the smallest rel norm, ▇ the largest, on a logarithmic scale; · no change, or no layer"
_MOST_MOVES, _MOST_STRIPS, _LONGEST = 4, 4, 60


def diff_html(diff: Diff, most: int) -> str:
    """Return the HTML of what differs, with at most so many rows."""
    title = [strong(diff.a.prefix), ARROW, strong(diff.b.prefix)]
    problems = ""
    if diff.problems:
        first = shortened(diff.problems[0].message, _LONGEST)
        problems = f"{humanize.counted(len(diff.problems), 'problem')}, the first is: {first}"
    graph = "the object graphs differ" if diff.graph and not diff.graph.equal else ""
    total = humanize.counted(diff.counts.total(), "tensor")
    parts = [facts_line([diff.verdict, total, graph, problems])]
    parts += share_bar(_shares(diff), "tensors by change")
    if diff.moves:
        parts.append(_moves_table(diff, min(most, _MOST_MOVES)))
    listed = [each for each in diff.tensors if each.change in _LISTED]
    if listed:
        largest = heapq.nsmallest(most, enumerate(listed), key=lambda each: _order(*each))
        rows = (_cells(each) for _, each in largest)
        parts.append(view_table(_CHANGED, rows, more=len(listed) - len(largest)))
    parts += _strips(listed, min(most, _MOST_STRIPS))
    return view_frame(title, *parts)


def _shares(diff: Diff) -> list[Share]:
    return [
        Share(_title(each), _COLORS.get(each, AREAS["slot"]).light, count, humanize.number(count))
        for each in CHANGES
        if (count := diff.counts[each])
    ]


def _title(change: TensorChange) -> str:
    return CHANGE_TITLES.get(change, change)


def _moves_table(diff: Diff, most: int) -> Markup:
    moves, left_out = fold_moves(diff.moves)
    rows = [(move.old, move.new, humanize.number(move.tensors)) for move in moves[:most]]
    return view_table(_MOVED, rows, more=left_out + len(moves) - len(rows))


def _change_of(each: TensorDiff) -> float | None:
    return None if each.values is None else each.values.rel_norm


def _order(at: int, each: TensorDiff) -> tuple[float, float, int]:
    """Order by the norm of the change; where there is none, by the largest distance."""
    change = _change_of(each)
    distance = None if each.values is None else each.values.max_abs
    return -change if change is not None else inf, -float(distance or 0), at


def _cells(each: TensorDiff) -> tuple[str, ...]:
    rows = [row for row in (each.a, each.b) if row is not None]
    name = ARROW.join(dict.fromkeys(map(short_name, rows)))
    shape = elided(ARROW.join(dict.fromkeys(humanize.shape(row.shape) for row in rows)))
    values = each.values
    if values is None:
        return name, _title(each.change), shape, "", "", ""
    differ = f"{humanize.number(values.differing)} of {humanize.number(values.elements)}"
    numbers = (
        "" if number is None else humanize.figure(number)
        for number in (values.max_abs, values.rel_norm)
    )
    return name, _title(each.change), shape, differ, *numbers


def _strips(listed: list[TensorDiff], most: int) -> list[Markup]:
    changes = [
        (short_name(each.row), change)
        for each in listed
        if each.row.kind in ("weight", "ema") and (change := _change_of(each)) is not None
    ]
    strips = layer_strips(changes, most)
    rows = [(each.name, f"{each.first} to {each.last}", each.strip) for each in strips]
    return [view_table(_LAYERS, rows), facts_line([_KEY])] if rows else []
