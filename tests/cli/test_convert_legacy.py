"""`ckpt convert-legacy` of single checkpoints, as its users run it."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import ckpttool
from tests.support.command import ckpt
from tests.support.conversions import (
    PARTITIONED,
    SHARDED,
    SINGLE,
    copy_v1,
    everything,
    old_strings,
    write_v1,
)
from tests.support.conversions import big_endian as write_big_endian
from tests.support.schemas import load_schema, validate
from tests.support.surgery import refuse, run, spoil, state
from tests.surgery.graphs import VARIABLE
from tests.surgery.references import object_based

NAME = "convert-legacy"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Return a folder with V1 checkpoints in folders of their own, and a bundle `new`."""
    copy_v1(SINGLE, tmp_path / "single")
    copy_v1(SHARDED, tmp_path / "sharded")
    copy_v1(PARTITIONED, tmp_path / "partitioned")
    ckpttool.save_checkpoint(str(tmp_path / "new"), {"a/w": np.zeros(2, np.float32)})
    return tmp_path


def document(folder: Path, *words: str) -> dict[str, Any]:
    """Run a command with --json, hold the output to its schema and return it."""
    done = run(folder, NAME, "--json", *words)
    assert done.out.isascii()
    found: dict[str, Any] = json.loads(done.out)
    validate(found, f"ckpt.{NAME}/1")
    return found


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(load_schema(f"ckpt.{NAME}/1"))


SINGLES = {
    "single/model.ckpt-3": 1,
    "single/model.ckpt-3.meta": 1,
    "single/checkpoint": 1,
    "sharded/model.ckpt-7": 2,
    "sharded/model.ckpt-7-?????-of-00002": 2,
    "sharded/model.ckpt-7-00001-of-00002": 2,
    "partitioned/model.ckpt-7": 1,
}


@pytest.mark.parametrize("source", SINGLES)
def test_v1_becomes_v2(source: str, here: Path) -> None:
    before = state(here)
    done = run(here, NAME, source, "-o", "out/q")
    shards = SINGLES[source]
    assert {name: before[name] for name in before} == {
        name: found for name, found in state(here).items() if not name.startswith("out")
    }
    assert files(here / "out") == [
        *(f"q.data-{at:05d}-of-{shards:05d}" for at in range(shards)),
        "q.index",
        "q.meta",
    ]
    name = "model.ckpt-3" if "single" in source else "model.ckpt-7"
    original = f"{source.split('/')[0]}/{name}"
    assert everything(here / "out" / "q") == everything(here / original)
    assert done.out == "key\taction\tnew_key\tkind\tbytes\tcheckpoint\n"
    *notes, last = done.err.splitlines()
    assert notes == [f"ckpt: '{original}.meta' was copied, its Saver brought up to date"]
    assert "from V1 to V2; wrote out/q: data shards" in last
    assert ckpt("verify", "out/q", folder=str(here)).code == 0


def test_layouts(here: Path) -> None:
    run(here, NAME, "single/model.ckpt-3", "-o", "out/q", "--shards", "4")
    assert len(list((here / "out").glob("q.data-*-of-00004"))) == 4
    run(here, NAME, "single/model.ckpt-3", "-o", "out/r", "--max-shard-size", "16")
    assert len(list((here / "out").glob("r.data-*"))) > 4
    run(here, NAME, "partitioned/model.ckpt-7", "-o", "out/s", "--join-slices")
    with ckpttool.open_checkpoint(here / "out" / "s") as read:
        assert not any(entry.slices for entry in read.entries.values())
    run(here, NAME, "partitioned/model.ckpt-7", "-o", "out/t")
    with ckpttool.open_checkpoint(here / "out" / "t") as read:
        assert any(entry.slices for entry in read.entries.values())
    assert everything(here / "out" / "s") == everything(here / "out" / "t")


