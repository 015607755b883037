"""Tensors followed through the checkpoints of a folder."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ckpttool
from ckpttool import open_checkpoint
from ckpttool.checkpoint.selection.select import SelectionRule, Selector
from ckpttool.errors import ChecksumError, NotFoundError, SelectionError
from ckpttool.query.diff.series import Series, diff_series
from tests.support.fixtures import FIXTURES
from tests.support.handmade import Bundle, shard_path

GUIDE = Path(FIXTURES) / "v2/tf2.21/guide_legacy_adam_resumed/tf_ckpts"


def save(folder: Path, step: int, tensors: dict[str, Any]) -> str:
    ckpttool.save_checkpoint(str(folder / f"ckpt-{step}"), tensors)
    return str(folder / f"ckpt-{step}")


def told(series: Series, key: str) -> list[tuple[int | None, str]]:
    return [(row.step, row.change) for row in series.rows if row.row.key == key]


def test_norms_are_those_of_numpy() -> None:
    found = diff_series(GUIDE, Selector([SelectionRule("net/l1/kernel")]))
    assert found.checkpoints == ("ckpt-8", "ckpt-9", "ckpt-10")
    rows = [row for row in found.rows if row.row.object_path == "net/l1/kernel"]
    values = []
    for name in found.checkpoints:
        with open_checkpoint(GUIDE / name) as ckpt:
            values.append(ckpt["net/l1/kernel"].astype(np.float64))
    assert [row.change for row in rows] == ["first", "changed", "changed"]
    for at, row in enumerate(rows):
        assert row.norm == pytest.approx(np.linalg.norm(values[at]), rel=1e-12)
        if at:
            update = np.linalg.norm(values[at] - values[at - 1])
            assert row.update == pytest.approx(update, rel=1e-12)
            assert row.ratio == pytest.approx(update / np.linalg.norm(values[at - 1]), rel=1e-12)
    assert found.changes and not found.problems


def test_what_becomes_of_tensors(tmp_path: Path) -> None:
    save(
        tmp_path,
        1,
        {"w": np.array([3, 4], np.float32), "same": np.array([1], np.int8), "old": np.bool_(True)},
    )
    save(
        tmp_path,
        2,
        {
            "w": np.array([0, 0], np.float32),
            "same": np.array([1], np.int8),
            "s": np.array(b"x", object),
        },
    )
    save(
        tmp_path,
        3,
        {
            "w": np.array([1, 0], np.float32),
            "same": np.array([1], np.int8),
            "s": np.array(b"y", object),
        },
    )
    save(tmp_path, 10, {"w": np.array([1, 0], np.float64), "same": np.array([1], np.int8)})
    found = diff_series(tmp_path)
    assert told(found, "w") == [(1, "first"), (2, "changed"), (3, "changed"), (10, "reshaped")]
    assert told(found, "same") == [(1, "first"), (2, "same"), (3, "same"), (10, "same")]
    assert told(found, "old") == [(1, "first"), (2, "gone")]
    assert told(found, "s") == [(2, "first"), (3, "changed"), (10, "gone")]
    w = [(row.norm, row.update, row.ratio) for row in found.rows if row.row.key == "w"]
    assert w == [(5, None, None), (0, 5, 1), (1, 1, None), (1, None, None)]
    same = [(row.norm, row.update, row.ratio) for row in found.rows if row.row.key == "same"]
    assert same[1] == (1, 0, 0)
    assert not diff_series(tmp_path, Selector([SelectionRule("same")])).changes


def test_v1_checkpoints_are_read(tmp_path: Path) -> None:
    folder = os.path.join(FIXTURES, "v1/tf1.15/saver")
    with open_checkpoint(os.path.join(folder, "model.ckpt-2")) as ckpt:
        before = dict(ckpt.items())
    with open_checkpoint(os.path.join(folder, "model.ckpt-3")) as ckpt:
        after = dict(ckpt.items())
    found = diff_series(folder)
    for key, value in after.items():
        same = np.array_equal(before[key], value)
        assert told(found, key) == [(2, "first"), (3, "same" if same else "changed")]


def test_damage_is_a_problem_and_the_rest_goes_on(tmp_path: Path) -> None:
    shutil.copytree(GUIDE, tmp_path / "c")
    path = Path(shard_path(str(tmp_path / "c" / "ckpt-9")))
    with open_checkpoint(tmp_path / "c" / "ckpt-9") as ckpt:
        key = ckpt.resolve("net/l1/kernel")
        offset = ckpt.bundle.entries[key].offset
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)
    found = diff_series(tmp_path / "c", Selector([SelectionRule("net")]))
    changes = told(found, key)
    assert changes[1] == (9, "unreadable") and len(changes) == 3
    assert {type(each) for each in found.problems} == {ChecksumError}
    assert all(row.norm is not None for row in found.rows if row.row.key != key)
    (tmp_path / "c" / "ckpt-8.index").write_bytes(b"nonsense")
    found = diff_series(tmp_path / "c", Selector([SelectionRule("step")]))
    assert found.checkpoints == ("ckpt-9", "ckpt-10") and len(found.problems) == 1


def test_missing_data_are_a_problem(tmp_path: Path) -> None:
    for step in (1, 2):
        save(tmp_path, step, {"w": np.array([1], np.float32), "s": np.array(b"x", object)})
    os.unlink(shard_path(str(tmp_path / "ckpt-2")))
    found = diff_series(tmp_path, Selector([SelectionRule("s")]))
    assert len(found.problems) == 1


def test_nothing_to_follow(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no checkpoint"):
        diff_series(tmp_path)
    with pytest.raises(SelectionError, match="selects nothing"):
        diff_series(GUIDE, Selector([SelectionRule("nothing")]))


def test_one_checkpoint_that_claims_too_much_ends_not_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in (1, 3):
        save(tmp_path, step, {f"w{i}": np.full(64, step, np.float32) for i in range(40)})
    made = Bundle().add(b"w0", 1, (64,), bytes(256))
    for number in range(1, 40):
        made.records[b"w%d" % number] = made.records[b"w0"]
    made.write(tmp_path / "ckpt-2")
    monkeypatch.setattr("ckpttool.query.shards._FREE", 1000)
    found = diff_series(tmp_path)
    assert [error.message.split(";")[0] for error in found.problems] == [
        "the tensors claim 10240 bytes of data shards that have 256"
    ]
    assert told(found, "w7") == [(1, "first"), (2, "unreadable"), (3, "unreadable")]
    few = diff_series(tmp_path, Selector([SelectionRule("w[1-3]")]))
    assert not few.problems
    assert told(few, "w2") == [(1, "first"), (2, "changed"), (3, "changed")]


def test_what_is_not_read_is_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in (1, 2):
        made = Bundle().add(b"b0", 10, (256,), bytes(256))
        for number in range(1, 40):
            made.records[b"b%d" % number] = made.records[b"b0"]
        made.add(b"w", 1, (1,), bytes(3) + bytes([step]))
        made.write(tmp_path / f"ckpt-{step}")
    monkeypatch.setattr("ckpttool.query.shards._FREE", 1000)
    found = diff_series(tmp_path)
    assert not found.problems
    assert told(found, "w") == [(1, "first"), (2, "changed")]
    assert told(found, "b5") == [(1, "first"), (2, "same")]
