"""What changed layer by layer, with a character for each layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from math import exp, inf
from typing import TextIO, cast

from ckpttool.printable import printable
from ckpttool.query.diff.layers import LayerChanges, layers_of, ratio_of
from ckpttool.query.diff.results import LETTERS, Diff, TensorDiff
from ckpttool.query.rows import short_name
from ckpttool.render import humanize
from ckpttool.render.cells import Column, number_style
from ckpttool.render.console import Terminal
from ckpttool.render.diff.json import diff_document, write_lines
from ckpttool.render.diff.text import summary_of
from ckpttool.render.jsonout import write_json
from ckpttool.render.sparklines import NOT_FINITE, NOTHING, Scale
from ckpttool.render.table import RowFormat, write_rows
from ckpttool.render.wrap import write_prose

_COLUMNS = (
    Column("name", fold=True),
    Column("tensors", align="right", human=humanize.number),
    Column("changed", align="right", human=humanize.number),
    Column("layers"),
    Column("largest", align="right", human=lambda ratio: f"{ratio:.3g}", style=number_style),
)
_WHERE = Column("at"), Column("where", fold=True)
# Of more layers, each character is the strongest of several.
_MOST, _INDENT = 100, 2
_ASCII = str.maketrans("·▁▂▃▄▅▆▇", ".1234567")
# From weak to strong.
_ORDER = f"{NOTHING}▁▂▃▄▅▆▇MRADTX{NOT_FINITE}"


def write_layers(
    diff: Diff,
    format: str,
    stream: TextIO,
    terminal: Terminal,
    *,
    everything: bool = False,
    by_key: bool = False,
) -> None:
    """Write what differs with a row for all layers of the same name.

    Args:
        diff: what differs, with the tensors that are equal.
        format: "json" or one of the row formats.
        stream: where to.
        terminal: what `stream` is.
        everything: write rows in which all is equal, too.
        by_key: show keys instead of object paths.
    """
    rows = layers_of(diff, everything=everything, by_key=by_key)
    if format in ("json", "jsonl"):
        if not everything:
            differing = tuple(each for each in diff.tensors if each.change != "equal")
            diff = replace(diff, tensors=differing)
        documents = map(_document, rows)
        if format == "json":
            write_json(diff_document(diff) | {"layers": documents}, stream)
        else:
            write_lines(replace(diff, tensors=()), stream, documents)
        return
    scale = Scale.of((ratio_of(each) for row in rows for each in row.tensors), logarithmic=True)
    people = format == "table"

    def cells() -> Iterator[tuple[object, ...]]:
        for row in rows:
            at = row.largest
            largest = None if at is None else row.tensors[at]
            place = None if at is None or not row.numbers else row.numbers[at]
            where = None
            if largest is not None:
                where = largest.row.key if by_key else short_name(largest.row)
            yield (
                row.name,
                len(row.tensors),
                row.changed,
                _picture(row.tensors, scale, terminal),
                None if largest is None else ratio_of(largest),
                (place or "") if people else where,
            )

    columns = (*_COLUMNS, _WHERE[0] if people else _WHERE[1])
    if rows or not people:
        write_rows(cells(), columns, cast(RowFormat, format), stream, terminal=terminal)
    if people:
        stream.write("\n" if rows else "")
        write_prose(_summary(diff, scale, terminal), stream, terminal, style="dim")


def _summary(diff: Diff, scale: Scale, terminal: Terminal) -> str:
    text = summary_of(diff)
    if any(ratio_of(each) not in (None, 0, inf) for each in diff.tensors):
        low, high = "▁▇" if terminal.unicode else "17"
        text += f"; {low} = {exp(scale.low):.3g}, {high} = {exp(scale.high):.3g}"
    if diff.graph is not None and not diff.graph.equal:
        text += "; the object graphs differ"
    return printable(text)


def _picture(tensors: Sequence[TensorDiff], scale: Scale, terminal: Terminal) -> str:
    marks = [_mark(each, scale) for each in tensors]
    width = min(len(marks), _MOST)
    if terminal.width is not None:
        # A cell without spaces is not broken over lines.
        width = max(min(width, terminal.width - _INDENT), 1)
    edges = [number * len(marks) // width for number in range(width + 1)]
    text = "".join(max(marks[low:high], key=_ORDER.index) for low, high in pairwise(edges))
    return text if terminal.unicode else text.translate(_ASCII)


def _mark(each: TensorDiff, scale: Scale) -> str:
    ratio = ratio_of(each)
    return (
        LETTERS[each.change] if ratio is None or (each.values and not ratio) else scale.mark(ratio)
    )


def _document(row: LayerChanges) -> dict[str, object]:
    at = row.largest
    return {
        "name": row.name,
        "kind": row.kind,
        "tensors": len(row.tensors),
        "changed": row.changed,
        "numbers": row.numbers,
        "changes": [each.change for each in row.tensors],
        "ratios": [ratio_of(each) for each in row.tensors],
        "largest": None if at is None else ratio_of(row.tensors[at]),
        "largest_key": None if at is None else row.tensors[at].row.key,
    }
