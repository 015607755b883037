"""A check as workflow commands of GitHub Actions, which it shows beside the lines of the lock.

    ::error file=model.lock.json,line=12,title=shape::net/l1/kernel: shape is [1, 6]; ...

In a message `%`, CR and LF are written as `%25`, `%0D` and `%0A`; in a property also `:` and `,`,
as `%3A` and `%2C` ("Workflow commands for GitHub Actions").
"""

from __future__ import annotations

from typing import TextIO

from ckpttool.printable import printable
from ckpttool.query.check.findings import LockFinding, LockReport
from ckpttool.query.rows import short_name
from ckpttool.render.check.words import message, summary

# GitHub shows no more annotations of a step than these.
_MAX_SHOWN = 10


def write_github(report: LockReport, stream: TextIO) -> None:
    """Write an annotation for each finding, and a line for the log that says what came of it.

    Where GitHub does not show them all, the first annotation says what there is.
    """
    if len(report.findings) > _MAX_SHOWN:
        stream.write(_command(report, None, "ckpt check", summary(report)))
    for each in report.findings:
        text = f"{short_name(each.tensor)}: {message(each)}"
        stream.write(_command(report, each, f"ckpt check: {each.problem}", text))
    # Names are left out here: what is in a line for the log may be taken for a command.
    stream.write(f"ckpt check: {report.verdict}: {summary(report)}\n")


def _command(report: LockReport, finding: LockFinding | None, title: str, text: str) -> str:
    properties = {"title": title}
    if report.lock is not None:
        place = {"file": printable(report.lock)}
        if finding is not None and finding.line is not None:
            place["line"] = str(finding.line)
        properties = {**place, **properties}
    written = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::error {written}::{_data(printable(text))}\n"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
