"""What was written, or would be."""

from __future__ import annotations

from dataclasses import dataclass

from ckpttool.legacy.naming import shard_path, shard_pattern
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
