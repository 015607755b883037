"""The mean of several checkpoints."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from ckpttool import open_checkpoint, save_checkpoint
from ckpttool.errors import ChecksumError, CkptError, SelectionError, SurgeryError
from ckpttool.surgery import Plan, average, write
from tests.faults.checkpoints import OBJECTS, SLICES, copy_of
from tests.support.conversions import everything, write_v1
from tests.support.handmade import Bundle, shard_path


def checkpoint(prefix: Path, at: int) -> str:
    """Write one of a series of checkpoints."""
    save_checkpoint(
        prefix,
        {
            "w": np.array([[at, 2 * at + 0.5]], np.float32),
            "b": np.array([at], np.float64),
            "ids": np.array([at, 7], np.int32),
            "vocabulary": np.array([f"word{at}"], object),
            "w/Adam": np.array([[at, at]], np.float32),
            "w/Adam_1": np.array([[at, at]], np.float32),
            "beta1_power": np.array(0.5**at, np.float32),
            "beta2_power": np.array(0.9**at, np.float32),
            "global_step": np.array(at, np.int64),
        },
    )
    return str(prefix)


def test_weights_are_averaged_and_the_rest_is_of_the_last(tmp_path: Path) -> None:
    prefixes = [checkpoint(tmp_path / f"m-{at}", at) for at in (1, 2, 6)]
    first, second, last = (open_checkpoint(each) for each in prefixes)
    with first, second, last:
        plan = average(Plan.of(last), [first, second])
        assert {(each.action, each.key) for each in plan.changes} == {
            ("average", "w"),
            ("average", "b"),
        }
        receipt = write(plan, tmp_path / "out", compact=True)
        assert receipt.bytes_dead == 0
        assert any("2 optimizer, 1 step" in note for note in receipt.notes)
        assert any("not the same in all: 'ids'" in note for note in receipt.notes)
        write(average(Plan.of(last), [first, second], weights=[1, 1, 2]), tmp_path / "weighted")
    with open_checkpoint(tmp_path / "out") as read:
        assert read["w"].tolist() == [[3, 6.5]]
        assert read["w"].dtype == np.float32
        assert (read["b"].tolist(), read["vocabulary"].tolist()) == ([3], [b"word6"])
        assert (int(read["global_step"]), read["w/Adam"].tolist()) == (6, [[6, 6]])
    with open_checkpoint(tmp_path / "weighted") as read:
        assert read["b"].tolist() == [(1 + 2 + 12) / 4]


@pytest.mark.parametrize("name", [OBJECTS, SLICES])
def test_identical_checkpoints_give_themselves(name: str, tmp_path: Path) -> None:
    one, other = (copy_of(name, tmp_path / each) for each in "ab")
    with open_checkpoint(one) as first, open_checkpoint(other) as last:
        plan = average(Plan.of(last), [first])
        write(plan, tmp_path / "out", compact=True)
        assert plan.changes
    assert everything(tmp_path / "out") == everything(one)


def test_old_and_new_formats(tmp_path: Path) -> None:
    """V1 and V2, big-endian and little, in pieces of different sizes."""
    values = np.arange(700_000, dtype=np.float32)
    write_v1(tmp_path / "v1", {"w": values})
    save_checkpoint(tmp_path / "v2", {"w": values + 2})
    header = bytes.fromhex("0801 1001 1a02 0801".replace(" ", ""))
    big = Bundle(header=header)
    big.add(b"w", 1, [700_000], (values + 4).astype(">f4").tobytes()).write(tmp_path / "big")
    opened = [open_checkpoint(tmp_path / each) for each in ("v1", "v2", "big")]
    for at, last in enumerate(opened):
        others = [each for each in opened if each is not last]
        write(average(Plan.of(last), others), tmp_path / str(at))
        with open_checkpoint(tmp_path / str(at)) as read:
            assert (read["w"] == values + 2).all()
    for each in opened:
        each.close()


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"w": np.zeros(2, np.float32)}, "has no weight 'b'"),
        ({"w": np.zeros(2), "b": np.zeros(1, np.float32)}, "'w' is float64 [2] in"),
        ({"w": np.zeros(3, np.float32), "b": np.zeros(1, np.float32)}, "'w' is float32 [3] in"),
        (
            {"w": np.zeros(2, np.float32), "b": np.zeros(1, np.float32), "c": np.zeros(1)},
            "has the weight 'c'",
        ),
    ],
)
def test_weights_must_agree(other: dict[str, np.ndarray], message: str, tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "m", {"w": np.zeros(2, np.float32), "b": np.zeros(1, np.float32)})
    save_checkpoint(tmp_path / "n", other)
    with open_checkpoint(tmp_path / "m") as last, open_checkpoint(tmp_path / "n") as first:
        with pytest.raises(SurgeryError) as raised:
            average(Plan.of(last), [first])
        assert message in raised.value.message


def test_misuse_and_damage(tmp_path: Path) -> None:
    prefix = checkpoint(tmp_path / "m", 1)
    shutil.copytree(tmp_path, tmp_path / "copy")
    data = bytearray(Path(shard_path(str(tmp_path / "copy" / "m"))).read_bytes())
    at = data.index(np.array([1, 2.5], np.float32).tobytes())
    data[at] ^= 1
    Path(shard_path(str(tmp_path / "copy" / "m"))).write_bytes(data)
    with open_checkpoint(prefix) as last, open_checkpoint(tmp_path / "copy" / "m") as first:
        plan = Plan.of(last)
        for others, weights, error, message in (
            ([], [], SelectionError, "at least two"),
            ([last], [], SelectionError, "given 2 times"),
            ([first], [1], SelectionError, "1 weights for 2"),
            ([first], [1, 0], SelectionError, "not a positive number"),
            ([first], [1, float("nan")], SelectionError, "not a positive number"),
        ):
            with pytest.raises(error) as raised:
                average(plan, others, weights=weights)
            assert message in str(raised.value)
        with pytest.raises((ChecksumError, CkptError), match="damaged"):
            write(average(plan, [first]), tmp_path / "out")
    assert not (tmp_path / "out.index").exists()
