"""What came of a check, in every form, whatever the names of tensors are."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from ckpttool.errors import ChecksumError
from ckpttool.printable import printable
from ckpttool.query.check.findings import PROBLEMS, LockFinding, LockReport, Problem
from ckpttool.query.check.finite import NonFinite
from ckpttool.query.metagraph.variables import VariableRow
from ckpttool.query.rows import SliceRow, TensorRow
from ckpttool.query.source import Source
from ckpttool.render.check.text import write_report
from ckpttool.render.console import Terminal
from tests.support.schemas import validate

SOURCE = Source("ckpts", "ckpts/ckpt-5", "V2", "name", 1, "little", 9, 99, ())
NASTY = [
    "a|b`c``d|",
    "::error::x",
    "##[add-mask]x",
    "100%\r\n::warning::x",
    "a,b:c=d",
    "<b>&amp;\"'</b>]]>",
    "\x00\x01\x0b\x1b[31m\x7f\x85",
    "\u202ereversed\u2028\ufffe\uffff\U0001fffe",
    "\udcff\udc80",
    "é/ü/漢字/🜚",
    "-dash",
    "=1+1",
    " spaces ",
    "\\n",
]
SIZE = re.compile(r"\x1b\[[0-9;]*m")


def row(key: str, dtype: str = "float32", *shape: int, crc: int | None = None) -> TensorRow:
    return TensorRow(key, None, dtype, shape, "weight", 1, 4, 0, 0, crc)


def finding(
    problem: Problem, key: str = "net/w", line: int | None = 7, path: str = "x"
) -> LockFinding:
    locked, found = row(key, "float32", 2, 3, crc=1), row(key, "float16", 3, 2, crc=0xABCDEF01)
    if problem == "missing":
        return LockFinding(problem, locked, None, line)
    if problem == "extra":
        return LockFinding(problem, None, found)
    if problem.startswith("graph-"):
        variable = VariableRow(key, "w", "float32", (2, -1), None, None, True)
        if problem == "graph-extra":
            variable = VariableRow(key, None, None, None, "float16", (3, 2), None)
        there = None if problem == "graph-missing" else found
        return LockFinding(problem, None, there, line, graph=variable)
    if problem == "not-finite":
        return LockFinding(problem, locked, found, line, nonfinite=NonFinite(1200, 1, (0, 1)))
    if problem == "unreadable":
        error = ChecksumError("bad bytes", stored=1, computed=2, path=path, offset=4, key=key)
        return LockFinding(problem, locked, found, line, error=error)
    return LockFinding(problem, locked, found, line)


def report(findings: Iterable[LockFinding] = (), *, lock: str | None = "m.json") -> LockReport:
    findings = list(findings)
    keys = {each.tensor.key: each.tensor for each in findings}
    tensors = [row("fine"), *keys.values()]
    return LockReport(SOURCE, lock, tensors, compared=1 + len(keys), ignored=0, findings=findings)


ALL = report(map(finding, PROBLEMS))


def shown(what: LockReport, format: str, terminal: Terminal | None = None) -> str:
    out = io.StringIO()
    write_report(what, format, out, terminal or Terminal())
    return out.getvalue()


def test_plain() -> None:
    lines = shown(ALL, "plain").splitlines()
    assert lines[0].split("\t") == ["key", "problem", "locked", "found", "line"]
    assert [line.split("\t")[1:] for line in lines[1:]] == [
        ["missing", "float32 [2, 3]", "-", "7"],
        ["extra", "-", "float16 [3, 2]", "-"],
        ["dtype", "float32", "float16", "7"],
        ["shape", "[2, 3]", "[3, 2]", "7"],
        ["crc32c", "00000001", "abcdef01", "7"],
        ["graph-missing", "float32 [2, ?]", "-", "7"],
        ["graph-extra", "-", "float16 [3, 2]", "7"],
        ["graph-dtype", "float32 [2, ?]", "float16 [3, 2]", "7"],
        ["graph-shape", "float32 [2, ?]", "float16 [3, 2]", "7"],
        ["not-finite", "-", "1,200 NaN and 1 Inf among 1, the first at [0, 1]", "7"],
        [
            "unreadable",
            "-",
            "x: byte 4: bad bytes: crc32c 0x00000002, stored 0x00000001",
            "7",
        ],
    ]
    assert shown(report(), "plain") == "\t".join(lines[0].split("\t")) + "\n"


def test_names_come_once() -> None:
    assert shown(ALL, "names") == "net/w\n"
    assert shown(report(), "names") == ""


@pytest.mark.parametrize(
    ("nonfinite", "shape", "text"),
    [
        (NonFinite(1, 0, ()), (), "1 NaN"),
        (NonFinite(0, 1, ()), (), "1 Inf"),
        (NonFinite(2, 0, (3,)), (1,), "2 NaN among 1, the first at [3]"),
        (NonFinite(0, 2, (3,)), (1,), "2 Inf among 1, the first at [3]"),
    ],
)
def test_numbers_that_are_not_finite(
    nonfinite: NonFinite, shape: tuple[int, ...], text: str
) -> None:
    found = LockFinding("not-finite", None, row("w", "float32", *shape), nonfinite=nonfinite)
    assert shown(report([found]), "plain").splitlines()[1].split("\t")[3] == text


def test_checksums_of_slices() -> None:
    slices = tuple(SliceRow(f"{at},1:-", 0, None, None, at) for at in range(2))
    locked = row("w")._replace(slices=slices)
    line = shown(report([LockFinding("crc32c", locked, row("w"))]), "plain").splitlines()[1]
    assert line == "w\tcrc32c\t0,1:-: 00000000, 1,1:-: 00000001\t-\t-"
    text = shown(report([LockFinding("crc32c", row("w"), locked)]), "jsonl")
    assert "crc32c is 0,1:-: 00000000, 1,1:-: 00000001; the lock has none" in text
    text = shown(report([LockFinding("crc32c", locked, row("w"))]), "jsonl")
    assert "crc32c is not stored; the lock has 0,1:-" in text


@pytest.mark.parametrize("what", [ALL, report(), report(lock=None), replace(ALL, update="updated")])
def test_json(what: LockReport) -> None:
    text = shown(what, "json")
    found = json.loads(text)
    validate(found, "ckpt.check/1")
    assert text.isascii()
    counts = {problem: what.count(problem) for problem in PROBLEMS}
    assert {name: found["totals"][name.replace("-", "_")] for name in PROBLEMS} == counts
    assert found["verdict"] == what.verdict
    lines = shown(what, "jsonl").splitlines()
    assert list(map(json.loads, lines)) == found["findings"]


def test_verdicts() -> None:
    words = {
        problem: shown(report([finding(problem)]), "table").split(": ")[1] for problem in PROBLEMS
    }
    assert words == {**dict.fromkeys(PROBLEMS, "FAILED"), "unreadable": "UNKNOWN"}
    assert ALL.verdict == "unknown" and report().verdict == "ok"


def test_table_on_terminals_of_any_width() -> None:
    for width in (20, 40, 60, 80, 200):
        text = SIZE.sub("", shown(ALL, "table", Terminal(True, True, width)))
        head, table = (part.splitlines() for part in text.split("\n\n"))
        told = " ".join(map(str.strip, head))
        assert told.startswith("ckpts/ckpt-5 against m.json: UNKNOWN: 1 missing, 1 extra, 1 dtype")
        assert max(map(len, [*head, *table])) <= width
        squeezed = "".join("".join(table).split())
        for word in (*PROBLEMS, "float32[2,3]", "abcdef01", "1,200NaNand1Infamong1"):
            assert word in squeezed, (width, word)
    wide = shown(ALL, "table").splitlines()
    assert [line.split()[:2] for line in wide[3:]] == [["net/w", each] for each in PROBLEMS]


def test_table_of_what_is_fine_is_a_line() -> None:
    assert shown(report(), "table") == "ckpts/ckpt-5 against m.json: ok: 1 tensor compared\n"
    alone = replace(report(lock=None), finite=True, read=2, bytes_read=2048, ignored=3)
    assert shown(alone, "table") == (
        "ckpts/ckpt-5: ok: 1 tensor; 2 floating-point tensors read, 2.0 KiB; 3 ignored\n"
    )
    green = shown(report(), "table", Terminal(True, True, 80))
    assert "\x1b[32mok:\x1b[0m" in green


def test_tables_have_object_paths() -> None:
    long = row("net/w/.ATTRIBUTES/VARIABLE_VALUE")._replace(object_path="net/w")
    found = report([LockFinding("extra", None, long)])
    for format in ("table", "markdown", "github", "plain", "csv"):
        assert "net/w" in shown(found, format) and "ATTRIBUTES" not in shown(found, format)
    named = report([LockFinding("extra", None, long._replace(name="dense/w"))])
    assert shown(named, "csv").startswith("object_path,name,problem,")
    assert "net/w,dense/w,extra," in shown(named, "csv")
    for format in ("names", "junit", "json"):
        assert "net/w/.ATTRIBUTES/VARIABLE_VALUE" in shown(found, format)


def test_an_update_in_words() -> None:
    text = shown(replace(ALL, update="updated"), "table")
    assert text.startswith("m.json: updated: 1 tensor; 1 removed, 1 added, 1 dtype")
    assert "removed" in text.splitlines()[3] and "1 missing" not in text
    assert shown(replace(report(), update="created"), "table") == (
        "m.json: created: 1 tensor; all new\n"
    )
    assert "none changed" in shown(replace(report(), update="unchanged"), "table")


def unescaped(text: str, extra: bool = False) -> str:
    """Undo the escapes of workflow commands as GitHub's runner does."""
    pairs = [("%0D", "\r"), ("%0A", "\n"), *([("%3A", ":"), ("%2C", ",")] if extra else [])]
    for escape, char in (*pairs, ("%25", "%")):
        text = text.replace(escape, char)
    return text


