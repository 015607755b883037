"""Statistics of tensors as rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TextIO

from ckpttool.query.values.detail import TensorDetail
from ckpttool.render import humanize
from ckpttool.render.cells import Column, alarm_style, number_style
from ckpttool.render.console import Terminal
from ckpttool.render.names import NameColumns
from ckpttool.render.show.json import index_text
from ckpttool.render.table import RowFormat, write_rows

_COLUMNS = (
    Column("dtype"),
    Column("shape", style="green"),
    Column("of"),
    Column("count", align="right", human=humanize.number),
    *(
        Column(name, align="right", human=humanize.figure, style=number_style)
        for name in ("min", "max", "mean", "std")
    ),
    Column("zeros", align="right", human=humanize.number),
    Column("nan", "NaN", align="right", human=humanize.number, style=alarm_style),
    Column("inf", "Inf", align="right", human=humanize.number, style=alarm_style),
)


def write_statistics(
    details: Iterable[TensorDetail],
    names: NameColumns,
    format: RowFormat,
    stream: TextIO,
    terminal: Terminal,
) -> None:
    """Write the statistics of each tensor as a row.

    Args:
        details: the tensors; those without statistics have a row with nothing in it.
        names: their names.
        format: one of the row formats.
        stream: where to.
        terminal: what `stream` is.
    """
    columns = (*names.columns, *_COLUMNS)
    write_rows(_rows(details, names), columns, format, stream, terminal=terminal)


def _rows(details: Iterable[TensorDetail], names: NameColumns) -> Iterator[tuple[object, ...]]:
    for detail in details:
        row = (*names.cells(detail, behind=index_text(detail)), detail.dtype, detail.part)
        summary = detail.statistics
        if summary is None:
            yield (*row, *(None,) * 9)
            continue
        yield (
            *row,
            summary.of,
            summary.count,
            summary.min,
            summary.max,
            summary.mean,
            summary.std,
            summary.zeros,
            summary.nan,
            summary.inf,
        )
