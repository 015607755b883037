"""`ckpt rename` and `ckpt prune` of every checkpoint in a folder."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

import ckpttool
from ckpttool.bundle.entry import BundleEntry
from ckpttool.checkpoint.state import CheckpointState, format_state, read_state
from tests.support.command import ckpt
from tests.support.fixtures import FIXTURES
from tests.support.schemas import validate
from tests.support.surgery import make, refuse, run, state, values

NAMES = ("ckpt-8", "ckpt-9", "ckpt-10")
SWAP = ("net/l1/kernel=net/l1/bias", "net/l1/bias=net/l1/kernel")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make(tmp_path)


def keys(folder: Path, name: str) -> set[str]:
    with ckpttool.open_checkpoint(folder / name) as found:
        return {found.object_path(key) or key for key in found}


def test_into_another_folder(folder: Path) -> None:
    before = state(folder / "ckpts")
    old = read_state(str(folder / "ckpts"))
    done = run(folder, "rename", "ckpts", "net=model", "--all", "-o", "out")
    assert state(folder / "ckpts") == before
    assert read_state(str(folder / "out")) == old
    lines = done.err.splitlines()
    assert [line.partition(": of")[0] for line in lines[:-1]] == [
        f"ckpt: ckpts/{name}" for name in NAMES
    ]
    assert lines[-1] == "ckpt: wrote out/checkpoint"
    for name in NAMES:
        assert "model/l1/kernel" in keys(folder / "out", name)
        new = {key.replace("model/", "net/"): v for key, v in values(folder / "out" / name).items()}
        assert new == values(folder / "ckpts" / name)
    assert ckpt("verify", "out", folder=str(folder)).code == 0
    # Each is as it would be if it were renamed alone.
    run(folder, "rename", "ckpts/ckpt-9", "net=model", "-o", "alone/ckpt-9")
    index = "ckpt-9.index"
    assert (folder / "out" / index).read_bytes() == (folder / "alone" / index).read_bytes()


@pytest.mark.parametrize("output", ["out/", "./out", "out"])
def test_the_state_file_comes_along(output: str, folder: Path) -> None:
    run(folder, "prune", "ckpts/", "--all", "--slots", "-o", output)
    assert read_state(str(folder / "out")) == read_state(str(folder / "ckpts"))
    refuse(folder, "prune", "ckpts", "--all", "--slots", "-o", output, message="already exists")


def test_in_place(folder: Path) -> None:
    old = read_state(str(folder / "ckpts"))
    alone = values(folder / "ckpts" / "ckpt-9")
    run(folder, "rename", "ckpts", "net=model", "--all", "--in-place")
    assert read_state(str(folder / "ckpts")) == old
    assert all("model/l1/kernel" in keys(folder / "ckpts", name) for name in NAMES)
    assert {k.replace("model/", "net/"): v for k, v in values(folder / "ckpts/ckpt-9").items()} == (
        alone
    )
    assert ckpt("verify", "ckpts", folder=str(folder)).code == 0


def test_dry_runs_and_json(folder: Path) -> None:
    before = state(folder)
    words = ("rename", "ckpts", "net=model", "--all")
    planned = json.loads(run(folder, *words, "-n", "--json").out)
    assert state(folder) == before
    assert planned["dry_run"] and planned["state"] is None
    assert {each["destination"] for each in planned["checkpoints"]} == {None}
    assert {len(each["changes"]) for each in planned["checkpoints"]} == {6}
    placed = json.loads(run(folder, *words, "-n", "--in-place", "--json").out)
    assert [each["destination"] for each in placed["checkpoints"]] == [
        f"ckpts/{name}" for name in NAMES
    ]
    done = json.loads(run(folder, *words, "-o", "out", "--json").out)
    assert done["state"] == "out/checkpoint"
    for document in (planned, placed, done):
        validate(document, "ckpt.rename/1")
    rows = run(folder, *words, "-n", "--format", "csv").out.splitlines()
    assert rows[0].endswith(",checkpoint") and len(rows) == 1 + 3 * 6


def test_one_that_is_damaged_stops_all(folder: Path) -> None:
    index = folder / "ckpts" / "ckpt-9.index"
    index.write_bytes(index.read_bytes()[:100])
    for where in (("-o", "out"), ("--in-place",), ("-n",)):
        words = ("rename", "ckpts", "net=model", "--all", *where)
        refuse(folder, *words, message="ckpts/ckpt-9.index:92: not a table file")


def test_damage_that_only_writing_finds_says_what_is_done(folder: Path) -> None:
    with ckpttool.open_checkpoint(folder / "ckpts" / "ckpt-9") as read:
        entry = read.entries["net/l1/kernel"]
        assert isinstance(entry, BundleEntry)
        at = entry.offset
    shard = folder / "ckpts" / "ckpt-9.data-00000-of-00001"
    data = bytearray(shard.read_bytes())
    data[at] ^= 1
    shard.write_bytes(data)
    os.utime(shard, (1_700_000_000, 1_700_000_000))
    words = ("prune", "ckpts", "--all", "--drop", "step", "--compact", "-o", "out")
    done = ckpt(*words, folder=str(folder))
    assert done.code == 2
    assert "ckpt-9.data" in done.err
    assert done.err.rstrip().endswith("; 1 of 3 checkpoints are written")
    assert sorted(path.name for path in (folder / "out").glob("*.index")) == ["ckpt-8.index"]
    assert not (folder / "out" / "checkpoint").exists()


def test_a_run_that_was_interrupted_goes_on(folder: Path) -> None:
    run(folder, "rename", "ckpts/ckpt-8", "net=model", "--in-place")
    done = run(folder, "rename", "ckpts", "net=model", "--all", "--in-place")
    assert "ckpt: no rule or pattern finds anything here, so nothing changes" in done.err
    assert all("model/l1/kernel" in keys(folder / "ckpts", name) for name in NAMES)
    message = "ckpts/ckpt-8: the rule 'net=model' matches nothing"
    refuse(folder, "rename", "ckpts", "net=model", "--all", "--in-place", message=message)
    refuse(folder, "prune", "ckpts", "--drop", "none", "--all", "-n", message="ckpts/ckpt-8")
    run(folder, "prune", "ckpts/ckpt-8", "--slots", "--drop", "step", "--in-place")
    run(folder, "prune", "ckpts", "--slots", "--drop", "step", "--all", "--in-place")
    assert {len(keys(folder / "ckpts", name)) for name in NAMES} == {10}


@pytest.mark.parametrize("rules", [("--prefix", "top/"), SWAP], ids=["prefix", "swap"])
def test_rules_that_match_their_own_results_are_not_applied_twice(
    folder: Path, rules: tuple[str, ...]
) -> None:
    every = ("rename", "ckpts", *rules, "--all")
    run(folder, "rename", "ckpts/ckpt-9", *rules, "--in-place")
    half = state(folder)
    refuse(folder, *every, "--in-place", message="one of the two may be done already")
    assert state(folder) == half
    for name in ("ckpt-8", "ckpt-10"):
        run(folder, "rename", f"ckpts/{name}", *rules, "--in-place")
    done = values(folder / "ckpts" / "ckpt-9")
    run(folder, *every, "--in-place")  # they agree, so it is meant
    assert values(folder / "ckpts" / "ckpt-9") != done


def test_tensors_alike_do_not_change_places_in_a_whole_folder(folder: Path) -> None:
    """After a kill nobody could tell which are done."""
    shutil.copytree(Path(FIXTURES) / "v1/tf1.15/saver", folder / "runs")
    before = state(folder)
    words = ("rename", "runs", "--promote-ema", "--all")
    refuse(folder, *words, "--in-place", message="tensors only change places")
    assert state(folder) == before
    run(folder, *words, "-o", "out")
    run(folder, "rename", "runs/model.ckpt-3", "--promote-ema", "--in-place")
    assert values(folder / "runs" / "model.ckpt-3") == values(folder / "out" / "model.ckpt-3")


def test_rules_of_which_some_find_nothing(folder: Path) -> None:
    """Else a folder would be renamed by half."""
    every = ("--all", "-o", "out")
    message = "ckpts/ckpt-8: the rule 'none=x'"
    refuse(folder, "rename", "ckpts", "net=model", "none=x", *every, message=message)
    refuse(folder, "prune", "ckpts", "--drop", "step", "--drop", "none", *every, message="none")


def test_where_all_of_a_folder_cannot_be_meant(folder: Path) -> None:
    shutil.copytree(folder / "ckpts", folder / "other" / "inner")
    (folder / "empty").mkdir()
    for path, message in (
        ("ckpts/ckpt-9", "ckpts/ckpt-9: not a folder"),
        ("other", "other"),
        ("empty", "empty: no checkpoint"),
        ("none", "none"),
    ):
        refuse(folder, "rename", path, "net=model", "--all", "-n", message=message)
    refuse(folder, "rename", "ckpts", "net=model", "--all", "-o", "ckpts", message="shares a file")


def test_into_a_folder_with_others(folder: Path) -> None:
    (folder / "out").mkdir()
    mine = format_state(CheckpointState("ckpt-8", ("ckpt-8",)))
    (folder / "out" / "checkpoint").write_text(mine, encoding="utf-8")
    words = ("rename", "ckpts", "net=model", "--all", "-o", "out")
    refuse(folder, *words, message="a program that saves checkpoints after 'ckpt-8'")
    run(folder, *words, "--update-state")
    new = read_state(str(folder / "out"))
    assert new.all_model_checkpoint_paths == NAMES
    assert list(new.all_model_checkpoint_timestamps) == sorted(new.all_model_checkpoint_timestamps)


def test_one_after_the_other_by_hand(folder: Path) -> None:
    for name in NAMES:
        words = ("net=model", "-o", f"out/{name}", "--update-state")
        run(folder, "rename", f"ckpts/{name}", *words)
    new = read_state(str(folder / "out"))
    assert (new.model_checkpoint_path, new.all_model_checkpoint_paths) == ("ckpt-10", NAMES)
    assert len(new.all_model_checkpoint_timestamps) == 3
    # A trainer goes on from 10, so 11 is not free, whoever is the latest.
    later = ("-o", "out/ckpt-11", "--update-state")
    refuse(folder, "rename", "ckpts/ckpt-10", "net=m", *later, message="will write that name")


def test_from_python(folder: Path) -> None:
    seen: list[ckpttool.Outcome] = []
    done = ckpttool.rename(
        folder / "ckpts", folder / "out", {"net": "model"}, all=True, on_done=seen.append
    )
    assert [*done] == seen and len(done) == 3
    assert done.state == str(folder / "out" / "checkpoint")
    assert done[2].destination == str(folder / "out" / "ckpt-10")
    validate(done.to_dict(), "ckpt.rename/1")
    assert str(done).splitlines()[0] == "ckpt-8, ckpt-9, ckpt-10:"
    assert str(done).splitlines()[2].split() == ["net", "→", "model", "6"]
    pruned = ckpttool.prune(folder / "out", all=True, slots=True, in_place=True, update_state=True)
    assert pruned.state == str(folder / "out" / "checkpoint")
    assert read_state(pruned.state).model_checkpoint_path == "ckpt-10"
    with ckpttool.open_checkpoint(folder / "ckpts") as opened, pytest.raises(TypeError):
        ckpttool.prune(opened, all=True, slots=True, dry_run=True)  # type: ignore[call-overload]
