"""A sweep from outside leaves what TensorFlow's manager leaves, and TensorFlow goes on after it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import ckpttool
from ckpttool.checkpoint.state import read_state
from ckpttool.errors import ChangedError, CkptError
from ckpttool.surgery.retention.execution import sweep
from tests.support.command import ckpt, environment

HOUR = 3600.0
SECONDS = 8.0


class Clock:
    """Seconds since 1970."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.25

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(time, "time", made)
    return made


def saved(tf: Any, folder: Path, clock: Clock, count: int, minutes: float = 20.0) -> Any:
    """Save with a manager that keeps everything."""
    checkpoint = tf.train.Checkpoint(v=tf.Variable(0.0))
    manager = tf.train.CheckpointManager(checkpoint, str(folder), None)
    for number in range(count):
        clock.now += minutes * 60
        checkpoint.v.assign(float(number + 1))
        manager.save()
    return checkpoint


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("keep", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("hours", [None, 1.0, 0.4, 100.0])
@pytest.mark.parametrize("minutes", [20.0, 47.0])
def test_the_same_set(
    keep: int, hours: float | None, minutes: float, tf: Any, clock: Clock, tmp_path: Path
) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    saved(tf, theirs, clock, 9, minutes)
    shutil.copytree(theirs, ours)
    clock.now += minutes * 60
    for folder, count in ((theirs, keep), (ours, None)):
        # Both save once more; the manager of theirs sweeps.
        checkpoint = tf.train.Checkpoint(v=tf.Variable(0.0))
        every = None if count is None else hours
        manager = tf.train.CheckpointManager(
            checkpoint, str(folder), count, keep_checkpoint_every_n_hours=every
        )
        checkpoint.restore(manager.latest_checkpoint)
        manager.save()
    told = sweep(ours, max_to_keep=keep, keep_checkpoint_every_n_hours=hours)
    done = sweep(ours, max_to_keep=keep, keep_checkpoint_every_n_hours=hours, dry_run=False)
    assert told.deleted == done.deleted
    assert files(ours) == files(theirs)
    assert read_state(str(ours)) == read_state(str(theirs))
    assert (ours / "checkpoint").read_bytes() == (theirs / "checkpoint").read_bytes()


def test_tensorflow_goes_on(tf: Any, clock: Clock, tmp_path: Path) -> None:
    saved(tf, tmp_path, clock, 7)
    sweep(tmp_path, max_to_keep=3, dry_run=False)
    assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "ckpt-7")
    checkpoint = tf.train.Checkpoint(v=tf.Variable(0.0))
    manager = tf.train.CheckpointManager(checkpoint, str(tmp_path), 3)
    assert [os.path.basename(path) for path in manager.checkpoints] == [
        *("ckpt-5", "ckpt-6", "ckpt-7"),
    ]
    checkpoint.restore(manager.latest_checkpoint).assert_consumed()
    assert float(checkpoint.v) == 7.0
    clock.now += HOUR
    manager.save()
    assert {name for name in files(tmp_path) if name.endswith(".index")} == {
        *("ckpt-6.index", "ckpt-7.index", "ckpt-8.index"),
    }


def test_what_was_forgotten_is_taken_in(tf: Any, clock: Clock, tmp_path: Path) -> None:
    checkpoint = saved(tf, tmp_path, clock, 3)
    for _ in range(3):
        checkpoint.save(str(tmp_path / "ckpt"))  # the state file names the last one alone
    clock.now = time.monotonic() + 2e9
    sweep(tmp_path, max_to_keep=2, unlisted=True, dry_run=False)
    manager = tf.train.CheckpointManager(checkpoint, str(tmp_path), 2)
    assert [os.path.basename(path) for path in manager.checkpoints] == ["ckpt-5", "ckpt-6"]
    clock.now += 60
    manager.save()
    assert {name for name in files(tmp_path) if name.endswith(".index")} == {
        *("ckpt-6.index", "ckpt-7.index"),
    }


def test_a_repaired_state_file(tf: Any, clock: Clock, tmp_path: Path) -> None:
    saved(tf, tmp_path, clock, 5)
    os.truncate(tmp_path / "ckpt-5.data-00000-of-00001", 3)
    assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "ckpt-5")
    assert ckpt("verify", str(tmp_path), "--repair-state").code == 1
    assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "ckpt-4")
    checkpoint = tf.train.Checkpoint(v=tf.Variable(0.0))
    manager = tf.train.CheckpointManager(checkpoint, str(tmp_path), 3)
    assert len(manager.checkpoints) == 4
    checkpoint.restore(manager.latest_checkpoint).assert_consumed()
    assert float(checkpoint.v) == 4.0
    # A file that nobody can read: the manager deletes nothing of what it does not know.
    (tmp_path / "checkpoint").write_bytes(b"\xff")
    assert ckpt("verify", str(tmp_path), "--repair-state").code == 1
    manager = tf.train.CheckpointManager(checkpoint, str(tmp_path), 1)
    assert manager.latest_checkpoint == str(tmp_path / "ckpt-4") and manager.checkpoints == []
    for number in (8, 9):
        clock.now += HOUR
        manager.save(checkpoint_number=number)
    assert {name for name in files(tmp_path) if name.endswith(".index")} == {
        *(f"ckpt-{number}.index" for number in (1, 2, 3, 4, 5, 9)),
    }


TRAINER = """
import sys, time
import tensorflow as tf
v = tf.Variable(tf.zeros([2000]))
checkpoint = tf.train.Checkpoint(v=v)
manager = tf.train.CheckpointManager(checkpoint, sys.argv[1], 3)
manager.save()
checkpoint.write(sys.argv[1] + "/ckpt-0")  # which nobody lists
print("ready", flush=True)
end = time.time() + float(sys.argv[2])
while time.time() < end:
    v.assign_add(tf.ones([2000]))
    manager.save()
"""


def test_beside_a_trainer(tf: Any, tmp_path: Path) -> None:
    """The latest is always whole, and what the state file names is there."""
    process = subprocess.Popen(
        [sys.executable, "-c", TRAINER, str(tmp_path), str(SECONDS)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment({"CUDA_VISIBLE_DEVICES": "-1"}),
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"ready\n"
        swept = 0
        while process.poll() is None:
            for unlisted in (False, True):
                try:
                    swept += bool(
                        sweep(tmp_path, max_to_keep=3, unlisted=unlisted, dry_run=False).deleted
                    )
                except CkptError as error:
                    known = isinstance(error, ChangedError) or "latest checkpoint" in str(error)
                    assert known, error
                _all_there(tmp_path)
    assert process.returncode == 0
    assert ckpttool.verify(tmp_path).verdict == "ok"
    sweep(tmp_path, max_to_keep=1, unlisted=True, dry_run=False)
    latest = tf.train.latest_checkpoint(str(tmp_path))
    assert files(tmp_path) == {
        "checkpoint",
        os.path.basename(latest) + ".index",
        os.path.basename(latest) + ".data-00000-of-00001",
    }
    assert swept


def _all_there(folder: Path) -> None:
    """Wait until what the state file names is there; only the trainer may take its time."""
    gone: list[str] = []
    for _ in range(100):
        state = read_state(str(folder))
        named = (state.model_checkpoint_path, *state.all_model_checkpoint_paths)
        gone = [name for name in named if not (folder / f"{name}.index").exists()]
        latest = folder / f"{state.model_checkpoint_path}.data-00000-of-00001"
        if not gone and latest.exists():
            return
        time.sleep(0.05)  # it deletes before it writes its state file again
    raise AssertionError(f"{gone} are named and gone")
