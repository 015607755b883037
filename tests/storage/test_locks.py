"""Waiting for the lock of a folder that another process has."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ckpttool.errors import FileAccessError
from ckpttool.storage.locks import Patience, locked_folder
from tests.support.command import ckpt
from tests.support.fixtures import bundle
from tests.support.refusals import refused

_HOLD = """
import fcntl, os, sys, time
fd = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(fd, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(float(sys.argv[2]))
"""


class Holder:
    """Starts processes that have the lock of a folder for a while."""

    def __init__(self) -> None:
        self.started: list[subprocess.Popen[bytes]] = []

    def hold(self, folder: Path, seconds: float) -> int:
        """Return the number of a process that has the lock now."""
        words = [sys.executable, "-I", "-c", _HOLD, str(folder), str(seconds)]
        process = subprocess.Popen(words, stdout=subprocess.PIPE)
        self.started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        return process.pid


@pytest.fixture
def holder() -> Iterator[Holder]:
    made = Holder()
    yield made
    for process in made.started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_it_is_said_once_who_is_waited_for(tmp_path: Path, holder: Holder) -> None:
    number = holder.hold(tmp_path, 2.5)
    said: list[str] = []
    start = time.monotonic()
    with locked_folder(str(tmp_path), Patience(30, said.append)):
        assert 1 < time.monotonic() - start < 20
    (message,) = said
    assert str(tmp_path) in message
    if Path("/proc/locks").exists():
        assert f"process {number} (" in message


def test_nothing_is_said_of_a_short_wait(tmp_path: Path, holder: Holder) -> None:
    holder.hold(tmp_path, 0.2)
    said: list[str] = []
    with locked_folder(str(tmp_path), Patience(30, said.append)):
        assert said == []


@pytest.mark.parametrize("seconds", [0, 0.3])
def test_waiting_comes_to_an_end(tmp_path: Path, holder: Holder, seconds: float) -> None:
    holder.hold(tmp_path, 60)
    start = time.monotonic()
    with (
        refused(FileAccessError, f"gave up after {seconds:g} seconds"),
        locked_folder(str(tmp_path), Patience(seconds)),
    ):
        raise AssertionError
    assert seconds <= time.monotonic() - start < 20


@pytest.mark.parametrize("how", ["new", "in place", "V1"])
def test_commands_do_not_wait_for_ever(tmp_path: Path, holder: Holder, how: str) -> None:
    source = bundle("v2/tf2.21/saver_v2/model.ckpt-3").prefix
    words = ["rename", source, "--prefix", "x/", "-o", "out/m"]
    (tmp_path / "out").mkdir()
    if how == "in place":
        assert ckpt(*words, folder=str(tmp_path)).code == 0
        words = ["rename", "out/m", "--prefix", "y/", "--in-place"]
    if how == "V1":
        words = ["convert-legacy", source, "--to", "v1", "-o", "out/m"]
    number = holder.hold(tmp_path / "out", 60)
    done = ckpt(*words, "--lock-timeout", "1.3", folder=str(tmp_path))
    assert done.code == 2
    waiting, error = done.err.splitlines()
    assert "waiting for" in waiting
    assert "has the lock of the folder; gave up after 1.3 seconds" in error
    if Path("/proc/locks").exists():
        assert str(number) in waiting and str(number) in error
    assert "Traceback" not in done.err
