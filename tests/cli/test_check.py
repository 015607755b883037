"""`ckpt check` as its users run it: every exit code, from the real process."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import ckpttool
from tests.support.command import Outcome, ckpt, environment, shell
from tests.support.fixtures import FIXTURES, bundle
from tests.support.schemas import validate

FOLDER = os.path.join(FIXTURES, "v2/tf2.21/guide_legacy_adam_resumed/tf_ckpts")
LATEST = os.path.join(FOLDER, "ckpt-10")
FORMATS = (
    "table",
    "plain",
    "json",
    "jsonl",
    "csv",
    "markdown",
    "names",
    "github",
    "junit",
)
TENSORS = {
    "net/w": np.zeros((2, 3), np.float32),
    "net/b": np.ones(3, np.float32),
    "step": np.array(7, np.int64),
}


def save(folder: Path, **changes: Any) -> str:
    tensors = {**TENSORS, **{name.replace("__", "/"): value for name, value in changes.items()}}
    there = {name: value for name, value in tensors.items() if value is not None}
    for path in folder.glob("model.[di]*"):
        path.unlink()
    ckpttool.save_checkpoint(str(folder / "model"), there)
    return str(folder / "model")


@pytest.fixture
def lock(tmp_path: Path) -> str:
    path = tmp_path / "model.lock.json"
    done = ckpt("check", save(tmp_path), "--against", str(path), "--update")
    assert done.code == 0
    return str(path)


def against(lock: str, *words: str, code: int) -> Outcome:
    done = ckpt("check", *words, "--against", lock)
    assert done.code == code, done
    assert "Traceback" not in done.err
    return done


def document(lock: str, *words: str, code: int) -> dict[str, Any]:
    done = against(lock, "--json", *words, code=code)
    assert done.out.isascii()
    found: dict[str, Any] = json.loads(done.out)
    validate(found, "ckpt.check/1")
    return found


def refused(done: Outcome, *parts: str) -> None:
    """Expect exit 2, one line on stderr, and nothing that might be taken for an answer."""
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("ckpt: ") and done.err.count("\n") == 1
    for part in parts:
        assert part in done.err


@pytest.mark.parametrize("format", FORMATS)
def test_as_it_should_be(format: str, lock: str, tmp_path: Path) -> None:
    done = against(lock, str(tmp_path / "model"), "--format", format, code=0)
    assert done.err == ""
    if format in ("table", "markdown", "github"):
        assert "ok" in done.out and done.out.count("\n") == 1


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"step": None}, "missing"),
        ({"more": np.zeros(1)}, "extra"),
        ({"step": np.array(7, np.int32)}, "dtype"),
        ({"net__b": np.ones(4, np.float32)}, "shape"),
        ({"net__w": np.zeros((3, 2), np.float32)}, "shape"),
    ],
)
def test_each_difference(changes: dict[str, Any], problem: str, lock: str, tmp_path: Path) -> None:
    done = against(lock, save(tmp_path, **changes), code=1)
    (name,) = (key.replace("__", "/") for key in changes)
    assert f"\n{name}\t{problem}\t" in done.out and done.err == ""


@pytest.mark.parametrize("format", FORMATS)
def test_a_difference_in_each_form(format: str, lock: str, tmp_path: Path) -> None:
    done = against(lock, save(tmp_path, step=None), "--format", format, code=1)
    assert "step" in done.out and done.err == ""
    assert ("missing" in done.out) == (format != "names")


def test_json_of_differences(lock: str, tmp_path: Path) -> None:
    prefix = save(tmp_path, step=None, net__w=np.zeros((2, 4), np.float16))
    found = document(lock, prefix, code=1)
    assert found["verdict"] == "failed" and found["lock"] == lock
    assert found["source"]["prefix"] == prefix
    told = [(each["problem"], each["key"], each["line"]) for each in found["findings"]]
    assert told == [("missing", "step", 7), ("dtype", "net/w", 6), ("shape", "net/w", 6)]
    lines = Path(lock).read_text().splitlines()
    assert all(f'"key": "{key}"' in lines[line - 1] for _, key, line in told)


def test_plain_is_what_a_script_expects(lock: str, tmp_path: Path) -> None:
    done = against(lock, save(tmp_path, step=None), code=1)
    assert done.out == "key\tproblem\tlocked\tfound\tline\nstep\tmissing\tint64 []\t-\t7\n"
    text = against(lock, str(tmp_path / "model"), "--format", "csv", code=1).out
    assert list(csv.reader(io.StringIO(text)))[1] == ["step", "missing", "int64 []", "", "7"]


def test_allow_extra(lock: str, tmp_path: Path) -> None:
    prefix = save(tmp_path, more=np.zeros(1))
    against(lock, prefix, code=1)
    against(lock, prefix, "--allow-extra", code=0)
    against(lock, save(tmp_path, step=None), "--allow-extra", code=1)


def test_ignore(lock: str, tmp_path: Path) -> None:
    prefix = save(tmp_path, step=None, more=np.zeros(1), net__w=np.zeros(1))
    against(lock, prefix, "--ignore", "step", "--ignore", "more", code=1)
    against(lock, prefix, "--ignore", "step", "--ignore", "more", "--ignore", "net/w", code=0)
    refused(ckpt("check", prefix, "--against", lock, "--ignore", "stepp"), "selects nothing")
    refused(ckpt("check", prefix, "--against", lock, "--ignore", "**"), "no tensor is selected")


def test_selection(lock: str, tmp_path: Path) -> None:
    prefix = save(tmp_path, step=None)
    against(lock, prefix, "net", code=0)
    against(lock, prefix, "-x", "step", code=0)
    against(lock, prefix, "step", code=1)
    refused(ckpt("check", prefix, "--against", lock, "nett"), "nearest: 'net'")
    against(lock, prefix, "--kind", "weight", code=0)
    against(lock, prefix, "--kind", "step", code=1)
    refused(ckpt("check", prefix, "--against", lock, "--kind", "ema"), "no tensor is selected")


@pytest.mark.parametrize(
    ("value", "words"), [(np.nan, "1 NaN"), (np.inf, "1 Inf"), (-np.inf, "1 Inf")]
)
def test_finite(value: float, words: str, lock: str, tmp_path: Path) -> None:
    weights = np.array([[0, 0, 0], [0, value, 0]], np.float32)
    prefix = save(tmp_path, net__w=weights)
    against(lock, prefix, code=0)
    done = against(lock, prefix, "--finite", "--format", "table", code=1)
    assert f"{words} among 6, the first at [1, 1]" in done.out
    found = document(lock, prefix, "--finite", code=1)
    (each,) = found["findings"]
    assert (each["problem"], each["first"], each["line"]) == ("not-finite", [1, 1], 6)
    against(lock, prefix, "--finite", "--ignore", "net/w", code=0)
    assert ckpt("check", prefix, "--finite").code == 1
    assert ckpt("check", save(tmp_path), "--finite").code == 0


def test_crc(lock: str, tmp_path: Path) -> None:
    prefix = save(tmp_path)
    refused(ckpt("check", prefix, "--against", lock, "--crc"), lock, "the lock has no crc32c")
    done = ckpt("check", prefix, "--against", lock, "--crc", "--update")
    assert done.code == 0 and "updated" in done.err
    against(lock, prefix, "--crc", code=0)
    prefix = save(tmp_path, step=np.array(8, np.int64))
    against(lock, prefix, code=0)
    assert "crc32c" in against(lock, prefix, "--crc", code=1).out


def test_what_ls_prints_is_a_lock(tmp_path: Path) -> None:
    line = '$CKPT ls "$1" --json > lock.json && $CKPT check "$1" --against lock.json --crc'
    assert shell(line, words=[LATEST], folder=str(tmp_path)).code == 0
    assert LATEST in (tmp_path / "lock.json").read_text()
    other = os.path.join(FOLDER, "ckpt-9")
    assert ckpt("check", other, "--against", str(tmp_path / "lock.json")).code == 0
    assert ckpt("check", other, "--against", str(tmp_path / "lock.json"), "--crc").code == 1
    pipe = '$CKPT ls "$1" --json | $CKPT check "$2" --against -'
    assert shell(pipe, words=[LATEST, other]).code == 0
    saver = bundle("v2/tf2.21/saver_v2/model.ckpt-3").prefix
    assert shell(pipe, words=[LATEST, saver]).code == 1
    assert shell('$CKPT check "$1" --against <($CKPT ls "$1" --json)', words=[LATEST]).code == 0


def test_update_creates_updates_and_leaves_alone(tmp_path: Path) -> None:
    lock = tmp_path / "a.lock"
    words = ("--against", str(lock), "--update")
    done = ckpt("check", save(tmp_path), *words)
    assert (done.code, done.err) == (0, f"ckpt: {lock}: created: 3 tensors; all new\n")
    before = lock.read_text()
    done = ckpt("check", str(tmp_path / "model"), *words)
    assert (done.code, done.err) == (0, f"ckpt: {lock}: unchanged: 3 tensors; none changed\n")
    assert lock.read_text() == before
    done = ckpt("check", save(tmp_path, step=None, more=np.zeros(1)), *words)
    assert done.code == 0
    assert done.err == f"ckpt: {lock}: updated: 3 tensors; 1 removed, 1 added\n"
    assert [line.split("\t")[:2] for line in done.out.splitlines()[1:]] == [
        ["step", "missing"],
        ["more", "extra"],
    ]
    found = document(str(lock), str(tmp_path / "model"), "--update", code=0)
    assert (found["update"], found["findings"]) == ("unchanged", [])
    assert against(str(lock), str(tmp_path / "model"), code=0).err == ""
    table = ckpt("check", save(tmp_path), *words, "--format", "table")
    assert (table.code, table.err) == (0, "") and table.out.startswith(f"{lock}: updated: ")


def test_update_of_what_is_no_lock_touches_nothing(tmp_path: Path) -> None:
    prefix = save(tmp_path)
    for name, text in (
        ("model.index", None),
        ("conflict", "<<<<<<< ours\n{}\n"),
        ("newer", '{"schema": "ckpt.ls/2", "tensors": []}'),
    ):
        path = tmp_path / name
        if text is not None:
            path.write_text(text)
        before = path.read_bytes()
        refused(ckpt("check", prefix, "--against", str(path), "--update"), str(path))
        assert path.read_bytes() == before


@pytest.mark.parametrize("words", [(), ("--finite",), ("--update",), ("--crc",)])
def test_bad_checkpoints_are_never_as_they_should_be(
    words: tuple[str, ...], lock: str, tmp_path: Path
) -> None:
    prefix = save(tmp_path)
    index, data = Path(f"{prefix}.index"), next(tmp_path.glob("model.data-*"))
    good = {path: path.read_bytes() for path in (index, data, Path(lock))}
    cut = bytearray(good[index])
    cut[10] ^= 1
    for damage, part in (
        (lambda: index.unlink(), "its index 'model.index' does not"),
        (lambda: data.unlink(), f"{data}: the data shard is missing"),
        (lambda: os.truncate(data, len(good[data]) - 1), f"{data}: key"),
        (lambda: os.truncate(index, 60), str(index)),
        (lambda: index.write_bytes(b""), str(index)),
        (lambda: index.write_bytes(cut), str(index)),
        (lambda: index.write_bytes(b"version https://git-lfs.github.com/spec/v1\n"), str(index)),
    ):
        damage()
        refused(ckpt("check", prefix, "--against", lock, *words), part)
        for path, content in good.items():
            path.write_bytes(content)


@pytest.mark.parametrize("format", FORMATS)
def test_damaged_values(format: str, lock: str, tmp_path: Path) -> None:
    prefix = save(tmp_path, step=None)
    (data,) = tmp_path.glob("model.data-*")
    damaged = bytearray(data.read_bytes())
    damaged[0] ^= 1
    data.write_bytes(damaged)
    against(lock, prefix, "--format", format, code=1)
    done = against(lock, prefix, "--finite", "--format", format, code=2)
    for key in ("step", "net/b"):
        assert key in done.out
    if format == "junit":
        root = ElementTree.fromstring(done.out)
        assert (root.attrib["failures"], root.attrib["errors"]) == ("1", "1")
    if format == "json":
        assert json.loads(done.out)["verdict"] == "unknown"
    assert ckpt("check", prefix, "--finite", "net/w").code == 0


def test_a_dtype_that_is_not_known_cannot_be_searched(tmp_path: Path) -> None:
    from tests.support.handmade import Bundle

    prefix = Bundle().add(b"w", 99, (1,), bytes(4)).write(tmp_path / "x")
    done = ckpt("check", prefix, "--finite")
    assert done.code == 2 and "w\tunreadable" in done.out


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (b"", "line 1, column 1: it is not JSON"),
        (b"\xff\xfe", "it is not UTF-8"),
        (b"{}", "it has no member schema"),
        (b'{"schema": "ckpt.ls/2", "tensors": []}', "schema 'ckpt.ls/2'; this version of ckpt"),
        (b'{"schema": "ckpt.ls/1", "tensors": [{}]}', "tensors[0]: it has no member shape"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"schema": "ckpt.ls/1", "tree": []}', "it has no tensors, but tree"),
    ],
)
def test_bad_locks(text: bytes, part: str, tmp_path: Path) -> None:
    lock = tmp_path / "x.lock"
    lock.write_bytes(text)
    refused(ckpt("check", save(tmp_path), "--against", str(lock)), str(lock), part)


def test_no_lock(tmp_path: Path) -> None:
    lock = str(tmp_path / "x.lock")
    refused(ckpt("check", save(tmp_path), "--against", lock), f"{lock}: no such file")


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ((), "there is nothing to check: give --against LOCK, --graph, or --finite"),
        (("--crc",), "there is nothing to check"),
        (("--finite", "--allow-extra"), "need --against LOCK"),
        (("--finite", "--update"), "need --against LOCK"),
        (("--against", "x", "--update", "--finite"), "--update checks nothing"),
        (("--against", "x", "--update", "--allow-extra"), "--update checks nothing"),
        (("--against", "x", "--update", "--format", "github"), "--update checks nothing"),
        (("--against", "x", "--update", "--format", "junit"), "--update checks nothing"),
        (("--against", "-", "--update"), "--update needs a file to write"),
        (("--against", "x", "--format", "xml"), "Invalid value for '--format'"),
    ],
)
def test_usage(words: tuple[str, ...], part: str, tmp_path: Path) -> None:
    done = ckpt("check", LATEST, *words, folder=str(tmp_path))
    assert (done.code, done.out) == (2, "")
    assert part in done.err and os.listdir(tmp_path) == []


def test_options_from_the_environment(lock: str, tmp_path: Path) -> None:
    prefix = save(tmp_path, more=np.zeros(1), step=None)
    environ = {
        "CKPT_CHECK_AGAINST": lock,
        "CKPT_CHECK_IGNORE": "step",
        "CKPT_CHECK_ALLOW_EXTRA": "1",
        "CKPT_CHECK_FORMAT": "github",
    }
    done = ckpt("check", prefix, environ=environ)
    assert done.code == 0 and done.out.startswith("ckpt check: ok")


def test_the_checkpoint_is_not_written_to(lock: str, tmp_path: Path) -> None:
    prefix = save(tmp_path)
    paths = sorted(tmp_path.glob("model.*"))
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}
    for words in (("--finite",), ("--crc",), ("--update",)):
        ckpt("check", prefix, "--against", lock, *words)
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in paths} == before


def test_keys_that_are_not_utf8(tmp_path: Path) -> None:
    prefix = bundle("v2/tf2.21/keys_not_utf8/bytes").prefix
    lock = str(tmp_path / "lock")
    assert ckpt("check", prefix, "--against", lock, "--update").code == 0
    against(lock, prefix, "--finite", code=0)
    text = Path(lock).read_text()
    row = next(line for line in text.splitlines() if '"key": {"base64"' in line)
    Path(lock).write_text(text.replace(row, row.replace('"dtype": "', '"dtype": "x')))
    found = document(lock, prefix, code=1)
    assert found["findings"][0]["line"] == text.splitlines().index(row) + 1
    assert "\\x" in against(lock, prefix, code=1).out


@pytest.mark.parametrize("width", ["40", "120"])
def test_table_on_a_terminal(width: str, lock: str, tmp_path: Path) -> None:
    prefix = save(tmp_path, step=None, net__w=np.zeros(9, np.float16))
    environ = {"COLUMNS": width, "FORCE_COLOR": "1"}
    done = ckpt("check", prefix, "--against", lock, "--format", "table", environ=environ)
    assert done.code == 1 and "\x1b[1;31mFAILED:\x1b[0m" in done.out
    for word in ("step", "missing", "float16", "[9]", "[2, 3]"):
        assert word in done.out


def test_nothing_heavy_is_imported_without_need(lock: str, tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from ckpttool.cli.main import main\n"
        "code = main(sys.argv[1:])\n"
        "heavy = ('numpy', 'ml_dtypes', 'google', 'rich', 'cramjam', 'xml', 'jsonschema')\n"
        "print(code, [name for name in heavy if name in sys.modules], file=sys.stderr)\n"
    )
    prefix = save(tmp_path)
    for words, wanted in (
        (("check", prefix, "--against", lock), "0 []"),
        (("check", prefix, "--against", lock, "--update"), "0 []"),
        (("check", prefix, "--against", lock, "--format", "github"), "0 []"),
        (("check", prefix, "--against", lock, "--finite"), "0 ['numpy']"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", code, *words],
            env=environment(),
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr.splitlines()[-1] == wanted


def test_help_tells_the_exit_codes() -> None:
    done = ckpt("check", "--help")
    assert done.code == 0 and "Exit code 0" in done.out and "--against LOCK" in done.out


def test_a_folder_stands_for_its_latest_checkpoint(tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / "ckpts")
    lock = str(tmp_path / "lock")
    assert ckpt("check", LATEST, "--against", lock, "--update").code == 0
    done = ckpt("check", "ckpts", "--against", "lock", "-v", folder=str(tmp_path))
    assert done.code == 0 and "ckpts is the V2 checkpoint ckpts/ckpt-10" in done.err
