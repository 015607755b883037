"""TensorFlow goes on in a folder all of whose checkpoints were renamed or pruned."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ckpttool


def saved(tf: Any, folder: Path, number: int) -> None:
    """Save a few checkpoints, each with other values."""
    net = tf.Module()
    net.w = tf.Variable(tf.zeros([3]))
    step = tf.Variable(0, dtype=tf.int64)
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(net=net, step=step), str(folder), max_to_keep=10
    )
    for at in range(1, number + 1):
        net.w.assign([at, at, at])
        step.assign(at)
        manager.save()


def resumed(tf: Any, folder: Path, keep: int) -> tuple[Any, Any]:
    """Restore the latest into the program with the other names; return its manager and variable."""
    model = tf.Module()
    model.w = tf.Variable(tf.zeros([3]))
    checkpoint = tf.train.Checkpoint(model=model, step=tf.Variable(0, dtype=tf.int64))
    manager = tf.train.CheckpointManager(checkpoint, str(folder), max_to_keep=keep)
    status = checkpoint.restore(manager.latest_checkpoint)
    status.assert_consumed()
    return manager, model.w


def on_disk(folder: Path) -> list[int]:
    return sorted(int(path.stem.rpartition("-")[2]) for path in folder.glob("ckpt-*.index"))


def by_all(source: Path, target: Path) -> None:
    ckpttool.rename(source, target, {"net": "model"}, all=True)


def in_place(source: Path, target: Path) -> None:
    os.rename(source, target)
    ckpttool.rename(target, None, {"net": "model"}, all=True, in_place=True)


def one_by_one(source: Path, target: Path) -> None:
    """As with a loop in a shell."""
    for at in range(1, 6):
        name = f"ckpt-{at}"
        ckpttool.rename(source / name, target / name, {"net": "model"}, update_state=True)


def without_state(source: Path, target: Path) -> None:
    os.unlink(source / "checkpoint")
    ckpttool.rename(source, target, {"net": "model"}, all=True, update_state=True)


def without_times(source: Path, target: Path) -> None:
    """As from a writer that lists no times."""
    lines = (source / "checkpoint").read_text(encoding="utf-8").splitlines(True)
    text = "".join(line for line in lines if "path" in line)
    (source / "checkpoint").write_text(text, encoding="utf-8")
    ckpttool.rename(source, target, {"net": "model"}, all=True)


WAYS = (by_all, in_place, one_by_one, without_state, without_times)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_manager_goes_on(tf: Any, tmp_path: Path, way: Any) -> None:
    saved(tf, tmp_path / "old", 5)
    way(tmp_path / "old", tmp_path / "new")
    manager, w = resumed(tf, tmp_path / "new", keep=3)
    assert [os.path.basename(each) for each in manager.checkpoints] == [
        f"ckpt-{at}" for at in range(1, 6)
    ]
    assert np.array_equal(w.numpy(), [5, 5, 5])
    # It knows the migrated ones: what is too much goes, the oldest first.
    manager.save()
    assert on_disk(tmp_path / "new") == [4, 5, 6]
    manager.save()
    assert on_disk(tmp_path / "new") == [5, 6, 7]
    assert ckpttool.verify(tmp_path / "new").verdict == "ok"
    # Any of them can be restored.
    with ckpttool.open_checkpoint(tmp_path / "new" / "ckpt-5") as read:
        assert np.array_equal(read["model/w"], [5, 5, 5])


def test_a_pruned_folder(tf: Any, tmp_path: Path) -> None:
    saved(tf, tmp_path / "old", 3)
    ckpttool.prune(tmp_path / "old", tmp_path / "new", drop="step", all=True, compact=True)
    net = tf.Module()
    net.w = tf.Variable(tf.zeros([3]))
    checkpoint = tf.train.Checkpoint(net=net)
    manager = tf.train.CheckpointManager(checkpoint, str(tmp_path / "new"), max_to_keep=2)
    for at, path in enumerate(manager.checkpoints, 1):
        checkpoint.restore(path).assert_consumed()
        assert np.array_equal(net.w.numpy(), [at, at, at])
    manager.save()
    assert on_disk(tmp_path / "new") == [3, 4]
