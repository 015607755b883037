"""`ckpt verify` as its users run it."""

from __future__ import annotations

import base64
import csv
import io
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, get_args

import pytest

from ckpttool.printable import printable
from ckpttool.query.verify.findings import CODES, Severity
from tests.query.verify.victims import GUIDE, Victim
from tests.support import encoder
from tests.support.command import ckpt, environment, shell
from tests.support.fixtures import FIXTURES
from tests.support.handmade import Bundle
from tests.support.limits import run_python
from tests.support.schemas import load_schema, validate

FOLDER = os.path.join(FIXTURES, GUIDE)
LATEST = os.path.join(FOLDER, "ckpt-5")
SAVER = "v2/tf1.15/saver/model.ckpt-3"
FORMATS = ("table", "plain", "json", "jsonl", "csv", "markdown", "names")


@pytest.fixture
def damaged(tmp_path: Path) -> Victim:
    """A checkpoint with one wrong tensor and one thing that is odd."""
    victim = Victim(SAVER, tmp_path)
    victim.flip(victim.shard(), 40)
    victim.append(victim.shard(), b"xyz")
    return victim


def document(*words: str, code: int = 0) -> dict[str, Any]:
    """Run `ckpt verify --json`, hold the output to its schema and return it."""
    done = ckpt("verify", "--json", *words)
    assert done.code == code, done.err
    assert done.out.isascii()
    found: dict[str, Any] = json.loads(done.out)
    validate(found, "ckpt.verify/1")
    return found


def test_json_of_a_sound_folder() -> None:
    found = document(FOLDER)
    assert found["schema"] == "ckpt.verify/1"
    assert (found["verdict"], found["fast"], found["strict"]) == ("ok", False, False)
    names = [os.path.basename(each["prefix"]) for each in found["reports"]]
    assert names == ["ckpt-3", "ckpt-4", "ckpt-5", "tf_ckpts"]
    assert [each["kind"] for each in found["reports"]] == ["checkpoint"] * 3 + ["folder"]
    first = found["reports"][0]
    assert first["source"]["style"] == "object" and first["data_read"]
    assert found["reports"][3]["source"] is None
    assert found["totals"] == {
        "checkpoints": 3,
        "tensors": 45,
        "bytes_read": sum(os.path.getsize(f"{FOLDER}/{n}.data-00000-of-00001") for n in names[:3]),
        "damage": 0,
        "unchecked": 0,
        "warnings": 0,
        "notes": 0,
    }
    assert {each["diagnosis"] for each in found["reports"]} == {None}


def test_json_of_damage(damaged: Victim) -> None:
    found = document(damaged.prefix, code=1)
    assert found["verdict"] == "damaged"
    (report,) = found["reports"]
    assert [each["code"] for each in report["findings"]] == ["trailing-bytes", "bad-crc"]
    wrong = report["findings"][1]
    assert wrong["message"].startswith("the bytes are damaged: crc32c 0x")
    del wrong["message"]
    assert wrong == {
        "code": "bad-crc",
        "severity": "damage",
        "path": damaged.shard(),
        "offset": 32,
        "size": 24,
        "key": "dense/kernel",
        "object_path": None,
        "name": None,
        "paths": [],
    }
    assert found["totals"]["damage"] == found["totals"]["notes"] == 1
    assert report["diagnosis"]["code"] == "flipped-bit"
    assert "one bit is flipped: byte 40 of" in report["diagnosis"]["message"]


def test_json_of_what_is_no_bundle(tmp_path: Path) -> None:
    victim = Victim(SAVER, tmp_path)
    victim.write(victim.index, b"nonsense")
    (report,) = document(victim.prefix, code=1)["reports"]
    # The header is guessed from the names of the shards.
    assert report["source"]["shards"] == 1 and report["tensors"] == 0
    os.unlink(f"{victim.prefix}.data-00000-of-00001")
    (report,) = document(victim.prefix, code=1)["reports"]
    assert report["source"] is None


def test_keys_that_are_not_utf8(tmp_path: Path) -> None:
    victim = Victim("v2/tf2.21/keys_not_utf8/bytes", tmp_path)
    victim.flip(victim.shard(), 0)
    (report,) = document(victim.prefix, code=1)["reports"]
    assert set(report["findings"][0]["key"]) == {"base64"}
    key = base64.b64decode(report["findings"][0]["key"]["base64"])
    spelled = printable(key.decode("utf-8", "surrogateescape"))
    assert "\\x" in spelled and f"\t{spelled}\t" in ckpt("verify", victim.prefix).out


