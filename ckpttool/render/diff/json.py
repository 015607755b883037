"""The answers of `ckpt diff` as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TextIO

from ckpttool.query.diff.results import CHANGES, LETTERS, Diff, TensorDiff, ValueDifference
from ckpttool.query.diff.series import Series, StepRow
from ckpttool.query.listing import DamagedRow
from ckpttool.query.rows import TensorRow
from ckpttool.render.jsonout import source_document, write_jsonl

SCHEMA = "ckpt.diff/1"


def diff_document(diff: Diff) -> dict[str, object]:
    """Return what differs as one object; the list of tensors is made while it is read."""
    document = _summary(diff)
    totals = document.pop("totals")
    document["tensors"] = (difference_document(each, diff) for each in diff.tensors)
    document["totals"] = totals
    return document


def write_lines(diff: Diff, stream: TextIO, first: Iterable[object] = ()) -> None:
    """Write each tensor on a line of its own, others before them, and on a last one all else."""

    def lines() -> Iterator[object]:
        yield from first
        yield from (difference_document(each, diff) for each in diff.tensors)
        yield _summary(diff)

    write_jsonl(lines(), stream)


def series_document(series: Series) -> dict[str, object]:
    """Return how tensors change through a folder as one object, made while it is read."""
    return {
        "schema": SCHEMA,
        "folder": series.folder,
        "checkpoints": list(series.checkpoints),
        "steps": map(step_document, series.rows),
        "problems": [_problem(error) for error in series.problems],
        "damaged": [
            _damaged(row) | {"checkpoint": checkpoint} for checkpoint, row in series.damaged
        ],
    }


def step_document(step: StepRow) -> dict[str, object]:
    """Return a tensor in one checkpoint of a folder as its JSON object."""
    return {
        "key": step.row.key,
        "object_path": step.row.object_path,
        "name": step.row.name,
        "checkpoint": step.checkpoint,
        "step": step.step,
        "change": step.change,
        "dtype": step.row.dtype,
        "shape": step.row.shape,
        "kind": step.row.kind,
        "norm": step.norm,
        "update": step.update,
        "ratio": step.ratio,
    }


def difference_document(each: TensorDiff, diff: Diff) -> dict[str, object]:
    """Return a tensor as its JSON object."""
    return {
        "change": each.change,
        "status": LETTERS[each.change],
        "key": each.a.key if each.a is not None else None,
        "new_key": each.b.key if each.b is not None else None,
        "object_path": each.a.object_path if each.a is not None else None,
        "new_object_path": each.b.object_path if each.b is not None else None,
        "name": each.a.name if each.a is not None else None,
        "new_name": each.b.name if each.b is not None else None,
        "paths": diff.a.names.paths(each.a.key) if each.a is not None else (),
        "new_paths": diff.b.names.paths(each.b.key) if each.b is not None else (),
        "kind": each.row.kind,
        "matched_by": each.matched if each.a is not None and each.b is not None else None,
        "a": _side(each.a),
        "b": _side(each.b),
        "values": _values(each.values),
        "guessed": each.guessed,
        "candidates": each.candidates,
        "reason": each.reason,
    }


def _side(row: TensorRow | None) -> dict[str, object] | None:
    if row is None:
        return None
    return {
        "dtype": row.dtype,
        "shape": row.shape,
        "bytes": row.bytes,
        "crc32c": None if row.crc32c is None else f"{row.crc32c:08x}",
        "slices": len(row.slices),
    }


def _values(values: ValueDifference | None) -> dict[str, object] | None:
    if values is None:
        return None
    worst = values.worst
    return {
        "differing": values.differing,
        "elements": values.elements,
        "max_abs": values.max_abs,
        "max_rel": values.max_rel,
        "mean_abs": values.mean_abs,
        "rel_norm": values.rel_norm,
        "worst": worst and {"index": worst.index, "a": worst.a, "b": worst.b},
    }


def _summary(diff: Diff) -> dict[str, object]:
    graph = diff.graph
    return {
        "schema": SCHEMA,
        "a": source_document(diff.a),
        "b": source_document(diff.b),
        "verdict": diff.verdict,
        "tolerance": asdict(diff.tolerance),
        "moves": [asdict(move) for move in diff.moves],
        "graph": None
        if graph is None
        else {
            "equal": graph.equal,
            "objects": graph.objects,
            "slots": graph.slots,
            "changes": [asdict(change) for change in graph.changes],
        },
        "problems": [_problem(error) for error in diff.problems],
        "damaged": [
            _damaged(row) | {"side": side, "paths": source.names.paths(row.key)}
            for side, source, rows in zip("ab", (diff.a, diff.b), diff.damaged, strict=True)
            for row in rows
        ],
        "totals": {change: diff.counts[change] for change in CHANGES},
    }


def _damaged(row: DamagedRow) -> dict[str, object]:
    return {
        "key": row.key,
        "object_path": row.object_path,
        "name": row.name,
        "kind": row.kind,
        "problem": row.error.message,
    }


def _problem(error: Exception) -> dict[str, object]:
    members = ("message", "path", "offset", "key")
    return {name: getattr(error, name, None) for name in members}
