"""The numbered layers of a checkpoint as a matrix: a row for each name, a column for each layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ckpttool.query.grouping import fold_layers

_MOST_DIGITS = 9  # a longer number is no layer
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
    known = [at for at, name in enumerate(names) if name is not None]
    groups = fold_layers([name for name in names if name is not None])
    found = []
    for name, members, numbers in groups:
        layers = zip(members, numbers, strict=False)  # a single name has no number
        placed = sorted((at, int(number)) for at, number in layers if len(number) <= _MOST_DIGITS)
        if placed:
            found.append((placed, name))
    rows: dict[str, dict[int, int]] = {}
    for placed, name in sorted(found):  # by their first tensors
        rows.setdefault(name, {}).update((number, known[at]) for at, number in placed)
    rows = {name: found for name, found in rows.items() if len(found) >= FEWEST_COLUMNS}
    if not rows:
        return None
    shown = dict(list(rows.items())[:MOST_ROWS])
    columns = sorted({number for found in shown.values() for number in found})[:MOST_COLUMNS]
    cells = tuple(tuple(found.get(number) for number in columns) for found in shown.values())
    return LayerMatrix(tuple(shown), tuple(columns), cells, len(rows) - len(shown))
