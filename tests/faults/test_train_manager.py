"""A manager that saves while calls of the file system fail, or is killed at one of them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import ckpttool
from ckpttool.checkpoint.state import read_state
from ckpttool.errors import CkptError
from ckpttool.train.checkpoint import Checkpoint
from ckpttool.train.manager import CheckpointManager
from ckpttool.train.options import CheckpointOptions
from ckpttool.train.variable import Variable
from tests.faults.test_train_saving import KINDS, KilledError, restorable, trouble

BACKGROUND = CheckpointOptions(enable_async=True)


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no manager wait: what "dies" here at a lock does not end, and so keeps it."""
    monkeypatch.setattr("ckpttool.train.manager._PATIENCE", 0.0)


def program(value: float) -> Any:
    return Checkpoint(v=Variable(value))


@pytest.mark.sweep(4)
@pytest.mark.parametrize("options", [None, BACKGROUND], ids=["here", "background"])
@pytest.mark.parametrize("kind", KINDS)
def test_save(kind: str, options: CheckpointOptions | None, tmp_path: Path) -> None:
    number, done = 0, False
    outcomes = set()
    while not done:
        number += 1
        folder = tmp_path / str(number)
        ckpt = program(1.0)
        manager = CheckpointManager(ckpt, folder, 2)
        manager.save()
        ckpt.v.assign(2.0)
        manager.save()
        ckpt.v.assign(3.0)
        failed = True
        with trouble(folder, kind, number) as system, suppress(CkptError):
            manager.save(options=options)
            manager.sync()
            failed = False
        done = len(system.calls) < number
        named = restorable(folder)
        outcomes.add(named)
        assert named in (2.0, 3.0)
        assert failed or named == 3.0
        if kind != "killed":  # the manager itself goes on, and mostly knows what it has
            assert kind == "lasting" or manager.latest_checkpoint == str(
                folder / read_state(str(folder)).model_checkpoint_path
            )
            ckpt.v.assign(4.0)
            manager.save()
            assert restorable(folder) == 4.0
        # So does a process that starts anew.
        again = program(0.0)
        other = CheckpointManager(again, folder, 2)
        assert other.restore_or_initialize() == ckpttool.latest_checkpoint(folder)
        assert float(again.v) in (named, 4.0)
        for _ in range(2):
            again.v.assign_add(10.0)
            other.save()
        assert restorable(folder) == float(again.v)
        assert len(other.checkpoints) == 2
        for path in other.checkpoints:
            assert ckpttool.verify(path).verdict == "ok"
    assert outcomes == {2.0, 3.0}


def test_what_the_background_was_killed_at_is_raised(tmp_path: Path) -> None:
    ckpt = program(1.0)
    with trouble(tmp_path, "killed", 1), pytest.raises(KilledError):
        ckpt.save(tmp_path / "ckpt", BACKGROUND)
        ckpt.sync()
    assert list(tmp_path.iterdir()) == []
