"""The checkpoints of a folder that a manager would delete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TextIO

from ckpttool.api.answer import Answer
from ckpttool.render.console import Terminal
from ckpttool.render.gc import sweep_document, sweep_line, write_sweep
from ckpttool.storage.paths import StrPath
from ckpttool.surgery.retention.execution import FolderSweep, sweep


class Swept(Answer):
    """What became of the checkpoints of a folder, or would; made by `ckpttool.gc`.

    `str()` is the table of `ckpt gc`.

    Attributes:
        sweep: what was deleted, what stays and why, as `ckpttool.train.sweep` tells it.
    """

    def __init__(self, sweep: FolderSweep) -> None:
        self.sweep = sweep

    @property
    def summary(self) -> str:
        """In one line what was done, or would be."""
        return sweep_line(self.sweep)

    def _document(self) -> Mapping[str, object]:
        return sweep_document(self.sweep)

    def _write_table(self, stream: TextIO, terminal: Terminal) -> None:
        write_sweep(self.sweep, "table", stream, terminal)

    def __repr__(self) -> str:
        return f"<Swept {self.sweep.folder!r}: {self.summary}>"


def gc(
    folder: StrPath,
    keep: int,
    *,
    keep_every: float | None = None,
    keep_every_steps: int | None = None,
    all: bool = False,
    dry_run: bool = True,
) -> Swept:
    """Delete the checkpoints of a folder that a manager would delete, as `ckpt gc` does.

    Args:
        folder: the folder.
        keep: how many checkpoints stay.
        keep_every: of those that would go, keep one for good whenever so many hours have passed
            since the last one.
        keep_every_steps: of those that would go, keep those whose number is a multiple of this.
        all: take in complete checkpoints that the state file does not list.
        dry_run: only tell what would be deleted.

    Raises:
        ValueError: a number is not positive.
        MissingFileError: there is no such folder, no checkpoint in it, or its latest one is gone.
        SurgeryError: the folder belongs to a model, or the latest checkpoint is not whole.
        ChangedError: another process has changed the state file.
        CkptError: something cannot be read, written or deleted.

    >>> found = ckpttool.gc("tf_ckpts", keep=2)
    >>> [each.name for each in found.sweep.deleted], found.sweep.bytes
    (['ckpt-8'], 3671)
    """
    return Swept(
        sweep(
            folder,
            max_to_keep=keep,
            keep_checkpoint_every_n_hours=keep_every,
            keep_every_steps=keep_every_steps,
            unlisted=all,
            dry_run=dry_run,
        )
    )