@pytest.mark.parametrize("fast", [False, True])
def test_fast_is_never_plainly_ok(damaged: Victim, fast: bool) -> None:
    os.truncate(damaged.shard(), 160)
    words = [damaged.prefix, *(["--fast"] if fast else [])]
    found = document(*words, code=0 if fast else 1)
    assert found["verdict"] == ("structure-ok" if fast else "damaged")
    assert found["totals"]["bytes_read"] == (0 if fast else 160)
    if fast:
        assert found["reports"][0]["data_read"] is False
        for format in ("table", "plain"):
            out = ckpt("verify", *words, "--format", format).out
            assert "structure-ok" in out and "data not read" in out


def test_exit_codes(damaged: Victim, tmp_path: Path) -> None:
    assert ckpt("verify", LATEST).code == 0
    assert ckpt("verify", damaged.prefix).code == 1
    assert ckpt("verify", os.path.join(FIXTURES, "v1/tf1.15/saver")).code == 0
    # Damage is the answer even if something else could not be looked at, else that is.
    for paths, code in (
        ((LATEST, "nowhere"), 2),
        (("nowhere", damaged.prefix, LATEST), 1),
        ((LATEST, damaged.prefix), 1),
        ((LATEST, FOLDER), 0),
    ):
        done = ckpt("verify", *paths)
        assert done.code == code
        assert ("no such checkpoint" in done.err) == ("nowhere" in paths)
        assert LATEST in done.out


def test_strict_takes_warnings_for_damage(tmp_path: Path) -> None:
    victim = Victim(SAVER, tmp_path)
    victim.append(victim.shard(), b"xyz")
    # A note is none.
    assert ckpt("verify", victim.prefix, "--strict").code == 0
    shutil.copy(victim.shard(), f"{victim.prefix}.data-00000-of-00002")
    assert ckpt("verify", victim.prefix).code == 0
    done = ckpt("verify", victim.prefix, "--strict")
    assert done.code == 1 and "\tdamaged\t" in done.out
    assert ckpt("verify", victim.prefix, environ={"CKPT_VERIFY_STRICT": "1"}).code == 1
    assert document(victim.prefix, "--strict", code=1)["strict"] is True


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere/ckpt-1"], "there is no folder 'nowhere'"),
        ([LATEST[:-1] + "6"], "nearest: "),
        ([FIXTURES], "no checkpoint in the folder"),
        ([os.path.join(FIXTURES, "README.md")], "not a file of a checkpoint"),
        (["/dev/null"], "not a regular file"),
        ([LATEST, "--jobs", "0"], "--jobs"),
        ([], "PATH"),
    ],
)
def test_what_cannot_be_done_is_exit_2_and_a_line(words: list[str], message: str) -> None:
    done = ckpt("verify", *words)
    assert (done.code, done.out) == (2, "")
    assert message in done.err and "Traceback" not in done.err
    assert len(done.err.splitlines()) <= 2


def test_for_people(damaged: Victim) -> None:
    base = os.path.basename(damaged.prefix)
    out = ckpt("verify", damaged.prefix, LATEST, "--format", "table").out
    lines = out.splitlines()
    assert lines[0].startswith(f"{damaged.prefix}: DAMAGED: one bit is flipped: byte 40 of '{base}")
    assert lines[1] == "  11 tensors, 163 B in 1 data shard"
    assert lines[2:4] == [
        f"  damage bad-crc: {base}.data-00000-of-00001, bytes 32 to 55",
        "    dense/kernel",
    ]
    assert lines[5] == f"{LATEST}: ok: 14 tensors and the object graph, 2.6 KiB in 1 data shard"
    assert lines[6:] == ["2 checkpoints: 1 ok, 1 damaged"]
    lines = ckpt("verify", damaged.prefix, "-v", "--format", "table").out.splitlines()
    assert lines[2:4] == [
        f"  note trailing-bytes: {base}.data-00000-of-00001, bytes 160 to 162",
        "    3 bytes after the last tensor belong to none",
    ]


def test_rows(damaged: Victim) -> None:
    out = ckpt("verify", damaged.prefix).out
    rows = [line.split("\t") for line in out.splitlines()]
    columns = ["checkpoint", "result", "code", "file", "offset", "bytes", "object_path", "message"]
    assert rows[0] == columns
    assert [row[1] for row in rows[1:]] == ["note", "damage", "damaged"]
    assert rows[2][2:7] == ["bad-crc", damaged.shard(), "32", "24", "dense/kernel"]
    assert all(len(row) == 8 and row[0] == damaged.prefix for row in rows[1:])
    table = list(csv.reader(io.StringIO(ckpt("verify", damaged.prefix, "--format", "csv").out)))
    assert table[0] == columns and table[2][6] == "dense/kernel"
    lines = ckpt("verify", damaged.prefix, LATEST, "--format", "jsonl").out.splitlines()
    assert [json.loads(line)["verdict"] for line in lines] == ["damaged", "ok"]


