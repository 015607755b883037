"""`ckpt gc`: its forms, its exit codes, and what it needs to be told."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import pytest

import ckpttool
from tests.support.command import Outcome, ckpt
from tests.support.schemas import validate
from tests.surgery.retention.folders import SIZE, managed, names


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return managed(tmp_path / "run", range(8, 12))


def gc(folder: Path, *words: str) -> Outcome:
    return ckpt("gc", str(folder), *words)


def test_a_dry_run_and_a_run_say_the_same(folder: Path) -> None:
    told = gc(folder, "--keep", "2", "-n", "--json")
    document = json.loads(told.out)
    validate(document, "ckpt.gc/1")
    assert ckpttool.gc(folder, 2).to_dict() == document
    assert names(folder) == ["ckpt-8", "ckpt-9", "ckpt-10", "ckpt-11"]
    done = gc(folder, "--keep", "2", "-f", "--json")
    assert (told.code, done.code) == (0, 0)
    assert json.loads(done.out) == {**document, "dry_run": False}
    assert document["totals"] == {"deleted": 2, "kept": 2, "files": 4, "bytes": 2 * SIZE}
    assert document["policy"]["max_to_keep"] == 2 and document["state"].endswith("checkpoint")
    assert "of 4 checkpoints, 2 would go: " in told.err and "nothing was deleted" in told.err
    assert f"of 4 checkpoints, 2 deleted: {SIZE * 2 / 1024:.1f} KiB freed; 2 stay" in done.err
    assert names(folder) == ["ckpt-10", "ckpt-11"]
    again = gc(folder, "--keep", "2", "-f")
    assert again.code == 0 and "none is to go" in again.err
    found = ckpttool.gc(folder, 1, dry_run=False)
    assert [each.name for each in found.sweep.deleted] == ["ckpt-10"]
    assert "1 deleted" in repr(found) and "\n" not in repr(found)


def test_it_must_be_told(folder: Path) -> None:
    asked = gc(folder, "--keep", "1")
    told = gc(folder, "--keep", "1", "-n", "-f")
    assert asked.code == 2 and told.code == 0
    assert asked.out == told.out and asked.out.count("delete") == 3
    assert "give -f to delete" in asked.err
    assert len(names(folder)) == 4


def test_forms(folder: Path) -> None:
    assert gc(folder, "--keep", "2", "-n").out.splitlines() == [
        "checkpoint\taction\treason\tfiles\tbytes",
        f"ckpt-8\tdelete\t-\t2\t{SIZE}",
        f"ckpt-9\tdelete\t-\t2\t{SIZE}",
        "ckpt-10\tkeep\trecent\t-\t-",
        "ckpt-11\tkeep\tlatest\t-\t-",
    ]
    out = {
        form: gc(folder, "--keep", "2", "-n", "--format", form).out
        for form in ("table", "jsonl", "csv", "markdown", "names")
    }
    assert out["names"] == f"{folder}/ckpt-8\n{folder}/ckpt-9\n"
    rows = list(csv.DictReader(io.StringIO(out["csv"])))
    assert [row["reason"] for row in rows] == ["", "", "recent", "latest"]
    assert [json.loads(line) for line in out["jsonl"].splitlines()][2]["reason"] == "recent"
    assert "3.6 KiB" in out["table"] or f"{SIZE / 1024:.1f} KiB" in out["table"]
    assert str(ckpttool.gc(folder, 2)) == out["table"].rstrip("\n")
    assert out["markdown"].count("\n") == 6


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--keep", "0"),
        ("--keep", "x"),
        ("--keep", "1", "--keep-every", "2"),
        ("--keep", "1", "--keep-every", "0h"),
        ("--keep", "1", "--keep-every", "-2h"),
        ("--keep", "1", "--keep-every-steps", "0"),
        ("ckpt-1", "--keep", "1"),
    ],
)
def test_wrong_words(words: tuple[str, ...], folder: Path) -> None:
    done = gc(folder, *words, "-f")
    assert done.code == 2 and done.out == ""
    assert "Try 'ckpt gc --help'." in done.err
    assert len(names(folder)) == 4


@pytest.mark.parametrize(
    ("text", "hours"), [("2h", 2), ("90min", 1.5), ("1.5h", 1.5), ("3600s", 1), ("2 D", 48)]
)
def test_spans(text: str, hours: float, folder: Path) -> None:
    done = gc(folder, "--keep", "1", "--keep-every", text, "-n", "--json")
    assert json.loads(done.out)["policy"]["keep_checkpoint_every_n_hours"] == hours


def test_wrong_folders(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    others = ("empty", "no", "run/checkpoint", "run/ckpt-8", "run/ckpt-8.index")
    for other in others:
        done = gc(tmp_path / other, "--keep", "1", "-f")
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), other
        assert done.err.startswith(f"ckpt: {tmp_path / other}"), done.err
    assert len(names(folder)) == 4


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written(folder: Path) -> None:
    folder.chmod(0o500)
    try:
        done = gc(folder, "--keep", "1", "-f")
    finally:
        folder.chmod(0o700)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert len(names(folder)) == 4


def test_the_latest_is_gone(folder: Path) -> None:
    for path in folder.glob("ckpt-11.*"):
        path.unlink()
    done = gc(folder, "--keep", "1", "-f")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "--repair-state" in done.err
    assert ckpt("verify", str(folder), "--repair-state").code == 0
    assert gc(folder, "--keep", "1", "-f").code == 0
    assert names(folder) == ["ckpt-10"]


def test_names_from_strangers_are_escaped(tmp_path: Path) -> None:
    folder = managed(tmp_path, range(1, 3), stem="a\x1b[31m")
    for form in ("plain", "table", "names", "csv", "markdown"):
        done = gc(folder, "--keep", "1", "-n", "--format", form)
        assert done.code == 0 and "\x1b" not in done.out + done.err
