"""What exports and imports have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, TextIO

from ckpttool.api.answer import Answer
from ckpttool.query.source import Source
from ckpttool.render.console import Terminal
from ckpttool.render.transfers import (
    Transferred,
    TransferredTensor,
    transfer_document,
    write_transfer,
)


class Transfer(Answer):
    """What became of the tensors that go to files of other libraries, or come from them."""

    _command: ClassVar[str]

    def __init__(self, done: Transferred) -> None:
        self._done = done

    @property
    def source(self) -> Source:
        """What was read."""
        return self._done.source

    @property
    def tensors(self) -> tuple[TransferredTensor, ...]:
        """The tensors by their names in the result, each with what is known of it."""
        return self._done.tensors

    @property
    def skipped(self) -> tuple[tuple[str, str], ...]:
        """Names of tensors that were left out, and the reasons."""
        return self._done.skipped

    @property
    def dry_run(self) -> bool:
        """Whether nothing was written."""
        return self._done.dry_run

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know, in words."""
        return self._done.notes

    def write_tensors(
        self, format: str, stream: TextIO, terminal: Terminal, *, by_key: bool = False
    ) -> None:
        """Write a row for each tensor.

        Args:
            format: "json" or one of the row formats.
            stream: where to.
            terminal: what `stream` is.
            by_key: show keys instead of object paths and variable names.
        """
        write_transfer(self._done, self._command, format, stream, terminal, by_key=by_key)

    def _document(self) -> Mapping[str, object]:
        return transfer_document(self._done, self._command)

    def _write_table(self, stream: TextIO, terminal: Terminal) -> None:
        self.write_tensors("table", stream, terminal)
