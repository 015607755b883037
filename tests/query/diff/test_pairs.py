"""Many small tensors of equal bytes: told apart from those that differ, in whatever order."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from ckpttool.api.diff import diff
from ckpttool.errors import ChecksumError
from ckpttool.query.diff import checkpoints
from ckpttool.storage import source
from tests.support.handmade import Bundle, shard_path

U8, F32 = 4, 1
COUNT = 800


def write(prefix: Path, order: list[int], values: dict[int, bytes]) -> str:
    """Write tensors in some order, each behind a gap of its own."""
    made = Bundle()
    for at in order:
        made.shards[0] += bytes(at % 5 and at % 11 * 70)
        data = values.get(at, at.to_bytes(4, "little") * (1 + at % 3))
        made.add(b"t%05d" % at, U8, (len(data),), data)
    return made.write(prefix)


ORDERS = {
    "same": list(range(COUNT)),
    "backwards": list(range(COUNT))[::-1],
    "shuffled": random.Random(5).sample(range(COUNT), COUNT),
}


@pytest.mark.parametrize(
    ("order", "other"), [("same", "same"), ("same", "shuffled"), ("backwards", "same")]
)
def test_what_differs_is_found_in_every_order(order: str, other: str, tmp_path: Path) -> None:
    a = write(tmp_path / "a", ORDERS[order], {8: bytes(70_000), 9: b"large" * 20_000})
    changed = {7: b"\7\0\1\0" * 2, 8: bytes(70_000), 9: b"large" * 19_999 + b"lorge", 799: b"0799"}
    b = write(tmp_path / "b", ORDERS[other], changed)
    found = diff(a, b, exact=True)
    assert {each.row.key: each.change for each in found.tensors} == {
        "t00007": "value",
        "t00009": "value",
        "t00799": "shape",
    }
    assert found.counts == {"equal": COUNT - 3, **{k: found.counts[k] for k in ("value", "shape")}}
    everything = diff(a, b, exact=True, everything=True)
    assert [each.row.key for each in everything.tensors] == [f"t{at:05d}" for at in range(COUNT)]
    assert everything.counts == found.counts


def test_damage_of_both_sides_is_no_equality(tmp_path: Path) -> None:
    prefixes = [write(tmp_path / name, ORDERS["same"], {}) for name in "ab"]
    for prefix in prefixes:
        data = bytearray(Path(shard_path(prefix)).read_bytes())
        at = data.index((323).to_bytes(4, "little") * 2)
        data[at] ^= 1
        Path(shard_path(prefix)).write_bytes(data)
    found = diff(*prefixes, exact=True)
    (problem,) = found.problems
    assert isinstance(problem, ChecksumError) and problem.key == "t00323"
    assert found.verdict == "unknown" and found.counts["equal"] == COUNT - 1


def test_equal_ones_take_few_reads_and_no_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefixes = [write(tmp_path / name, ORDERS["same"], {}) for name in "ab"]
    reads: list[int] = []
    plain = source._read_at

    def counted(file: int, length: int, offset: int) -> bytes:
        reads.append(length)
        return plain(file, length, offset)

    monkeypatch.setattr(source, "_read_at", counted)
    monkeypatch.setattr(checkpoints, "TensorDiff", None)
    told: list[tuple[int, int]] = []
    found = diff(*prefixes, exact=True, on_progress=lambda done, of: told.append((done, of)))
    assert found.verdict == "equal" and found.counts["equal"] == COUNT
    assert len(reads) < COUNT / 4
    assert told[-1][0] == told[-1][1]
    size = sum(os.path.getsize(shard_path(prefix)) for prefix in prefixes)
    assert sum(reads) < 2 * size


def test_tensors_that_differ_a_little_are_counted_as_equal(tmp_path: Path) -> None:
    import numpy as np

    prefixes = []
    for name, extra in (("a", 0), ("b", 1e-6)):
        made = Bundle()
        for at in range(50):
            data = np.full(3, at + extra, np.float32).tobytes()
            made.add(b"t%02d" % at, F32, (3,), data)
        prefixes.append(made.write(tmp_path / name))
    found = diff(*prefixes, atol=1e-3)
    assert found.counts == {"equal": 50} and not found.tensors
    assert len(diff(*prefixes, atol=1e-3, everything=True).tensors) == 50
