"""The answers of `ckpt ls` as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

from ckpttool.query.folder import CheckpointRow
from ckpttool.query.grouping import FoldedRow, ScopeRow
from ckpttool.query.listing import Listing, SliceRow, TensorRow, Totals
from ckpttool.query.tree import TreeNode
from ckpttool.render import humanize
from ckpttool.render.console import Terminal
from ckpttool.render.jsonout import write_json
from ckpttool.render.source import source_document
from ckpttool.render.tabular import Column, RowFormat, write_rows

SCHEMA = "ckpt.ls/1"

_BYTES = Column("bytes", align="right", human=humanize.size)
_KIND = Column("kind", style="cyan")
_SHAPE = Column("shape", style="green")
_TENSOR = (Column("key", fold=True), Column("dtype"), _SHAPE, _KIND, _BYTES)
_PLACE = (
    Column("shard", align="right"),
    Column("offset", align="right"),
    Column("crc32c"),
    Column("slices", fold=True),
)
_SCOPE = (
    Column("scope", fold=True),
    _KIND,
    Column("tensors", align="right", human=humanize.number),
    Column("elements", align="right", human=humanize.number),
    _BYTES,
)
_FOLDED = (
    Column("key", fold=True),
    Column("tensors", align="right", human=lambda count: "" if count == 1 else f"× {count}"),
    Column("dtype"),
    _SHAPE,
    _KIND,
    _BYTES,
)
_CHECKPOINT = (
    Column("checkpoint", fold=True),
    Column("latest", human=lambda latest: "latest" if latest else "", style="green"),
    Column("saved"),
    Column("step", align="right"),
    Column("format"),
    Column("tensors", align="right", human=humanize.number),
    _BYTES,
    Column("complete", human=lambda complete: "complete" if complete else "INCOMPLETE"),
    Column("missing", fold=True, style="red"),
)


def write_tensors(
    listing: Listing,
    format: RowFormat,
    stream: TextIO,
    terminal: Terminal,
    *,
    long: bool = False,
    object_paths: bool = False,
) -> None:
    """Write the tensors of a listing as rows.

    Args:
        listing: what to write.
        format: one of the row formats.
        stream: where to.
        terminal: what `stream` is.
        long: add shard, offset, crc32c and slices.
        object_paths: name tensors by object path where they have one.
    """
    columns = _TENSOR + _PLACE if long else _TENSOR
    rows = (
        (
            row.object_path if object_paths and row.object_path is not None else row.key,
            row.dtype,
            row.shape,
            row.kind,
            row.bytes,
            *(_place(row) if long else ()),
        )
        for row in listing.rows
    )
    write_rows(rows, columns, format, stream, terminal=terminal)
    if format == "table":
        _write_totals(listing.totals, len(listing.rows), stream, terminal)


def write_scopes(
    rows: Sequence[ScopeRow], format: RowFormat, stream: TextIO, terminal: Terminal
) -> None:
    """Write sums by scope."""
    write_rows(rows, _SCOPE, format, stream, terminal=terminal)


def write_folded(
    rows: Sequence[FoldedRow], format: RowFormat, stream: TextIO, terminal: Terminal
) -> None:
    """Write tensors folded by the numbers in their names."""
    write_rows(rows, _FOLDED, format, stream, terminal=terminal)


def write_checkpoints(
    rows: Sequence[CheckpointRow], format: RowFormat, stream: TextIO, terminal: Terminal
) -> None:
    """Write the checkpoints of a folder."""
    cells = (
        (
            row.name,
            row.latest,
            row.saved if format == "jsonl" else humanize.moment(row.saved),
            row.step,
            row.generation,
            row.tensors,
            row.bytes,
            row.complete,
            "; ".join(row.missing) or None,
        )
        for row in rows
    )
    write_rows(cells, _CHECKPOINT, format, stream, terminal=terminal)


def write_json_document(
    stream: TextIO,
    listing: Listing | None = None,
    *,
    folder: str | None = None,
    checkpoints: Iterable[CheckpointRow] | None = None,
    scopes: Iterable[ScopeRow] | None = None,
    folded: Iterable[FoldedRow] | None = None,
    tree: Iterable[TreeNode] | None = None,
) -> None:
    """Write the answer as one JSON object; members that do not apply are left out."""
    document: dict[str, object] = {"schema": SCHEMA}
    if listing is not None:
        document["source"] = source_document(listing.source)
    if folder is not None:
        document["folder"] = folder
    if checkpoints is not None:
        document["checkpoints"] = map(_checkpoint_document, checkpoints)
    if scopes is not None:
        document["scopes"] = (row._asdict() for row in scopes)
    elif folded is not None:
        document["folded"] = (row._asdict() for row in folded)
    elif tree is not None:
        document["tree"] = map(_tree_document, tree)
    elif listing is not None:
        document["tensors"] = map(tensor_document, listing.rows)
    if listing is not None:
        totals = listing.totals
        document["totals"] = {
            "tensors": totals.tensors,
            "elements": totals.elements,
            "bytes": totals.bytes,
        }
    write_json(document, stream)


def write_json_lines(listing: Listing, stream: TextIO) -> None:
    """Write each tensor as a JSON object on a line of its own."""
    from ckpttool.render.jsonout import write_jsonl

    write_jsonl(map(tensor_document, listing.rows), stream)


def tensor_document(row: TensorRow) -> dict[str, object]:
    """Return a tensor as its JSON object."""
    return {
        "key": row.key,
        "object_path": row.object_path,
        "dtype": row.dtype,
        "shape": row.shape,
        "kind": row.kind,
        "elements": row.elements,
        "bytes": row.bytes,
        "shard": row.shard,
        "offset": row.offset,
        "crc32c": None if row.crc32c is None else f"{row.crc32c:08x}",
        "slices": [_slice_document(part) for part in row.slices],
    }


def _slice_document(part: SliceRow) -> dict[str, object]:
    return {**part._asdict(), "crc32c": f"{part.crc32c:08x}"}


def _checkpoint_document(row: CheckpointRow) -> dict[str, object]:
    return {
        "name": row.name,
        "latest": row.latest,
        "saved": row.saved,
        "step": row.step,
        "generation": row.generation,
        "tensors": row.tensors,
        "bytes": row.bytes,
        "complete": row.complete,
        "missing": row.missing,
    }


def _tree_document(node: TreeNode) -> dict[str, object]:
    return {
        "depth": node.depth,
        "name": node.name,
        "path": node.path,
        "tensors": [row.key for row in node.tensors],
        "slots": [
            {"name": slot.name, "key": slot.tensor.key if slot.tensor else None}
            for slot in node.slots
        ],
        "same_as": node.same_as,
        "hidden": node.hidden,
    }


def _place(row: TensorRow) -> Iterator[object]:
    yield row.shard
    yield row.offset
    yield None if row.crc32c is None else f"{row.crc32c:08x}"
    yield (
        " ".join(f"{part.spec}@{part.shard}:{part.offset}" for part in row.slices)
        if row.slices
        else None
    )


def _write_totals(totals: Totals, shown: int, stream: TextIO, terminal: Terminal) -> None:
    text = (
        f"{humanize.counted(totals.tensors, 'tensor')}, "
        f"{humanize.counted(totals.elements, 'element')}, {humanize.size(totals.bytes)}"
    )
    if shown < totals.tensors:
        text += f"; {humanize.number(shown)} shown"
    stream.write(terminal.style(text, "dim") + "\n")
