"""What `ckpt show` prints, as rows: for csv, markdown and names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO, cast

from ckpttool.objects.keys import GRAPH_KEY
from ckpttool.query.metagraph.summary import GraphReports
from ckpttool.query.summary import Group, Summary
from ckpttool.query.values.detail import TensorDetail, Values
from ckpttool.render import humanize
from ckpttool.render.cells import Column, Printed
from ckpttool.render.jsonout import encode, plain
from ckpttool.render.layout import lay_out
from ckpttool.render.names import KEY, NameColumns
from ckpttool.render.show.json import index_text, value_document
from ckpttool.render.table import RowFormat, write_rows

# The formats of rows that values, summaries and graphs have; `plain` is text.
TABULAR = ("csv", "markdown", "names")
# A tensor of more elements is abbreviated in a Markdown table.
MARKDOWN_LIMIT = 20
_ONE_LINE = 1 << 30
_ABOUT = (
    Column("dtype"),
    Column("shape"),
    Column("kind"),
    Column("bytes", align="right", human=humanize.size),
    Column("value"),
)
_SHARES = (
    Column("part"),
    Column("name"),
    Column("tensors", align="right", human=humanize.number),
    Column("parameters", align="right", human=humanize.number),
    Column("bytes", align="right", human=humanize.size),
)
_VARIABLES = (
    Column("variable"),
    Column("dtype"),
    Column("shape"),
    Column("key"),
    Column("stored_dtype"),
    Column("stored_shape"),
    Column("tags"),
)


def write_value_rows(
    details: Iterable[TensorDetail],
    names: NameColumns,
    format: str,
    stream: TextIO,
    *,
    precision: int | None = None,
    full: bool = False,
) -> None:
    """Write a row for each tensor, with its value in one cell.

    Args:
        details: the tensors.
        names: their names.
        format: one of `TABULAR`.
        stream: where to.
        precision: as `Formatter` takes it; of use to Markdown.
        full: as `Formatter` takes it; of use to Markdown.
    """

    def text(detail: TensorDetail) -> object:
        content = detail.content
        if not isinstance(content, Values):
            return None
        texts = content.texts(precision=precision, full=full)
        lines = lay_out(texts, content.shape, content.gaps, width=_ONE_LINE)
        return " ".join(line.strip() for line in lines if line)

    cell = text if format == "markdown" else _exact_value
    rows = (
        (
            *names.cells(each, behind=index_text(each)),
            each.dtype,
            each.part,
            each.kind,
            each.bytes,
            cell(each),
        )
        for each in details
    )
    write_rows(rows, (*names.columns, *_ABOUT), cast(RowFormat, format), stream)


def _exact_value(detail: TensorDetail) -> object:
    """Return a number or text as it is, and anything else as JSON; None if it is left out."""
    content = detail.content
    if content is None or not content.complete:
        return None
    value = plain(value_document(content))
    return Printed(encode(value)) if isinstance(value, (list, dict)) else value


def write_summary_rows(summary: Summary, format: str, stream: TextIO) -> None:
    """Write the amounts of a summary: in total, by kind and by scope.

    The object graph is no tensor, and only weights have parameters.
    """

    def row(part: str, group: Group) -> tuple[object, ...]:
        tensors = None if group.name == "graph" else group.tensors
        return (part, group.name, tensors, group.weights or None, group.bytes)

    weights = summary.of_kind("weight").weights
    rows: list[tuple[object, ...]] = [
        ("total", None, summary.tensors, weights, summary.totals.bytes)
    ]
    rows += [row("kind", group) for group in summary.kinds]
    rows += [row("scope", group) for group in summary.scopes if group.name != GRAPH_KEY]
    write_rows(rows, _SHARES, cast(RowFormat, format), stream)


def write_variable_rows(reports: GraphReports, format: str, stream: TextIO) -> None:
    """Write the variables of the graphs of a file."""
    rows = (
        (
            row.key if row.name is None else row.name,
            row.dtype,
            None if row.shape is None else humanize.partial_shape(row.shape),
            row.key,
            row.stored_dtype,
            row.stored_shape,
            ",".join(report.facts.metagraph.tags),
        )
        for report in reports.graphs
        for row in report.variables
    )
    write_rows(rows, _VARIABLES, cast(RowFormat, format), stream)


def write_tensor_names(names: Iterable[str], stream: TextIO) -> None:
    """Write names of tensors, one on each line."""
    write_rows(((name,) for name in names), (KEY,), "names", stream)
