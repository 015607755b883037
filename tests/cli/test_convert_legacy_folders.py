"""`ckpt convert-legacy` of whole folders."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import ckpttool
from ckpttool.checkpoint.state import CheckpointState, format_state, read_state
from tests.support.command import ckpt
from tests.support.conversions import SHARDED, SINGLE, copy_v1, everything, write_v1
from tests.support.surgery import refuse, run, spoil, state

NAME = "convert-legacy"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return a folder with a folder `runs` of three V1 checkpoints, one of them sharded."""
    copy_v1(SINGLE, tmp_path / "runs")
    copy_v1(SHARDED, tmp_path / "other")
    for path in (tmp_path / "other").glob("model.ckpt-7*"):
        shutil.move(path, tmp_path / "runs")
    shutil.rmtree(tmp_path / "other")
    old = CheckpointState(
        "/gone/runs/model.ckpt-7-?????-of-00002",
        ("/gone/runs/model.ckpt-2", "model.ckpt-3", "/gone/runs/model.ckpt-7-?????-of-00002"),
        (1.5, 2.5, 3.5),
        0.5,
    )
    (tmp_path / "runs" / "checkpoint").write_text(format_state(old), encoding="utf-8")
    (tmp_path / "runs" / "notes.txt").write_bytes(b"mine")
    return tmp_path


CHECKPOINTS = ("model.ckpt-2", "model.ckpt-3", "model.ckpt-7")


def values(folder: Path, name: str) -> dict[str, object]:
    return {name: everything(folder / name) for name in CHECKPOINTS} | {"": name}


@pytest.mark.parametrize("source", ["runs", "runs/", "./runs"])
def test_a_folder(source: str, runs: Path) -> None:
    before = state(runs / "runs")
    done = run(runs, NAME, source, "-o", "out")
    assert state(runs / "runs") == before
    assert values(runs / "out", "") == values(runs / "runs", "")
    new = read_state(str(runs / "out"))
    assert new == CheckpointState("model.ckpt-7", CHECKPOINTS, (1.5, 2.5, 3.5), 0.5)
    assert done.err.splitlines()[-1] == f"ckpt: wrote {os.path.join('out', 'checkpoint')}"
    assert sum("from V1 to V2" in line for line in done.err.splitlines()) == 3
    assert ckpt("verify", "out", folder=str(runs)).code == 0
    assert ckpt("ls", "out", "--format", "names", folder=str(runs)).code == 0


def test_and_back(runs: Path) -> None:
    run(runs, NAME, "runs", "-o", "v2")
    done = run(runs, NAME, "v2", "--to", "v1", "-o", "v1")
    assert sum("from V2 to V1" in line for line in done.err.splitlines()) == 3
    assert values(runs / "v1", "") == values(runs / "runs", "")
    assert read_state(str(runs / "v1")) == CheckpointState(
        "model.ckpt-7-?????-of-00002",
        ("model.ckpt-2", "model.ckpt-3", "model.ckpt-7-?????-of-00002"),
        (1.5, 2.5, 3.5),
        0.5,
    )
    assert (runs / "v1/model.ckpt-2").read_bytes() == (runs / "runs/model.ckpt-2").read_bytes()


def test_some_are_in_that_form_already(runs: Path) -> None:
    (runs / "runs" / "checkpoint").unlink()
    ckpttool.save_checkpoint(str(runs / "runs" / "new-1"), {"w": np.zeros(2)})
    done = run(runs, NAME, "runs", "-o", "out")
    assert "new-1: 1 tensor, already in that form; wrote out/new-1" in done.err
    assert everything(runs / "out/new-1") == everything(runs / "runs/new-1")
    assert not (runs / "out" / "checkpoint").exists()
    refuse(runs, NAME, "out", "-o", "again", message="out: already in that form")
    run(runs, NAME, "out", "-o", "again", "--shards", "2")


def test_one_alone(runs: Path) -> None:
    for name in ("model.ckpt-2", "model.ckpt-3", "model.ckpt-3.meta"):
        (runs / "runs" / name).unlink()
    run(runs, NAME, "runs", "-o", "out")
    assert sorted(path.name for path in (runs / "out").iterdir()) == [
        "checkpoint",
        "model.ckpt-7.data-00000-of-00002",
        "model.ckpt-7.data-00001-of-00002",
        "model.ckpt-7.index",
        "model.ckpt-7.meta",
    ]


def test_a_dry_run(runs: Path) -> None:
    before = state(runs)
    done = run(runs, NAME, "runs", "-o", "out", "-n", "--json")
    found = json.loads(done.out)
    assert [os.path.basename(each["destination"]) for each in found["conversions"]] == list(
        CHECKPOINTS
    )
    assert found["state"] is None
    assert state(runs) == before
    assert done.err.count("dry run, nothing was written") == 3


