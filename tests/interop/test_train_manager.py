"""The same program run with TensorFlow's manager and with ours leaves the same folder."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ckpttool.train.manager import CheckpointManager
from tests.interop.train_faces import ours, theirs
from tests.interop.train_managers import PROGRAMS, Clock, Program

# Where a program shows a difference that is meant: what TensorFlow stores as counter.
COUNTER_DIFFERS = ("in_the_background",)


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_folders_are_the_same(
    program: Program, tf: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, left = {}, {}
    for name, face in (("theirs", theirs(tf)), ("ours", ours())):
        clock = Clock()
        face.CheckpointManager = tf.train.CheckpointManager
        if name == "ours":
            face.CheckpointManager = partial(CheckpointManager, clock=clock, overwrite=True)
        folder = tmp_path / name
        folder.mkdir()
        here = os.getcwd()
        with monkeypatch.context() as patch:
            patch.chdir(folder)
            patch.setattr(time, "time", clock)
            answers[name] = program(face, folder, clock)
        assert os.getcwd() == here
        left[name] = files(folder)
    assert answers["ours"] == answers["theirs"]
    assert left["ours"].keys() == left["theirs"].keys()
    for name, data in left["theirs"].items():
        if name.endswith("checkpoint"):
            assert without_times(left["ours"][name]) == without_times(data), name
        elif program.__name__ not in COUNTER_DIFFERS:
            assert left["ours"][name] == data, name


def without_times(state: bytes) -> list[str]:
    """The lines of a state file; the clock does not tick as often in both."""
    return [
        line.partition(":")[0] if "timestamp" in line else line
        for line in state.decode().splitlines()
    ]