def test_old_bundles(tmp_path: Path) -> None:
    expected = write_big_endian(tmp_path / "big", [(3,)])
    old_strings(tmp_path / "old")
    done = run(tmp_path, NAME, "big", "-o", "q")
    assert "from big-endian to little-endian" in done.err
    assert everything(tmp_path / "q") == expected
    done = run(tmp_path, NAME, "old", "-o", "r")
    assert "ckpt: old: 2 tensors, written anew; wrote r: " in done.err
    for made in ("q", "r"):
        refuse(tmp_path, NAME, made, "-o", "s", message=f"{made}: already in that form")


def test_back_to_v1(here: Path) -> None:
    run(here, NAME, "single/model.ckpt-3", "-o", "v2/model")
    done = run(here, NAME, "v2/model", "--to", "v1", "-o", "v1/model")
    assert "from V2 to V1" in done.err
    assert files(here / "v1") == ["model", "model.meta"]
    assert (here / "v1" / "model").read_bytes() == (here / "single/model.ckpt-3").read_bytes()
    assert (here / "v1/model.meta").read_bytes() == (here / "v2/model.meta").read_bytes()
    run(here, NAME, "new", "--to", "v1", "-o", "v1/two", "--shards", "2", "--update-state")
    assert '"two-?????-of-00002"' in (here / "v1" / "checkpoint").read_text(encoding="utf-8")
    assert everything(here / "v1") == everything(here / "new")
    message = "single/model.ckpt-3: already in that form"
    refuse(here, NAME, "single/model.ckpt-3", "--to", "v1", "-o", "q", message=message)


def test_names_that_change(here: Path) -> None:
    (here / "map").write_text("dense layer\n", encoding="utf-8")
    words = (NAME, "single/model.ckpt-3", "--map", "map", "-o", "q")
    planned = run(here, *words, "--dry-run")
    done = run(here, *words)
    assert planned.out == done.out
    rows = [line.split("\t") for line in done.out.splitlines()[1:]]
    assert rows
    assert all(row[5] == "single/model.ckpt-3" for row in rows)
    before, after = everything(here / "single/model.ckpt-3"), everything(here / "q")
    renamed = {row[0]: row[2] for row in rows}
    assert after == {renamed.get(key, key): value for key, value in before.items()}
    assert "names variables that were renamed or dropped" in done.err
    assert f"{len(rows)} renamed; wrote q" in done.err
    assert planned.err.splitlines()[-1].endswith("dry run, nothing was written")
    names = run(here, *words[:-1], "r", "--format", "names")
    assert names.out.splitlines() == list(renamed)


def test_objects_and_names(tmp_path: Path) -> None:
    object_based(tmp_path / "ref", {"net": {"w": VARIABLE}}, names={"net/w": "dense/kernel"})
    write_v1(tmp_path / "old", {"dense/kernel": np.array([1, 2], np.float32)})
    done = run(tmp_path, NAME, "old", "--like", "ref", "-o", "q")
    assert "from V1 to V2, from name-based to object-based, 1 renamed" in done.err
    with ckpttool.open_checkpoint(tmp_path / "q") as read:
        assert read["net/w"].tolist() == [1, 2]
    found = document(tmp_path, "q", "--to", "name-based", "-o", "names")
    (one,) = found["conversions"]
    assert (one["style"], one["source"]["style"]) == ("name", "object")
    run(tmp_path, NAME, "q", "--to", "v1", "-o", "back")
    assert (tmp_path / "back").read_bytes() == (tmp_path / "old").read_bytes()


@pytest.mark.parametrize("dry", [False, True])
@pytest.mark.parametrize(
    "words",
    [
        ("single/model.ckpt-3",),
        ("sharded/model.ckpt-7", "--join-slices", "--shards", "3"),
        ("new", "--to", "v1"),
        ("single",),
    ],
)
def test_json(words: tuple[str, ...], dry: bool, here: Path) -> None:
    before = state(here)
    found = document(here, *words, "-o", "out", *["--dry-run"] * dry)
    assert found["dry_run"] is dry
    if dry:
        assert state(here) == before
        return
    for one in found["conversions"]:
        made = {str(here / shard["path"]): shard["bytes"] for shard in one["written"]["shards"]}
        assert made == {path: os.path.getsize(path) for path in made}
        with ckpttool.open_checkpoint(here / one["destination"]) as read:
            assert read.generation == one["generation"]
            assert one["kept"] == one["written"]["tensors"] == len(read.entries)
    assert found["state"] == ("out/checkpoint" if words == ("single",) else None)


