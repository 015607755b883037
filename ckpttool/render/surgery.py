"""What becomes of a checkpoint, as text: for a plan and for what was written by it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TextIO, cast

from ckpttool.printable import printable
from ckpttool.query.source import Source
from ckpttool.render import humanize
from ckpttool.render.aligned import write_table
from ckpttool.render.cells import Column, kind_style
from ckpttool.render.console import Terminal
from ckpttool.render.folded import ARROW, drop_rows, edge_rows, fold_moves, plan_moves, value_rows
from ckpttool.render.jsonout import source_document, write_json, write_jsonl
from ckpttool.render.names import NameColumns
from ckpttool.render.placement import PLACED_BY, all_tensors, reason_of
from ckpttool.render.table import RowFormat, write_rows
from ckpttool.render.wrap import write_prose
from ckpttool.surgery.edge_notes import silent_edges
from ckpttool.surgery.plan import Change, Plan
from ckpttool.surgery.values import value_size
from ckpttool.surgery.writing.receipt import Receipt

_BYTES = Column("bytes", align="right", human=humanize.size)
_ACTION = Column("action", style="yellow")
_NEW_PATH = Column("new_object_path", "new path", fold=True, style="green")
_NEW_KEY = Column("new_key", "new key", fold=True, style="green")
_KIND = Column("kind", style=kind_style)
_CHECKPOINT = Column("checkpoint", fold=True)
_DTYPE = Column("dtype")
_NEW_DTYPE = Column("new_dtype", "new dtype", style="green")
_NEW_BYTES = Column("new_bytes", "new bytes", align="right", human=humanize.size)
# What becomes of tensors with new values, in a sentence.
_DONE = {
    "set": "set",
    "cast": "cast",
    "graft": "grafted",
    "average": "averaged",
    "layout": "laid out anew",
}


@dataclass(frozen=True, slots=True)
class Changed:
    """A checkpoint that was changed, or would be.

    Attributes:
        plan: what becomes of it.
        receipt: what was written; None for a dry run.
        source: the checkpoint as it was before.
        prefix: the destination; None where it was not said.
    """

    plan: Plan
    receipt: Receipt | None
    source: Source
    prefix: str | None


def write_changes(
    changed: Changed,
    command: str,
    format: str,
    stream: TextIO,
    terminal: Terminal,
    *,
    everything: bool = False,
    by_key: bool = False,
) -> None:
    """Write what becomes of each tensor, in a table by scope.

    Args:
        changed: the checkpoint.
        command: name of the command, for the JSON schema.
        format: "json" or one of the row formats.
        stream: where to.
        terminal: what `stream` is.
        everything: list every tensor in a table too.
        by_key: show keys instead of object paths and variable names.
    """
    if format == "json":
        write_json(changes_document(changed, command), stream)
    elif format == "table" and not everything:
        write_scopes([changed], stream, terminal)
    else:
        _write_change_rows([changed], format, stream, terminal, by_key=by_key, folder=False)


def write_folder_changes(
    done: Sequence[Changed],
    command: str,
    format: str,
    stream: TextIO,
    terminal: Terminal,
    *,
    dry_run: bool,
    state: str | None,
    everything: bool = False,
    by_key: bool = False,
) -> None:
    """Write what becomes of the tensors of a folder's checkpoints.

    Args:
        done: the checkpoints.
        command: name of the command, for the JSON schema.
        format: "json" or one of the row formats.
        stream: where to.
        terminal: what `stream` is.
        dry_run: whether nothing was written.
        state: path of the state file that was written.
        everything: list every tensor in a table too.
        by_key: show keys instead of object paths and variable names.
    """
    if format == "json":
        write_json(folder_document(done, command, dry_run=dry_run, state=state), stream)
    else:
        write_folder_rows(done, format, stream, terminal, everything=everything, by_key=by_key)


def write_folder_rows(
    done: Sequence[Changed],
    format: str,
    stream: TextIO,
    terminal: Terminal,
    *,
    everything: bool,
    by_key: bool,
) -> None:
    """Write what becomes of the tensors of several checkpoints, except as JSON."""
    if format == "table" and not everything:
        write_scopes(done, stream, terminal)
    else:
        _write_change_rows(done, format, stream, terminal, by_key=by_key, folder=True)


def _write_change_rows(
    done: Sequence[Changed],
    format: str,
    stream: TextIO,
    terminal: Terminal,
    *,
    by_key: bool,
    folder: bool,
) -> None:
    """Write a row for each tensor that changes, of a folder with the checkpoint that it is in."""
    changes = [(each, all_tensors(each.plan)) for each in done]
    placed = any(each.plan.placement is not None for each in done)
    folder &= len(done) > 1 or format != "table" or not placed
    if format == "jsonl":
        write_jsonl(
            (
                _change_document(change, each)
                | ({"checkpoint": each.source.prefix} if folder else {})
                | ({"reason": reason_of(each.plan, change.key)} if placed else {})
                for each, some in changes
                for change in some
            ),
            stream,
        )
        return
    by_key = by_key or format == "names"
    named = (each.source.names.row(change.key) for each, some in changes for change in some)
    names = NameColumns(named, by_key=by_key)
    new_paths = not by_key and any(each.plan.graph is not None for each in done)
    columns = (*names.columns, _ACTION, _NEW_PATH if new_paths else _NEW_KEY, _KIND, _BYTES)
    with_values = any(tensor.value for each in done for tensor in each.plan.tensors)
    if with_values:
        columns += (_DTYPE, _NEW_DTYPE, _NEW_BYTES)

    def rows() -> Iterator[tuple[object, ...]]:
        for each, some in changes:
            checkpoint = (each.source.prefix,) if folder else ()
            for change in some:
                new = change.new_key
                if new is not None and new_paths:
                    new = each.plan.short_name(new)
                cells = names.cells(each.source.names.row(change.key))
                values = _value_cells(change) if with_values else ()
                last = (*values, *checkpoint)
                why = (reason_of(each.plan, change.key),) if placed else ()
                yield (*cells, change.action, new, change.kind, change.bytes, *last, *why)

    if folder:
        columns += (_CHECKPOINT,)
    if placed:
        columns += (PLACED_BY,)
    write_rows(rows(), columns, cast(RowFormat, format), stream, terminal=terminal)


def _value_cells(change: Change) -> tuple[str | int | None, ...]:
    """Return the dtype of a tensor, and dtype and bytes of its new value."""
    tensor = change.tensor
    if tensor is None:
        return None, None, None
    size = change.bytes if tensor.value is None else value_size(tensor.value)
    return tensor.entry.dtype.name, tensor.dtype.name, size


def write_scopes(done: Sequence[Changed], stream: TextIO, terminal: Terminal) -> None:
    """Write the renamed scopes, what is dropped by scope and kind, and edges that no key shows.

    Checkpoints to which the same happens share their rows.
    """
    groups: dict[_Summary, list[str]] = {}
    for each in done:
        groups.setdefault(_Summary.of(each.plan), []).append(os.path.basename(each.source.prefix))
    first = True
    for summary, names in groups.items():
        tables = [
            (rows, columns) for rows, columns in zip(summary.rows, _TABLES, strict=True) if rows
        ]
        if len(done) > 1 and tables:
            stream.write("" if first else "\n")
            listed = ", ".join(map(printable, names))
            first = True
            write_prose(f"{listed}:", stream, terminal, style="bold")
        for rows, columns in tables:
            stream.write("" if first else "\n")
            first = False
            write_table(rows, columns, stream, terminal)
        if summary.left_out:
            stream.write(terminal.style(f"  and {summary.left_out} more; -v lists all", "dim"))
            stream.write("\n")


_TENSORS = Column("tensors", align="right", human=humanize.number)
_TABLES = (
    (Column("renamed", fold=True, style="cyan"), _TENSORS),
    (Column("dropped", fold=True, style="red"), Column("kind", style=kind_style), _TENSORS, _BYTES),
    (
        Column("new value", fold=True, style="cyan"),
        _ACTION,
        Column("dtype"),
        _TENSORS,
        _BYTES,
    ),
    (Column("object graph", fold=True, style="yellow"), Column("", fold=True)),
)


@dataclass(frozen=True, slots=True)
class _Summary:
    """The rows of `_TABLES`, and how many of the first are left out."""

    rows: tuple[tuple[tuple[object, ...], ...], ...]
    left_out: int

    @classmethod
    def of(cls, plan: Plan) -> _Summary:
        moves, left_out = fold_moves(plan_moves(plan))
        rows = (
            tuple((f"{move.old}{ARROW}{move.new}", move.tensors) for move in moves),
            tuple(drop_rows(plan)),
            tuple(value_rows(plan)),
            tuple(edge_rows(plan)),
        )
        return cls(rows, left_out)


def changes_document(changed: Changed, command: str) -> dict[str, object]:
    """Return what becomes of a checkpoint as one object."""
    members = plan_members(changed)
    return {"schema": f"ckpt.{command}/1", "dry_run": changed.receipt is None, **members}


def folder_document(
    done: Sequence[Changed], command: str, *, dry_run: bool, state: str | None
) -> dict[str, object]:
    """Return what becomes of a folder's checkpoints; arguments as in `write_folder_changes`."""
    return {
        "schema": f"ckpt.{command}/1",
        "dry_run": dry_run,
        "state": state,
        "checkpoints": [plan_members(each) for each in done],
    }