def command(line: str) -> tuple[str, dict[str, str], str]:
    """Read a workflow command as GitHub's runner does: name, properties and message."""
    assert line.startswith("::")
    head, _, message = line[2:].partition("::")
    name, _, text = head.partition(" ")
    pairs = (each.split("=", 1) for each in text.split(",") if each)
    return name, {key: unescaped(value, True) for key, value in pairs}, unescaped(message)


def test_github() -> None:
    first, *commands, last = shown(ALL, "github").splitlines()
    assert command(first)[1]["title"] == "ckpt check"  # there are more than GitHub shows
    assert last.startswith("ckpt check: unknown: 1 missing, 1 extra")
    assert len(commands) == len(PROBLEMS)
    for line, problem in zip(commands, PROBLEMS, strict=True):
        name, properties, message = command(line)
        assert name == "error"
        place = {"file": "m.json"} if problem == "extra" else {"file": "m.json", "line": "7"}
        assert properties == {**place, "title": f"ckpt check: {problem}"}
        assert message.startswith("net/w: ")
    assert command(commands[3])[2] == "net/w: shape is [3, 2]; the lock has [2, 3]"
    assert shown(report(), "github") == "ckpt check: ok: 1 tensor compared\n"


def test_github_without_a_lock() -> None:
    line = shown(report([finding("not-finite", line=None)], lock=None), "github").splitlines()[0]
    assert command(line)[1] == {"title": "ckpt check: not-finite"}


