"""Elements laid out in brackets, as NumPy does it, line by line as they come.

[[0.   1.   2.   ... 7.   8.   9.  ]
 ...
 [90.  91.  92.  ... 97.  98.  99. ]]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

_DOTS = "..."


def lay_out(
    texts: Iterator[str],
    shape: Sequence[int],
    gaps: Sequence[int | None],
    *,
    width: int,
) -> Iterator[str]:
    """Yield the lines of an array.

    Args:
        texts: its elements in C order, as many as the shape says.
        shape: of what is shown.
        gaps: for each axis, before which element dots stand for others; None for no dots.
        width: the length of line at which rows are broken.
    """
    if not shape:
        yield next(texts).strip()
        return
    if not prod(shape):
        yield "[]"
        return
    rank = len(shape)
    outer, length = shape[:-1], shape[-1]
    for number in range(prod(outer)):
        opened = _run_of(number, outer, last=False)
        closed = _run_of(number, outer, last=True)
        if number:
            # Blocks of more dimensions stand further apart.
            yield from [""] * opened
        axis = rank - 2 - opened
        if number and axis >= 0 and index_of_element(number, outer)[axis] == gaps[axis]:
            yield " " * (axis + 1) + _DOTS
            yield from [""] * opened
        lead = " " * (rank - 1 - opened) + "[" * (opened + 1) if number else "[" * rank
        tail = _tail(shape, gaps, closed)
        row = [next(texts) for _ in range(length)]
        yield from _row(row, gaps[-1], lead, tail, " " * rank, width)


def _tail(shape: Sequence[int], gaps: Sequence[int | None], closed: int) -> list[str]:
    """Return the brackets that close a row and so many axes around it, line by line."""
    lines = ["]"]
    for axis in range(len(shape) - 2, len(shape) - 2 - closed, -1):
        if gaps[axis] == shape[axis]:
            lines.append(" " * (axis + 1) + _DOTS)
        lines[-1] += "]"
    return lines


def _row(
    items: list[str],
    gap: int | None,
    lead: str,
    tail: list[str],
    indent: str,
    width: int,
) -> Iterator[str]:
    if gap is not None:
        items = [*items[:gap], _DOTS, *items[gap:]]
    line, started = lead, False
    for at, item in enumerate(items):
        room = width - (len(tail[0]) if at == len(items) - 1 else 0)
        if started and len(line) + 1 + len(item) > room:
            yield line.rstrip()
            line, started = indent, False
        line += f" {item}" if started else item
        started = True
    yield line + tail[0]
    yield from tail[1:]


def _run_of(number: int, outer: Sequence[int], *, last: bool) -> int:
    """Return how many of the innermost outer axes are at their first, or last, element."""
    run = 0
    for dim in reversed(outer):
        number, at = divmod(number, dim)
        if at != (dim - 1 if last else 0):
            break
        run += 1
    return run


def index_of_element(number: int, shape: Sequence[int]) -> list[int]:
    """Return the index of an element by its number in C order."""
    place = []
    for dim in reversed(shape):
        number, at = divmod(number, dim)
        place.append(at)
    return place[::-1]