def plan_members(changed: Changed) -> dict[str, object]:
    """Return what a JSON document says of a checkpoint."""
    plan, receipt = changed.plan, changed.receipt
    changes = plan.changes
    return {
        "source": source_document(changed.source),
        "destination": changed.prefix,
        "changes": (_change_document(each, changed) for each in changes),
        "kept": len(plan.tensors),
        "by_kind": _by_kind(changes),
        "moves": [
            {"old": move.old, "new": move.new, "tensors": move.tensors} for move in plan_moves(plan)
        ],
        "edges": [{"path": old, "new_path": new} for old, new in silent_edges(plan)],
        "written": receipt_document(receipt) if receipt is not None else None,
        "notes": list(plan.notes if receipt is None else receipt.notes),
    }


def summary_line(changed: Changed) -> str:
    """Return in one line what was done, or would be."""
    parts = change_parts(changed.plan)
    what = f"of {total_before(changed.plan)}, {'; '.join(parts) if parts else 'none changes'}"
    return f"{what}; {outcome(changed.receipt, changed.prefix)}"


def total_before(plan: Plan) -> str:
    """Return how many tensors the source has, as far as they are planned for."""
    dropped = sum(change.action == "drop" for change in plan.changes)
    return humanize.counted(len(plan.tensors) + dropped, "tensor")


