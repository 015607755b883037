"""The numbered layers of a checkpoint as a matrix: a row for each name, a column for each layer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_NUMBER = re.compile(r"(\d+)")
FEWEST_COLUMNS = 4
MOST_ROWS = 48
MOST_COLUMNS = 400


@dataclass(frozen=True, slots=True)
class LayerMatrix:
    """Names that differ in one number.

    Attributes:
        names: of the rows, with `#` for the number.
        columns: the numbers, ascending.
        cells: for each row, the place of the tensor of each column; None where there is none.
        left_out: how many further rows there would be.
    """

    names: tuple[str, ...]
    columns: tuple[int, ...]
    cells: tuple[tuple[int | None, ...], ...]
    left_out: int = 0


def layer_matrix(names: Sequence[str | None]) -> LayerMatrix | None:
    """Return the layers among names; None if fewer than four layers have a tensor of one name.

    Of the numbers in a name, the one that varies most makes the columns.

    Args:
        names: of the tensors; None for those that are left aside.
    """
    parts = {at: _NUMBER.split(name) for at, name in enumerate(names) if name is not None}
    seen: dict[tuple[str, ...], list[set[str]]] = {}
    for each in parts.values():
        numbers = seen.setdefault(tuple(each[::2]), [set() for _ in each[1::2]])
        for known, number in zip(numbers, each[1::2], strict=True):
            known.add(number)
    rows: dict[str, dict[int, int]] = {}
    for at, each in parts.items():
        variety = [len(known) for known in seen[tuple(each[::2])]]
        if not variety or max(variety) < FEWEST_COLUMNS:
            continue
        place = 2 * variety.index(max(variety)) + 1
        number = int(each[place]) if len(each[place]) < 10 else None
        if number is not None:
            name = "".join([*each[:place], "#", *each[place + 1 :]])
            rows.setdefault(name, {})[number] = at
    rows = {name: found for name, found in rows.items() if len(found) >= FEWEST_COLUMNS}
    if not rows:
        return None
    shown = dict(list(rows.items())[:MOST_ROWS])
    columns = sorted({number for found in shown.values() for number in found})[:MOST_COLUMNS]
    cells = tuple(tuple(found.get(number) for number in columns) for found in shown.values())
    return LayerMatrix(tuple(shown), tuple(columns), cells, len(rows) - len(shown))
