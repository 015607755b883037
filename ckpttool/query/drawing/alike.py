"""Siblings that differ only in numbers: the layers of a network, the variables of a list."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ckpttool.query.drawing.outline import Outline

_DIGITS = "0123456789"
_NUMBER = re.compile(r"[0-9]+")
# A longer number is no position in a list.
_MOST_DIGITS = 18
_FEWEST = 3
_MOST_RANGES = 4


class NumberedName(NamedTuple):
    """A name with its last number: `h12_x` is `h`, 12, `_x`."""

    before: str
    number: int
    behind: str

    @classmethod
    def of(cls, name: str) -> NumberedName | None:
        """Return a name in parts; None without a number."""
        stop = len(name)
        while stop and name[stop - 1] not in _DIGITS:
            stop -= 1
        start = stop
        while start and name[start - 1] in _DIGITS:
            start -= 1
        if not 0 < stop - start <= _MOST_DIGITS:
            return None
        return cls(name[:start], int(name[start:stop]), name[stop:])


class Alike(NamedTuple):
    """Children that are drawn as one, by the first of them; or a single child.

    Attributes:
        name: with all numbers: `h0…11`, `0…3, 7`.
        members: of the outline, in natural order.
    """

    name: str
    members: list[int]


def signatures(outline: Outline) -> list[int]:
    """Return a number for each object, equal for objects that look alike with all below them.

    They look alike with equal looks, dtypes, shapes and slots, equal names up to numbers, and if
    both have references, or neither has.
    """
    known: dict[tuple[object, ...], int] = {}
    stems: dict[str, str] = {}
    found = [0] * len(outline)
    dtypes, shapes, looks = outline.dtypes, outline.shapes, outline.look
    for at in range(len(outline) - 1, -1, -1):
        rows = outline.rows.get(at, ())
        slots = outline.slots.get(at, ())
        below = []
        for child in outline.children[at]:
            name = outline.names[child]
            stem = stems.get(name)
            if stem is None:
                stem = stems[name] = _NUMBER.sub("#", name)
            below.append((stem, found[child]))
        alike = (
            looks(at),
            tuple((dtypes[row], shapes[row]) for row in rows),
            tuple(slot.name for slot in slots),
            at in outline.references,
            tuple(below),
        )
        found[at] = known.setdefault(alike, len(known))
    return found


def grouped(outline: Outline, places: Sequence[int], alike: Sequence[int]) -> Iterator[Alike]:
    """Yield the children of an object, three or more that look alike as one, where the first is."""
    groups: dict[tuple[str, str, int], list[tuple[int, int]]] = {}
    parts: dict[int, tuple[str, str, int]] = {}
    for place in places:
        name = NumberedName.of(outline.names[place])
        if name is not None:
            group = parts[place] = (name.before, name.behind, alike[place])
            groups.setdefault(group, []).append((name.number, place))
    done = set()
    for place in places:
        alike_to = parts.get(place)
        if alike_to is None or len(groups[alike_to]) < _FEWEST:
            yield Alike(outline.names[place], [place])
        elif alike_to not in done:
            done.add(alike_to)
            before, behind, _ = alike_to
            members = sorted(groups[alike_to])
            numbers = _ranges([number for number, _ in members])
            yield Alike(f"{before}{numbers}{behind}", [at for _, at in members])


def _ranges(numbers: Sequence[int]) -> str:
    """Return rising numbers in short: `0…3, 7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number <= runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    if len(runs) > _MOST_RANGES:
        return f"{numbers[0]}…{numbers[-1]}"
    return ", ".join(str(first) if first == last else f"{first}…{last}" for first, last in runs)