@pytest.mark.parametrize(
    "words", [("single/model.ckpt-3",), ("new", "--to", "v1"), ("single",), ("sharded",)]
)
def test_a_dry_run_without_a_destination(words: tuple[str, ...], here: Path) -> None:
    before = state(here)
    found = document(here, *words, "-n")
    assert state(here) == before
    known = document(here, *words, "-n", "-o", "out")
    for one, other in zip(found["conversions"], known["conversions"], strict=True):
        assert one.pop("destination") is None
        assert other.pop("destination")
        assert one == other
    refuse(here, NAME, *words, message="give -o DST", lines=2)


def test_strings_have_no_bytes_in_v1(tmp_path: Path) -> None:
    write_v1(tmp_path / "m", {"s": np.array([b"text"], object), "w": np.zeros(2)})
    for name, words in (("rename", ("s=t",)), ("prune", ("--drop", "s"))):
        done = run(tmp_path, name, "m", *words, "-o", name, "--json")
        found = json.loads(done.out)
        validate(found, f"ckpt.{name}/1")
        assert found["changes"][0]["bytes"] is None


def test_graphs(here: Path) -> None:
    words = (NAME, "single/model.ckpt-3", "-o")
    done = run(here, *words, "q", "--meta", "drop")
    assert "'single/model.ckpt-3.meta' was left behind" in done.err
    assert not (here / "q.meta").exists()
    os.chmod(here / "single/model.ckpt-3.meta", 0o600)
    run(here, *words, "r")
    assert stat.S_IMODE((here / "r.meta").stat().st_mode) == 0o600
    (here / "map").write_text("dense layer\n", encoding="utf-8")
    done = run(here, *words, "s", "--meta", "copy", "--map", "map")
    assert "brought up to date; it still names the variables as they were" in done.err
    assert (here / "s.meta").read_bytes() == (here / "r.meta").read_bytes()
    done = run(here, *words, "single/model.ckpt-3", "--meta", "drop")
    assert "'single/model.ckpt-3.meta' is as it was: it belongs to the source" in done.err
    assert (here / "single/model.ckpt-3.meta").exists()


def test_a_graph_that_cannot_be_read(here: Path) -> None:
    (here / "single/model.ckpt-3.meta").write_bytes(b"\x0a\xff\xff")
    words = (NAME, "single/model.ckpt-3", "-o", "out/q")
    refuse(here, *words, message="single/model.ckpt-3.meta")
    refuse(here, *words, "--dry-run", message="single/model.ckpt-3.meta")
    run(here, *words, "--meta", "drop")


@pytest.mark.parametrize(
    ("words", "message", "lines"),
    [
        (("single/model.ckpt-3",), "give -o DST", 2),
        (("-o", "q"), "Missing argument 'SRC'", 2),
        (("new", "-o", "q", "--shards", "2", "--max-shard-size", "9"), "cannot be combined", 2),
        (("new", "-o", "q", "--shards", "0"), "Invalid value for '--shards'", 2),
        (("new", "-o", "q", "--to", "v3"), "Invalid value for '--to'", 2),
        (("new", "-o", "q", "--to", "v1", "--like", "new"), "--like makes a checkpoint of", 2),
        (("new", "-o", "q", "--strict"), "--strict goes with --like", 2),
        (("new", "-o", "q", "--by-order"), "--by-order goes with --like", 2),
        (("new", "-o", "q", "--table", "no"), "unknown table 'no'", 1),
        (("new", "-o", "q", "--map", "no"), "no: no such file", 1),
        (("new", "-o", "q"), "new: already in that form", 1),
        (("new", "-o", "q", "--to", "name-based"), "already name-based", 1),
        (("nowhere", "-o", "q"), "nowhere", 1),
        (("new", "-o", "new", "--shards", "1"), "shares a file with the source", 1),
        (("single/model.ckpt-3", "-o", "new"), "new.index: already exists", 1),
        (("single/model.ckpt-3", "-o", "no/such/q"), "no such folder", 1),
        (("single/model.ckpt-3", "-o", "single"), "add a name for the checkpoint", 1),
        (("single/model.ckpt-3", "-o", ""), "the path is empty", 1),
        (("new", "-o", "q-00000-of-00002", "--to", "v1"), "name of one file of several", 1),
        (("new", "-o", "single/model.ckpt-3", "--to", "v1"), "already exists", 1),
        (("new", "-o", "single/model.ckpt-4", "--to", "v1"), "a program that saves checkpoints", 1),
        (("single/model.ckpt-3", "-o", "q", "--like", "new"), "new", 1),
    ],
)
def test_what_cannot_be_done(words: tuple[str, ...], message: str, lines: int, here: Path) -> None:
    refuse(here, NAME, *words, message=message, lines=lines)


