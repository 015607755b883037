"""A table for people: aligned columns, fitted to the terminal; no name is cut.

If the columns do not fit side by side, one that may be shortened loses the beginning of its cells,
or is left out. If that is not enough, texts are broken between words, and a name that is too long
for its column has a line of its own:

    key       dtype    shape       kind      bytes
    b         int64    []          step        8 B
    model/encoder/layer_0/attention/kernel
              float32  [512, 512]  weight  1.0 MiB

Where that leaves too little, or takes more lines, each row is stacked, the name above everything
else:

    model/encoder/layer_0/attention/kernel
      float32  [512, 512]  weight  1.0 MiB

Hand-written in place of `rich.table`, which takes 0.2 s to import and 18 s for 20,000 rows; this
takes 0.06 s. Rich also cuts what does not fit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, zip_longest
from typing import TextIO

from ckpttool.render.cells import NOTHING, Column, Row, human_texts
from ckpttool.render.console import Terminal
from ckpttool.render.wrap import INDENT, fold, longest_word, text_width

_GAP = "  "
_LEAST_NAME = 10
_LEAST_WIDTH = 10
_BATCH = 1024

Cells = Sequence[Sequence[str]]  # by column, then by row


def write_table(
    rows: Iterable[Row], columns: Sequence[Column], stream: TextIO, terminal: Terminal
) -> tuple[str, ...]:
    """Write rows under a line of headings; return the headings of columns that have no room.

    Args:
        rows: the cells of each row; all are read before the first line is written.
        columns: as many as a row has cells; the first holds the name of the row.
        stream: where to.
        terminal: its width, and whether it shows styles.
    """
    cells: list[list[str]] = [[column.heading] for column in columns]
    each = iter(rows)
    while some := list(islice(each, _BATCH)):
        for texts, values, column in zip(cells, zip(*some, strict=True), columns, strict=True):
            texts += human_texts(values, column)
    widths = [max(map(text_width, texts)) for texts in cells]
    limit, every = terminal.width, columns
    if limit is not None and _total(widths) > limit:
        kept = _kept(cells, columns, widths, limit)
        cells = [cells[number] for number in kept]
        columns = [columns[number] for number in kept]
        widths = [widths[number] for number in kept]
    if limit is None or _total(widths) <= limit:
        lines = _side_by_side(cells, columns, widths, terminal)
    else:
        limit = max(limit, _LEAST_WIDTH)
        fitted = _fit(cells, widths, columns, limit)
        if fitted is None or _is_shorter_stacked(cells, widths, fitted, limit):
            lines = _stacked(cells, columns, widths, limit, terminal)
        else:
            lines = _folded(cells, columns, fitted, limit, terminal)
    while batch := list(islice(lines, _BATCH)):
        stream.write("".join(f"{line}\n" for line in batch))
    return tuple(column.heading for column in every if column not in columns)


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _kept(
    cells: list[list[str]], columns: Sequence[Column], widths: list[int], limit: int
) -> Sequence[int]:
    """Return the numbers of the columns to show, and shorten the cells of one if that helps."""
    every = range(len(columns))
    short = next((number for number in every if columns[number].least is not None), None)
    if short is None:
        return every
    for kept in (every, [number for number in every if not columns[number].spare]):
        room = limit - _total([widths[number] for number in kept]) + widths[short]
        if room >= min(widths[short], columns[short].least or 0):
            if room < widths[short]:
                cells[short] = [end_of_name(text, room) for text in cells[short]]
                widths[short] = max(map(text_width, cells[short]))
            return kept
    kept = [number for number in every if number != short]
    return kept if _total([widths[number] for number in kept]) <= limit else every


def end_of_name(text: str, width: int) -> str:
    """Return text without its beginning, at most `width` wide; words stay whole if possible."""
    if text_width(text) <= width:
        return text
    end = text[len(text) - width + 1 :]
    while text_width(end) >= width:
        end = end[1:]
    slash = end.find("/", 0, len(end) // 2)
    found = re.search("[/_]", end) if slash < 0 else None
    return "…" + end[found.start() if found else max(slash, 0) :]


def _fit(
    cells: Cells, widths: Sequence[int], columns: Sequence[Column], limit: int
) -> list[int] | None:
    """Return the widths to use, or None where the columns cannot stand side by side."""
    fitted = list(widths)
    rest = limit - _total(widths) + widths[0]
    heading = text_width(cells[0][0])
    least = min(widths[0], max(_LEAST_NAME, heading)) if columns[0].fold else widths[0]
    foldable = [number for number, column in enumerate(columns) if column.fold and number]
    for number in sorted(foldable, key=widths.__getitem__, reverse=True):
        if rest < least:
            # No narrower than its longest word: what has no spaces is not broken.
            words = max(map(longest_word, cells[number]))
            fitted[number] = max(words, widths[number] - (least - rest))
            rest += widths[number] - fitted[number]
    if rest < least:
        return None
    # As wide as the longest name that has a place beside the other cells.
    fitted[0] = max(least, *(wide for wide in map(text_width, cells[0]) if wide <= rest), 0)
    return fitted


def _is_shorter_stacked(
    cells: Cells, widths: Sequence[int], fitted: Sequence[int], limit: int
) -> bool:
    """Tell whether stacked rows take no more lines than folded ones; headings do not count."""
    narrow = [
        (texts[1:], width)
        for texts, natural, width in zip(cells[1:], widths[1:], fitted[1:], strict=True)
        if width < natural
    ]
    folded = [1] * (len(cells[0]) - 1)
    for texts, width in narrow:
        folded = [
            max(most, len(fold(text, width))) for most, text in zip(folded, texts, strict=True)
        ]
    names = [_lines(text, limit) for text in cells[0][1:]]
    hanging = sum(
        lines
        for lines, text in zip(names, cells[0][1:], strict=True)
        if text_width(text) > fitted[0]
    )
    others = sum(widths[1:]) + len(_GAP) * (len(widths) - 2)
    below = -(-others // max(limit - len(INDENT), 1))
    return sum(names) + below * len(names) <= sum(folded) + hanging


def _lines(text: str, width: int) -> int:
    return 1 if text_width(text) <= width else len(fold(text, width, indent=INDENT * 2))


def _side_by_side(
    cells: Cells, columns: Sequence[Column], widths: Sequence[int], terminal: Terminal
) -> Iterator[str]:
    # Batch by batch: padded, the cells of a million rows would take more room than the rows.
    for start in range(0, len(cells[0]), _BATCH):
        padded = [
            _padded(texts[start : start + _BATCH], column, width, terminal, heading=not start)
            for texts, column, width in zip(cells, columns, widths, strict=True)
        ]
        for line in zip(*padded, strict=True):
            yield _GAP.join(line).rstrip()


def _folded(
    cells: Cells, columns: Sequence[Column], widths: Sequence[int], limit: int, terminal: Terminal
) -> Iterator[str]:
    for number, row in enumerate(zip(*cells, strict=True)):
        name, *others = row
        heading = number == 0
        if text_width(name) > widths[0]:
            for piece in fold(name, limit, indent=INDENT * 2):
                yield _cell(piece, columns[0], 0, terminal, heading=heading, of=row[0])
            name = ""
        pieces = [fold(text, width) for text, width in zip(others, widths[1:], strict=True)]
        for line in zip_longest([name], *pieces, fillvalue=""):
            yield _GAP.join(
                _cell(text, column, width, terminal, heading=heading, of=whole)
                for text, column, width, whole in zip(line, columns, widths, row, strict=True)
            ).rstrip()


def _stacked(
    cells: Cells, columns: Sequence[Column], widths: Sequence[int], limit: int, terminal: Terminal
) -> Iterator[str]:
    room = limit - len(INDENT)
    aligned = sum(widths[1:]) + len(_GAP) * (len(widths) - 2) <= room
    for number, (name, *others) in enumerate(zip(*cells, strict=True)):
        for piece in fold(name, limit, indent=INDENT * 2):
            yield _cell(piece, columns[0], 0, terminal, heading=number == 0, of=name)
        line, used = "", 0
        for text, column, width in zip(others, columns[1:], widths[1:], strict=True):
            if text == NOTHING and column.least is not None and not aligned:
                continue
            for piece in fold(text, room, indent=INDENT) if column.fold else (text,):
                wide = width if aligned else text_width(piece)
                if used and used + len(_GAP) + wide > room:
                    yield (INDENT + line).rstrip()
                    line, used = "", 0
                shown = _cell(piece, column, wide, terminal, heading=number == 0, of=text)
                line += _GAP * bool(used) + shown
                used += len(_GAP) * bool(used) + wide
        if line:
            yield (INDENT + line).rstrip()


def _padded(
    texts: Sequence[str], column: Column, width: int, terminal: Terminal, *, heading: bool
) -> Iterable[str]:
    """Return cells of a column in its width, the first as a heading if it is one."""
    styled = terminal.color and column.style
    if heading or styled or not all(map(str.isascii, texts)):
        return [
            _cell(text, column, width, terminal, heading=heading and number == 0, of=text)
            for number, text in enumerate(texts)
        ]
    if column.align == "right":
        return [text.rjust(width) for text in texts]
    return [text.ljust(width) for text in texts]


def _cell(
    text: str, column: Column, width: int, terminal: Terminal, *, heading: bool, of: str
) -> str:
    """Return a line of a cell in its width; `of` is the text of the whole cell."""
    space = " " * (width - text_width(text))
    shown = terminal.style(text, "bold" if heading else column.style_of(of))
    return space + shown if column.align == "right" else shown + space
