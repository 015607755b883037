"""`ckpt diff` as its users run it."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ckpttool
from ckpttool.query.diff.results import CHANGES, LETTERS
from tests.support.command import ckpt, environment, shell
from tests.support.fixtures import FIXTURES, bundle
from tests.support.handmade import shard_path
from tests.support.limits import run_python
from tests.support.schemas import load_schema, validate

GUIDE = Path(FIXTURES) / "v2/tf2.21/guide_legacy_adam_resumed/tf_ckpts"
SAVER = bundle("v2/tf1.15/saver/model.ckpt-3").prefix
FORMATS = ("table", "plain", "json", "jsonl", "csv", "markdown", "names")
VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
Golden = Callable[[str, str], None]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with a run of training, and a renamed and pruned copy of its end."""
    home = tmp_path_factory.mktemp("diff")
    shutil.copytree(GUIDE, home / "ckpts")
    for words in (
        ("rename", "ckpts", "net=model", "-o", "out/renamed"),
        ("prune", "out/renamed", "--slots", "-o", "out/pruned"),
        ("rename", "ckpts", "net/l1=net/dense", "optimizer=adam", "-o", "out/other"),
    ):
        assert ckpt(*words, folder=str(home)).code == 0
    many: dict[str, Any] = {
        "kept": np.arange(3),
        "gone": np.ones(4, np.float32),
        "dtype": np.float32(1),
        "shape": np.zeros((2, 3), np.int8),
        "old/a": np.array([1, 2, 3], np.float64),
        "old/b": np.array([4, 5], np.float64),
        "zero/a": np.zeros(7),
        "zero/b": np.zeros(7),
        "big/\x1b[31m\nred": np.array([1, np.nan, 3], np.float32),
        "text": np.array([b"one", b"two"], object),
        "flag": np.bool_(True),
    }
    ckpttool.save_checkpoint(str(home / "one"), many)
    changed = {
        name.replace("old/", "new/").replace("zero/", "nil/"): value for name, value in many.items()
    }
    del changed["gone"]
    changed |= {
        "come": np.zeros(5, np.uint8),
        "dtype": np.float16(1),
        "shape": np.zeros((3, 2), np.int8),
        "big/\x1b[31m\nred": np.array([1, 2, 2.5], np.float32),
        "text": np.array([b"one", b"\xff"], object),
        "flag": np.bool_(False),
    }
    ckpttool.save_checkpoint(str(home / "two"), changed)
    return str(home)


def document(*words: str, folder: str, code: int = 1) -> dict[str, Any]:
    """Run `ckpt diff --json`, hold the output to its schema and return it."""
    done = ckpt("diff", "--json", *words, folder=folder)
    assert done.code == code, done.err
    assert done.out.isascii()
    found: dict[str, Any] = json.loads(done.out)
    validate(found, "ckpt.diff/1")
    return found


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["ckpts/ckpt-10", "ckpts"], 0),
        (["ckpts/ckpt-10", "ckpts", "--exact"], 0),
        (["ckpts/ckpt-8", "ckpts/ckpt-10"], 1),
        (["ckpts"], 1),
        (["ckpts", "--kind", "graph"], 0),
        (["ckpts", "out/renamed"], 1),
        (["ckpts", "out/renamed", "step"], 0),
        (["one", "two"], 1),
        (["one", "two", "kept"], 0),
        (["one", "two", "--atol", "1", "big"], 1),
        (["one", "one", "big", "--equal-nan"], 0),
        (["one", "two", "-x", "re:.", "-i", "kept"], 0),
        (["--series", "ckpts", "net"], 1),
        (["--series", "ckpts", "optimizer/beta_1"], 0),
        (["--series", "ckpts", "--kind", "weight,"], 1),
        (["--series", "ckpts", "step", "--kind", ",weight"], 0),
        (["one", "nowhere"], 2),
        (["nowhere", "one"], 2),
        (["one"], 2),
        ([], 2),
        (["one", "two", "nothing"], 2),
        (["one", "two", "--ignore", "nothing"], 2),
        (["one", "two", "--exact", "--rtol", "1"], 2),
        (["one", "two", "--rtol", "-1"], 2),
        (["one", "two", "--stat", "--name-only"], 2),
        (["one", "two", "--name-status", "--json"], 2),
        (["--series", "one"], 2),
        (["--series", "ckpts", "--exact"], 2),
    ],
)
def test_exit_codes(words: list[str], code: int, folder: str) -> None:
    for more in ([], ["--quiet"]):
        done = ckpt("diff", *words, *more, folder=folder)
        assert done.code == code, done.err
        if code == 2:
            assert "Traceback" not in done.err and done.err
            assert done.out == ""
        elif more:
            assert done.out == done.err == ""


