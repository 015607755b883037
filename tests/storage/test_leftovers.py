"""What killed runs left behind goes, and nothing else."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path

import pytest

from ckpttool.storage.folders import OpenFolder
from ckpttool.storage.leftovers import SetLock, clean_up, clear_leftovers, dead_sets, destination_of
from ckpttool.storage.temporary import split_temporary, temporary_stem
from tests.support.command import environment
from tests.support.links import adversary

TAG = "0123456789abcdef"
OTHER = "fedcba9876543210"


def leave(folder: Path, *stems: str, tag: str = TAG, lock: bool = True) -> None:
    """Leave what a dead run may leave."""
    for stem in stems:
        (folder / f".{stem}.{tag}.ckpt-tmp").write_bytes(b"x")
    if lock:
        (folder / f".{tag}.ckpt-lock").touch()


def clear(folder: Path, destinations: Collection[str]) -> None:
    clear_leftovers(OpenFolder(str(folder)), destinations)


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


@pytest.mark.parametrize(
    ("name", "destination"),
    [
        ("m.index", "m"),
        ("m.meta", "m"),
        ("m.data-00000-of-00002", "m"),
        ("m-1.data-00000-of-00002", "m-1"),
        ("m.ckpt-7-00001-of-00003", "m.ckpt-7"),
        ("m.ckpt-7", "m.ckpt-7"),
        ("w.npy", "w.npy"),
        (".index", ".index"),
    ],
)
def test_destinations(name: str, destination: str) -> None:
    assert destination_of(name) == destination


def test_temporary_names() -> None:
    assert split_temporary(f".m.index.{TAG}.ckpt-tmp") == ("m.index", TAG)
    assert split_temporary(f".a\nb.{TAG}.ckpt-tmp") == ("a\nb", TAG)
    for name in (f"m.{TAG}.ckpt-tmp", f".m.{TAG[1:]}.ckpt-tmp", f".{TAG}.ckpt-tmp", "m.ckpt-tmp"):
        assert split_temporary(name) is None


def test_all_of_a_dead_run_goes(tmp_path: Path) -> None:
    """Also what has another count of shards, and what was kept to undo it."""
    stems = ("m.data-00000-of-00002", "m.index", "m.index.old", "m-00000-of-00002.claim", "m")
    for at, stem in enumerate(stems):
        leave(tmp_path, stem, tag=f"{at:016x}")
    leave(tmp_path, "m.data-00003-of-00004", "m.index", "m.index.old")
    clear(tmp_path, {"m"})
    assert names(tmp_path) == []


def test_other_destinations_stay(tmp_path: Path) -> None:
    leave(tmp_path, "m2.index", "m.x.index", "n")
    (tmp_path / "m.index").touch()
    (tmp_path / f"m.{TAG}.ckpt-tmp").touch()
    (tmp_path / ".m.index.ckpt-tmp").touch()
    (tmp_path / ".mine.ckpt-lock").touch()
    before = names(tmp_path)
    clear(tmp_path, {"m"})
    assert names(tmp_path) == before


def test_a_run_that_died_before_its_first_file(tmp_path: Path) -> None:
    leave(tmp_path)
    clear(tmp_path, {"anything"})
    assert names(tmp_path) == []


def test_the_living_are_let_alone(tmp_path: Path) -> None:
    """Of this process, and of another one until it is killed."""
    lock = SetLock(OpenFolder(str(tmp_path)), TAG)
    lock.acquire()
    leave(tmp_path, "m.index", lock=False)
    code = (
        "import sys; from ckpttool.storage.leftovers import clean_up, SetLock\n"
        "from ckpttool.storage.folders import OpenFolder\n"
        "lock = SetLock(OpenFolder(sys.argv[1]), sys.argv[2]); lock.acquire()\n"
        "print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path), OTHER],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        leave(tmp_path, "m.index", tag=OTHER, lock=False)
        before = names(tmp_path)
        clear(tmp_path, {"m"})
        assert names(tmp_path) == before
        process.kill()
    clear(tmp_path, {"m"})
    assert names(tmp_path) == [f".{TAG}.ckpt-lock", f".m.index.{TAG}.ckpt-tmp"]
    lock.release()
    assert names(tmp_path) == [f".m.index.{TAG}.ckpt-tmp"]


def test_without_a_lock_a_day_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leave(tmp_path, "m.index", lock=False)
    os.utime(tmp_path / f".m.index.{TAG}.ckpt-tmp", (0, 0))
    clear(tmp_path, {"m"})
    assert len(names(tmp_path)) == 1
    later = time.time() + 86401
    monkeypatch.setattr(time, "time", lambda: later)
    clear(tmp_path, {"m"})
    assert names(tmp_path) == []


def test_where_there_are_no_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(fd: int, operation: int) -> None:
        raise OSError(37, "no locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    lock = SetLock(OpenFolder(str(tmp_path)), TAG)
    lock.acquire()
    assert names(tmp_path) == []
    lock.release()
    leave(tmp_path, "m.index")
    clear(tmp_path, {"m"})
    assert len(names(tmp_path)) == 2


def test_a_lock_that_somebody_took_for_a_dead_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between making the file and locking it there is a moment."""
    true = fcntl.flock
    stolen: list[int] = []

    def steal(fd: int, operation: int) -> None:
        if not stolen:
            stolen.append(fd)
            monkeypatch.setattr(fcntl, "flock", true)
            clear(tmp_path, set())
            assert names(tmp_path) == []
        true(fd, operation)

    monkeypatch.setattr(fcntl, "flock", steal)
    lock = SetLock(OpenFolder(str(tmp_path)), TAG)
    lock.acquire()
    leave(tmp_path, "m.index", lock=False)
    clear(tmp_path, {"m"})
    assert len(names(tmp_path)) == 2
    lock.release()