def test_force(here: Path) -> None:
    run(here, NAME, "single/model.ckpt-3", "-o", "new", "--force")
    assert everything(here / "new") == everything(here / "single/model.ckpt-3")
    assert len(list(here.glob("new.data-*"))) == 2  # the old one had another count
    words = (NAME, "new", "-o", "single/model.ckpt-2", "--to", "v1", "--force")
    run(here, *words)  # in two files, so the single one of that name goes
    assert not (here / "single/model.ckpt-2").exists()
    assert everything(here / "single/model.ckpt-2") == everything(here / "new")
    run(here, *words, "--shards", "1")
    assert not list((here / "single").glob("model.ckpt-2-*"))
    assert everything(here / "single/model.ckpt-2") == everything(here / "new")


@pytest.mark.parametrize("to", ["v2", "v1"])
def test_damage(to: str, tmp_path: Path) -> None:
    arrays = {"a": np.arange(99, dtype=np.float32), "s": np.array([b"Q" * 999], object)}
    if to == "v2":
        write_v1(tmp_path / "m", arrays)
        victim = tmp_path / "m"
    else:
        ckpttool.save_checkpoint(str(tmp_path / "m"), arrays)
        victim = tmp_path / "m.data-00000-of-00001"
    spoil(victim, victim.read_bytes().index(b"QQQQ") + 9)
    message = f"{victim.name}:"
    refuse(tmp_path, NAME, "m", "--to", to, "-o", "made/q", message=message)
    refuse(tmp_path, NAME, "m", "--to", to, "-o", "made/q", "--shards", "3", message=message)


def test_a_missing_file(here: Path) -> None:
    (here / "sharded/model.ckpt-7-00000-of-00002").unlink()
    for words in ((), ("--dry-run",), ("--join-slices",), ("--to", "v1", "--shards", "1")):
        refuse(
            here,
            NAME,
            "sharded/model.ckpt-7",
            "-o",
            "made/q",
            *words,
            message="model.ckpt-7-00000-of-00002: no such file",
        )


@pytest.mark.parametrize(("target", "count"), [("q-12", 12), ("q", 1)])
def test_the_save_counter_goes_by_the_name(tmp_path: Path, target: str, count: int) -> None:
    reference = {"net": {"w": VARIABLE}, "save_counter": VARIABLE}
    object_based(
        tmp_path / "ref",
        reference,
        names={"net/w": "dense/w"},
        values={"save_counter": np.int64(40)},
    )
    ckpttool.save_checkpoint(str(tmp_path / "old"), {"dense/w": np.ones(2, np.float32)})
    run(tmp_path, NAME, "old", "--like", "ref", "-o", target)
    with ckpttool.open_checkpoint(tmp_path / target) as read:
        assert read["save_counter"] == count
        assert read["save_counter"].dtype == np.int64
        assert read["net/w"].tolist() == [1, 1]
    run(tmp_path, "verify", target)


