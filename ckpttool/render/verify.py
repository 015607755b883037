"""The answers of `ckpt verify` as text."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, islice
from typing import TextIO, cast

from ckpttool.objects.keys import object_path
from ckpttool.printable import printable
from ckpttool.query.grouping import fold_scopes
from ckpttool.query.rows import telling_name
from ckpttool.query.source import TensorNames
from ckpttool.query.verify.findings import Finding
from ckpttool.query.verify.repair import FolderHealth, StateRepair
from ckpttool.query.verify.report import VERIFY_VERDICTS, Report, VerifyVerdict, worst_verdict
from ckpttool.render import humanize
from ckpttool.render.cells import Column, Printed
from ckpttool.render.console import Terminal
from ckpttool.render.jsonout import source_document, write_json, write_jsonl
from ckpttool.render.names import KEY, PATH
from ckpttool.render.table import RowFormat, write_rows
from ckpttool.render.wrap import words, write_flow, write_prose

# What people are told of; programs are told of all.
_MAX_OF_A_KIND = 20
_DEEP = "    "  # before what continues the line of a finding
_MAX_SCOPES = 8
# So many findings of a kind are told one by one.
_FEW = 3
SCHEMA = "ckpt.verify/1"

_COLUMNS = (
    Column("checkpoint", fold=True),
    Column("result"),
    Column("code"),
    Column("file", fold=True),
    Column("offset", align="right"),
    Column("bytes", align="right"),
    PATH,
    Column("message", fold=True),
)
_STYLES = {
    "ok": "green",
    "structure-ok": "green",
    "damaged": "bold red",
    "unchecked": "bold yellow",
    "damage": "red",
    "warning": "yellow",
    "note": "dim",
}


def write_reports(
    reports: Iterable[Report],
    format: str,
    stream: TextIO,
    terminal: Terminal,
    *,
    fast: bool,
    strict: bool,
    everything: bool = False,
    by_key: bool = False,
) -> None:
    """Write reports as they come, except in JSON, whose sums stand for all of them.

    Args:
        reports: one for each checkpoint or folder.
        format: "json" or one of the row formats.
        stream: where to.
        terminal: what `stream` is.
        fast: whether the data were left unread.
        strict: whether warnings count as damage.
        everything: tell people of every finding, and of notes.
        by_key: show keys instead of object paths and variable names.
    """
    show = _Shown(by_key)
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
        _write_for_people(reports, show, stream, terminal, strict=strict, everything=everything)
    else:
        rows = (row for report in reports for row in _rows(report, show, strict=strict))
        columns = [KEY if by_key and each is PATH else each for each in _COLUMNS]
        write_rows(rows, columns, cast(RowFormat, format), stream, terminal=terminal)


@dataclass(frozen=True, slots=True)
class _Shown:
    """The text for a tensor: its object path, or its key."""

    by_key: bool

    def __call__(self, key: str) -> str:
        return key if self.by_key else object_path(key) or key

    def with_name(self, key: str, report: Report) -> str:
        """Return the same with the full name of the variable, if that says more."""
        shown = printable(self(key))
        if self.by_key or report.source is None:
            return shown
        name = telling_name(self(key), report.source.names.variable(key))
        return shown if name is None else f"{shown}  ({printable(name)})"


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
        "diagnosis": None if report.diagnosis is None else asdict(report.diagnosis),
        "source": None if report.source is None else source_document(report.source),
        "tensors": report.tensors,
        "data_read": not report.fast,
        "bytes_read": report.bytes_read,
        "findings": [_finding_document(each, report) for each in report.findings],
        "health": None if report.health is None else asdict(report.health),
    }


def _finding_document(finding: Finding, report: Report) -> dict[str, object]:
    document, key = asdict(finding), finding.key
    names = report.source.names if report.source is not None else TensorNames()
    return {
        "code": document.pop("code"),
        "severity": finding.severity,
        **document,
        "object_path": None if key is None else object_path(key),
        "name": None if key is None else names.variable(key),
        "paths": () if key is None else names.paths(key),
    }


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
            "notes": sum(each.count("note") for each in reports),
        },
    }


def _rows(report: Report, show: _Shown, *, strict: bool) -> Iterator[tuple[object, ...]]:
    """Yield a row for each finding, and last one for the checkpoint or the folder itself."""
    for each in report.findings:
        yield (
            report.prefix,
            each.severity,
            each.code,
            each.path,
            each.offset,
            each.size,
            None if each.key is None else show(each.key),
            Printed(each.message),
        )
    yield (
        report.prefix,
        report.judged(strict=strict),
        None,
        None,
        None,
        None,
        None,
        Printed("; ".join([*_diagnosed(report), _summary(report), *_repaired(report)])),
    )


def _repaired(report: Report) -> list[str]:
    repair = None if report.health is None else report.health.repair
    return [] if repair is None else [_repair(repair)]


def _diagnosed(report: Report) -> list[str]:
    return [] if report.diagnosis is None else [report.diagnosis.message]


def _summary(report: Report) -> str:
    """Return in words what was looked at."""
    if report.kind == "folder":
        return "the rest of the folder"
    if report.kind == "graph":
        return "the SavedModel has no variables"
    if report.source is None:
        return "no data could be looked at"
    parts = [humanize.stored(report.tensors, graph=report.source.style == "object")]
    size = humanize.size(report.source.data_bytes)
    noun = "data shard" if report.source.generation == "V2" else "file"
    parts.append(f"{size} in {humanize.counted(report.source.shards, noun)}")
    if report.fast:
        parts.append("data not read")
    return ", ".join(parts)


def _write_for_people(
    reports: Iterable[Report],
    show: _Shown,
    stream: TextIO,
    terminal: Terminal,
    *,
    strict: bool,
    everything: bool,
) -> None:
    verdicts: list[VerifyVerdict] = []
    for report in reports:
        verdict = report.judged(strict=strict)
        if report.kind == "checkpoint":
            verdicts.append(verdict)
        elif not report.findings and not _has_news(report, everything=everything):
            continue
        _write_head(report, verdict, stream, terminal)
        groups: dict[str, list[Finding]] = {}
        for each in report.findings:
            if everything or each.severity != "note" or report.diagnosis is None:
                groups.setdefault(each.code, []).append(each)
        for code, found in groups.items():
            one_file = len({each.path for each in found}) == 1
            if not everything and one_file and len(found) > _FEW and all(f.key for f in found):
                _write_folded(found, report, show, stream, terminal)
                continue
            for each in found if everything else found[:_MAX_OF_A_KIND]:
                _write_finding(each, report, show, stream, terminal)
            if not everything and len(found) > _MAX_OF_A_KIND:
                text = f"  and {len(found) - _MAX_OF_A_KIND} more {code}; -v lists all of them"
                write_prose(text, stream, terminal, style="dim")
        if report.health is not None:
            _write_health(report.health, stream, terminal)
    if len(verdicts) > 1:
        counts = [f"{verdicts.count(each)} {each}" for each in VERIFY_VERDICTS if each in verdicts]
        text = f"{humanize.counted(len(verdicts), 'checkpoint')}: {', '.join(counts)}"
        write_prose(text, stream, terminal, style="dim")


def _has_news(report: Report, *, everything: bool) -> bool:
    health = report.health
    return health is not None and bool(health.repair or (everything and health.remedies))


def _write_health(health: FolderHealth, stream: TextIO, terminal: Terminal) -> None:
    """Write what can be mended, or was."""
    if health.repair is not None:
        write_prose(f"  {_repair(health.repair)}", stream, terminal, style="bold")
    for each in health.remedies:
        write_prose(f"  {printable(each.message)}", stream, terminal)
        if each.command is not None:
            # In one piece, to be copied.
            stream.write(f"    {terminal.style(printable(each.command), 'cyan')}\n")


def _repair(repair: StateRepair) -> str:
    name = printable(os.path.basename(repair.state))
    if not repair.needed:
        return f"the state file '{name}' is sound and stays as it is"
    if repair.latest is None:
        return f"the state file '{name}' cannot be repaired: there is no sound checkpoint to name"
    verb = "now names" if repair.done else "would name"
    count = humanize.counted(len(repair.listed), "checkpoint")
    return f"the state file '{name}' {verb} '{printable(repair.latest)}' as the latest of {count}"


def _write_head(report: Report, verdict: VerifyVerdict, stream: TextIO, terminal: Terminal) -> None:
    """Write the verdict with what happened, and then what was looked at."""
    word = verdict.upper() if verdict in ("damaged", "unchecked") else verdict
    head = [(f"{printable(report.prefix)}:", ""), (f"{word}:", _STYLES[verdict])]
    summary = _summary(report) + _warned(report)
    told = report.diagnosis.message if report.diagnosis is not None else None
    first, second = (told, summary) if told and verdict == "damaged" else (summary, told)
    write_flow([*head, *words(first or "")], stream, terminal)
    if second:
        write_prose(f"  {second}", stream, terminal, style="dim")


def _warned(report: Report) -> str:
    if report.count("warning") and not report.count("damage"):
        return f", {humanize.counted(report.count('warning'), 'warning')}"
    return ""


def _write_folded(
    found: Sequence[Finding],
    report: Report,
    show: _Shown,
    stream: TextIO,
    terminal: Terminal,
) -> None:
    """Write findings of one code in one file, their tensors by scope."""
    first = found[0]
    places = [each for each in found if each.offset is not None]
    start = min((each.offset or 0 for each in places), default=None)
    stop = max(((each.offset or 0) + (each.size or 0) for each in places), default=0)
    size = None if start is None else stop - start
    _write_line(first, _place(first.path, start, size, report), stream, terminal)
    messages = {each.message.partition(":")[0] for each in found}
    about = f": {messages.pop()}" if len(messages) == 1 else ""
    names = [show(each.key or "") for each in found]
    lines = [f"    {humanize.counted(len(set(names)), 'tensor')}{about}"]
    for group in fold_scopes(names, _MAX_SCOPES):
        name = printable(group.name)
        count = len(group.members)
        lines.append(f"      {name}" + (f" × {humanize.number(count)}" if count > 1 else ""))
    for line in lines:
        write_prose(line, stream, terminal)


def _write_finding(
    finding: Finding, report: Report, show: _Shown, stream: TextIO, terminal: Terminal
) -> None:
    place = _place(finding.path, finding.offset, finding.size, report)
    _write_line(finding, place, stream, terminal)
    if finding.key is not None:
        write_prose(f"    {show.with_name(finding.key, report)}", stream, terminal)
    write_prose(f"    {finding.message}", stream, terminal)


def _write_line(finding: Finding, place: str, stream: TextIO, terminal: Terminal) -> None:
    severity = (f"  {finding.severity}", _STYLES[finding.severity])
    write_flow([severity, (f"{finding.code}:", ""), *words(place)], stream, terminal, indent=_DEEP)


def _place(path: str, offset: int | None, size: int | None, report: Report) -> str:
    home = os.path.dirname(report.prefix) if report.kind == "checkpoint" else report.prefix
    if os.path.dirname(path) == home.rstrip(os.sep):
        path = os.path.basename(path)
    place = printable(path)
    if offset is not None and size:
        place += f", bytes {offset} to {offset + size - 1}"
    elif offset is not None:
        place += f", byte {offset}"
    return place