@pytest.mark.parametrize("length", [80, 90, 120, 235])
def test_long_names(length: int, tmp_path: Path) -> None:
    """The temporary name of a long one has only its beginning in it."""
    name = "é" * (length // 2)
    for at, end in enumerate((".index", ".data-00000-of-00001", "")):
        leave(tmp_path, temporary_stem(name + end), tag=f"{at:016x}")
    before = names(tmp_path)
    clear(tmp_path, {"x" + name, "n"})
    assert names(tmp_path) == before
    clear(tmp_path, {name})
    assert names(tmp_path) == []


def test_a_folder_with_all_that_is_in_it(tmp_path: Path) -> None:
    inside = tmp_path / f".model.{TAG}.ckpt-tmp" / "variables"
    inside.mkdir(parents=True)
    (inside / "variables.index").touch()
    leave(tmp_path)
    clear(tmp_path, {"model"})
    assert names(tmp_path) == []


def test_links_in_their_place_lead_nowhere(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (tmp_path / "mine").write_bytes(b"mine")
    os.symlink("../mine", folder / f".m.index.{TAG}.ckpt-tmp")
    os.symlink("../mine", folder / f".{TAG}.ckpt-lock")
    clear(folder, {"m"})
    assert (tmp_path / "mine").read_bytes() == b"mine"


def test_a_folder_that_was_exchanged_for_a_link(tmp_path: Path) -> None:
    """What lies where the path leads by then is somebody else's."""
    folder, moved, other = tmp_path / "in", tmp_path / "moved", tmp_path / "other"
    folder.mkdir()
    other.mkdir()
    for each in (folder, other):
        leave(each, "m.index")
        (each / f".m.{TAG}.ckpt-tmp").mkdir()
    held = OpenFolder(str(folder))
    folder.rename(moved)
    folder.symlink_to(other)
    before = names(other)
    assert [each.names for each in dead_sets(held, "m")]
    clear_leftovers(held, {"m"})
    assert names(other) == before
    assert names(moved) == []


def test_somebody_who_exchanges_leftovers_for_links_reaches_nothing_elsewhere(
    tmp_path: Path,
) -> None:
    folder, other = tmp_path / "shared", tmp_path / "other"
    folder.mkdir()
    (other / "variables").mkdir(parents=True)
    (other / "variables" / "mine").touch()
    (other / "mine").touch()
    taken = 0
    with adversary(folder, other):
        for number in range(40):
            made = tmp_path / f"{number}"
            for at in range(5):
                (made / f"variables-{at}" / "x").mkdir(parents=True)
            (folder / f".{number:016x}.ckpt-lock").touch()
            made.rename(folder / f".model.{number:016x}.ckpt-tmp")
            clear(folder, {"model"})
            taken += any(name.startswith("taken") for name in names(folder))
            assert names(other) == ["mine", "variables"]
            assert names(other / "variables") == ["mine"]
    assert taken, "nobody interfered"


@pytest.mark.parametrize("at", [0, 1])
def test_an_interrupted_step_is_taken_again(at: int) -> None:
    taken: list[int] = []

    def step(number: int) -> None:
        taken.append(number)
        if taken == [*range(at), at]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        clean_up(lambda: step(0), lambda: step(1))
    assert taken == [[0, 0, 1], [0, 1, 1]][at]
