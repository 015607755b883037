"""What restoring would do, a row for each value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TextIO

from ckpttool.query.match.plan import RestorePlan
from ckpttool.render.cells import Column
from ckpttool.render.console import Terminal
from ckpttool.render.jsonout import write_jsonl
from ckpttool.render.match.lines import open_shape
from ckpttool.render.table import RowFormat, write_rows

_COLUMNS = (
    Column("path", fold=True),
    Column("state"),
    Column("target_path", fold=True),
    Column("dtype"),
    Column("shape"),
    Column("target_dtype"),
    Column("target_shape"),
    Column("kind"),
    Column("via"),
    Column("key", fold=True),
)
# The lists of a plan, and the state of what is in them.
_STATES = {
    "mismatched": "mismatched",
    "unresolved": "unresolved",
    "unmatched": "unmatched",
    "hollow": "hollow",
    "unused_attributes": "unused",
    "conflicts": "conflict",
    "suggestions": "suggestion",
}


def write_match_rows(
    plan: RestorePlan, format: RowFormat, stream: TextIO, terminal: Terminal, *, matched: bool
) -> None:
    """Write a row for each value that is not restored.

    Args:
        plan: what a restore would do.
        format: a row format.
        stream: where to.
        terminal: what `stream` is.
        matched: also write what is restored.
    """
    rows = _rows(plan, matched=matched)
    if format == "names":
        paths = dict.fromkeys(row[0] for row in rows if row[1] != "suggestion")
        write_rows([(path,) for path in paths], _COLUMNS[:1], "names", stream)
        return
    write_rows(rows, _COLUMNS, format, stream, terminal=terminal)


def write_match_lines(
    plan: RestorePlan, document: dict[str, object], stream: TextIO, *, matched: bool
) -> None:
    """Write each value as an object on a line of its own, and on a last one all else."""

    def lines() -> Iterator[object]:
        states = {"matched": "matched", **_STATES} if matched else _STATES
        for name, state in states.items():
            listed = document[name]
            assert isinstance(listed, Sequence)
            for each in listed:
                yield {"state": state, **(each if isinstance(each, dict) else {"path": each})}
        yield {name: each for name, each in document.items() if name not in ("matched", *_STATES)}

    write_jsonl(lines(), stream)


def _rows(plan: RestorePlan, *, matched: bool) -> Iterator[tuple[object, ...]]:
    if matched:
        unfit = {each.key for each in plan.mismatched}
        for taken in plan.matched:
            if taken.key not in unfit:
                yield (
                    *(taken.path, "matched", taken.target_path, taken.dtype, taken.shape),
                    *(None, None, taken.kind, taken.via, taken.key),
                )
    for wrong in plan.mismatched:
        yield (
            *(wrong.path, "mismatched", wrong.target_path, wrong.dtype, wrong.shape),
            *(wrong.target_dtype, _open(wrong.target_shape), None, None, wrong.key),
        )
    for left in plan.unresolved:
        yield (
            *(left.path, "unresolved", None, left.dtype, left.shape),
            *(None, None, left.kind, None, left.key),
        )
    for lacking in plan.unmatched:
        yield (
            *(lacking.path, "unmatched", lacking.path, None, None),
            *(lacking.dtype, _open(lacking.shape), None, None, None),
        )
    for path in plan.hollow:
        yield _row(path, "hollow", path)
    for text in plan.unused_attributes:
        yield _row(text, "unused", None)
    for conflict in plan.conflicts:
        yield _row(conflict.path, "conflict", conflict.other_path)
    for rule in plan.suggestions:
        yield _row(rule.old, "suggestion", rule.new)


def _row(path: str, state: str, target_path: str | None) -> tuple[object, ...]:
    return (path, state, target_path, *(None,) * (len(_COLUMNS) - 3))


def _open(shape: tuple[int | None, ...] | None) -> object:
    """Return the shape of an object: open lengths are question marks, any shape is no cell."""
    if shape is None or all(isinstance(dim, int) for dim in shape):
        return shape
    return open_shape(shape)