@pytest.mark.parametrize("count", [10, 11])
def test_github_says_first_what_it_will_not_show(count: int) -> None:
    findings = [finding("missing", f"w{number}") for number in range(count)]
    lines = shown(report(findings), "github").splitlines()
    assert len(lines) == count + 1 + (count > 10)
    _, properties, message = command(lines[0])
    if count > 10:
        assert message == "11 missing; 12 tensors compared"
        assert properties == {"file": "m.json", "title": "ckpt check"}


@pytest.mark.parametrize("name", NASTY)
def test_github_with_odd_names(name: str) -> None:
    lock = f"locks/{name}.json"
    first, last = shown(report([finding("dtype", name)], lock=lock), "github").splitlines()
    kind, properties, message = command(first)
    assert kind == "error" and properties.keys() == {"file", "line", "title"}
    assert properties["file"] == printable(lock)
    assert message == f"{printable(name)}: dtype is float16; the lock has float32"
    # A line that is no command must not become one.
    assert "##[" not in last and not last.startswith("::")


def junit(what: LockReport) -> ElementTree.Element:
    text = shown(what, "junit")
    assert text.isascii() and text.startswith('<?xml version="1.0" encoding="UTF-8"?>\n')
    return ElementTree.fromstring(text.encode("ascii"))


def test_junit() -> None:
    keys = [f"w{number}" for number in range(len(PROBLEMS))]
    root = junit(report(map(finding, PROBLEMS, keys)))
    (suite,) = root
    assert (root.tag, suite.tag) == ("testsuites", "testsuite")
    for each in (root, suite):
        assert each.attrib.keys() == {"name", "tests", "failures", "errors", "skipped", "time"}
        counts = {name: int(each.attrib[name]) for name in ("tests", "failures", "errors")}
        assert counts == {"tests": 12, "failures": 10, "errors": 1}
    cases = list(suite)
    assert [case.tag for case in cases] == ["testcase"] * 12
    assert [case.attrib["name"] for case in cases] == ["fine", *keys]
    assert {case.attrib["classname"] for case in cases} == {"ckpts/ckpt-5"}
    assert {case.attrib["file"] for case in cases} == {"m.json"}
    assert len(cases[0]) == 0
    for case, problem in zip(cases[1:], PROBLEMS, strict=True):
        (outcome,) = case
        assert outcome.tag == ("error" if problem == "unreadable" else "failure")
        assert outcome.attrib["type"] == problem
        assert outcome.attrib["message"] == outcome.text
        assert case.get("line") == (None if problem == "extra" else "7")
    assert cases[4][0].text == "shape is [3, 2]; the lock has [2, 3]"