def change_parts(plan: Plan) -> list[str]:
    """Return what becomes of tensors that do not stay as they are."""
    changes = plan.changes
    renamed = sum(change.action == "rename" for change in changes)
    dropped = [change for change in changes if change.action == "drop"]
    parts = []
    if renamed:
        parts.append(f"{humanize.number(renamed)} renamed")
    if dropped:
        size = humanize.size(sum(change.bytes or 0 for change in dropped))
        kinds = ", ".join(
            f"{kind} {humanize.size(row['bytes'])}" for kind, row in _by_kind(dropped).items()
        )
        parts.append(f"{humanize.number(len(dropped))} dropped: {size} ({kinds})")
    counts: Counter[str] = Counter(change.action for change in changes)
    for action, word in _DONE.items():
        if counts[action]:
            parts.append(f"{humanize.number(counts[action])} {word}")
    return parts


def outcome(receipt: Receipt | None, prefix: str | None) -> str:
    """Return what was written; the receipt of a dry run is None."""
    if receipt is None:
        return "dry run, nothing was written"
    hows = Counter(shard.how for shard in receipt.shards)
    shards = ", ".join(f"{count} {how}" for how, count in hows.items())
    written = (
        f"wrote {prefix}: data shards {shards}; {humanize.size(receipt.bytes_written)} written"
    )
    if receipt.bytes_dead:
        written += f", {humanize.size(receipt.bytes_dead)} dead"
    return written


def _change_document(change: Change, changed: Changed) -> dict[str, object]:
    new = change.new_key
    document: dict[str, object] = {
        "action": change.action,
        "key": change.key,
        "new_key": new,
        **changed.source.names.members(change.key),
        "new_object_path": None if new is None else changed.plan.object_path(new),
        "kind": change.kind,
        "bytes": change.bytes,
    }
    tensor = change.tensor
    if tensor is not None and tensor.value is not None:
        document |= {
            "dtype": tensor.entry.dtype.name,
            "new_dtype": tensor.dtype.name,
            "new_shape": list(tensor.shape),
            "new_bytes": value_size(tensor.value),
            "from": [
                {"prefix": each.checkpoint.prefix, "key": each.key} for each in tensor.value.sources
            ],
        }
    return document


def _by_kind(changes: tuple[Change, ...] | list[Change]) -> dict[str, dict[str, int]]:
    """Return how many tensors are dropped, and how many bytes, by kind."""
    sums: dict[str, dict[str, int]] = {}
    for change in changes:
        if change.action == "drop":
            row = sums.setdefault(change.kind, {"tensors": 0, "bytes": 0})
            row["tensors"] += 1
            row["bytes"] += change.bytes or 0
    return sums


def receipt_document(receipt: Receipt) -> dict[str, object]:
    """Return what a JSON document says of what was written."""
    document = asdict(receipt)
    del document["notes"]
    return document
