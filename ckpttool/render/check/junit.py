"""A check as JUnit XML: each tensor is a test case.

    <testsuites>  <testsuite>  <testcase classname="checkpoint" name="key">
        <failure>   the tensor is not as it should be
        <error>     its values cannot be read

The text is ASCII, so that it is right whatever the encoding of the stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TextIO
from xml.sax.saxutils import escape, quoteattr

from ckpttool.printable import printable
from ckpttool.query.check.findings import LockFinding, LockReport
from ckpttool.render.check.words import message


def write_junit(report: LockReport, stream: TextIO) -> None:
    """Write the report of a check as one XML document."""
    findings: dict[str, list[LockFinding]] = {}
    for each in report.findings:
        findings.setdefault(each.tensor.key, []).append(each)
    errors = sum(_element(found) == "error" for found in findings.values())
    counts = {
        "tests": len(report.tensors),
        "failures": len(findings) - errors,
        "errors": errors,
        "skipped": 0,
        "time": 0,
    }
    stream.write('<?xml version="1.0" encoding="UTF-8"?>\n')
    stream.write(f"<testsuites{_attributes({'name': 'ckpt check', **counts})}>\n")
    stream.write(f"  <testsuite{_attributes({'name': report.source.prefix, **counts})}>\n")
    for row in report.tensors:
        found = findings.get(row.key, [])
        case = {"classname": report.source.prefix, "name": row.key, **_place(report, found)}
        stream.write(f"    <testcase{_attributes({**case, 'time': 0})}")
        if found:
            name, text = _element(found), "; ".join(map(message, found))
            problem = _attributes({"type": found[-1].problem, "message": text})
            # Some readers show the one, some the other.
            stream.write(f">\n      <{name}{problem}>{_content(text)}</{name}>\n    </testcase>\n")
        else:
            stream.write("/>\n")
    stream.write("  </testsuite>\n</testsuites>\n")


def _element(findings: list[LockFinding]) -> str:
    return "error" if any(each.problem == "unreadable" for each in findings) else "failure"


def _place(report: LockReport, findings: list[LockFinding]) -> dict[str, object]:
    place: dict[str, object] = {}
    if report.lock is not None:
        place["file"] = report.lock
        if findings and findings[0].line is not None:
            place["line"] = findings[0].line
    return place


def _attributes(values: Mapping[str, object]) -> str:
    """Return attributes; `printable` leaves no character that XML does not have."""
    texts = (f" {name}={quoteattr(printable(str(value)))}" for name, value in values.items())
    return _ascii("".join(texts))


def _content(text: str) -> str:
    return _ascii(escape(printable(text)))


def _ascii(text: str) -> str:
    return text.encode("ascii", "xmlcharrefreplace").decode("ascii")
