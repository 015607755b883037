"""Which file each value goes to."""

from __future__ import annotations

import pytest

from ckpttool.bundle.entry import MAX_SHARDS
from ckpttool.errors import SurgeryError
from ckpttool.surgery.writing.recoding.spread import MAX_SPREAD, Recoding, spread
from tests.support.refusals import refused

SIZES = [[5], [3, 3], [], [0], [9], [1, 1, 1]]


@pytest.mark.parametrize(
    ("how", "default", "places", "count"),
    [
        (Recoding(), 1, [[0], [0, 0], [], [0], [0], [0, 0, 0]], 1),
        (Recoding(shards=2), 1, [[0], [1, 1], [], [0], [0], [1, 1, 1]], 2),
        (Recoding(), 2, [[0], [1, 1], [], [0], [0], [1, 1, 1]], 2),
        (Recoding(shards=1), 4, [[0], [0, 0], [], [0], [0], [0, 0, 0]], 1),
        (Recoding(max_shard_size=8), 4, [[0], [0, 1], [], [1], [2], [3, 3, 3]], 4),
        (Recoding(max_shard_size=1), 1, [[0], [1, 2], [], [2], [3], [4, 5, 6]], 7),
        (Recoding(max_shard_size=100), 5, [[0], [0, 0], [], [0], [0], [0, 0, 0]], 1),
    ],
)
def test_places(how: Recoding, default: int, places: list[list[int]], count: int) -> None:
    assert spread(SIZES, how, default) == (places, count)


def test_even_shards() -> None:
    sizes = [[(at * 37) % 101 + 1] for at in range(400)]
    places, count = spread(sizes, Recoding(shards=7), 1)
    filled = [0] * count
    for (size,), (place,) in zip(sizes, places, strict=True):
        filled[place] += size
    assert max(filled) - min(filled) <= 101


def test_more_shards_than_values() -> None:
    places, count = spread([[4], [4]], Recoding(shards=5), 1)
    assert (places, count) == ([[0], [1]], 5)


def test_no_more_files_are_open_than_can_be() -> None:
    assert spread([[1]], Recoding(), 10_000)[1] == MAX_SPREAD
    for wrong in (-1, MAX_SPREAD + 1):
        with refused(SurgeryError, f"{wrong} data shards are not between 1 and {MAX_SPREAD}"):
            spread([[1]], Recoding(shards=wrong), 1)


def test_more_shards_than_names_can_count() -> None:
    sizes = [[1] * MAX_SHARDS]
    assert spread(sizes, Recoding(max_shard_size=1), 1)[1] == MAX_SHARDS
    with refused(SurgeryError, f"{MAX_SHARDS + 1} data shards are more than {MAX_SHARDS}"):
        spread([*sizes, [1]], Recoding(max_shard_size=1), 1)
