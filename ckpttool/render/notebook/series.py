"""How tensors change through the checkpoints of a folder, in a notebook: four small charts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import log

from ckpttool.query.diff.curves import curves_of
from ckpttool.query.diff.series import Series
from ckpttool.render import humanize
from ckpttool.render.drawing.palette import AREAS
from ckpttool.render.markup import Markup, element
from ckpttool.render.notebook.frame import (
    Heading,
    facts_line,
    named_line,
    strong,
    view_frame,
    view_table,
)
from ckpttool.render.sparklines import Scale

_HEADINGS = (
    Heading(""),
    Heading("first", "number"),
    Heading("through training"),
    Heading("last", "number"),
)
_WIDTH, _HEIGHT, _MARGIN = 240, 36, 3
_MOST_POINTS = 48


def series_html(series: Series) -> str:
    """Return the HTML of the checkpoints of a folder."""
    curves = curves_of(series)
    charts = (
        ("norm of all weights", curves.weights, "weight", False),
        ("update ratio of all weights (log)", curves.update, "weight", True),
        ("learning rate", curves.rate, "optimizer", False),
        ("norm of slot variables", curves.slots, "slot", False),
    )
    rows = []
    for name, values, kind, logarithmic in charts:
        known = [value for value in values if value is not None]
        if known:
            chart = _chart(values, AREAS[kind].light, name, logarithmic=logarithmic)
            rows.append((name, humanize.figure(known[0]), chart, humanize.figure(known[-1])))
    tensors = len({row.row.key for row in series.rows})
    problems = humanize.counted(len(series.problems), "problem") if series.problems else ""
    parts = [
        facts_line(
            [
                humanize.counted(len(series.checkpoints), "checkpoint"),
                humanize.counted(tensors, "tensor"),
                problems,
            ]
        )
    ]
    parts += [
        named_line(f"{word}: ", series.checkpoints[at])
        for word, at in (("first", 0), ("last", -1))
        if series.checkpoints
    ]
    if rows:
        parts.append(view_table(_HEADINGS, rows))
    return view_frame([strong(series.folder)], *parts)


def _chart(values: Sequence[float | None], color: str, label: str, *, logarithmic: bool) -> Markup:
    """Return a line through values; it has gaps where they are not known."""
    shares = min(len(values), _MOST_POINTS)
    edges = [number * len(values) // shares for number in range(shares + 1)]
    heights = [_largest(values[low:high], logarithmic=logarithmic) for low, high in pairwise(edges)]
    scale = Scale.of(heights, logarithmic=logarithmic)
    low, high = scale.low, scale.high
    words, pen = [], "M"
    for at, height in enumerate(heights):
        if height is None:
            pen = "M"
            continue
        place = log(height) if logarithmic else height
        share = (place - low) / (high - low) if high > low else 0.5
        x = _MARGIN + at * (_WIDTH - 2 * _MARGIN) // max(shares - 1, 1)
        y = _HEIGHT - _MARGIN - round(share * (_HEIGHT - 2 * _MARGIN))
        # A line to the point itself makes a dot of one that stands alone.
        words.append(f"{pen}{x} {y}" + ("h0" if pen == "M" else ""))
        pen = "L"
    line: dict[str, str | float] = {
        "d": "".join(words),
        "fill": "none",
        "stroke": color,
        "stroke-width": 2,
        "stroke-linecap": "round",
        "stroke-linejoin": "round",
    }
    frame: dict[str, str | float] = {
        "viewBox": f"0 0 {_WIDTH} {_HEIGHT}",
        "width": _WIDTH,
        "height": _HEIGHT,
        "role": "img",
        "aria-label": label,
    }
    return element("svg", frame, element("path", line))


def _largest(values: Sequence[float | None], *, logarithmic: bool) -> float | None:
    known = [value for value in values if value is not None and (value > 0 or not logarithmic)]
    return max(known, default=None)