def test_names_are_those_of_what_is_not_sound(damaged: Victim) -> None:
    done = ckpt("verify", LATEST, damaged.prefix, "--format", "names")
    assert (done.code, done.out) == (1, f"{damaged.prefix}\n")
    done = ckpt("verify", LATEST, "--format", "names")
    assert (done.code, done.out) == (0, "")


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_keeps_the_terminal_safe(tmp_path: Path, format: str) -> None:
    victim = Victim(SAVER, tmp_path)
    evil = "net/\x1b[31mred\u202e\nline"
    record = victim.records()[b"dense/bias"]
    victim.change(lambda records: records.update({evil.encode(): record}))
    victim.flip(victim.shard(), 9)
    done = ckpt("verify", victim.prefix, "--format", format)
    assert done.code == 1
    assert "\x1b" not in done.out and "\u202e" not in done.out
    assert all(line.isprintable() for line in done.out.replace("\t", "").splitlines())


def test_colour_only_where_it_is_wanted(damaged: Victim) -> None:
    words = ("verify", damaged.prefix, "--format", "table")
    plain = ckpt(*words).out
    coloured = ckpt(*words, "--color", "always").out
    assert "\x1b[1;31mDAMAGED" in coloured and "\x1b" not in plain
    assert ckpt(*words, environ={"FORCE_COLOR": "1", "NO_COLOR": "1"}).out == plain


def test_verbose_tells_the_address_and_the_pace() -> None:
    err = ckpt("verify", "-v", os.path.join(FOLDER, "checkpoint")).err
    first, second = err.splitlines()
    assert first == f"ckpt: {FOLDER}/checkpoint is the V2 checkpoint {LATEST}"
    assert second.startswith(f"ckpt: {LATEST}: 2.6 KiB in ")
    assert second.endswith(" a second")
    assert ckpt("verify", FOLDER).err == ""


def test_a_stale_state_file_is_damage(tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / "ckpts")
    state = tmp_path / "ckpts" / "checkpoint"
    state.write_text('model_checkpoint_path: "/gone/ckpt-6"\n')
    done = ckpt("verify", str(tmp_path / "ckpts"), "--format", "table")
    assert done.code == 1
    told = "the state file names a latest checkpoint that is not here"
    lines = f"{tmp_path}/ckpts: DAMAGED: {told}\n  the rest of the folder\n  damage state-stale:"
    assert lines in done.out


def test_many_jobs_find_the_same(damaged: Victim) -> None:
    outs = {ckpt("verify", damaged.prefix, FOLDER, "-j", jobs).out for jobs in ("1", "2", "9")}
    assert len(outs) == 1


def test_nothing_heavy_is_imported_for_what_can_be_done_without() -> None:
    program = """
import sys
from ckpttool.cli.main import main
code = main(sys.argv[1:])
heavy = ("numpy", "google.protobuf", "rich", "ml_dtypes", "jsonschema")
print(code, [name for name in heavy if name in sys.modules])
"""
    name_based = os.path.join(FIXTURES, SAVER)
    for words in (["--fast", FOLDER], ["--fast", name_based]):
        out = run_python(program, "verify", *words).stdout
        assert out.splitlines()[-1] == "0 []"
    # There is a MetaGraph beside it, whose variables are looked at.
    out = run_python(program, "verify", name_based).stdout
    assert out.splitlines()[-1] == "0 ['google.protobuf']"
    # Partitioned tensors need no arrays, and object graphs no messages.
    sliced = os.path.join(FIXTURES, "v2/tf2.21/partitioned_grid/model")
    assert run_python(program, "verify", sliced).stdout.splitlines()[-1] == "0 []"
    assert run_python(program, "verify", LATEST).stdout.splitlines()[-1] == "0 []"


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    many = Victim("v2/tf2.21/many_keys/many", tmp_path)
    many.write(many.shard(), bytes(480))
    done = shell('set -o pipefail; $CKPT verify "$1" | head -1', words=[many.prefix])
    assert done.out.startswith("checkpoint\tresult\t")
    assert done.err == "" and done.code in (1, 141)
    full = shell('$CKPT verify "$1" > /dev/full', words=[many.prefix])
    assert full.code == 2 and "No space left" in full.err


def huge(folder: Path, size: int = 256 << 30) -> str:
    """Write a checkpoint of one sparse tensor, which takes minutes to read."""
    made = Bundle()
    made.records[b"w"] = encoder.entry(4, (size,), size=size, crc=1)
    prefix = made.write(folder / "huge")
    os.truncate(f"{prefix}.data-00000-of-00001", size)
    return prefix