def test_junit_has_one_outcome_for_a_tensor_with_several_problems() -> None:
    root = junit(report([finding("dtype"), finding("shape")]))
    assert (root.attrib["tests"], root.attrib["failures"]) == ("2", "1")
    (outcome,) = root[0][1]
    assert str(outcome.text).count("; the lock has") == 2
    root = junit(ALL)
    assert (root.attrib["failures"], root.attrib["errors"]) == ("0", "1")
    assert [outcome.tag for outcome in root[0][1]] == ["error"]


def test_junit_of_nothing_wrong() -> None:
    root = junit(report(lock=None))
    assert root.attrib["failures"] == root.attrib["errors"] == "0"
    assert "file" not in root[0][0].attrib and len(root[0][0]) == 0


@pytest.mark.parametrize("name", NASTY)
def test_json_with_odd_names(name: str) -> None:
    text = shown(report([finding("unreadable", name, path=name)], lock=name), "json")
    found = json.loads(text)
    validate(found, "ckpt.check/1")
    (each,) = found["findings"]
    assert each["message"].startswith(f"unreadable: {printable(name)}: byte 4: bad bytes")
    if isinstance(each["key"], str):
        assert each["key"] == found["lock"] == name


@pytest.mark.parametrize("name", NASTY)
def test_junit_with_odd_names(name: str) -> None:
    what = replace(
        report([finding("unreadable", name, path=name)], lock=name),
        source=replace(SOURCE, prefix=name),
    )
    case = junit(what)[0][1]
    assert case.attrib["name"] == case.attrib["classname"] == printable(name)
    assert case.attrib["file"] == printable(name)
    assert printable(name) in str(case[0].text)


def test_markdown() -> None:
    head, empty, *table = shown(ALL, "markdown").splitlines()
    assert head.startswith(
        "**ckpt check: unknown**: `ckpts/ckpt-5` and `m.json`: 1 missing, 1 extra, "
    )
    assert empty == ""
    assert table[0] == "| key | problem | lock or graph | checkpoint |"
    assert table[2] == "| `net/w` | missing | float32 \\[2, 3\\] | - |"
    assert len(table) == 2 + len(PROBLEMS)
    assert shown(report(lock=None), "markdown") == (
        "**ckpt check: ok**: `ckpts/ckpt-5`: 1 tensor\n"
    )


@pytest.mark.parametrize("name", NASTY)
def test_markdown_with_odd_names(name: str) -> None:
    source = replace(SOURCE, prefix=name)
    what = replace(report([finding("extra", name)], lock=name), source=source)
    lines = shown(what, "markdown").splitlines()
    assert len(lines) == 5
    cells = re.split(r"(?<!\\)\|", lines[4])
    assert len(cells) == 6
    inside = cells[1].strip().strip("`").strip().replace("\\|", "|")
    assert inside.strip() == printable(name).strip().strip("`")


def test_a_long_table_fits_into_a_comment() -> None:
    findings = [finding("missing", f"tower_{number}/weights") for number in range(5000)]
    text = shown(report(findings), "markdown")
    assert 55_000 < len(text) < 65_536
    lines = text.splitlines()
    rows = [line for line in lines if line.startswith("| `")]
    more = re.fullmatch(r"and ([\d,]+) more", lines[-1])
    assert more and int(more[1].replace(",", "")) + len(rows) == 5000


@pytest.mark.parametrize("format", ["plain", "csv", "table", "names"])
@pytest.mark.parametrize("name", NASTY)
def test_rows_with_odd_names(format: str, name: str) -> None:
    text = shown(report([finding("extra", name)]), format)
    if format == "csv":
        (_, (cell, *_)) = csv.reader(io.StringIO(text))
        assert cell.removeprefix("'") == printable(name).removeprefix("'")
    else:
        assert printable(name) in text
    assert all(char.isprintable() for char in text if char not in "\n\t")
