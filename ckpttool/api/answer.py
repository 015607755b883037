"""What all answers have in common: the JSON and the table of their command."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, TextIO

from ckpttool.render.console import Terminal
from ckpttool.render.jsonout import plain


class Answer(ABC):
    """An answer as data: `to_dict()` is the JSON of the command, `str()` its table."""

    __slots__ = ()

    @abstractmethod
    def _document(self) -> Mapping[str, object]:
        """Return the JSON document; its lists may be iterators."""

    @abstractmethod
    def _write_table(self, stream: TextIO, terminal: Terminal) -> None:
        """Write the table."""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of the command, as Python values."""
        return {name: plain(value) for name, value in self._document().items()}

    def __str__(self) -> str:
        stream = io.StringIO()
        self._write_table(stream, Terminal())
        return stream.getvalue().rstrip("\n")