def test_one_side_damaged_or_missing_is_never_equal(folder: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(folder, home)
    data = Path(shard_path(str(home / "two")))
    whole = data.read_bytes()

    def refused(*words: str) -> None:
        for pair in (("one", "two"), ("two", "one")):
            for quiet in ((), ("-q",)):
                done = ckpt("diff", *pair, *words, *quiet, folder=str(home))
                assert done.code == 2, done
                assert str(data.name) in done.err or "two.index" in done.err
                assert "equal:" not in done.out

    os.unlink(data)
    refused()
    refused("kept")
    data.write_bytes(whole[:-3])
    refused()
    with ckpttool.open_checkpoint(home / "two") as read:
        entry = read.bundle.entries["text"]
    data.write_bytes(whole[: entry.offset + 9] + b"!" + whole[entry.offset + 10 :])
    refused("text")
    refused("--exact", "text", "kept")
    data.write_bytes(whole)
    (home / "two.index").write_bytes((home / "two.index").read_bytes()[:-60])
    refused()


def test_damage_is_told_and_the_rest_compared(folder: str, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "home")
    data = Path(shard_path(str(tmp_path / "home" / "ckpts" / "ckpt-9")))
    raw = bytearray(data.read_bytes())
    with ckpttool.open_checkpoint(tmp_path / "home" / "ckpts" / "ckpt-9") as read:
        key = read.resolve("net/l1/kernel")
        raw[read.bundle.entries[key].offset] ^= 1
    data.write_bytes(raw)
    done = ckpt("diff", "ckpts/ckpt-9", "ckpts", "net", folder=str(tmp_path / "home"))
    assert done.code == 2
    (line,) = done.err.splitlines()
    assert line.startswith("ckpt: ") and data.name in line and key in line
    rows = {line.split("\t")[0]: line.split("\t")[3] for line in done.out.splitlines()[1:]}
    assert rows.pop("net/l1/kernel") == "unreadable"
    assert len(rows) == 5 and set(rows.values()) == {"value"}
    found = document("ckpts/ckpt-9", "ckpts", "net", folder=str(tmp_path / "home"), code=2)
    assert found["verdict"] == "unknown" and found["problems"][0]["key"] == key
    assert found["totals"]["unreadable"] == 1 and found["totals"]["value"] == 5


@pytest.mark.parametrize("width", [50, 80, 120])
def test_for_people_in_every_width(width: int, folder: str, golden: Golden) -> None:
    done = ckpt(
        "diff",
        "one",
        "two",
        "--format",
        "table",
        folder=folder,
        environ={"COLUMNS": str(width)},
    )
    assert done.code == 1 and done.err == ""
    assert max(map(len, done.out.splitlines())) <= width
    assert done.out.replace("\n", "").isprintable()
    golden(f"diff_{width}.txt", done.out)


def test_the_guide_reads_as_a_person_would_tell_it(folder: str, golden: Golden) -> None:
    done = ckpt("diff", "ckpts/ckpt-8", "ckpts/ckpt-10", "--format", "table", folder=folder)
    assert done.code == 1
    golden("diff_guide.txt", done.out)
    assert "~ save_counter    -          int64  8 → 10" in done.out


def test_a_renamed_and_pruned_copy_shows_exactly_that(folder: str, golden: Golden) -> None:
    done = ckpt("diff", "ckpts/ckpt-10", "out/pruned", "--format", "table", folder=folder)
    assert done.code == 1
    golden("diff_pruned.txt", done.out)
    status = ckpt("diff", "ckpts/ckpt-10", "out/pruned", "--name-status", folder=folder)
    slots = [
        f"D\tnet/l1/{name}/.OPTIMIZER_SLOT/optimizer/{slot}{VALUE}"
        for name in ("bias", "kernel")
        for slot in "mv"
    ]
    moved = [f"R\tnet/l1/{name}{VALUE}\tmodel/l1/{name}{VALUE}" for name in ("bias", "kernel")]
    assert status.out.splitlines() == [*moved, *slots]


def test_colours_and_only_where_they_are_wanted(folder: str) -> None:
    words = ("diff", "one", "two", "--format", "table")
    plain = ckpt(*words, folder=folder).out
    coloured = ckpt(*words, "--color", "always", folder=folder).out
    assert "\x1b[32m+ come" in coloured and "\x1b[31m- gone" in coloured
    assert "\x1b[36mold → new" in coloured and "\x1b[33m~ big/" in coloured
    assert "\x1b" not in plain
    assert ckpt(*words, folder=folder, environ={"FORCE_COLOR": "1", "NO_COLOR": "1"}).out == plain


def test_rows(folder: str) -> None:
    done = ckpt("diff", "one", "two", "--format", "csv", folder=folder)
    table = list(csv.DictReader(io.StringIO(done.out)))
    by_key = {row["key"]: row for row in table}
    assert by_key["come"]["status"] == "A" and by_key["gone"]["status"] == "D"
    assert (by_key["old/a"]["status"], by_key["old/a"]["new_key"]) == ("R", "new/a")
    assert by_key["zero/b"]["note"] == "a guess: 2 tensors of B hold the same"
    assert (by_key["dtype"]["dtype"], by_key["dtype"]["new_dtype"]) == ("float32", "float16")
    assert (by_key["shape"]["status"], by_key["shape"]["new_shape"]) == ("T", "[3, 2]")
    assert (by_key["flag"]["a"], by_key["flag"]["b"]) == ("True", "False")
    text = by_key["text"]
    assert (text["index"], text["a"], text["b"]) == ("[1]", "two", "\\xff")
    nan = by_key["big/\\x1b[31m\\nred"]
    assert (nan["differing"], nan["max_abs"], nan["index"], nan["a"]) == ("2", "inf", "[1]", "nan")
    plain = ckpt("diff", "one", "two", folder=folder).out.splitlines()
    assert plain[0].split("\t") == list(table[0])
    assert len(plain) == len(table) + 1
    assert "kept" not in by_key
    everything = ckpt("diff", "one", "two", "--all", folder=folder).out
    assert "\nkept\t=\tequal\t" in everything


def test_names(folder: str) -> None:
    names = ckpt("diff", "one", "two", "--name-only", folder=folder)
    assert names.code == 1
    assert names.out.splitlines() == [
        "big/\\x1b[31m\\nred",
        "come",
        "dtype",
        "flag",
        "gone",
        "new/a",
        "new/b",
        "nil/a",
        "nil/b",
        "shape",
        "text",
    ]
    status = ckpt("diff", "one", "two", "--name-status", folder=folder).out
    assert [line.split("\t")[0] for line in status.splitlines()] == list("MATMDRRRRTM")
    assert "R\told/a\tnew/a\n" in status


def test_stat(folder: str) -> None:
    rows = [
        line.split("\t")
        for line in ckpt("diff", "one", "two", "--stat", folder=folder).out.splitlines()
    ]
    assert rows[0] == ["change", "tensors", "elements", "bytes"]
    assert {row[0]: row[1] for row in rows[1:]} == {
        "added": "1",
        "removed": "1",
        "renamed": "4",
        "dtype": "1",
        "shape": "1",
        "value": "3",
        "equal": "1",
    }
    assert rows[1] == ["added", "1", "5", "5"]


def test_json(folder: str) -> None:
    found = document("one", "two", folder=folder)
    assert found["verdict"] == "different" and found["problems"] == []
    assert found["totals"] | {"renamed": 4, "value": 3} == found["totals"]
    assert {(m["old"], m["new"], m["tensors"], m["guessed"]) for m in found["moves"]} == {
        ("old", "new", 2, 0),
        ("zero", "nil", 2, 2),
    }
    by_key = {each["new_key"] or each["key"]: each for each in found["tensors"]}
    nan = by_key["big/\x1b[31m\nred"]["values"]
    assert nan["max_abs"] == "Infinity" and nan["worst"] == {"index": [1], "a": "NaN", "b": 2.0}
    assert by_key["text"]["values"]["worst"]["b"] == {"base64": "/w=="}
    assert by_key["come"]["a"] is None and by_key["come"]["matched_by"] is None
    assert by_key["new/a"]["matched_by"] == "content"
    lines = ckpt("diff", "one", "two", "--format", "jsonl", folder=folder).out.splitlines()
    assert [json.loads(line) for line in lines[:-1]] == found["tensors"]
    assert json.loads(lines[-1])["verdict"] == "different"
    graph = document("ckpts", "out/pruned", folder=folder)["graph"]
    assert graph["objects"][0] == 18 and graph["slots"] == [4, 0]
    assert len(graph["changes"]) == 5
    document("ckpts", "one", folder=folder)
    document(SAVER, os.path.join(FIXTURES, "v1/tf1.15/saver/model.ckpt-3"), folder=folder, code=0)
    steps = document("--series", "ckpts", "net", folder=folder)["steps"]
    assert len(steps) == 18


def test_the_schema_knows_every_change() -> None:
    tensor = load_schema("ckpt.diff/1")["$defs"]["tensor"]["properties"]
    assert tuple(tensor["change"]["enum"]) == CHANGES
    assert set(tensor["status"]["enum"]) == set(LETTERS.values())


def test_a_map_goes_to_rename_as_it_is(folder: str, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "home")
    home = str(tmp_path / "home")
    done = ckpt("diff", "ckpts", "out/other", "--rename-map", "m.json", "-q", folder=home)
    assert (done.code, done.out, done.err) == (1, "", "")
    assert json.loads((tmp_path / "home" / "m.json").read_text()) == {
        "net/l1": "net/dense",
        "optimizer": "adam",
    }
    assert ckpt("rename", "ckpts", "--map", "m.json", "-o", "out/x", folder=home).code == 0
    assert ckpt("diff", "out/x", "out/other", "--exact", folder=home).code == 0
    # A file that is there stays as it is.
    again = ckpt("diff", "ckpts", "out/other", "--rename-map", "m.json", folder=home)
    assert again.code == 2 and "m.json: already exists" in again.err and again.out == ""
    words = ("diff", "one", "two", "--rename-map", "m.json", "--force", "-q")
    assert ckpt(*words, folder=home).code == 1
    assert json.loads((tmp_path / "home" / "m.json").read_text()) != {"net/l1": "net/dense"}
    assert [name for name in os.listdir(home) if name.endswith(".ckpt-tmp")] == []
    usage = ckpt("diff", "one", "two", "--force", folder=home)
    assert usage.code == 2 and "--force needs --rename-map" in usage.err
    line = "$CKPT diff one two --rename-map - | $CKPT rename one --map - -o out/y"
    assert shell(line, folder=home).code == 0
    done = ckpt("diff", "out/y", "two", "--stat", folder=home)
    assert "renamed" not in done.out and "equal\t5" in done.out


def test_layers(folder: str) -> None:
    found = document("ckpts/ckpt-8", "ckpts/ckpt-10", "--collapse", "net", folder=folder)
    assert [each["name"] for each in found["layers"]] == [
        f"net/l1/{name}{slot}"
        for name in ("bias", "kernel")
        for slot in ("", "/.OPTIMIZER_SLOT/optimizer/m", "/.OPTIMIZER_SLOT/optimizer/v")
    ]
    assert {each["key"]: each["values"]["rel_norm"] for each in found["tensors"]} == {
        each["largest_key"]: each["largest"] for each in found["layers"]
    }
    done = ckpt("diff", "ckpts", "ckpts", "--collapse", "--format", "table", folder=folder)
    assert (done.code, done.out) == (0, "equal: 14 tensors\n")
    for words in (("--stat",), ("--graph",), ("--series",)):
        assert ckpt("diff", "one", "two", "--collapse", *words, folder=folder).code == 2


def test_series_for_people(folder: str, golden: Golden) -> None:
    done = ckpt("diff", "--series", "ckpts", "net/l1/kernel", "--format", "table", folder=folder)
    assert done.code == 1
    golden("diff_series.txt", done.out)
    some = ckpt("diff", "--series", "ckpts", "net", "-x", "re:SLOT", folder=folder)
    assert {line.split("\t")[0] for line in some.out.splitlines()[1:]} == {
        f"net/l1/{name}" for name in ("bias", "kernel")
    }
    assert (
        some.out
        == ckpt("diff", "--series", "ckpts", "net", "--ignore", "re:SLOT", folder=folder).out
    )


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_keeps_the_terminal_safe(format: str, folder: str) -> None:
    done = ckpt("diff", "one", "two", "--all", "--format", format, folder=folder)
    assert done.code == 1 and "\x1b" not in done.out
    assert all(line.isprintable() for line in done.out.replace("\t", "").splitlines())


def test_options_from_the_environment(folder: str) -> None:
    environ = {"CKPT_DIFF_NAME_ONLY": "1", "CKPT_DIFF_IGNORE": "re:^[^c]", "CKPT_DIFF_ALL": "0"}
    assert ckpt("diff", "one", "two", folder=folder, environ=environ).out == "come\n"


def test_nothing_heavy_for_what_the_indexes_tell(folder: str) -> None:
    program = """
import sys
from ckpttool.cli.main import main
code = main(sys.argv[1:])
heavy = ("numpy", "rich", "ml_dtypes")  # protobuf reads the object graph, which tells kinds
print(code, [name for name in heavy if name in sys.modules])
"""
    for words in (("ckpts", "ckpts"), ("one", "one"), ("ckpts", "ckpts", "--stat")):
        paths = [os.path.join(folder, word) if word[0] != "-" else word for word in words]
        done = run_python(program, "diff", *paths)
        assert done.stdout.splitlines()[-1] == "0 []"


def test_a_reader_that_goes_away_is_no_error(folder: str) -> None:
    done = shell("set -o pipefail; $CKPT diff one two | head -1", folder=folder)
    assert done.out.startswith("key\tstatus\t") and done.err == ""
    assert done.code in (1, 141)
    full = shell("$CKPT diff one two > /dev/full", folder=folder)
    assert full.code == 2 and "No space left" in full.err
    assert environment()["PYTHONPATH"]


def test_verbose_tells_the_addresses(folder: str) -> None:
    err = ckpt("diff", "-v", "ckpts", folder=folder).err
    assert err.splitlines() == [
        "ckpt: ckpts/ckpt-9 is the V2 checkpoint ckpts/ckpt-9",
        "ckpt: ckpts/ckpt-10 is the V2 checkpoint ckpts/ckpt-10",
    ]
