"""`ckpt show` as its users run it."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from ckpttool import open_checkpoint
from ckpttool.bundle.writer import BundleWriter
from ckpttool.cli.main import main
from tests.support import encoder, handmade
from tests.support.command import Outcome, ckpt, environment, shell
from tests.support.fixtures import FIXTURES, BundleFixture, bundle
from tests.support.schemas import load_schema
from tests.support.sweeps import each_bundle

GUIDE = os.path.join(FIXTURES, "v2/tf2.21/guide_legacy_adam")
FOLDER = os.path.join(GUIDE, "tf_ckpts")
PREFIX = os.path.join(FOLDER, "ckpt-5")
KERNEL = "net/l1/kernel/.ATTRIBUTES/VARIABLE_VALUE"
DTYPES = bundle("v2/tf2.21/dtypes/vector").prefix
ESCAPE = "\x1b"
EVERYTHING = "re:^"  # "**" is the name of a tensor in one of the fixtures
SCHEMA = load_schema("ckpt.show/1")
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def run(*words: str) -> Outcome:
    """Run `ckpt` in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    return Outcome(code, out.getvalue(), err.getvalue())


def parse(text: str) -> dict[str, Any]:
    """Parse strict JSON."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    found: dict[str, Any] = json.loads(text, parse_constant=refuse)
    return found


def document(*words: str) -> dict[str, Any]:
    """Run `ckpt show --json`, hold the output to its schema and return it."""
    done = run("show", "--json", *words)
    assert (done.code, done.err) == (0, ""), done.err
    assert done.out.isascii()
    found = parse(done.out)
    VALIDATOR.validate(found)
    return found


def on_terminal(*words: str, environ: Mapping[str, str] | None = None, errors: bool = False) -> str:
    """Run `ckpt` with a terminal as its output; return what it prints there.

    Args:
        words: of the command.
        environ: what else there is in its environment.
        errors: have it print messages there too; else there must be none.
    """
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "ckpttool", *words],
        stdout=theirs,
        stderr=theirs if errors else subprocess.PIPE,
        env=environment({"TERM": "xterm", **(environ or {})}),
    )
    os.close(theirs)
    data = b""
    with contextlib.suppress(OSError):  # how the end of a terminal is told
        while more := os.read(ours, 65536):
            data += more
    os.close(ours)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err or b"") == (0, b"")
    return data.decode().replace("\r\n", "\n")


def copied(folder: Path, prefix: str = PREFIX) -> str:
    """Copy a checkpoint; return its new prefix."""
    source, base = os.path.split(prefix)
    for name in os.listdir(source):
        if name.startswith(f"{base}."):
            shutil.copy(os.path.join(source, name), folder)
    return os.fspath(folder / base)


def damage(prefix: str, key: str) -> int:
    """Change a byte of a tensor; return where the tensor lies."""
    with open_checkpoint(prefix) as opened:
        entry = opened.bundle.entries[opened.resolve(key)]
    with open(f"{prefix}.data-00000-of-00001", "r+b") as file:
        file.seek(entry.offset + entry.size - 1)
        (last,) = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([last ^ 0x10]))
    return entry.offset


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("show_summary.txt", ["tf_ckpts"]),
        ("show_values.txt", ["tf_ckpts/ckpt-3", "net/**", "step", "optimizer/beta_1"]),
        ("show_part.txt", ["tf_ckpts", "net/l1/kernel[:,::-2]", "net/l1/bias[0]"]),
        ("show_graph.txt", ["tf_ckpts", "_CHECKPOINTABLE_OBJECT_GRAPH"]),
        ("show_iterator.txt", ["tf_ckpts", "iterator"]),
        ("show_stats.txt", ["tf_ckpts", "--stats", "--kind", "weight,slot"]),
        ("show_stats_table.txt", ["tf_ckpts", "--stats", "net", "--format", "table"]),
        ("show_stats.md", ["tf_ckpts", "--stats", "net", "--format", "markdown"]),
        ("show_summary.json", ["tf_ckpts", "--json"]),
        ("show_values.json", ["tf_ckpts", "net/l1/kernel", "net/l1/bias[1:3]", "step", "--json"]),
    ],
)
def test_guide(name: str, words: list[str], golden: Callable[[str, str], None]) -> None:
    done = ckpt("show", *words, folder=GUIDE)
    assert (done.code, done.err) == (0, "")
    golden(name, done.out)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("show_dtypes.txt", ["dtypes/vector", "**"]),
        ("show_variants.txt", ["variants/variants", "**"]),
        ("show_strings.txt", ["strings/strings", "**"]),
        ("show_partitioned.txt", ["partitioned_grid/model", "**"]),
        ("show_saver.txt", ["saver_v2/model.ckpt-3"]),
    ],
)
def test_others(name: str, words: list[str], golden: Callable[[str, str], None]) -> None:
    done = ckpt("show", *words, folder=os.path.join(FIXTURES, "v2/tf2.21"))
    assert (done.code, done.err) == (0, "")
    golden(name, done.out)


@each_bundle
def test_every_fixture_fits_the_schema(fixture: BundleFixture) -> None:
    assert document(fixture.prefix)["summary"]["totals"]["tensors"] == len(fixture.tensors)
    found = document(fixture.prefix, EVERYTHING, "--full")["tensors"]
    assert len(found) == len(fixture.tensors)
    assert all(row["verified"] and not row["elided"] for row in found)
    lines = run("show", fixture.prefix, EVERYTHING, "--full", "--format", "jsonl").out.splitlines()
    assert [parse(line) for line in lines] == found
    stats = document(fixture.prefix, "--stats")["tensors"]
    assert [row["key"] for row in stats] == [row["key"] for row in found]
    assert not any("value" in row for row in stats)
    for row, other in zip(stats, found, strict=True):
        if row["kind"] != "graph":
            assert row["stats"] == other["stats"]
    text = run("show", fixture.prefix, EVERYTHING).out
    assert all(char.isprintable() or char == "\n" for char in text)
    rows = run("show", fixture.prefix, "--stats").out.splitlines()
    assert len(rows) == 1 + len(fixture.tensors)


@pytest.mark.parametrize("format", ["table", "plain", "csv", "markdown", "names", "json", "jsonl"])
def test_statistics_in_every_format(format: str) -> None:
    done = run("show", PREFIX, "net", "step", "--stats", "--format", format)
    assert (done.code, done.err) == (0, "")
    assert KERNEL.split("/.")[0] in done.out
    if format == "names":
        assert len(done.out.splitlines()) == 7


def test_values_in_csv_are_numbers_or_json() -> None:
    keys = ("net/l1/kernel", "optimizer/learning_rate", "step", "net/l1/kernel[0,1:3]")
    done = run("show", PREFIX, *keys, "--format", "csv")
    assert (done.code, done.err) == (0, "")
    rows = list(csv.DictReader(io.StringIO(done.out)))
    found = document(PREFIX, *keys)["tensors"]
    assert [json.loads(row["value"]) for row in rows] == [each["value"] for each in found]
    assert [row["object_path"] for row in rows] == [*keys[:3], "net/l1/kernel[0, 1:3]"]
    assert rows[0]["name"] == rows[3]["name"] == found[0]["name"] == "net/dense/kernel"
    by_key = run("show", PREFIX, *keys, "--format", "csv", "--keys").out
    assert [row["key"] for row in csv.DictReader(io.StringIO(by_key))] == [
        KERNEL,
        *(each["key"] for each in found[1:3]),
        f"{KERNEL}[0, 1:3]",
    ]
    assert [row["bytes"] for row in rows] == [str(each["bytes"]) for each in found]


def test_values_in_csv_leave_nothing_out_in_silence() -> None:
    rows = csv.DictReader(io.StringIO(run("show", DTYPES, EVERYTHING, "--format", "csv").out))
    values = {row["key"]: row["value"] for row in rows}
    for each in document(DTYPES, EVERYTHING)["tensors"]:
        if not each["elided"] and not isinstance(each["value"], str):
            assert json.loads(values[each["key"]]) == each["value"], each["key"]


def test_values_in_markdown_are_one_line() -> None:
    lines = run("show", PREFIX, "net/l1/kernel", "step", "--format", "markdown").out.splitlines()
    assert lines[0] == "| path | name | dtype | shape | kind | bytes | value |"
    assert len(lines) == 4 and lines[2].endswith(" |") and "4.413729" in lines[2]
    assert lines[3].endswith("| 4 B | 50 |")
    text = run("show", PREFIX, "--kind", "graph,iterator", "--format", "markdown").out
    assert len(text.splitlines()) == 4


def test_names_need_no_values(tmp_path: Path) -> None:
    shutil.copy(f"{PREFIX}.index", tmp_path)
    bare = str(tmp_path / "ckpt-5")
    assert run("show", bare, "net/l1/kernel", "--format", "names").out == f"{KERNEL}\n"
    assert run("show", bare, "net/l1/kernel", "--format", "csv").code == 2
    names = run("show", PREFIX, "--format", "names").out
    assert names == run("ls", PREFIX, "--keys", "--format", "names").out
    assert (
        run("show", PREFIX, "net/l1/kernel[0,:2]", "--format", "names").out == f"{KERNEL}[0, :2]\n"
    )


def test_a_summary_has_rows_for_kinds_and_scopes() -> None:
    summary = document(PREFIX)["summary"]
    rows = list(csv.reader(io.StringIO(run("show", PREFIX, "--format", "csv").out)))
    assert rows[0] == ["part", "name", "tensors", "parameters", "bytes"]
    kinds = {each["name"]: each for each in summary["kinds"]}
    weights = str(kinds["weight"]["parameters"])
    assert rows[1] == ["total", "", "14", weights, str(summary["totals"]["bytes"])]
    found = {row[1]: row[2:] for row in rows if row[0] == "kind"}
    assert found.keys() == kinds.keys() and found["graph"][:2] == ["", ""]
    assert found["weight"] == ["2", weights, str(kinds["weight"]["bytes"])]
    assert found["slot"] == ["4", "", str(kinds["slot"]["bytes"])]
    scopes = {row[1]: row[2:] for row in rows if row[0] == "scope"}
    assert "_CHECKPOINTABLE_OBJECT_GRAPH" not in scopes and scopes["net"][1] == weights
    lines = run("show", PREFIX, "--format", "markdown").out.splitlines()
    assert len(lines) == len(rows) + 1


def test_a_graph_has_rows_for_variables() -> None:
    model = os.path.join(FIXTURES, "saved_model/tf2.21/tf_keras/model")
    (graph,) = document(model, "--graph")["graphs"]
    rows = list(csv.DictReader(io.StringIO(run("show", model, "--graph", "--format", "csv").out)))
    assert [row["key"] for row in rows] == [each["key"] for each in graph["variables"]]
    names = run("show", model, "--graph", "--format", "names").out.splitlines()
    assert names == [each["name"] for each in graph["variables"]]
    assert len(run("show", model, "--graph", "--format", "markdown").out.splitlines()) > len(rows)


def test_json_values() -> None:
    (row,) = document(DTYPES, "vector/float32")["tensors"]
    assert row["value"][:5] == ["NaN", "Infinity", "-Infinity", 0.0, -0.0]
    assert str(row["value"][4]) == "-0.0" and row["value"][7] == 0.3333333432674408
    (row,) = document(DTYPES, "vector/complex64")["tensors"]
    assert row["value"][0]["re"] == "NaN"
    (row,) = document(DTYPES, "vector/uint64")["tensors"]
    assert row["value"][-1] == 2**64 - 1
    (row,) = document(DTYPES, "vector/string")["tensors"]
    assert row["value"][1] == "plain" and row["value"][3] == {"base64": "//4gbm90IFVURi04IIA="}
    (row,) = document(DTYPES, "vector/bool")["tensors"]
    assert (row["value"], row["stats"]["true"]) == ([True, False, True], 2)
    (row,) = document(PREFIX, "net/l1/kernel[0, 1:3]")["tensors"]
    assert (row["index"], row["part"], row["shape"]) == ("0, 1:3", [2], [1, 5])
    assert row["verified"] is False and len(row["value"]) == 2
    (row,) = document(PREFIX, "iterator")["tensors"]
    assert row["value"][0]["type_name"] == "tensorflow::Iterator" and row["stats"] is None
    (row,) = document(PREFIX, "_CHECKPOINTABLE_OBJECT_GRAPH")["tensors"]
    assert row["value"]["total"] == len(row["value"]["nodes"]) == 18


@pytest.mark.large
def test_what_is_left_out_and_what_is_not(tmp_path: Path) -> None:
    prefix = os.fspath(tmp_path / "model")
    array = np.arange(12000).reshape(120, 100)
    with BundleWriter(prefix) as writer:
        writer.add("big", array)
    (row,) = document(prefix, "big")["tensors"]
    assert row["elided"] is True and row["value"] is None and row["stats"]["max"] == 11999
    (row,) = document(prefix, "big", "--full")["tensors"]
    assert row["elided"] is False and row["value"] == array.tolist()
    (row,) = document(prefix, "big[:100]")["tensors"]
    assert row["value"] == array[:100].tolist()
    text = run("show", prefix, "big").out
    assert "[[    0     1     2 ...    97    98    99]" in text and "\n ...\n" in text
    full = run("show", prefix, "big", "--full").out
    numbers = [int(word) for word in re.sub(r"[^0-9 ]", " ", full.partition("\n")[2]).split()]
    assert numbers[:12000] == array.ravel().tolist()


def test_precision() -> None:
    done = run("show", PREFIX, "net/l1/kernel", "--precision", "2")
    assert "[[4.41 4.78 4.89 4.43 4.9 ]]" in done.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["net/l1/kernle"], "nearest: 'net/l1/kernel'"),
        (["net/l1/kernle[0]"], "nearest: 'net/l1/kernel'"),
        (["net/l1/kernel[1]"], "out of bounds"),
        (["net/l1/kernel", "--out", "x.npy", "--stats"], "-o writes the values of KEYs"),
        (["--out", "x.npy"], "-o writes the values of KEYs"),
        (["net/**", "--out", "x.npy"], "a .npy file holds one tensor, not 6"),
        (["--kind", "wight"], "nearest: 'weight'"),
        (["--precision", "-1"], "--precision"),
    ],
)
def test_mistakes(words: list[str], message: str, tmp_path: Path) -> None:
    done = ckpt("show", PREFIX, *words, folder=os.fspath(tmp_path))
    assert (done.code, done.out) == (2, "")
    assert message in done.err and "Traceback" not in done.err
    assert not list(tmp_path.iterdir())


def test_a_part_is_not_verified_and_v_says_so() -> None:
    quiet = run("show", PREFIX, "net/l1/kernel[0]")
    told = run("show", PREFIX, "net/l1/kernel[0]", "-v")
    assert quiet.out == told.out and quiet.err == ""
    assert f"{KERNEL}: the crc32c of a part of a tensor is not checked" in told.err


def test_a_part_reads_only_what_it_needs(tmp_path: Path) -> None:
    prefix = copied(tmp_path)
    damage(prefix, "net/l1/bias")  # its last byte
    done = run("show", prefix, "net/l1/bias[:4]")
    assert done.code == 0 and done.out.startswith("net/l1/bias[:4]  net/dense/bias  ")
    by_key = run("show", prefix, "net/l1/bias[:4]", "--keys").out
    assert by_key.startswith("net/l1/bias/.ATTRIBUTES/VARIABLE_VALUE[:4]  float32")
    assert run("show", prefix, "net/l1/bias").code == 2


@pytest.mark.parametrize("extra", [[], ["--json"], ["--stats"], ["--format", "jsonl"]])
def test_damage(tmp_path: Path, extra: list[str]) -> None:
    prefix = copied(tmp_path)
    offset = damage(prefix, "net/l1/kernel")
    done = run("show", prefix, "step", "net/l1/kernel", *extra)
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert f"ckpt-5.data-00000-of-00001:{offset}: key '{KERNEL}'" in line
    assert run("show", prefix, "step", *extra).code == 0
    # The summary needs nothing of it.
    assert run("show", prefix).code == 0


def test_without_data_shards(tmp_path: Path) -> None:
    prefix = copied(tmp_path)
    os.unlink(prefix + ".data-00000-of-00001")
    done = run("show", prefix)
    assert done.code == 0
    assert "damage      ckpt-5.data-00000-of-00001: the data shard is missing" in done.out
    assert "step        save_counter (unreadable), step (unreadable)" in done.out
    assert done.out.count("cannot read") == 3
    summary = document(prefix)["summary"]
    assert summary["shards"] == [{"name": "ckpt-5.data-00000-of-00001", "bytes": None}]
    done = run("show", prefix, "step")
    assert (done.code, done.out) == (2, "") and "the data shard is missing" in done.err


def test_writing_a_file(tmp_path: Path) -> None:
    path = os.fspath(tmp_path / "kernel.npy")
    done = run("show", PREFIX, "net/l1/kernel", "--out", path)
    assert (done.code, done.out, done.err) == (0, "", "")
    with open_checkpoint(PREFIX) as opened:
        np.testing.assert_array_equal(np.load(path), opened["net/l1/kernel"])
    done = run("show", PREFIX, "step", "--out", path)
    assert done.code == 2 and "exists" in done.err
    assert np.load(path).shape == (1, 5)
    assert run("show", PREFIX, "step", "--out", path, "--force").code == 0
    assert np.load(path)[()] == 50
    done = run("show", PREFIX, "net/l1/kernel[0,:2]", "--out", path, "--force", "-v")
    assert np.load(path).shape == (2,) and "136 B" in done.err


def test_the_ending_tells_the_format(tmp_path: Path) -> None:
    def written(ending: str, *keys: str) -> bytes:
        path = tmp_path / f"out{ending}"
        done = run("show", PREFIX, *keys, "--out", os.fspath(path), "--force")
        assert (done.code, done.out) == (0, "")
        return path.read_bytes()

    with open_checkpoint(PREFIX) as opened:
        kernel, bias = opened["net/l1/kernel"], opened["net/l1/bias"]
    names = ("net/l1/kernel[0,:2]", "net/l1/bias")
    with np.load(io.BytesIO(written(".npz", *names))) as found:
        assert found["net/l1/kernel[0, :2]"].tolist() == kernel[0, :2].tolist()
        assert found["net/l1/bias"].tolist() == bias.tolist()
    data = written(".safetensors", *names)
    assert data.endswith(bias.tobytes() + kernel[0, :2].tobytes())
    rows = written(".csv", "net/l1/kernel").decode().splitlines()
    assert np.array([row.split(",") for row in rows], np.float32).tolist() == kernel.tolist()
    rows = written(".csv", "net/l1/bias").decode().splitlines()
    assert np.array(rows, np.float32).tolist() == bias.tolist()


def test_other_endings_are_refused(tmp_path: Path) -> None:
    for name, keys, message in (
        ("out.txt", ["step"], "ends in '.safetensors', '.npz', '.npy', '.csv', not"),
        ("out", ["step"], "values go to a file"),
        ("out.csv", ["step", "net/l1/bias"], "a .csv file holds one tensor, not 2"),
        ("out.npz", ["vector/bfloat16"], "NumPy has no name for the dtype bfloat16"),
    ):
        prefix = DTYPES if "bfloat16" in keys[0] else PREFIX
        done = run("show", prefix, *keys, "--out", os.fspath(tmp_path / name))
        assert done.code == 2, name
        assert message in done.err
    assert list(tmp_path.iterdir()) == []
    assert run("show", PREFIX, "step", "--out", "-").code == 2
    assert run("show", PREFIX, "step", "--to", "npy").code == 2


def test_values_in_a_pipe() -> None:
    done = ckpt("show", DTYPES, "vector/float64", "--out", "-", "--to", "csv")
    with open_checkpoint(DTYPES) as opened:
        expected = opened["vector/float64"]
    assert done.code == 0
    np.testing.assert_array_equal(np.array(done.out.splitlines(), np.float64), expected)


def test_a_dtype_that_numpy_lacks_is_warned_of(tmp_path: Path) -> None:
    path = os.fspath(tmp_path / "b.npy")
    done = run("show", DTYPES, "vector/bfloat16", "--out", path)
    assert done.code == 0 and "warning: " in done.err
    assert f"numpy.load('{path}').view(ml_dtypes.bfloat16)" in done.err


def test_on_a_terminal() -> None:
    text = on_terminal("show", PREFIX, "net/l1/bias", environ={"COLUMNS": "100"})
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert text != plain
    *lines, bars, _ = plain.split("\n")
    assert lines == run("show", PREFIX, "net/l1/bias").out.splitlines()
    assert re.fullmatch(r"3\.816 \|[ ▁▂▃▄▅▆▇█]{32}\| 4\.831", bars)


@pytest.mark.parametrize("environ", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colour(environ: dict[str, str]) -> None:
    assert ESCAPE not in on_terminal("show", PREFIX, "net", environ=environ)
    assert ESCAPE not in on_terminal("show", PREFIX, environ=environ)
    assert ESCAPE not in on_terminal("show", PREFIX, "--color", "never")


def test_colour_on_demand() -> None:
    assert ESCAPE in ckpt("show", PREFIX, "step", "--color", "always").out
    assert ESCAPE not in ckpt("show", PREFIX, "step").out


def test_a_narrow_terminal() -> None:
    text = on_terminal("show", PREFIX, "net/l1/bias", environ={"COLUMNS": "40", "NO_COLOR": "1"})
    lines = text.splitlines()
    values = [line for line in lines if line.startswith(("[", " "))]
    assert len(values) > 1 and all(len(line) <= 40 for line in values)
    assert len(lines[-1]) <= 40 and lines[-1].startswith("3.816 |")
    summary = on_terminal("show", PREFIX, environ={"COLUMNS": "40", "NO_COLOR": "1"})
    assert "objects     18 objects, 4 slot" in summary
    assert max(map(len, summary.splitlines()[1:])) <= 40


def test_odd_keys_and_strings_are_never_raw() -> None:
    for name in ("v2/tf2.21/odd_keys/odd", "v2/tf2.21/keys_not_utf8/bytes"):
        prefix = bundle(name).prefix
        for words in ([EVERYTHING], ["--stats"], [], [EVERYTHING, "--format", "table"]):
            text = ckpt("show", prefix, *words).out
            assert text and all(char.isprintable() or char in "\n\t" for char in text)
    text = run("show", DTYPES, "vector/string").out
    assert "\\x1b[31mred" in text and ESCAPE not in text


def test_an_odd_name_typed_as_it_is_printed_shows_the_tensor() -> None:
    prefix = bundle("v2/tf2.21/odd_keys/odd").prefix
    names = ckpt("ls", prefix, "--format", "names").out.splitlines()
    for name in names:
        done = run("show", prefix, f"={name}")
        # A name wider than the screen has a line of its own.
        assert done.code == 0 and done.out.startswith((f"{name}  ", f"{name}\n")), done.err


def test_the_reader_may_go_away() -> None:
    done = shell("$CKPT show --full $1 '**' | head -1; echo ${PIPESTATUS[0]}", words=[DTYPES])
    assert done.err == ""
    first, code = done.out.splitlines()
    assert first.startswith("vector/bfloat16") and code in ("0", "141")


def test_hostile_shapes(tmp_path: Path) -> None:
    made = handmade.Bundle()
    made.add(b"deep", 4, [1] * 100, b"\x07").add(b"new", 99, [2], b"\0\0")
    made.add(b"wide", 1, [0, 1 << 40], b"").add(b"fine", 4, [1], b"\x07")
    prefix = made.write(tmp_path / "odd")
    for key in ("deep", "new"):
        done = run("show", prefix, key)
        assert (done.code, done.out) == (2, "") and f"key '{key}'" in done.err
    assert "[]" in run("show", prefix, "wide").out
    assert document(prefix, "wide")["tensors"][0]["value"] == []
    assert run("show", prefix).code == 0


def test_deep_tensors_as_json(tmp_path: Path) -> None:
    prefix = handmade.Bundle().add(b"deep", 4, [1] * 32, b"\x07").write(tmp_path / "deep")
    (row,) = document(prefix, "deep")["tensors"]
    assert json.dumps(row["value"]) == "[" * 32 + "7" + "]" * 32
    assert "[" * 32 + "7" + "]" * 32 in run("show", prefix, "deep").out


def test_help_has_examples() -> None:
    done = run("show", "--help")
    assert done.code == 0
    for word in ("Examples", "--stats", "--precision", "--full", "--out", "net/l1/kernel[0:4,-1]"):
        assert word in done.out


@pytest.mark.large
def test_thousands_of_shards_are_no_reason_to_write_much(tmp_path: Path) -> None:
    """A tensor of a slice per shard, whose files are all the same one."""
    count = 600
    value = struct.pack("<2f", 1, 2)
    extents: list[encoder.Extents] = [[(at, 1), (0, 2)] for at in range(count)]
    made = handmade.Bundle(header=encoder.header(count), shards=[value], count=count)
    crc = encoder.masked_crc(value)
    for at, extent in enumerate(extents):
        stored = encoder.entry(1, [1, 2], shard=at, size=8, crc=crc)
        made.records[encoder.slice_key(b"w", extent)] = stored
    made.records[b"w"] = encoder.entry(1, [count, 2], slices=extents)
    prefix = made.write(tmp_path / "m")
    for at in range(1, count):
        os.link(handmade.shard_path(prefix, 0, count), handmade.shard_path(prefix, at, count))
    for words in (["show", prefix, "--stats"], ["show", prefix, "w"], ["verify", prefix]):
        text = on_terminal(*words, errors=True)
        assert len(text) < 2_000, text
    assert "1,200" in on_terminal("show", prefix, "--stats", errors=True)
