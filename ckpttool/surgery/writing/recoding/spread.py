"""Distributing rewritten values over files."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapreplace

from ckpttool.bundle.entry import MAX_SHARDS
from ckpttool.errors import SurgeryError

# All these files are open at the same time.
MAX_SPREAD = 512


@dataclass(frozen=True, slots=True)
class Recoding:
    """The layout of rewritten values.

    Attributes:
        shards: number of data shards, filled evenly by size; that of the source if None.
        max_shard_size: bytes at which another shard is begun, instead of a number of shards; one
            tensor, or one slice, may be larger.
        join_slices: store partitioned tensors as wholes.
    """

    shards: int | None = None
    max_shard_size: int | None = None
    join_slices: bool = False

    def __post_init__(self) -> None:
        if self.shards is not None and not 1 <= self.shards <= MAX_SPREAD:
            raise SurgeryError(f"{self.shards} data shards are not between 1 and {MAX_SPREAD}")
        if self.max_shard_size is not None and self.max_shard_size < 1:
            raise SurgeryError(f"the size {self.max_shard_size} of data shards is not 1 or more")


def spread(sizes: list[list[int]], how: Recoding, default: int) -> tuple[list[list[int]], int]:
    """Return the file of each payload, and how many files there are.

    Args:
        sizes: bytes of each payload of each tensor, in the order in which they are written.
        how: the layout.
        default: how many files there are if the layout does not say.

    Raises:
        SurgeryError: there would be too many.
    """
    if how.max_shard_size is not None:
        return _one_after_another(sizes, how.max_shard_size)
    count = how.shards or min(default, MAX_SPREAD)
    return _evenly(sizes, count), count


def _one_after_another(sizes: list[list[int]], limit: int) -> tuple[list[list[int]], int]:
    """Fill one file after another, each up to the limit."""
    number = filled = 0
    places = []
    for each in sizes:
        places.append([0] * len(each))
        for at, size in enumerate(each):
            if size and filled and filled + size > limit:
                number, filled = number + 1, 0
            filled += size
            places[-1][at] = number
    if number >= MAX_SHARDS:
        raise SurgeryError(f"{number + 1} data shards are more than {MAX_SHARDS}")
    return places, number + 1


def _evenly(sizes: list[list[int]], count: int) -> list[list[int]]:
    """Give each payload to the shard with the fewest bytes so far."""
    filled = [(0, shard_id) for shard_id in range(count)]
    places = []
    for each in sizes:
        places.append([0] * len(each))
        for at, size in enumerate(each):
            total, shard_id = filled[0]
            places[-1][at] = shard_id
            heapreplace(filled, (total + size, shard_id))
    return places
