"""All checkpoints of a folder: which ones, where they go, and their state file."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import numpy as np
import pytest

from ckpttool.checkpoint.open import Checkpoint
from ckpttool.checkpoint.state import CheckpointState, format_state, read_state
from ckpttool.errors import CkptError, DestinationError, MissingFileError, SurgeryError
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.writing.folder import (
    CarriedState,
    Planned,
    PreparedTargets,
    WriteTarget,
    carried_state,
    find_sources,
)
from ckpttool.surgery.writing.prepare import WriteOptions
from tests.support.conversions import SHARDED, SINGLE, copy_v1, write_v1
from tests.support.exports import export_path
from tests.support.fixtures import FIXTURES
from tests.support.handmade import Bundle
from tests.support.refusals import refused


def found(path: str | Path, destination: str) -> list[tuple[str, str]]:
    """Return name and destination of each target."""
    targets = find_sources(str(path), destination)
    return [(os.path.basename(each.location.prefix), each.place) for each in targets]


def test_one_checkpoint(tmp_path: Path) -> None:
    single = copy_v1(SINGLE, tmp_path / "single")
    sharded = copy_v1(SHARDED, tmp_path / "sharded")
    for typed in (single, f"{single}.meta", str(tmp_path / "single" / "checkpoint")):
        assert found(typed, "q") == [("model.ckpt-3", "q")]
    for typed in (
        sharded,
        f"{sharded}-?????-of-00002",
        f"{sharded}-00001-of-00002",
        f"{sharded}.meta",
    ):
        assert found(typed, "q.index") == [("model.ckpt-7", "q")]
    model = os.path.join(FIXTURES, "saved_model/tf2.21/tf_keras/model")
    assert found(model, "q") == [("variables", "q")]
    assert found(export_path("session_bundle/tf1.4/assets/export"), "q") == [("export", "q")]


def test_all_of_a_folder(tmp_path: Path) -> None:
    copy_v1(SINGLE, tmp_path / "src")
    write_v1(tmp_path / "src" / "model.ckpt-10", {"w": np.zeros(2)}, shards=2)
    (tmp_path / "src" / "notes.txt").write_bytes(b"")
    expected = [
        (name, os.path.join("q.index", name))
        for name in ("model.ckpt-10", "model.ckpt-2", "model.ckpt-3")
    ]
    assert sorted(found(tmp_path / "src", "q.index")) == expected
    # The latest comes last, as it was written last.
    assert found(tmp_path / "src", "q")[-1][0] == "model.ckpt-3"


def test_folders_without(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with refused(MissingFileError, "no checkpoint in the folder"):
        find_sources(str(tmp_path / "empty"), "q")
    copy_v1(SINGLE, tmp_path / "src")
    path = tmp_path / "empty" / "checkpoint"
    path.write_text(format_state(CheckpointState("../src/model.ckpt-3")), encoding="utf-8")
    with refused(MissingFileError, "names are elsewhere"):
        find_sources(str(tmp_path / "empty"), "q")


def test_two_of_one_name(tmp_path: Path) -> None:
    Bundle().add(b"w", 1, [1], b"0000").write(tmp_path / "m")
    write_v1(tmp_path / "m", {"w": np.zeros(2)}, shards=2)
    with refused(SurgeryError, "two checkpoints are called 'm'"):
        find_sources(str(tmp_path), "q")


STATES = [
    CheckpointState("m-2", ("m-1", "m-2"), (1.5, 2.5), 0.25),
    CheckpointState("m-2", ("m-1", "m-2")),
    CheckpointState("m-1", ("m-2", "m-1"), (2.5,)),
    CheckpointState("m-1", ()),
    CheckpointState("/gone/run/m-2", ("/gone/run/m-1", "/gone/run/m-2"), (1.5, 2.5), 0.25),
    CheckpointState("m-2-?????-of-00002", ("m-1", "m-2-?????-of-00002")),
    CheckpointState("m-2", ("m-0", "m-1", "m-2"), (0.5, 1.5, 2.5)),
]


@pytest.mark.parametrize("old", STATES, ids=str)
def test_state_files(old: CheckpointState, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "src" / "checkpoint").write_text(format_state(old), encoding="utf-8")
    os.chmod(tmp_path / "src" / "checkpoint", 0o640)
    names = {"m-1": "m-1", "m-2": "m-2-?????-of-00003"}
    state = carried_state(str(tmp_path / "src"), str(tmp_path / "out"), force=False)
    assert state is not None
    assert state.write(names, timed=False) == str(tmp_path / "out" / "checkpoint")
    new = read_state(str(tmp_path / "out"))

    def now(path: str) -> str:
        return names[os.path.basename(path).partition("-?")[0]]

    kept = [path for path in old.all_model_checkpoint_paths if not path.endswith("m-0")]
    assert new.model_checkpoint_path == now(old.model_checkpoint_path)
    assert new.all_model_checkpoint_paths == tuple(map(now, kept))
    times = dict(
        zip(old.all_model_checkpoint_paths, old.all_model_checkpoint_timestamps, strict=False)
    )
    assert new.all_model_checkpoint_timestamps == tuple(
        times[path] for path in kept if path in times
    )
    assert new.last_preserved_timestamp == old.last_preserved_timestamp
    assert (tmp_path / "out" / "checkpoint").stat().st_mode & 0o777 == 0o640


def test_state_files_that_are_of_no_use(tmp_path: Path) -> None:
    source, out = tmp_path / "src", tmp_path / "out"
    source.mkdir()
    out.mkdir()
    assert carried_state(str(source), str(out), force=False) is None
    copy_v1(SINGLE, tmp_path / "other")
    for named in ("gone-3", str(tmp_path / "other" / "model.ckpt-3")):
        state = CheckpointState(named, (named,))
        (source / "checkpoint").write_text(format_state(state), encoding="utf-8")
        carried = carried_state(str(source), str(out), force=False)
        assert isinstance(carried, CarriedState)
        assert carried.write({"model.ckpt-3": "model.ckpt-3"}, timed=False) is None
    (source / "checkpoint").write_bytes(b"no state\xff")
    with pytest.raises(CkptError):
        carried_state(str(source), str(out), force=False)
    assert list(out.iterdir()) == []


def test_state_files_that_are_there(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "checkpoint").write_bytes(b"mine")
    source = copy_v1(SINGLE, tmp_path / "src")
    with refused(DestinationError, "a state file already exists"):
        carried_state(os.path.dirname(source), str(tmp_path / "out"), force=False)
    state = carried_state(os.path.dirname(source), str(tmp_path / "out"), force=True)
    assert state is not None
    state.write({"model.ckpt-3": "model.ckpt-3"}, timed=False)
    assert read_state(str(tmp_path / "out")).model_checkpoint_path == "model.ckpt-3"


@pytest.mark.parametrize("v1", [True, False])
def test_each_is_planned_once_and_few_files_are_open(v1: bool, tmp_path: Path) -> None:
    source, out = tmp_path / "src", tmp_path / "out"
    source.mkdir()
    for number in range(100):
        if v1:
            write_v1(source / f"m-{number}", {"w": np.full(2, number)})
        else:
            Bundle().add(b"w", 3, [1], bytes((number, 0, 0, 0))).write(source / f"m-{number}")
    planned: list[str] = []

    def plan(ckpt: Checkpoint, target: WriteTarget) -> Planned:
        planned.append(target.place)
        return Planned(Plan.of(ckpt), WriteOptions())

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 30, hard))
    try:
        prepared = PreparedTargets(str(source), str(out), plan, WriteOptions())
        done = list(prepared.write(dry_run=False, on_progress=None))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert planned == [each.target.place for each in done]
    assert len(planned) == 100
    for number in range(100):
        with Checkpoint(find_sources(str(out / f"m-{number}"), "q")[0].location) as ckpt:
            assert ckpt["w"][0] == number


@pytest.mark.parametrize("v1", [True, False])
def test_one_that_changes_before_it_is_written_is_refused(v1: bool, tmp_path: Path) -> None:
    def write(value: int) -> None:
        if v1:
            write_v1(tmp_path / "src" / "m-1", {"w": np.full(2, value)})
        else:
            Bundle().add(b"w", 3, [1], bytes((value, 0, 0, 0))).write(tmp_path / "src" / "m-1")

    def plan(ckpt: Checkpoint, target: WriteTarget) -> Planned:
        return Planned(Plan.of(ckpt), WriteOptions())

    (tmp_path / "src").mkdir()
    write(1)
    prepared = PreparedTargets(str(tmp_path / "src"), str(tmp_path / "out"), plan, WriteOptions())
    for path in (tmp_path / "src").iterdir():
        path.unlink()
    write(2)
    with pytest.raises(CkptError, match="changed while it was read"):
        list(prepared.write(dry_run=False, on_progress=None))
    assert not (tmp_path / "out").exists()
