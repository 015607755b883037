"""The columns that name tensors: the object path, and the variable name where it says more."""

from __future__ import annotations

from collections.abc import Iterable

from ckpttool.query.rows import NamedRow, short_name, telling_name
from ckpttool.render.cells import Column

KEY = Column("key", fold=True)
PATH = Column("object_path", "path", fold=True)
# Names are shortened on a narrow terminal; paths and keys never are.
NAME = Column("name", least=16, style="cyan")


class NameColumns:
    """The first columns of rows of tensors.

    Args:
        rows: the tensors.
        by_key: show keys, and nothing else.

    Attributes:
        columns: one or two.
    """

    def __init__(self, rows: Iterable[NamedRow], *, by_key: bool = False) -> None:
        rows = list(rows)
        self._by_key = by_key or all(row.object_path is None for row in rows)
        self._named = any(map(self.name, rows))
        first = KEY if self._by_key else PATH
        self.columns: tuple[Column, ...] = (first,)
        if self._named:
            self.columns += (NAME,)

    def shown(self, row: NamedRow) -> str:
        """Return the text of the first column."""
        return row.key if self._by_key else short_name(row)

    def name(self, row: NamedRow) -> str | None:
        """Return the full name of a variable where it is shown."""
        return None if self._by_key else telling_name(short_name(row), row.name)

    def cells(self, row: NamedRow, *, before: str = "", behind: str = "") -> tuple[object, ...]:
        """Return the cells of a tensor.

        Args:
            row: the tensor.
            before: put before the first cell.
            behind: put behind it.
        """
        shown = f"{before}{self.shown(row)}{behind}"
        return (shown, self.name(row)) if self._named else (shown,)
