"""A folder swept from outside: what goes, what stays and why, and what is never touched."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

import ckpttool
from ckpttool import train
from ckpttool.checkpoint import retention
from ckpttool.checkpoint.state import read_state
from ckpttool.errors import ChangedError, CkptError, MissingFileError, SurgeryError
from ckpttool.surgery.retention import execution
from ckpttool.surgery.retention.execution import FolderSweep, sweep
from tests.support.fixtures import FIXTURES
from tests.surgery.retention.folders import BEGIN, HOUR, SIZE, managed, names, save, write_lines


def gone(found: FolderSweep) -> list[str]:
    return [each.name for each in found.deleted]


def reasons(found: FolderSweep) -> dict[str, str]:
    return {each.name: each.reason for each in found.kept}


def both(folder: Path, **how: Any) -> FolderSweep:
    """Sweep a folder, after a dry run that must say the same and change nothing."""
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    told = sweep(folder, **how)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    done = sweep(folder, dry_run=False, **how)
    assert (told.deleted, told.kept, told.notes) == (done.deleted, done.kept, done.notes)
    assert told.dry_run and not done.dry_run
    for each in done.deleted:
        assert not any((folder / name).exists() for name in each.files)
    return done


def test_the_oldest_go(tmp_path: Path) -> None:
    folder = managed(tmp_path, range(7, 13))
    found = both(folder, max_to_keep=2)
    assert gone(found) == ["ckpt-7", "ckpt-8", "ckpt-9", "ckpt-10"]
    assert found.deleted[0].files == ("ckpt-7.index", "ckpt-7.data-00000-of-00001")
    assert found.bytes == 4 * SIZE
    assert reasons(found) == {"ckpt-11": "recent", "ckpt-12": "latest"}
    assert names(folder) == ["ckpt-11", "ckpt-12"]
    state = read_state(str(folder))
    assert state.model_checkpoint_path == "ckpt-12"
    assert state.all_model_checkpoint_paths == ("ckpt-11", "ckpt-12")
    assert state.all_model_checkpoint_timestamps == (
        BEGIN + 11 * HOUR / 3,
        BEGIN + 12 * HOUR / 3,
    )
    text = (folder / "checkpoint").read_bytes()
    assert gone(both(folder, max_to_keep=2)) == []
    assert (folder / "checkpoint").read_bytes() == text
    assert train.sweep is sweep


def test_some_are_preserved(tmp_path: Path) -> None:
    folder = managed(tmp_path, range(1, 9))  # every 20 minutes
    found = both(folder, max_to_keep=2, keep_checkpoint_every_n_hours=1)
    # As in the trace of the manager in TensorFlow 2.21.
    assert reasons(found) == {
        "ckpt-3": "preserved",
        "ckpt-6": "preserved",
        "ckpt-7": "recent",
        "ckpt-8": "latest",
    }
    state = read_state(str(folder))
    assert state.last_preserved_timestamp == BEGIN + 6 * HOUR / 3
    assert state.all_model_checkpoint_paths == ("ckpt-7", "ckpt-8")
    # Also by whoever takes in everything.
    assert gone(both(folder, max_to_keep=2, keep_checkpoint_every_n_hours=1, unlisted=True)) == []
    assert gone(both(folder, max_to_keep=2, unlisted=True)) == ["ckpt-3", "ckpt-6"]


def test_some_steps_are_preserved(tmp_path: Path) -> None:
    folder = managed(tmp_path, range(96, 105))
    found = both(folder, max_to_keep=2, keep_every_steps=100)
    assert reasons(found) == {"ckpt-100": "preserved", "ckpt-103": "recent", "ckpt-104": "latest"}
    assert read_state(str(folder)).all_model_checkpoint_paths == ("ckpt-103", "ckpt-104")


def test_what_is_not_listed(tmp_path: Path) -> None:
    folder = managed(tmp_path, range(9, 12))
    for number in (1, 2, 10_000):
        save(folder, f"ckpt-{number}", BEGIN)
    found = both(folder, max_to_keep=2)
    assert gone(found) == ["ckpt-9"]
    assert reasons(found)["ckpt-2"] == "unlisted"
    found = both(folder, max_to_keep=2, unlisted=True)
    assert gone(found) == ["ckpt-1", "ckpt-2", "ckpt-10"]
    assert reasons(found) == {"ckpt-11": "latest", "ckpt-10000": "recent"}
    assert read_state(str(folder)).all_model_checkpoint_paths == ("ckpt-11", "ckpt-10000")
    assert ckpttool.latest_checkpoint(folder) == str(folder / "ckpt-11")


def test_names_have_a_series_each(tmp_path: Path) -> None:
    folder = managed(tmp_path, range(9, 12))
    for number in (4, 5, 6):
        save(folder, f"best-{number}", BEGIN + number)
    for number, name in enumerate(("z", "y", "x")):
        save(folder, name, BEGIN + number)
    found = both(folder, max_to_keep=2, unlisted=True)
    assert sorted(gone(found)) == ["best-4", "ckpt-9", "z"]
    assert any("'best', 'ckpt', names without a number" in note for note in found.notes)
    # A manager would delete what it finds in the state file.
    assert read_state(str(folder)).all_model_checkpoint_paths == ("ckpt-10", "ckpt-11")


def test_two_managers_in_one_folder(tmp_path: Path) -> None:
    folder = managed(tmp_path, range(1, 4), stem="a")
    managed(tmp_path, range(1, 4), stem="b")
    found = both(folder, max_to_keep=1)
    assert gone(found) == ["b-1", "b-2"]
    assert {reasons(found)[f"a-{number}"] for number in (1, 2, 3)} == {"unlisted"}


def test_without_a_state_file(tmp_path: Path) -> None:
    folder = managed(tmp_path, range(8, 11))
    (folder / "checkpoint").unlink()
    found = both(folder, max_to_keep=1)
    assert list(reasons(found).values()) == ["unlisted", "unlisted", "latest"]
    assert "--all" in found.notes[0]
    found = both(folder, max_to_keep=1, unlisted=True)
    assert gone(found) == ["ckpt-8", "ckpt-9"] and reasons(found) == {"ckpt-10": "latest"}
    assert not (folder / "checkpoint").exists()


def test_a_state_file_without_times(tmp_path: Path) -> None:
    folder = managed(tmp_path, range(1, 4))
    (folder / "checkpoint").write_text(
        'model_checkpoint_path: "ckpt-3"\n'
        + "".join(f'all_model_checkpoint_paths: "ckpt-{number}"\n' for number in (1, 2, 3))
    )
    found = both(folder, max_to_keep=1)
    assert reasons(found) == {"ckpt-1": "preserved", "ckpt-2": "preserved", "ckpt-3": "latest"}
    assert gone(both(folder, max_to_keep=1, unlisted=True)) == ["ckpt-1", "ckpt-2"]
    assert len(read_state(str(folder)).all_model_checkpoint_timestamps) == 1


def test_times_of_the_future(tmp_path: Path) -> None:
    folder = managed(tmp_path, range(1, 4))
    ahead = time.time() + HOUR
    write_lines(folder, dict.fromkeys(("ckpt-1", "ckpt-2", "ckpt-3"), ahead), "ckpt-3", ahead)
    found = both(folder, max_to_keep=1)
    assert gone(found) == [] and any("seconds behind" in note for note in found.notes)


def test_incomplete_checkpoints_stay_and_do_not_count(tmp_path: Path) -> None:
    folder = managed(tmp_path, range(1, 8))
    (folder / "ckpt-5.data-00000-of-00001").unlink()
    (folder / "ckpt-4.index").write_bytes(b"")
    (folder / "ckpt-2.index").unlink()
    for path in folder.glob("ckpt-6.*"):
        path.unlink()
    found = both(folder, max_to_keep=2)
    assert gone(found) == ["ckpt-1"]
    assert reasons(found) == {
        "ckpt-3": "recent",
        "ckpt-4": "incomplete",
        "ckpt-5": "incomplete",
        "ckpt-7": "latest",
        "ckpt-2": "incomplete",
    }
    assert sum("does not exist" in note for note in found.notes) == 2
    assert read_state(str(folder)).all_model_checkpoint_paths == (
        *("ckpt-3", "ckpt-4", "ckpt-5", "ckpt-7"),
    )


def test_what_is_kept_is_whole(tmp_path: Path) -> None:
    folder = managed(tmp_path, range(1, 8))
    for number in (4, 6):
        os.truncate(folder / f"ckpt-{number}.data-00000-of-00001", 9)
    os.truncate(folder / "ckpt-5.index", 99)
    found = both(folder, max_to_keep=3)
    assert gone(found) == ["ckpt-1"]
    assert reasons(found) == {
        **{f"ckpt-{number}": "recent" for number in (2, 3)},
        **{f"ckpt-{number}": "incomplete" for number in (4, 5, 6)},
        "ckpt-7": "latest",
    }


def test_the_latest_must_be_whole(tmp_path: Path) -> None:
    folder = managed(tmp_path, range(1, 5))
    before = names(folder)
    os.truncate(folder / "ckpt-4.data-00000-of-00001", 5)
    with pytest.raises(SurgeryError, match=r"incomplete: it lacks .*--repair-state"):
        sweep(folder, max_to_keep=1, dry_run=False)
    for path in folder.glob("ckpt-4.*"):
        path.unlink()
    with pytest.raises(MissingFileError, match="'ckpt-4', does not exist"):
        sweep(folder, max_to_keep=1, unlisted=True, dry_run=False)
    (folder / "checkpoint").write_text("what is this?\n")
    with pytest.raises(CkptError, match="--repair-state"):
        sweep(folder, max_to_keep=1)
    (folder / "checkpoint").write_text("")
    with pytest.raises(SurgeryError, match="names no checkpoint"):
        sweep(folder, max_to_keep=1)
    assert names(folder) == [name for name in before if name != "ckpt-4"]


def test_the_latest_stays_wherever_it_is_listed(tmp_path: Path) -> None:
    folder = managed(tmp_path, range(1, 5))
    times = {f"ckpt-{number}": BEGIN + number for number in range(1, 5)}
    write_lines(folder, times, "ckpt-1", BEGIN)
    found = both(folder, max_to_keep=2)
    assert gone(found) == ["ckpt-2"]
    assert read_state(str(folder)).all_model_checkpoint_paths == ("ckpt-1", "ckpt-3", "ckpt-4")


def test_a_hostile_state_file(tmp_path: Path) -> None:
    outside = managed(tmp_path / "mine", range(1, 4))
    folder = managed(tmp_path / "theirs", range(1, 4))
    (folder / "link").symlink_to(outside)
    times = {
        "../mine/ckpt-1": BEGIN + 1,
        str(outside / "ckpt-2"): BEGIN + 2,
        "link/ckpt-3": BEGIN + 3,
        "*": BEGIN + 4,
        "ckpt-1": BEGIN + 5,
        str(folder / "ckpt-2"): BEGIN + 6,
        "ckpt-3": BEGIN + 7,
    }
    write_lines(folder, times, "ckpt-3", BEGIN)
    found = both(folder, max_to_keep=1)
    assert gone(found) == ["ckpt-1", "ckpt-2"]
    assert names(outside) == ["ckpt-1", "ckpt-2", "ckpt-3"]
    assert list(reasons(found).values()) == ["latest", "elsewhere", "elsewhere", "elsewhere"]
    write_lines(folder, {"ckpt-3": BEGIN + 1}, "../mine/ckpt-3", BEGIN)
    with pytest.raises(SurgeryError, match="outside of the folder"):
        sweep(folder, max_to_keep=1)


def test_a_state_file_from_elsewhere(tmp_path: Path) -> None:
    for number, root in enumerate((r"C:\\runs\\", "/no/such/place/")):
        folder = managed(tmp_path / str(number), range(1, 4))
        times = {f"{root}ckpt-{number}": BEGIN + number for number in range(1, 4)}
        write_lines(folder, times, f"{root}ckpt-3", BEGIN)
        assert gone(both(folder, max_to_keep=2)) == ["ckpt-1"]
        state = read_state(str(folder))
        assert state.model_checkpoint_path == "ckpt-3"
        assert state.all_model_checkpoint_paths == ("ckpt-2", "ckpt-3")


def test_links_free_nothing(tmp_path: Path) -> None:
    folder = managed(tmp_path / "run", range(1, 5))
    shard = "ckpt-{}.data-00000-of-00001"
    data = (folder / shard.format(1)).stat().st_size
    for number in (2, 3):
        (folder / shard.format(number)).unlink()
    os.link(folder / shard.format(1), folder / shard.format(2))
    shutil.copy(folder / shard.format(1), tmp_path / "far")
    (folder / shard.format(3)).symlink_to(tmp_path / "far")
    found = both(folder, max_to_keep=1)
    assert [SIZE - each.bytes for each in found.deleted] == [data, 0, data]
    assert (tmp_path / "far").exists()


def test_graphs_and_old_formats_stay(tmp_path: Path) -> None:
    folder = managed(tmp_path, range(1, 4))
    (folder / "ckpt-1.meta").write_bytes(b"graph")
    shutil.copy(Path(FIXTURES, "v1/tf2.21/single/model.ckpt-7"), folder / "ckpt-0")
    found = both(folder, max_to_keep=1, unlisted=True)
    assert gone(found) == ["ckpt-1", "ckpt-2"] and reasons(found)["ckpt-0"] == "v1"
    assert (folder / "ckpt-1.meta").exists() and (folder / "ckpt-0").exists()
    assert found.notes == ("1 .meta file of deleted checkpoints stay",)


def test_names_are_literal(tmp_path: Path) -> None:
    folder = managed(tmp_path / "a*[1]?", range(1, 4), stem="m[*]")
    save(folder, "m1-1")
    assert gone(both(folder, max_to_keep=1)) == ["m[*]-1", "m[*]-2"]
    assert names(folder) == ["m1-1", "m[*]-3"]


def test_odd_state_files_and_names(tmp_path: Path) -> None:
    folder = managed(tmp_path, range(1, 5))
    (folder / "ckpt-2.index").unlink()
    (folder / "ckpt-2.index").mkdir()
    times = {f"ckpt-{number}": BEGIN + number for number in range(1, 5)}
    write_lines(folder, {"": BEGIN + 9, "./ckpt-1": BEGIN, **times}, "ckpt-4", float("nan"))
    assert gone(both(folder, max_to_keep=1)) == []
    write_lines(folder, {"": BEGIN + 9, "./ckpt-1": BEGIN, **times}, "ckpt-4", 0.0)
    found = both(folder, max_to_keep=1)
    assert gone(found) == ["ckpt-1", "ckpt-3"] and reasons(found)["ckpt-2"] == "incomplete"
    assert read_state(str(folder)).all_model_checkpoint_paths[-1] == "ckpt-4"


def test_a_folder_by_any_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = managed(tmp_path / "run", range(1, 7))
    (tmp_path / "link").symlink_to(folder)
    assert gone(both(tmp_path / "link", max_to_keep=5)) == ["ckpt-1"]
    monkeypatch.chdir(folder)
    assert gone(sweep(".", max_to_keep=4, dry_run=False)) == ["ckpt-2"]
    assert gone(sweep(f"..{os.sep}run{os.sep}", max_to_keep=3, dry_run=False)) == ["ckpt-3"]
    with pytest.raises(MissingFileError):
        sweep("", max_to_keep=1)
    assert names(folder) == ["ckpt-4", "ckpt-5", "ckpt-6"]


def test_what_is_no_folder_of_checkpoints(tmp_path: Path) -> None:
    model = Path(FIXTURES, "saved_model/tf2.21/module/model")
    for path in (model, model / "variables"):
        with pytest.raises(SurgeryError, match="SavedModel"):
            sweep(path, max_to_keep=1, unlisted=True)
    folder = managed(tmp_path / "run", range(1, 3))
    (tmp_path / "empty").mkdir()
    for path in (
        folder / "checkpoint",
        folder / "ckpt-1.index",
        tmp_path / "no",
        tmp_path / "empty",
    ):
        with pytest.raises(MissingFileError):
            sweep(path, max_to_keep=1)
    wrong: tuple[dict[str, Any], ...] = (
        {"max_to_keep": 0},
        {"max_to_keep": 1, "keep_every_steps": -1},
    )
    for how in wrong:
        with pytest.raises(ValueError, match="positive number"):
            sweep(folder, **how)
    assert gone(sweep(folder, max_to_keep=None)) == []


def test_a_trainer_that_changes_the_state_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = managed(tmp_path, range(1, 6))
    text = (folder / "checkpoint").read_bytes()
    carry_out = execution._carry_out

    def saved_meanwhile(plan: Any) -> None:
        save(folder, "ckpt-6")
        (folder / "checkpoint").write_bytes(text.replace(b"ckpt-5", b"ckpt-6"))
        carry_out(plan)

    with monkeypatch.context() as patch:
        patch.setattr(execution, "_carry_out", saved_meanwhile)
        with pytest.raises(ChangedError):
            sweep(folder, max_to_keep=1, dry_run=False)
    assert len(names(folder)) == 6
    deleted = retention.delete_checkpoint

    def claimed_again(prefix: str, shards: Any) -> None:
        deleted(prefix, shards)
        write_lines(folder, {"ckpt-3": BEGIN + 3, "ckpt-6": BEGIN + 6}, "ckpt-6", BEGIN)

    with monkeypatch.context() as patch:
        patch.setattr(execution, "delete_checkpoint", claimed_again)
        with pytest.raises(ChangedError, match="1 of 4 checkpoints are deleted"):
            sweep(folder, max_to_keep=1, dry_run=False)
    assert names(folder) == [f"ckpt-{number}" for number in range(2, 7)]


def test_a_checkpoint_that_is_about_to_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that counts from 1 again has finished `ckpt-1`, and names it a moment later."""
    folder = managed(tmp_path, range(1, 5))
    text = (folder / "checkpoint").read_bytes()
    save(folder, "ckpt-1")

    def wait(seconds: float) -> None:
        assert 0 < seconds <= 1
        write_lines(folder, {"ckpt-1": time.time()}, "ckpt-1", BEGIN)

    (folder / "checkpoint").write_bytes(text.replace(b'paths: "ckpt-1"', b'paths: "ckpt-2"'))
    os.utime(folder / "checkpoint", (BEGIN, BEGIN))
    monkeypatch.setattr(time, "sleep", wait)
    found = sweep(folder, max_to_keep=1, unlisted=True, dry_run=False)
    assert reasons(found)["ckpt-1"] == "latest"
    assert ckpttool.verify(folder / "ckpt-1").verdict == "ok"


def test_many(exhaustive: bool, tmp_path: Path) -> None:
    count = 10_000 if exhaustive else 1_000
    times = {f"ckpt-{number}": BEGIN + number for number in range(1, count + 1)}
    save(tmp_path, "one")
    for ending in (".data-00000-of-00001", ".index"):
        for name in times:
            os.link(tmp_path / f"one{ending}", tmp_path / (name + ending))
    last = f"ckpt-{count + 1}"
    times[last] = BEGIN + 2 * count
    save(tmp_path, last, times[last])
    write_lines(tmp_path, times, last, BEGIN)
    start = time.process_time()
    found = sweep(tmp_path, max_to_keep=2, dry_run=False)
    # Few indexes are opened, and the folder is not listed for each.
    assert time.process_time() - start < 2e-3 * count
    assert len(found.deleted) == count - 1 and found.bytes == 0
    assert names(tmp_path) == ["one", f"ckpt-{count}", last]
