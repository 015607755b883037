"""The answers of `ckpt verify` as text."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import chain, islice
from typing import TextIO, cast

from ckpttool.printable import printable
from ckpttool.query.verify.findings import Finding
from ckpttool.query.verify.report import VERIFY_VERDICTS, Report, VerifyVerdict, worst_verdict
from ckpttool.render import humanize
from ckpttool.render.cells import Column
from ckpttool.render.console import Terminal
from ckpttool.render.jsonout import source_document, write_json, write_jsonl
from ckpttool.render.table import RowFormat, write_rows

# What people are told of; programs are told of all.
_MAX_OF_A_KIND = 20
SCHEMA = "ckpt.verify/1"

_COLUMNS = (
    Column("checkpoint", fold=True),
    Column("result"),
    Column("code"),
    Column("file", fold=True),
    Column("offset", align="right"),
    Column("bytes", align="right"),
    Column("key", fold=True),
    Column("message", fold=True),
)
_STYLES = {
    "ok": "green",
    "structure-ok": "green",
    "damaged": "bold red",
    "unchecked": "bold yellow",
    "damage": "red",
    "warning": "yellow",
}


def write_reports(
    reports: Iterable[Report],
    format: str,
    stream: TextIO,
    terminal: Terminal,
    *,
    fast: bool,
    strict: bool,
) -> None:
    """Write reports as they come, except in JSON, whose sums stand for all of them.

    Args:
        reports: one for each checkpoint or folder.
        format: "json" or one of the row formats.
        stream: where to.
        terminal: what `stream` is.
        fast: whether the data were left unread.
        strict: whether warnings count as damage.
    """
    reports = _begun(reports)
    if format == "json":
        write_json(verify_document(list(reports), fast=fast, strict=strict), stream)
    elif format == "jsonl":
        write_jsonl((report_document(each, strict=strict) for each in reports), stream)
    elif format == "names":
        for report in reports:
            if report.judged(strict=strict) in ("damaged", "unchecked"):
                stream.write(f"{printable(report.prefix)}\n")
    elif format == "table":
        _write_for_people(reports, stream, terminal, strict=strict)
    else:
        rows = (row for report in reports for row in _rows(report, strict=strict))
        write_rows(rows, _COLUMNS, cast(RowFormat, format), stream, terminal=terminal)


def _begun(reports: Iterable[Report]) -> Iterator[Report]:
    """Return the reports with the first one made, so that no line is written if it fails."""
    rest = iter(reports)
    return chain(list(islice(rest, 1)), rest)


def report_document(report: Report, *, strict: bool) -> dict[str, object]:
    """Return a report as its JSON object."""
    return {
        "path": report.path,
        "prefix": report.prefix,
        "kind": report.kind,
        "verdict": report.judged(strict=strict),
        "source": None if report.source is None else source_document(report.source),
        "tensors": report.tensors,
        "data_read": not report.fast,
        "bytes_read": report.bytes_read,
        "findings": [_finding_document(each) for each in report.findings],
    }


def _finding_document(finding: Finding) -> dict[str, object]:
    document = asdict(finding)
    return {"code": document.pop("code"), "severity": finding.severity, **document}


def verify_document(reports: Sequence[Report], *, fast: bool, strict: bool) -> dict[str, object]:
    """Return reports as one object; its list of them is made while it is read.

    Args:
        reports: all of them.
        fast: whether the data were left unread.
        strict: whether warnings count as damage.
    """
    checkpoints = [each for each in reports if each.kind == "checkpoint"]
    return {
        "schema": SCHEMA,
        "verdict": worst_verdict(reports, strict=strict),
        "fast": fast,
        "strict": strict,
        "reports": (report_document(each, strict=strict) for each in reports),
        "totals": {
            "checkpoints": len(checkpoints),
            "tensors": sum(each.tensors for each in reports),
            "bytes_read": sum(each.bytes_read for each in reports),
            "damage": sum(each.count("damage") for each in reports),
            "unchecked": sum(each.count("unchecked") for each in reports),
            "warnings": sum(each.count("warning") for each in reports),
        },
    }


def _rows(report: Report, *, strict: bool) -> Iterator[tuple[object, ...]]:
    """Yield a row for each finding, and last one for the checkpoint or the folder itself."""
    for each in report.findings:
        yield (
            report.prefix,
            each.severity,
            each.code,
            each.path,
            each.offset,
            each.size,
            each.key,
            each.message,
        )
    yield (
        report.prefix,
        report.judged(strict=strict),
        None,
        None,
        None,
        None,
        None,
        _summary(report),
    )


def _summary(report: Report) -> str:
    """Return in words what was looked at."""
    if report.kind == "folder":
        return "the rest of the folder"
    if report.kind == "graph":
        return "a SavedModel without variables"
    if report.source is None:
        return "no data could be looked at"
    parts = [humanize.counted(report.tensors, "tensor")]
    size = humanize.size(report.source.data_bytes)
    noun = "data shard" if report.source.generation == "V2" else "file"
    parts.append(f"{size} in {humanize.counted(report.source.shards, noun)}")
    if report.fast:
        parts.append("data not read")
    return ", ".join(parts)


def _write_for_people(
    reports: Iterable[Report], stream: TextIO, terminal: Terminal, *, strict: bool
) -> None:
    verdicts: list[VerifyVerdict] = []
    for report in reports:
        verdict = report.judged(strict=strict)
        if report.kind == "checkpoint":
            verdicts.append(verdict)
        elif not report.findings:
            continue
        words = verdict.upper() if verdict in ("damaged", "unchecked") else verdict
        head = f"{printable(report.prefix)}: {terminal.style(words, _STYLES[verdict])}"
        stream.write(f"{head}: {_summary(report)}{_warned(report)}\n")
        shown: Counter[str] = Counter()
        for each in report.findings:
            shown[each.code] += 1
            if shown[each.code] <= _MAX_OF_A_KIND:
                _write_finding(each, report, stream, terminal)
        for code, count in shown.items():
            if count > _MAX_OF_A_KIND:
                text = f"  and {count - _MAX_OF_A_KIND} more {code}; --json has all of them"
                stream.write(terminal.style(text, "dim") + "\n")
    if len(verdicts) > 1:
        counts = [f"{verdicts.count(each)} {each}" for each in VERIFY_VERDICTS if each in verdicts]
        text = f"{humanize.counted(len(verdicts), 'checkpoint')}: {', '.join(counts)}"
        stream.write(terminal.style(text, "dim") + "\n")


def _warned(report: Report) -> str:
    if report.count("warning") and not report.count("damage"):
        return f", {humanize.counted(report.count('warning'), 'warning')}"
    return ""


def _write_finding(finding: Finding, report: Report, stream: TextIO, terminal: Terminal) -> None:
    home = os.path.dirname(report.prefix) if report.kind == "checkpoint" else report.prefix
    path = finding.path
    if os.path.dirname(path) == home.rstrip(os.sep):
        path = os.path.basename(path)
    place = printable(path)
    if finding.offset is not None and finding.size:
        place += f", bytes {finding.offset} to {finding.offset + finding.size - 1}"
    elif finding.offset is not None:
        place += f", byte {finding.offset}"
    severity = terminal.style(finding.severity, _STYLES[finding.severity])
    stream.write(f"  {severity} {finding.code}: {place}\n")
    if finding.key is not None:
        stream.write(f"    {printable(finding.key)}\n")
    stream.write(f"    {finding.message}\n")
