"""A check as Markdown for a comment on a pull request."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TextIO

from ckpttool.printable import printable
from ckpttool.query.check.findings import LockReport
from ckpttool.render.cells import Column, Row
from ckpttool.render.check.words import summary
from ckpttool.render.table import code_span, write_rows

# GitHub takes comments of up to 65,536 characters.
_MAX_TABLE = 60_000


def write_markdown(
    report: LockReport, rows: Sequence[Row], columns: Sequence[Column], stream: TextIO
) -> None:
    """Write a line that says what came of it and, where there is something to tell, a table.

    Args:
        report: what came of the check.
        rows: a row for each finding. Of more than fit into a comment, the rest is counted.
        columns: of the rows.
        stream: where to.
    """
    about = code_span(printable(report.source.prefix))
    if report.lock is not None:
        about += f" and {code_span(printable(report.lock))}"
    word = report.update or report.verdict
    stream.write(f"**ckpt check: {word}**: {about}: {summary(report)}\n")
    if not rows:
        return
    table = io.StringIO()
    write_rows(rows, columns, "markdown", table)
    lines = table.getvalue().splitlines(keepends=True)
    used = 0
    stream.write("\n")
    for number, line in enumerate(lines):
        used += len(line)
        if used > _MAX_TABLE:
            stream.write(f"\nand {len(lines) - number:,} more\n")
            break
        stream.write(line)