def test_v1_is_renamed_and_pruned(here: Path) -> None:
    before = everything(here / "single/model.ckpt-3")
    done = run(here, "rename", "single/model.ckpt-3", "--prefix", "t/", "--in-place")
    assert "model.ckpt-3.meta' still names the variables as they were" in done.err
    after = everything(here / "single/model.ckpt-3")
    assert after == {f"t/{key}": value for key, value in before.items()}
    run(here, "prune", "single/model.ckpt-3", "--slots", "-o", "pruned")
    left = everything(here / "pruned")
    assert left.keys() < after.keys()
    assert {key: after[key] for key in left} == left
    with ckpttool.open_checkpoint(here / "pruned") as read:
        assert read.generation == "V1"
    run(here, "rename", "sharded/model.ckpt-7", "--prefix", "t/", "-o", "out/m")
    assert files(here / "out") == ["m-00000-of-00002", "m-00001-of-00002"]
    refuse(
        here,
        "rename",
        "sharded/model.ckpt-7",
        "--prefix",
        "t/",
        "--in-place",
        message="several files cannot be replaced in one step",
    )
    refuse(here, "prune", "pruned", "--drop", "**", "-o", "q", message="")


ANOTHER = {"a": {"0": {"w": VARIABLE}, "1": {"w": VARIABLE}}, "s": VARIABLE}


def test_objects_of_another_program(tmp_path: Path) -> None:
    """What goes where is shown before, and written then; nothing in doubt is."""
    values = {"s": np.zeros(3, np.float32)}
    object_based(tmp_path / "old", ANOTHER, values=values)
    other = {"b": ANOTHER["a"], "t": VARIABLE}
    object_based(tmp_path / "ref", other, values={"t": values["s"]})
    words = (NAME, "old", "--like", "ref", "-o", "q")
    refuse(tmp_path, *words, message="could be 'b/0/w', 'b/1/w' of the reference: give rules, or")
    (tmp_path / "map").write_text("a/0 b/1\n", encoding="utf-8")
    planned = document(tmp_path, *words[1:], "--map", "map", "-n")
    (one,) = planned["conversions"]
    assert one["placement"]["reference"] == "ref"
    told = [
        (p["object_path"], p["new_object_path"], p["reason"]) for p in one["placement"]["pairs"]
    ]
    assert told == [("a/0/w", "b/1/w", "rule"), ("a/1/w", "b/0/w", "shape"), ("s", "t", "shape")]
    assert one["placement"]["empty"] == []
    shown = run(tmp_path, *words, "-n", "--by-order", "--format", "table")
    assert [line.split() for line in shown.out.splitlines()[1:]] == [
        ["a/0/w", "rename", "b/0/w", "weight", "8", "B", "order"],
        ["a/1/w", "rename", "b/1/w", "weight", "8", "B", "order"],
        ["s", "rename", "t", "weight", "12", "B", "shape"],
    ]
    assert "with the objects of ref, 3 renamed, placed by order 2, shape 1; dry run" in shown.err
    rows = run(tmp_path, *words, "-n", "--by-order", "--format", "jsonl").out.splitlines()
    assert [json.loads(row)["reason"] for row in rows] == ["order", "order", "shape"]
    done = run(tmp_path, *words, "--by-order", "--strict", "--format", "table")
    assert "a → b" in done.out
    assert "object graph" not in done.out
    with ckpttool.open_checkpoint(tmp_path / "q") as made:
        assert {"b/0/w", "b/1/w", "t"} == {*map(made.object_path, made.entries)} - {None}
    plain = "q: already in that form; --like REFERENCE gives it the objects of another program"
    refuse(tmp_path, NAME, "q", "-o", "r", message=plain)


def test_strict(tmp_path: Path) -> None:
    object_based(tmp_path / "old", {"w": VARIABLE, "x": VARIABLE}, values={"x": np.int8(1)})
    object_based(tmp_path / "ref", {"w": VARIABLE})
    words = (NAME, "old", "--like", "ref", "-n")
    run(tmp_path, *words)
    refuse(tmp_path, *words, "--strict", message="old: no place in the reference (1): 'x'")
    write_v1(tmp_path / "names", {"w": np.zeros(2, np.float32), "v": np.zeros(2)})
    message = "names: no place in the reference (1): 'v'"
    refuse(tmp_path, NAME, "names", "--like", "ref", "-n", "--strict", message=message)
