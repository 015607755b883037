"""The facts of a report as JSON."""

from __future__ import annotations

from collections.abc import Iterator

from ckpttool.query.report.facts import ReportFacts
from ckpttool.query.report.values import Measured
from ckpttool.query.rows import TensorRow
from ckpttool.query.source import TensorNames
from ckpttool.render.jsonout import source_document
from ckpttool.render.show.json import statistics_document


def facts_document(facts: ReportFacts) -> dict[str, object]:
    """Return the JSON document; its list of tensors is an iterator."""
    return {
        "schema": "ckpt.report/1",
        "source": source_document(facts.source),
        "complete": facts.complete,
        "values": facts.values,
        "problems": facts.problems,
        "totals": {
            "tensors": facts.tensors,
            "parameters": facts.totals.parameters,
            "bytes": facts.totals.bytes,
            "verified": facts.verified,
            "nan": facts.nan,
            "inf": facts.inf,
            "not_finite": facts.not_finite,
        },
        "step": facts.step,
        "kinds": [
            {
                "kind": group.name,
                "tensors": group.tensors,
                "parameters": group.parameters,
                "bytes": group.bytes,
            }
            for group in facts.kinds
        ],
        "tensors": _tensors(facts),
    }


def _tensors(facts: ReportFacts) -> Iterator[dict[str, object]]:
    for row, measured in zip(facts.rows, facts.measured, strict=True):
        yield _tensor(row, measured, facts.source.names)


def _tensor(row: TensorRow, measured: Measured, names: TensorNames) -> dict[str, object]:
    found, bars = measured.statistics, measured.histogram
    return {
        "key": row.key,
        **names.members(row.key),
        "dtype": row.dtype,
        "shape": row.shape,
        "kind": row.kind,
        "bytes": row.bytes,
        "crc32c": None if row.crc32c is None else f"{row.crc32c:08x}",
        "error": None if measured.error is None else str(measured.error),
        "statistics": None if found is None else statistics_document(found),
        "histogram": None
        if bars is None
        else {
            "low": bars.low,
            "high": bars.high,
            "counts": bars.counts,
            "sampled": measured.sampled,
        },
    }
