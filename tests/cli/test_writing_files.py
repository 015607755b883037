"""The files that `ckpt rename` and `ckpt prune` change, damaged ones, and those beside them."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

import ckpttool
from tests.support.command import ckpt
from tests.support.surgery import (
    SAVED_MODEL,
    WORK,
    leftovers,
    place,
    prefix_of,
    refuse,
    run,
    shards,
    spoil,
    state,
    values,
)


def test_in_place(work: tuple[str, ...], here: Path) -> None:
    run(here, *work, "-o", "elsewhere")
    before = state(here)
    done = run(here, *work, "--in-place")
    assert values(here / prefix_of(work)) == values(here / "elsewhere")
    others = {name for name in before if not name.startswith(f"{prefix_of(work)}.")}
    after = state(here)
    assert {name: after[name] for name in others} == {name: before[name] for name in others}
    assert f"wrote {prefix_of(work)}: data shards 1 " in done.err
    counts = {path.name.rpartition("-of-")[2] for path in shards(here, prefix_of(work))}
    assert len(counts) == 1
    assert ckpt("ls", prefix_of(work), folder=str(here)).err == ""


@pytest.mark.parametrize("name", ["rename names", "prune names"])
def test_in_place_without_a_graph_only_the_index_changes(name: str, here: Path) -> None:
    before = state(here)
    run(here, *WORK[name], "--in-place")
    after = state(here)
    assert after.keys() == before.keys()
    assert {path for path in after if after[path] != before[path]} == {"model.ckpt-3.index"}


def test_in_place_again_and_again(objects: tuple[str, ...], here: Path) -> None:
    run(here, *objects, "--in-place")
    there = ("rename", objects[1], "--sub", "^(net|model)$", r"\1x")
    for times in range(4):
        run(here, *there, "--in-place")
        there = ("rename", objects[1], "--sub", "^(net|model)(x+)$", r"\1\2x")
        names = shards(here, objects[1])
        assert len(names) == int(names[0].name[-5:])
        with ckpttool.open_checkpoint(here / objects[1]) as read:
            (net,) = {p.split("/")[0] for key in read if (p := key).startswith(("net", "model"))}
            assert net.endswith("x" * (times + 1))
    run(here, *there, "--in-place", "--compact")
    assert len(shards(here, objects[1])) == 1


def test_in_place_compacted(either: tuple[str, ...], here: Path) -> None:
    run(here, *either, "-o", "elsewhere")
    run(here, *either, "--in-place", "--compact")
    assert values(here / prefix_of(either)) == values(here / "elsewhere")
    sizes = [shard.stat().st_size for shard in shards(here, prefix_of(either))]
    with ckpttool.open_checkpoint(here / prefix_of(either)) as read:
        assert sizes == [sum(entry.size for entry in read.bundle.entries.values()), 0]


def test_in_place_by_any_address(objects: tuple[str, ...], here: Path) -> None:
    done = run(here, objects[0], "ckpts", *objects[2:], "--in-place", "-v")
    assert "ckpts is the V2 checkpoint ckpts/ckpt-10" in done.err
    assert "wrote ckpts/ckpt-10" in done.err
    assert ckpttool.latest_checkpoint(str(here / "ckpts")) == str(here / "ckpts" / "ckpt-10")


@pytest.mark.parametrize("command", ["rename", "prune"])
@pytest.mark.parametrize("dry", [(), ("-n",)])
def test_the_variables_of_a_saved_model_stay(
    command: str, dry: tuple[str, ...], tmp_path: Path
) -> None:
    shutil.copytree(SAVED_MODEL, tmp_path / "model")
    how = {"rename": ("optimizer=opt",), "prune": ("--optimizer",)}[command]
    refuse(
        tmp_path,
        command,
        "model",
        *how,
        "--in-place",
        *dry,
        message="tied to its graph by their names; write a plain checkpoint with -o",
    )
    before = state(tmp_path)
    run(tmp_path, command, "model", *how, "-o", "out/plain")
    after = state(tmp_path)
    assert {name: found for name, found in after.items() if name in before} == before
    assert values(tmp_path / "out" / "plain")


def test_damage_is_carried_by_a_link_and_never_copied(either: tuple[str, ...], here: Path) -> None:
    prefix = here / prefix_of(either)
    key = {"ckpts/ckpt-10": "step/.ATTRIBUTES/VARIABLE_VALUE", "model.ckpt-3": "embedding"}[
        either[1]
    ]
    (shard,) = shards(here, prefix_of(either))
    _, offset = place(prefix, key)
    spoil(shard, offset)
    place_told = f"{prefix_of(either)}.data-00000-of-00001:{offset}: key '{key}'"
    for how in (("--data", "copy"), ("--compact",), ("--compact", "--data", "hardlink")):
        refuse(here, *either, "-o", "new", *how, message=place_told)
        refuse(here, *either, "-o", "folder/new", *how, message=place_told)
    refuse(here, *either, "--in-place", "--compact", message=place_told)
    run(here, *either, "-o", "linked")
    done = ckpt("show", "linked", "--format", "json", "**", folder=str(here))
    assert done.code == 2 and "crc32c" in done.err
    run(here, *either, "--in-place")


def test_what_is_damaged_can_be_dropped(here: Path) -> None:
    key = "net/l1/bias/.OPTIMIZER_SLOT/optimizer/m/.ATTRIBUTES/VARIABLE_VALUE"
    (shard,) = shards(here, "ckpts/ckpt-10")
    _, offset = place(here / "ckpts" / "ckpt-10", key)
    sound = values(here / "ckpts" / "ckpt-10")
    spoil(shard, offset)
    for number, how in enumerate((("--compact",), ("--data", "copy"), ())):
        run(here, "prune", "ckpts/ckpt-10", "--drop", f"={key}", "-o", f"new{number}", *how)
        assert values(here / f"new{number}") == {k: v for k, v in sound.items() if k != key}
    refuse(
        here, "prune", "ckpts/ckpt-10", "--drop", "net/l1/kernel", "-o", "x", "--compact",
        message=f"key '{key}'",
    )  # fmt: skip


@pytest.mark.parametrize("cut", [0, 1000])
def test_a_shard_that_is_too_short(cut: int, either: tuple[str, ...], here: Path) -> None:
    (shard,) = shards(here, prefix_of(either))
    status = shard.stat()
    os.truncate(shard, min(cut, status.st_size // 2))
    os.utime(shard, ns=(status.st_atime_ns, status.st_mtime_ns))
    for where in (("-o", "new"), ("-o", "new", "--compact"), ("--in-place",), ("-o", "x", "-n")):
        refuse(here, *either, *where, message=str(shard.relative_to(here)))


def test_a_shard_that_is_missing(either: tuple[str, ...], here: Path) -> None:
    (shard,) = shards(here, prefix_of(either))
    shard.unlink()
    for where in (("-o", "new"), ("-o", "new", "--compact"), ("--in-place",)):
        refuse(here, *either, *where, message=str(shard.relative_to(here)))


@pytest.mark.parametrize("mode", [(), ("--meta", "auto"), ("--meta", "drop")])
@pytest.mark.parametrize("name", ["rename names", "prune names"])
def test_a_graph_that_names_other_variables_is_left_behind(
    mode: tuple[str, ...], name: str, here: Path
) -> None:
    done = run(here, *WORK[name], "-o", "new", *mode)
    assert not (here / "new.meta").exists() and (here / "model.ckpt-3.meta").exists()
    told = done.err.splitlines()[0]
    assert told.startswith("ckpt: 'model.ckpt-3.meta' was left behind")
    assert told.endswith("renamed or dropped") == (mode != ("--meta", "drop"))


@pytest.mark.parametrize("name", ["rename names", "prune names"])
def test_a_graph_is_copied_where_that_is_asked_for(name: str, here: Path) -> None:
    done = run(here, *WORK[name], "-o", "new", "--meta", "copy")
    assert (here / "new.meta").read_bytes() == (here / "model.ckpt-3.meta").read_bytes()
    assert "'model.ckpt-3.meta' was copied" in done.err
    assert "the variables as they were" in done.err


def test_a_graph_is_copied_where_no_key_changes(here: Path) -> None:
    same = ("rename", "model.ckpt-3", "--sub", "kernel", "kernel")
    done = run(here, *same, "-o", "new", "--compact")
    assert (here / "new.meta").read_bytes() == (here / "model.ckpt-3.meta").read_bytes()
    assert "'model.ckpt-3.meta' was copied" in done.err
    assert "as they were" not in done.err
    assert "of 12 tensors, none changes" in done.err
    done = run(here, *same, "-o", "other", "--meta", "drop")
    assert not (here / "other.meta").exists() and "was left behind" in done.err


@pytest.mark.parametrize("name", ["rename names", "prune names"])
def test_in_place_the_graph_stays_or_goes(name: str, here: Path) -> None:
    before = (here / "model.ckpt-3.meta").read_bytes()
    done = run(here, *WORK[name], "--in-place")
    assert (here / "model.ckpt-3.meta").read_bytes() == before
    assert "'model.ckpt-3.meta' still names the variables as they were" in done.err
    done = run(here, "rename", "model.ckpt-3", "--sub", "x?", "", "--in-place", "--meta", "drop")
    assert not (here / "model.ckpt-3.meta").exists()
    assert "'model.ckpt-3.meta' was removed" in done.err


def test_a_graph_of_what_was_replaced_goes_too(here: Path) -> None:
    (here / "new.index").write_bytes(b"")
    (here / "new.meta").write_bytes(b"of another graph")
    run(here, *WORK["prune names"], "-o", "new", "--force")
    assert not (here / "new.meta").exists()


def test_the_state_file_is_left_alone(objects: tuple[str, ...], here: Path) -> None:
    before = (here / "ckpts" / "checkpoint").read_bytes()
    run(here, *objects, "-o", "ckpts/new")
    assert (here / "ckpts" / "checkpoint").read_bytes() == before
    run(here, *objects, "-o", "out/new")
    assert not (here / "out" / "checkpoint").exists()


def test_the_state_file_is_updated_where_that_is_asked_for(
    objects: tuple[str, ...], here: Path
) -> None:
    old = ckpttool.get_checkpoint_state(str(here / "ckpts"))
    found = json.loads(run(here, *objects, "-o", "ckpts/new", "--update-state", "--json").out)
    assert found["written"]["state"] == "ckpts/checkpoint"
    new = ckpttool.get_checkpoint_state(str(here / "ckpts"))
    assert old is not None and new is not None
    assert new.model_checkpoint_path == str(here / "ckpts" / "new")
    assert new.all_model_checkpoint_paths == (
        *old.all_model_checkpoint_paths,
        str(here / "ckpts/new"),
    )
    assert str(here) not in (here / "ckpts" / "checkpoint").read_text(encoding="utf-8")
    run(here, *objects, "-o", "out/new", "--update-state")
    state = (here / "out" / "checkpoint").read_text(encoding="utf-8")
    assert state.splitlines()[0] == 'model_checkpoint_path: "new"'
    assert ckpttool.latest_checkpoint(str(here / "out")) == str(here / "out" / "new")


def test_paths_in_the_state_file_become_relative(objects: tuple[str, ...], here: Path) -> None:
    absolute = here / "ckpts" / "ckpt-10"
    (here / "ckpts" / "checkpoint").write_text(
        f'model_checkpoint_path: "{absolute}"\nall_model_checkpoint_paths: "{absolute}"\n',
        encoding="utf-8",
    )
    run(here, objects[0], "ckpts", *objects[2:], "-o", "ckpts/new", "--update-state")
    *paths, first, second = (here / "ckpts" / "checkpoint").read_text("utf-8").splitlines()
    assert paths == [
        'model_checkpoint_path: "new"',
        'all_model_checkpoint_paths: "ckpt-10"',
        'all_model_checkpoint_paths: "new"',
    ]
    # Without them a CheckpointManager forgets the checkpoints.
    times = [line.partition("all_model_checkpoint_timestamps: ")[2] for line in (first, second)]
    assert all(float(time) > 0 for time in times)


def test_a_state_file_that_cannot_be_read(objects: tuple[str, ...], here: Path) -> None:
    (here / "out").mkdir()
    (here / "out" / "checkpoint").write_bytes(b"\xff{")
    done = ckpt(*objects, "-o", "out/new", "--update-state", folder=str(here))
    assert done.code == 2 and "out/checkpoint" in done.err
    assert (here / "out" / "checkpoint").read_bytes() == b"\xff{"
    assert not leftovers(here)
