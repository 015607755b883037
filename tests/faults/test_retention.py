"""Sweeps and repairs of state files while calls fail, when killed, and beside a trainer."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

import ckpttool
from ckpttool.checkpoint.state import read_state
from ckpttool.errors import ChangedError, CkptError
from ckpttool.surgery.retention.execution import sweep
from tests.faults.sweeper import LAST, check, made, repaired, swept, swept_with_unlisted
from tests.support.command import environment
from tests.support.faults import PLAUSIBLE, Call, Fault, System

SECONDS = 1.0


def test_killed_at_every_call(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.sweeper", str(tmp_path)],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, second, third = done.stdout.splitlines()
    assert "['new 2', 'new 3', 'new 4', 'new 5', 'old 5']" in first
    assert "'new 7', 'old 7'" in second and "'new 2'" in second
    assert third.endswith("['new', 'old']")


@pytest.mark.sweep(3)
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
@pytest.mark.parametrize("action", [swept, swept_with_unlisted, repaired])
def test_every_call_fails(action: object, lasting: bool, exhaustive: bool, tmp_path: Path) -> None:
    assert callable(action)
    number, ended = 0, False
    while not ended:
        number += 1 if exhaustive else 4
        folder = tmp_path / str(number)
        made(folder, action)

        def before(call: Call, number: int = number) -> Fault | None:
            if call.number < number or (not lasting and call.number > number):
                return None
            told = PLAUSIBLE.get(call.name, ())
            return Fault(errno.ENOSPC if errno.ENOSPC in told else told[0]) if told else None

        with System(str(folder), before=before) as system:
            try:
                action(folder)
            except CkptError as error:
                assert "\n" not in str(error)
        ended = len(system.calls) < number
        check(folder, action, ended=False)
        (swept_with_unlisted if action is swept else action)(folder)
        check(folder, action, ended=True)
        shutil.rmtree(folder)
    assert number > 20


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EROFS])
@pytest.mark.parametrize("action", [swept, repaired])
def test_nothing_can_be_written(action: object, number: int, tmp_path: Path) -> None:
    assert callable(action)
    made(tmp_path, action)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def refused(call: Call) -> Fault | None:
        return Fault(number) if call.name in ("create", "write", "unlink") else None

    with (
        System(str(tmp_path), before=refused),
        pytest.raises(CkptError, match=f"checkpoint: {os.strerror(number).lower()}"),
    ):
        action(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


TRAINER = """
import sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np
from ckpttool import train
v = train.Variable(np.zeros(2000, np.float32))
checkpoint = train.Checkpoint(v=v)
manager = train.CheckpointManager(checkpoint, sys.argv[1], int(sys.argv[3]))
manager.save()
checkpoint.write(sys.argv[1] + "/ckpt-0")  # which nobody lists
print("ready", flush=True)
end = time.time() + float(sys.argv[2])
while time.time() < end:
    v.assign_add(np.ones(2000, np.float32))
    manager.save()
"""


@pytest.mark.sweep(2)
@pytest.mark.parametrize("keep", [2, 4])
def test_beside_a_trainer(keep: int, tmp_path: Path) -> None:
    """It keeps four, and saves as fast as it can."""
    process = subprocess.Popen(
        [sys.executable, "-c", TRAINER, str(tmp_path), str(SECONDS), "4"],
        stdout=subprocess.PIPE,
        env=environment(),
    )
    assert process.stdout is not None
    done = 0
    with process.stdout:
        assert process.stdout.readline() == b"ready\n"
        while process.poll() is None:
            for unlisted in (False, True):
                with suppress(ChangedError):
                    try:
                        found = sweep(tmp_path, max_to_keep=keep, unlisted=unlisted, dry_run=False)
                        done += len(found.deleted)
                    except CkptError as error:
                        # The trainer was faster than every look at the folder.
                        if isinstance(error, ChangedError) or "latest" not in str(error):
                            raise
            settle(tmp_path, everything=keep == 4)
    assert process.returncode == 0 and done
    assert ckpttool.verify(ckpttool.latest_checkpoint(tmp_path) or "").verdict == "ok"
    assert int(read_state(str(tmp_path)).model_checkpoint_path.partition("-")[2]) > LAST


def settle(folder: Path, *, everything: bool) -> None:
    """Wait until what the state file names is there; only the trainer may take its time."""
    named: tuple[str, ...] = ()
    for _ in range(200):
        state = read_state(str(folder))
        listed = state.all_model_checkpoint_paths if everything else ()
        named = (state.model_checkpoint_path, *listed)
        if all((folder / f"{name}.index").exists() for name in named):
            return
        time.sleep(0.02)
    raise AssertionError(f"not all of {named} are there")
