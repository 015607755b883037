"""State files written anew, and what a folder is said to need."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ckpttool
from ckpttool.checkpoint.state import read_state
from ckpttool.errors import ChangedError, MissingFileError, SurgeryError
from ckpttool.query.verify import addresses
from ckpttool.query.verify.findings import Finding
from ckpttool.query.verify.folder import check_folder
from ckpttool.query.verify.repair import FolderHealth, StateRepair
from tests.support.command import ckpt
from tests.support.fixtures import FIXTURES
from tests.support.schemas import validate
from tests.surgery.retention.folders import BEGIN, managed, names, save, write_lines


def health(folder: Path, **how: bool) -> FolderHealth:
    found = ckpttool.verify(folder, **how)  # type: ignore[arg-type]
    validate(found.to_dict(), "ckpt.verify/1")
    assert all(each.health is None for each in found[:-1])
    last = found[-1].health
    assert last is not None
    return last


def repair(folder: Path) -> StateRepair:
    """Repair a folder, after a dry run that must say the same and change nothing."""
    files = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    told = health(folder, repair_state=True, dry_run=True).repair
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == files
    done = health(folder, repair_state=True).repair
    assert told is not None and done is not None and not told.done
    assert (told.needed, told.latest, told.listed) == (done.needed, done.latest, done.listed)
    state = folder / "checkpoint"
    after = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert {**after, state: b""} == {**files, state: b""}
    if done.done:
        assert read_state(str(folder)).all_model_checkpoint_paths == done.listed
        assert ckpttool.latest_checkpoint(folder) == str(folder / str(done.latest))
        again = health(folder, repair_state=True).repair
        assert again is not None and not again.needed
        assert state.read_bytes() == after[state]
    return done


def commands(folder: Path) -> list[str | None]:
    return [each.command for each in health(folder).remedies]


def test_a_sound_folder_needs_nothing(tmp_path: Path) -> None:
    folder = managed(tmp_path, range(9, 12))
    text = (folder / "checkpoint").read_bytes()
    assert health(folder) == FolderHealth("ckpt-11", (), ())
    assert repair(folder) == StateRepair(
        str(folder / "checkpoint"), False, False, "ckpt-11", ("ckpt-9", "ckpt-10", "ckpt-11")
    )
    assert (folder / "checkpoint").read_bytes() == text
    # To go back to an older one is no fault.
    (folder / "checkpoint").write_bytes(text.replace(b'path: "ckpt-11"', b'path: "ckpt-9"', 1))
    assert not repair(folder).needed


def lose(folder: Path, name: str) -> None:
    for path in folder.glob(f"{name}.*"):
        path.unlink()


def cut(folder: Path, name: str) -> None:
    os.truncate(folder / f"{name}.data-00000-of-00001", 7)


def flip(folder: Path, name: str) -> None:
    path = folder / f"{name}.data-00000-of-00001"
    data = path.read_bytes()
    path.write_bytes(bytes([data[0] ^ 1]) + data[1:])


@pytest.mark.parametrize("harm", [lose, cut, flip])
def test_the_latest_is_no_good(harm: Callable[[Path, str], None], tmp_path: Path) -> None:
    folder = managed(tmp_path / "a run", range(8, 12))
    old = read_state(str(folder))
    harm(folder, "ckpt-11")
    found = health(folder)
    assert found.newest == "ckpt-10"
    assert found.incomplete == (("ckpt-11",) if harm is cut else ())
    assert commands(folder)[0] == f"ckpt verify '{folder}' --repair-state"
    done = repair(folder)
    assert (done.latest, done.listed) == ("ckpt-10", ("ckpt-8", "ckpt-9", "ckpt-10"))
    state = read_state(str(folder))
    assert state.all_model_checkpoint_timestamps == old.all_model_checkpoint_timestamps[:3]
    assert state.last_preserved_timestamp == old.last_preserved_timestamp
    left = ckpttool.verify(folder)
    assert left.verdict == ("ok" if harm is lose else "damaged")
    assert left[-1].findings == ()


def test_a_state_file_that_cannot_be_read(tmp_path: Path) -> None:
    folder = managed(tmp_path, range(9, 12))
    for text in (b"\xff\xfe", b"", b'model_checkpoint_path: "ckpt-9"\n' * 2, None):
        (folder / "checkpoint").unlink()
        if text is not None:
            (folder / "checkpoint").write_bytes(text)
        assert repair(folder).listed == ("ckpt-9", "ckpt-10", "ckpt-11")
        # Nobody knows which were kept for good: a manager deletes none of them.
        assert read_state(str(folder)).all_model_checkpoint_timestamps == ()


def test_paths_of_elsewhere(tmp_path: Path) -> None:
    folder = managed(tmp_path / "run", range(1, 4))
    outside = managed(tmp_path / "outside", range(7, 8))
    for paths in (
        ["/moved/ckpt-2", "/moved/ckpt-3"],
        [str(folder / "ckpt-2"), str(folder / "ckpt-3")],
        ["ckpt-3", "../outside/ckpt-7"],
        ["ckpt-3", str(outside / "ckpt-7")],
        [r"C:\\runs\\ckpt-2", r"C:\\runs\\ckpt-3"],
    ):
        write_lines(folder, {path: BEGIN + at for at, path in enumerate(paths)}, paths[-1], 1.0)
        done = repair(folder)
        assert (done.latest, done.listed) == ("ckpt-3", ("ckpt-1", "ckpt-2", "ckpt-3"))
        times = read_state(str(folder)).all_model_checkpoint_timestamps
        assert len(times) == 3 and list(times) == sorted(times)


def test_what_was_kept_for_good_stays_so(tmp_path: Path) -> None:
    folder = managed(tmp_path, range(1, 6))
    for name in ("ckpt-1", "ckpt-2"):  # copied since
        os.utime(folder / f"{name}.index", None)
    write_lines(folder, {"ckpt-4": BEGIN + 4, "ckpt-6": BEGIN + 6}, "ckpt-6", BEGIN)
    assert repair(folder).listed == tuple(f"ckpt-{number}" for number in range(1, 6))
    state = read_state(str(folder))
    active = dict(
        zip(state.all_model_checkpoint_paths, state.all_model_checkpoint_timestamps, strict=True)
    )
    later = [name for name, when in active.items() if when > state.last_preserved_timestamp]
    assert later == ["ckpt-4", "ckpt-5"]


def test_several_names_and_nothing_sound(tmp_path: Path) -> None:
    folder = managed(tmp_path, range(1, 3))
    save(folder, "best-50", BEGIN)
    (folder / "checkpoint").write_text("")
    assert repair(folder).latest == "ckpt-2"
    for name in names(folder):
        cut(folder, name)
    (folder / "checkpoint").write_text("")
    assert repair(folder) == StateRepair(str(folder / "checkpoint"), True, False, None, ())
    assert (folder / "checkpoint").read_text() == ""


def test_old_formats(tmp_path: Path) -> None:
    for path in Path(FIXTURES, "v1/tf2.21/sharded").iterdir():
        shutil.copy(path, tmp_path)
    (tmp_path / "checkpoint").write_text("")
    (name,) = repair(tmp_path).listed
    assert name.startswith("model.ckpt-7-?????-of-")


def test_a_name_that_no_state_file_holds(tmp_path: Path) -> None:
    folder = managed(tmp_path, range(1, 3))
    save(folder, os.fsdecode(b"ckpt-\xff-9"))
    (folder / "checkpoint").write_text("")
    assert repair(folder).listed == ("ckpt-1", "ckpt-2")


def test_what_cannot_be_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = managed(tmp_path, range(1, 3))
    (folder / "checkpoint").write_text("")
    shard = folder / "ckpt-2.data-00000-of-00001"
    shard.rename(folder / "aside")
    shard.mkdir()
    with pytest.raises(SurgeryError, match="'ckpt-2' could not be checked"):
        ckpttool.verify(folder, repair_state=True)
    assert (folder / "checkpoint").read_text() == ""


def test_what_to_do(tmp_path: Path) -> None:
    folder = managed(tmp_path, range(1, 5))
    cut(folder, "ckpt-2")
    leftover = folder / "ckpt-5.index.tempstate12"
    leftover.write_bytes(b"")
    write_lines(folder, {"ckpt-3": BEGIN + 3, "ckpt-4": BEGIN + 4}, "ckpt-4", BEGIN)
    assert commands(folder) == [None, f"ckpt gc {folder} --keep 2 --all -n"]
    os.utime(leftover, (BEGIN, BEGIN))
    assert commands(folder)[0] == f"rm -r -- {leftover}"
    assert health(folder).incomplete == ("ckpt-2",)


def test_other_paths(tmp_path: Path) -> None:
    folder = managed(tmp_path / "run", range(1, 3))
    for path in (folder / "ckpt-1", folder / "checkpoint", Path(FIXTURES, "saved_model")):
        with pytest.raises((MissingFileError, ckpttool.NotFoundError)):
            ckpttool.verify(path, repair_state=True)
    with pytest.raises(ValueError, match="dry run"):
        ckpttool.verify(folder, dry_run=True)
    with ckpttool.open_checkpoint(folder) as one, pytest.raises(TypeError):
        ckpttool.verify(one, repair_state=True)


def test_a_trainer_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = managed(tmp_path, range(1, 3))
    (folder / "checkpoint").write_text("")

    def saved(*words: Any) -> list[Finding]:
        found = check_folder(*words)
        write_lines(folder, {"ckpt-1": time.time()}, "ckpt-1", BEGIN)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(addresses, "check_folder", saved)
        with pytest.raises(ChangedError):
            ckpttool.verify(folder, repair_state=True)
    assert read_state(str(folder)).model_checkpoint_path == "ckpt-1"


def test_the_command(tmp_path: Path) -> None:
    folder = managed(tmp_path, range(1, 4))
    lose(folder, "ckpt-3")
    words = ("verify", str(folder), "--repair-state")
    told = ckpt(*words, "-n", "--format", "table")
    assert told.code == 1
    assert "would name 'ckpt-2' as the latest of 2 checkpoints" in told.out
    assert "--repair-state" in told.out
    done = ckpt(*words, "--json")
    assert done.code == 0
    assert json.loads(done.out)["reports"][-1]["health"]["repair"]["done"]
    again = ckpt(*words, "--format", "table")
    assert again.code == 0 and "is sound and stays as it is" in again.out
    assert "now names" not in again.out
    assert ckpt("verify", str(folder), "-n").code == 2
    lost = ckpt("verify", str(folder / "ckpt-1"), "--repair-state")
    assert (lost.code, lost.out, lost.err.count("\n")) == (2, "", 1)
