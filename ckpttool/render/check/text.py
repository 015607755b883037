"""The answers of `ckpt check` as text."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, replace
from typing import TextIO, cast

from ckpttool.printable import printable
from ckpttool.query.check.findings import PROBLEMS, LockFinding, LockReport
from ckpttool.query.rows import TensorRow, Totals
from ckpttool.query.source import Source
from ckpttool.render.cells import Column, number_style
from ckpttool.render.check.words import checksum, label, message, sides, summary
from ckpttool.render.console import Terminal
from ckpttool.render.jsonout import source_document, write_json, write_jsonl
from ckpttool.render.listing import SCHEMA as LISTING_SCHEMA
from ckpttool.render.listing import tensor_document
from ckpttool.render.names import KEY, NameColumns
from ckpttool.render.table import RowFormat, write_rows
from ckpttool.render.wrap import words, write_flow

SCHEMA = "ckpt.check/1"

_COLUMNS = (
    Column("problem"),
    Column("locked", title="lock", fold=True),
    Column("found", title="checkpoint", fold=True, style=number_style),
    Column("line", align="right"),
)
_STYLES = {"ok": "green", "failed": "bold red", "unknown": "bold yellow"}


def write_report(
    report: LockReport, format: str, stream: TextIO, terminal: Terminal, *, by_key: bool = False
) -> None:
    """Write what came of a check.

    Args:
        report: what came of it.
        format: "json", "github", "junit" or one of the row formats.
        stream: where to.
        terminal: what `stream` is.
        by_key: show keys instead of object paths and variable names.
    """
    names = NameColumns([each.tensor for each in report.findings], by_key=by_key)
    if format == "json":
        write_json(check_document(report), stream)
    elif format == "jsonl":
        write_jsonl((_finding_document(each, report) for each in report.findings), stream)
    elif format == "github":
        from ckpttool.render.check.github import write_github

        write_github(report, stream)
    elif format == "junit":
        from ckpttool.render.check.junit import write_junit

        write_junit(report, stream)
    elif format == "markdown":
        from ckpttool.render.check.markdown import write_markdown

        columns = _human_columns(report, names)
        write_markdown(report, _human_rows(report, names), columns, stream)
    elif format == "names":
        keys = {each.tensor.key: None for each in report.findings}
        write_rows([(key,) for key in keys], (KEY,), "names", stream)
    elif format == "table":
        _write_for_people(report, names, stream, terminal)
    else:
        rows = [
            (*names.cells(each.tensor), each.problem, *sides(each), each.line)
            for each in report.findings
        ]
        columns = (*names.columns, *_COLUMNS)
        write_rows(rows, columns, cast(RowFormat, format), stream, terminal=terminal)


def _human_columns(report: LockReport, names: NameColumns) -> tuple[Column, ...]:
    problem = Column("change" if report.update else "problem", style=_problem_style(report))
    expected, found = _COLUMNS[1:3]
    if any(each.graph is not None for each in report.findings):
        title = "graph" if report.lock is None else "lock or graph"
        expected = replace(expected, title=title)
    return (*names.columns, problem, expected, found)


def _human_rows(report: LockReport, names: NameColumns) -> list[tuple[object, ...]]:
    return [
        (*names.cells(each.tensor), label(each, report), *sides(each)) for each in report.findings
    ]


def _problem_style(report: LockReport) -> str:
    return "yellow" if report.update else "red"


def _write_for_people(
    report: LockReport, names: NameColumns, stream: TextIO, terminal: Terminal
) -> None:
    style = _STYLES[report.verdict]
    shown: str = report.verdict if report.verdict == "ok" else report.verdict.upper()
    about = report.source.prefix
    if report.update is not None:
        shown, about = report.update, report.lock or ""
    elif report.lock is not None:
        about += f" against {report.lock}"
    verdict = [(f"{printable(about)}:", ""), (f"{shown}:", style), *words(summary(report))]
    write_flow(verdict, stream, terminal)
    if report.findings:
        stream.write("\n")
        columns = _human_columns(report, names)
        write_rows(_human_rows(report, names), columns, "table", stream, terminal=terminal)


def check_document(report: LockReport) -> dict[str, object]:
    """Return what came of a check as one object; its findings are made while they are read."""
    return {
        "schema": SCHEMA,
        "verdict": report.verdict,
        "update": report.update,
        "source": source_document(report.source),
        "lock": report.lock,
        "crc": report.crc,
        "finite": report.finite,
        "graph": report.variables is not None,
        "allow_extra": report.allow_extra,
        "findings": (_finding_document(each, report) for each in report.findings),
        "totals": {
            "tensors": len(report.tensors),
            "compared": report.compared,
            "ignored": report.ignored,
            "variables": report.variables or 0,
            "read": report.read,
            "bytes_read": report.bytes_read,
            **{each.replace("-", "_"): report.count(each) for each in PROBLEMS},
        },
    }


def _finding_document(finding: LockFinding, report: LockReport) -> dict[str, object]:
    numbers, graph = finding.nonfinite, finding.graph
    return {
        "problem": finding.problem,
        "key": finding.tensor.key,
        **report.source.names.members(finding.tensor.key),
        "object_path": finding.tensor.object_path,
        "message": printable(message(finding)),
        "locked": _tensor_document(finding.locked),
        "found": _tensor_document(finding.found),
        "graph": None
        if graph is None
        else {"name": graph.name, "dtype": graph.dtype, "shape": graph.shape},
        "line": finding.line,
        "nan": None if numbers is None else numbers.nan,
        "inf": None if numbers is None else numbers.inf,
        "first": None if numbers is None else numbers.first,
    }


def _tensor_document(row: TensorRow | None) -> dict[str, object] | None:
    if row is None:
        return None
    return {
        "dtype": row.dtype,
        "shape": row.shape,
        "kind": row.kind,
        "crc32c": checksum(row),
    }


def write_lock(source: Source, rows: Collection[TensorRow], stream: TextIO) -> None:
    """Write a lock.

    Args:
        source: the checkpoint in short.
        rows: its tensors, by key bytes; they are gone over twice.
        stream: where to.
    """
    document = {
        "schema": LISTING_SCHEMA,
        "source": source_document(source),
        "tensors": (tensor_document(row, source.names.paths) for row in rows),
        "totals": asdict(Totals.of(rows)),
    }
    write_json(document, stream)