def test_into_a_folder_that_has_others(runs: Path) -> None:
    (runs / "out").mkdir()
    (runs / "out" / "mine-1.index").write_bytes(b"")
    (runs / "out" / "checkpoint").write_text('model_checkpoint_path: "mine-1"\n', encoding="utf-8")
    refuse(runs, NAME, "runs", "-o", "out", message="out/checkpoint: a state file already exists")
    run(runs, NAME, "runs", "-o", "out", "--update-state")
    new = read_state(str(runs / "out"))
    assert new.model_checkpoint_path == "model.ckpt-7"
    assert new.all_model_checkpoint_paths[-3:] == CHECKPOINTS
    refuse(runs, NAME, "runs", "-o", "out", message="already exists")
    run(runs, NAME, "runs", "-o", "out", "--force")
    assert read_state(str(runs / "out")).all_model_checkpoint_paths == CHECKPOINTS


def test_into_itself(runs: Path) -> None:
    refuse(runs, NAME, "runs", "-o", "runs", message="a state file already exists")
    run(runs, NAME, "runs", "-o", "runs", "--force")
    for name in CHECKPOINTS:
        with ckpttool.open_checkpoint(runs / "runs" / name) as read:
            assert read.generation == "V2"
    assert (runs / "runs" / "model.ckpt-2").is_file()
    assert read_state(str(runs / "runs")).model_checkpoint_path == "model.ckpt-7"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-o", "no/such/out"), "no/such: no such folder"),
        (("-o", "file"), "file: not a folder"),
        (("-o", "out", "--to", "name-based"), "already name-based"),
        (("-o", "out", "--map", "map"), "the rule 'dense=layer' matches nothing"),
    ],
)
def test_what_cannot_be_done(words: tuple[str, ...], message: str, runs: Path) -> None:
    (runs / "file").write_bytes(b"")
    (runs / "map").write_text("dense layer\n", encoding="utf-8")
    refuse(runs, NAME, "runs", *words, message=message)


def test_what_is_known_beforehand_stops_all(runs: Path) -> None:
    """Whichever checkpoint it is in, nothing is written, also of those before it."""
    lost = runs / "runs" / "model.ckpt-7-00000-of-00002"
    kept = lost.read_bytes()
    lost.unlink()
    refuse(runs, NAME, "runs", "-o", "out", message="model.ckpt-7-00000-of-00002: no such file")
    lost.write_bytes(kept)
    from tests.legacy import handmade

    gap = handmade.described(b"w", 1, [4], [[(0, 2)]])
    values = handmade.record(b"w", [(0, 2)], handmade.packed(5, bytes(8)))
    handmade.write(
        runs / "runs" / "model.ckpt-6", handmade.table(handmade.description(gap), values)
    )
    refuse(runs, NAME, "runs", "-o", "out", message="key 'w': its slices leave a gap")
    refuse(runs, NAME, "runs", "-o", "out", "-n", message="key 'w': its slices leave a gap")
    (runs / "runs" / "model.ckpt-6").unlink()
    ckpttool.save_checkpoint(str(runs / "runs" / "new-1"), {"w": np.zeros(2, np.uint32)})
    words = (NAME, "runs", "--to", "v1", "-o", "out")
    refuse(runs, *words, message="key 'w': format V1 has no dtype uint32")
    (runs / "runs" / "checkpoint").write_bytes(b"\xff")
    refuse(runs, NAME, "runs", "-o", "out", message="runs/checkpoint")


def test_damage_ends_it(runs: Path) -> None:
    """What was written before is whole, and named."""
    write_v1(runs / "runs" / "model.ckpt-6", {"s": np.array([b"Q" * 600_000], object)})
    spoil(runs / "runs" / "model.ckpt-6", 300_000)
    (runs / "runs" / "checkpoint").unlink()
    done = ckpt(NAME, "runs", "-o", "out", folder=str(runs))
    assert (done.code, done.out) == (2, "")
    assert "runs/model.ckpt-6:" in done.err.splitlines()[-1]
    assert sorted(path.stem for path in (runs / "out").glob("*.index")) == list(CHECKPOINTS[:2])
    assert ckpt("verify", "out", folder=str(runs)).code == 0


def test_a_checkpoint_of_each_format_under_one_name(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    ckpttool.save_checkpoint(str(tmp_path / "runs" / "m"), {"w": np.zeros(2)})
    write_v1(tmp_path / "runs" / "m", {"w": np.zeros(2)}, shards=2)
    refuse(tmp_path, NAME, "runs", "-o", "out", message="two checkpoints are called 'm'")


def test_state_files_that_name_what_is_gone(runs: Path) -> None:
    (runs / "runs" / "checkpoint").write_text('model_checkpoint_path: "m-9"\n', encoding="utf-8")
    done = run(runs, NAME, "runs", "-o", "out")
    assert done.err.splitlines()[-1] == (
        "ckpt: no state file was written: the latest in 'runs/checkpoint' is not in its folder"
    )


def test_a_checkpoint_without_a_name(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    ckpttool.save_checkpoint(tmp_path / "runs" / "m", {"w": np.ones(3, np.float32)})
    for path in (tmp_path / "runs").glob("m.*"):
        path.rename(path.with_name(path.name[1:]))
    for words in (("-n",), ("-o", "new")):
        refuse(
            tmp_path, "convert-legacy", "runs", *words, message="name 'runs/.index', and give -o"
        )
    run(tmp_path, "convert-legacy", "runs/.index", "--to", "v1", "-o", "new")
    with ckpttool.open_checkpoint(tmp_path / "new") as read:
        assert list(read) == ["w"]
