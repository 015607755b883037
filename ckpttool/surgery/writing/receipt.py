"""What was written, or would be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from ckpttool.errors import CkptError
from ckpttool.legacy.naming import shard_path, shard_pattern
from ckpttool.storage.work import Progress
from ckpttool.surgery.writing.carry import Carried


@dataclass(frozen=True, slots=True)
class ShardReceipt:
    """A data shard of the destination.

    Attributes:
        path: its path.
        bytes: its size.
        how: `"reflink"`, `"hardlink"` or `"copy"` of one of the source; `"symlink"` to where one
            of the source, changed in place, was a link to; `"rewritten"` without dead
            bytes; `"new"`; or `"kept"`, which is a shard that stays as it is.
    """

    path: str
    bytes: int
    how: Carried


@dataclass(frozen=True, slots=True)
class Receipt:
    """What writing a plan came to.

    Attributes:
        prefix: the checkpoint that was written.
        tensors: how many it has.
        shards: its data shards.
        bytes_written: bytes that were written, index and state file among them; links and clones
            cost none.
        bytes_dead: bytes in its shards that belong to no tensor any more.
        meta: path of the `.meta` file that was carried along.
        state: path of the state file that was updated.
        notes: what the user should know, in words.
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
        """What TensorFlow knows it by: the prefix, or for several V1 files a pattern."""
        numbered = shard_path(self.prefix, 0, len(self.shards))
        if self.shards and self.shards[0].path == numbered:
            return shard_pattern(self.prefix, len(self.shards))
        return self.prefix


@dataclass(frozen=True, slots=True)
class Written:
    """The files of a checkpoint that was just written.

    Attributes:
        shards: its data shards.
        tensors: how many tensors it has.
        bytes: bytes that were written; links and clones cost none.
        bytes_dead: bytes in its shards that belong to no tensor.
        notes: what the user should know, in words.
    """

    shards: tuple[ShardReceipt, ...]
    tensors: int
    bytes: int
    bytes_dead: int
    notes: tuple[str, ...]


class PlanWriter(Protocol):
    """A way to get the files of a plan to their place: a new bundle, one in place, or V1 files."""

    def check(self) -> list[str]:
        """Refuse whatever can be refused before a byte is written; return notes for the user."""

    def write(self, on_progress: Progress | None) -> Written:
        """Write the files; the folder is locked, and `check` has just passed."""


@contextmanager
def already_written(address: str) -> Iterator[None]:
    """Say of an error that the checkpoint itself is there all the same."""
    try:
        yield
    except CkptError as error:
        error.message += f"; the checkpoint '{address}' itself is written"
        raise
