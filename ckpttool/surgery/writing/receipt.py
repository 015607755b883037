"""The result of writing, or of a dry run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from ckpttool.errors import CkptError
from ckpttool.legacy.naming import shard_pattern, v1_shard_path
from ckpttool.storage.work import Progress
from ckpttool.surgery.writing.bundle.carry import Carried


@dataclass(frozen=True, slots=True)
class ShardReceipt:
    """A data shard of the destination.

    Attributes:
        path: its path.
        bytes: its size.
        how: `"reflink"`, `"hardlink"` or `"copy"` of one of the source; `"symlink"`, a copy of a
            link, in place; `"rewritten"` without dead bytes; `"new"`; or `"kept"`, unchanged.
    """

    path: str
    bytes: int
    how: Carried


@dataclass(frozen=True, slots=True)
class Receipt:
    """The result of writing a plan.

    Attributes:
        prefix: the written checkpoint.
        tensors: how many it has.
        shards: its data shards.
        bytes_written: including index and state file; links and clones cost none.
        bytes_dead: bytes in its shards that belong to no tensor.
        meta: path of the `.meta` file, if it was carried over.
        state: path of the state file, if it was updated.
        notes: for the user.
    """

    prefix: str
    tensors: int
    shards: tuple[ShardReceipt, ...]
    bytes_written: int
    bytes_dead: int
    meta: str | None
    state: str | None
    notes: tuple[str, ...]

    @property
    def address(self) -> str:
        """Its address for TensorFlow: the prefix, or for several V1 files a pattern."""
        numbered = v1_shard_path(self.prefix, 0, len(self.shards))
        if self.shards and self.shards[0].path == numbered:
            return shard_pattern(self.prefix, len(self.shards))
        return self.prefix


@dataclass(frozen=True, slots=True)
class Written:
    """The files of a checkpoint that was just written; fields as in `Receipt`."""

    shards: tuple[ShardReceipt, ...]
    tensors: int
    bytes: int
    bytes_dead: int
    notes: tuple[str, ...]


class PlanWriter(Protocol):
    """A writer of a plan: a new bundle, one in place, or V1 files."""

    def check(self) -> list[str]:
        """Make every check before a byte is written; return notes for the user."""

    def write(self, on_progress: Progress | None) -> Written:
        """Write the files; the folder is locked, and `check` has just passed."""


@contextmanager
def already_written(address: str) -> Iterator[None]:
    """Add to an error that the checkpoint itself is written."""
    try:
        yield
    except CkptError as error:
        error.message += f"; the checkpoint '{address}' itself is written"
        raise
