"""Exports and imports while calls fail, or killed between two changes: all of it, or nothing."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import ckpttool as ct
from ckpttool.storage.leftovers import LOCK_SUFFIX
from ckpttool.storage.temporary import TEMPORARY_SUFFIX
from tests.support.faults import CHANGES, Call, Fault, System
from tests.support.fixtures import FIXTURES, folder_contents

GUIDE = os.path.join(FIXTURES, "v2/tf2.21/guide_legacy_adam_resumed/tf_ckpts/ckpt-10")
ERRORS = (28, 5)  # ENOSPC, EIO


def _one(root: Path) -> None:
    ct.export(GUIDE, root / "out" / "m.safetensors", force=True)


def _npz(root: Path) -> None:
    ct.export(GUIDE, root / "out" / "m.npz", force=True)


def _several(root: Path) -> None:
    ct.export(GUIDE, root / "out" / "m.safetensors", max_shard_size=20, force=True)


def _adopted(root: Path) -> None:
    ct.import_checkpoint(root / "in.safetensors", root / "out" / "q-1", like=GUIDE, force=True)


# What is done, and whether something older is in its place.
OPERATIONS: dict[str, tuple[Callable[[Path], None], bool]] = {
    "one file": (_one, False),
    "one file over several": (_one, True),
    "npz over another": (_npz, True),
    "several files": (_several, False),
    "several over others": (_several, True),
    "adopted": (_adopted, False),
    "adopted over another": (_adopted, True),
}
CASES = pytest.mark.parametrize("name", OPERATIONS)


def start(root: Path, name: str) -> None:
    """Make the folder anew: the input, somebody else's file, and what is to be replaced."""
    shutil.rmtree(root, ignore_errors=True)
    (root / "out").mkdir(parents=True)
    (root / "out" / "notes.txt").write_text("mine")
    ct.export(GUIDE, root / "in.safetensors")
    if not OPERATIONS[name][1]:
        return
    ct.export(GUIDE, root / "out" / "m.safetensors", kinds="slot", max_shard_size=40)
    ct.export(GUIDE, root / "out" / "m.npz", kinds="slot")
    ct.import_checkpoint(root / "in.safetensors", root / "out" / "q-1")


def seen(root: Path) -> dict[str, bytes]:
    """Return what lies in the folder, but for temporary files."""
    return {
        path: data
        for path, data in folder_contents(root / "out").items()
        if not path.endswith((TEMPORARY_SUFFIX, LOCK_SUFFIX))
    }


def run(root: Path, name: str, before: Callable[[Call], Fault | None]) -> list[Call]:
    """Do it on a file system that clones, and return the calls."""
    with System(root, before=before, clones=True) as system:
        OPERATIONS[name][0](root)
    return system.calls


def is_readable(root: Path) -> bool:
    """Tell whether whatever a reader would begin with is whole."""
    for path in (root / "out").iterdir():
        first = path.name in ("m.npz", "m.safetensors", "m.safetensors.index.json", "q-1.index")
        if first and path.stat().st_size and ct.verify(path).verdict == "damaged":
            return False
    return True


def is_done(root: Path, name: str, new: dict[str, bytes]) -> bool:
    """Tell whether the result is there; that of a second run has another number of shards."""
    if OPERATIONS[name][0] is not _adopted:
        return seen(root) == new
    prefix = root / "out" / "q-1"
    with ct.open_checkpoint(prefix) as done, ct.open_checkpoint(GUIDE) as source:
        same = all((done[key] == source[key]).all() for key in ("net/l1/bias", "net/l1/kernel"))
    return same and ct.verify(root / "out").verdict == "ok"


@pytest.mark.sweep(7)
@CASES
def test_calls_that_fail(name: str, tmp_path: Path) -> None:
    root = tmp_path / "work"
    start(root, name)
    old = seen(root)
    calls = run(root, name, lambda call: None)
    new = seen(root)
    assert old != new and "notes.txt" in new
    states = set()
    for call in calls:
        if call.name not in CHANGES and call.name not in ("fsync", "open"):
            continue
        start(root, name)
        number = ERRORS[call.number % 2]

        def before(now: Call, at: int = call.number, number: int = number) -> Fault | None:
            return Fault(number) if now.number == at else None

        try:
            run(root, name, before)
            done = True
        except ct.CkptError:
            done = False
        now = seen(root)
        assert now == new or (now == old and not done) or is_readable(root), call
        states.add(now == new)
        OPERATIONS[name][0](root)
        assert is_done(root, name, new), call
    assert states == {True, False}


@pytest.mark.sweep(7)
@CASES
def test_killed_before_every_change(name: str, tmp_path: Path) -> None:
    root = tmp_path / "work"
    start(root, name)
    old = seen(root)
    calls = run(root, name, lambda call: None)
    new = seen(root)
    for call in calls:
        if call.name not in CHANGES:
            continue
        start(root, name)
        child = os.fork()
        if not child:

            def before(now: Call, at: int = call.number) -> None:
                if now.number == at:
                    os.kill(os.getpid(), signal.SIGKILL)

            try:
                run(root, name, before)
            finally:
                os._exit(1)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
        now = seen(root)
        assert now in (old, new) or is_readable(root), call
        assert now["notes.txt"] == b"mine"
        OPERATIONS[name][0](root)
        assert is_done(root, name, new), call
        assert folder_contents(root / "out") == seen(root), call
