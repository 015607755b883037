"""Shares of a whole, as bars and per cent."""

from __future__ import annotations

from collections.abc import Sequence

from ckpttool.render.cells import Column, Row, human_texts
from ckpttool.render.console import Terminal
from ckpttool.render.wrap import text_width

_WIDEST, _LEAST = 24, 6
_GAP = 2
_PERCENT = len("100.0 %")


def with_shares(
    rows: Sequence[Row],
    columns: Sequence[Column],
    parts: Sequence[int],
    whole: int,
    terminal: Terminal,
) -> tuple[Sequence[Row], Sequence[Column]]:
    """Return rows and columns of a table with the share of each row in a whole.

    On a narrow terminal the bars are shorter, or left out, and at last the shares too.

    Args:
        rows: of the table.
        columns: of the table.
        parts: the amount of each row.
        whole: what they are parts of.
        terminal: what the table is for.
    """
    width = _WIDEST
    if terminal.width is not None:
        cells = zip(*rows, strict=True) if rows else ([] for _ in columns)
        used = sum(
            _GAP + max(map(text_width, (column.heading, *human_texts(values, column))))
            for values, column in zip(cells, columns, strict=True)
        )
        width = min(terminal.width - used - _PERCENT - _GAP, _WIDEST)
    if not whole or width < -_GAP:
        return rows, columns
    more = [Column("share", align="right", human=lambda share: f"{100 * share:.1f} %")]
    if width >= _LEAST:
        more.append(Column("bar", "", human=lambda share: bar(share, width, terminal)))
    shared: list[Row] = [
        (*row, *[part / whole] * len(more)) for row, part in zip(rows, parts, strict=True)
    ]
    return shared, (*columns, *more)


def bar(share: float, width: int, terminal: Terminal) -> str:
    """Return a bar, to half a column; whatever is more than nothing has some of it."""
    halves = max(round(share * width * 2), 1 if share > 0 else 0)
    if not terminal.unicode:
        return "#" * -(-halves // 2)
    return "━" * (halves // 2) + "╸" * (halves % 2)
