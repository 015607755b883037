"""Cells and columns: what a row of any output is made of, and the text of each cell.

A cell is None, a bool, int, float, str, bytes, `Printed`, or a sequence of whole numbers (a shape)
or texts.
Text from files is made printable in every form but JSON, which carries it exactly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ckpttool.coding.text import decode_text
from ckpttool.printable import printable
from ckpttool.render.console import Terminal
from ckpttool.render.humanize import shape

NOTHING = "-"

Row = Sequence[object]


@dataclass(frozen=True, slots=True)
class Column:
    """A column and its style.

    Attributes:
        name: its name in `plain`, `csv` and `jsonl`.
        title: its heading in `table` and `markdown`; the name by default.
        align: of cells in `table` and `markdown`.
        human: makes the text of a cell in `table` and `markdown`, if it is not the plain one; not
            called for None.
        fold: whether cells may be broken over several lines on a narrow terminal.
        least: the width to which cells may be shortened on a narrow terminal, at their beginning;
            with less room, the column is left out. By default it is neither.
        spare: whether the column is left out to make room for one that may be shortened.
        style: words for `Terminal.style`, or what tells them from the text of a cell.
    """

    name: str
    title: str | None = None
    align: Literal["left", "right"] = "left"
    human: Callable[[Any], str] | None = None
    fold: bool = False
    least: int | None = None
    spare: bool = False
    style: str | Callable[[str], str] = ""

    def style_of(self, text: str) -> str:
        """Return the words for the style of a cell."""
        return self.style if isinstance(self.style, str) else self.style(text)

    @property
    def heading(self) -> str:
        """The title, or the name where there is none."""
        return self.name if self.title is None else self.title


# The colours of pictures and pages, as near as a terminal has them: steps are grey there, like the
# rest.
_KIND_STYLES = {
    "weight": "blue",
    "slot": "yellow",
    "optimizer": "red",
    "ema": "green",
}


def kind_style(kind: str) -> str:
    """Return the style of the word for a kind."""
    return _KIND_STYLES.get(kind, "dim")


def alarm_style(count: str) -> str:
    """Return the style of the number of something that should not be there."""
    return "" if count in ("0", NOTHING) else "bold red"


# As numbers are spelled in values, and in words that count them; in quotes it is a string.
_NOT_FINITE = re.compile(r"(?<![\w'\"/])[-+]?(?:nan|inf|NaN|Inf)j?(?![\w'\"/])")


def number_style(text: str) -> str:
    """Return the style of a text with numbers: NaN and infinities stand out."""
    return "bold red" if _NOT_FINITE.search(text) else ""


def mark_numbers(text: str, terminal: Terminal) -> str:
    """Return text with NaN and infinities in their style."""
    return _NOT_FINITE.sub(lambda match: terminal.style(match[0], "bold red"), text)


@dataclass(frozen=True, slots=True)
class ByColumn:
    """Rows whose cells are held by columns, which saves making the rows.

    Attributes:
        columns: the cells of each column, as many as there are rows.
    """

    columns: tuple[Sequence[object], ...]

    def __iter__(self) -> Iterator[tuple[object, ...]]:
        return zip(*self.columns, strict=True)

    def parts(self, number: int) -> Iterator[Sequence[Sequence[object]]]:
        """Yield the columns of so many rows after another."""
        for at in range(0, len(self.columns[0]), number):
            yield [column[at : at + number] for column in self.columns]


class Printed(str):
    """Text in a cell that is printable already, such as JSON or a message about a file."""

    __slots__ = ()


def cell_text(value: object) -> str:
    """Return the plain text of a cell."""
    if isinstance(value, Printed):
        return str(value)
    if isinstance(value, str):
        return printable(value)
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (bytes, bytearray)):
        return printable(decode_text(value))
    if isinstance(value, (tuple, list)):
        if all(isinstance(each, int) for each in value):
            return shape(value)
        return ", ".join(map(cell_text, value))
    return printable(str(value))


def human_texts(values: Sequence[object], column: Column) -> Sequence[str]:
    """Return the texts of cells of one column in the forms that people read."""
    show = column.human
    if show is None:
        return texts(values)
    return [NOTHING if value is None else printable(show(value)) for value in values]


def texts(values: Sequence[Any]) -> Sequence[str]:
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