@pytest.mark.sweep(2)
@pytest.mark.parametrize("jobs", ["1", "3"])
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_it_can_be_stopped(tmp_path: Path, stop: signal.Signals, jobs: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "ckpttool", "verify", huge(tmp_path), "-j", jobs],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    time.sleep(1.5)
    process.send_signal(stop)
    out, err = process.communicate(timeout=20)
    if stop == signal.SIGINT:
        assert (process.returncode, err) == (130, b"ckpt: interrupted\n")
    else:
        assert (process.returncode, err) == (-signal.SIGTERM, b"")
    assert out == b""


def test_a_bar_on_a_terminal_and_only_there(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    env = environment({"TERM": "xterm", "COLUMNS": "80"})
    process = subprocess.Popen(
        [sys.executable, "-m", "ckpttool", "verify", huge(tmp_path), "--color", "never"],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env=env,
    )
    os.close(theirs)
    shown = b""
    deadline = time.monotonic() + 30
    while b"GiB" not in shown and time.monotonic() < deadline:
        shown += os.read(ours, 4096)
    process.send_signal(signal.SIGINT)
    while True:
        try:
            more = os.read(ours, 4096)
        except OSError:
            break
        if not more:
            break
        shown += more
    out, _ = process.communicate(timeout=20)
    os.close(ours)
    assert b"verifying" in shown and b"256.0 GiB" in shown
    assert shown.endswith(b"ckpt: interrupted\r\n")
    assert (process.returncode, out) == (130, b"")


def test_the_source_is_not_touched(damaged: Victim, tmp_path: Path) -> None:
    def state() -> dict[str, tuple[int, int, int]]:
        statuses = {name: os.stat(tmp_path / name) for name in os.listdir(tmp_path)}
        return {n: (s.st_mtime_ns, s.st_ino, s.st_size) for n, s in statuses.items()}

    before = state()
    ckpt("verify", str(damaged.prefix))
    assert state() == before


def test_the_manual_has_every_code_under_its_severity() -> None:
    page = (Path(FIXTURES).parent / "man" / "ckpt-verify.1").read_text(encoding="ascii")
    _, _, rest = page.partition("\n.SH FINDINGS\n")
    listed: dict[str, list[str]] = {}
    for line in rest.partition("\n.SH ")[0].splitlines():
        if line.startswith(".SS "):
            current = listed.setdefault(line[4:].lower().removesuffix("s"), [])
        elif line.startswith(".B "):
            current.append(line[3:].replace("\\-", "-"))
    found = {
        severity: [c for c in CODES if CODES[c] == severity] for severity in get_args(Severity)
    }
    assert {severity: sorted(each) for severity, each in listed.items()} == {
        severity: sorted(each) for severity, each in found.items()
    }


def test_the_schema_has_every_code() -> None:
    finding = load_schema("ckpt.verify/1")["$defs"]["finding"]["properties"]
    assert set(finding["code"]["enum"]) == set(CODES)
    assert tuple(finding["severity"]["enum"]) == get_args(Severity)


def test_many_findings_of_a_kind_are_folded_for_people_alone(tmp_path: Path) -> None:
    victim = Victim("v2/tf2.21/many_keys/many", tmp_path)
    os.truncate(victim.shard(), 0)
    table = ckpt("verify", victim.prefix, "--format", "table")
    assert table.code == 1
    whole = json.loads(ckpt("verify", victim.prefix, "--json").out)
    (report,) = whole["reports"]
    short = [each for each in report["findings"] if each["code"] == "shard-short"]
    assert 20 < len(short) == whole["totals"]["damage"]
    lines = table.out.splitlines()
    assert lines[0].startswith(f"{victim.prefix}: DAMAGED: the data shard is empty")
    assert table.out.count("damage shard-short") == 1 and len(lines) < 20
    assert f"    {len(short):,} tensors: the data shard ends at byte 0" in lines
    every = ckpt("verify", victim.prefix, "-v", "--format", "table").out
    assert every.count("damage shard-short") == len(short)


@pytest.mark.parametrize("format", ["table", "plain", "csv", "markdown"])
def test_a_backslash_is_spelled_once(format: str, tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / "ckpts")
    (tmp_path / "ckpts" / "checkpoint").write_text(
        'model_checkpoint_path: "C:\\\\runs\\\\ckpt-5"\n'
    )
    done = ckpt("verify", str(tmp_path / "ckpts"), "--format", format)
    assert done.code == 0
    mark = "\\" if format == "markdown" else ""
    assert f"names 'C:{mark}\\{mark}\\runs" in done.out
