"""The answers of `ckpt ls` as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from operator import attrgetter
from typing import TYPE_CHECKING, TextIO, cast

from ckpttool.query.folder import CheckpointRow
from ckpttool.query.grouping import FoldedRow, ScopeRow
from ckpttool.query.listing import Listing
from ckpttool.query.rows import BundleRows, SliceRow, TensorRow
from ckpttool.render import humanize
from ckpttool.render.bars import with_shares
from ckpttool.render.cells import ByColumn, Column, Row, kind_style
from ckpttool.render.console import Terminal
from ckpttool.render.jsonout import source_document, write_json, write_jsonl
from ckpttool.render.names import KEY, NAME, PATH, NameColumns
from ckpttool.render.table import RowFormat, write_rows
from ckpttool.render.wrap import write_prose

if TYPE_CHECKING:
    from ckpttool.query.tree.nodes import TreeNode

SCHEMA = "ckpt.ls/1"

_BYTES = Column("bytes", align="right", human=humanize.size)
_KIND = Column("kind", style=kind_style)
_SHAPE = Column("shape", style="green")
_TENSOR = (Column("dtype", spare=True), _SHAPE, _KIND, _BYTES)
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
    KEY,
    Column("tensors", align="right", human=lambda count: "" if count == 1 else f"× {count}"),
    Column("dtype"),
    _SHAPE,
    _KIND,
    _BYTES,
)
_CHECKPOINT = (
    Column("checkpoint", fold=True),
    Column("latest"),
    Column("saved", human=lambda moment: moment[:16]),  # the seconds are for programs
    Column("step", align="right"),
    Column("format"),
    Column("tensors", align="right", human=humanize.number),
    _BYTES,
    Column("complete"),
    Column("missing", fold=True),
)
_STATUS_STYLES = {"latest": "green", "complete": ""}
_STATUS = Column("status", fold=True, style=lambda text: _STATUS_STYLES.get(text, "bold red"))


def write_listing(
    listing: Listing,
    format: str,
    stream: TextIO,
    terminal: Terminal,
    *,
    checkpoints: Sequence[CheckpointRow] | None = None,
    scopes: Sequence[ScopeRow] | None = None,
    folded: Sequence[FoldedRow] | None = None,
    tree: Iterable[TreeNode] | None = None,
    long: bool = False,
    keys: bool = False,
) -> None:
    """Write a listing of tensors, or one of the views of it.

    Args:
        listing: the tensors.
        format: "json" or one of the row formats.
        stream: where to.
        terminal: what `stream` is.
        checkpoints: those of the folder; they head a table and are a member of JSON.
        scopes: the view of sums by scope.
        folded: the view of tensors folded by the numbers in their names.
        tree: the view as a tree; it has no row formats but "table" and "plain".
        long: add shard, offset, crc32c and slices.
        keys: show keys instead of object paths and variable names.
    """
    if format == "json":
        view = _view_members(listing, scopes, folded, tree)
        _write_document(stream, listing, checkpoints, view)
        return
    rows = cast(RowFormat, format)
    left_out: tuple[str, ...] = ()
    if checkpoints and format == "table":
        write_checkpoints(checkpoints, "table", stream, terminal)
        stream.write("\n")
    if tree is not None:
        from ckpttool.render.tree import write_tree

        write_tree(tree, listing.source.prefix, stream, terminal)
    elif scopes is not None:
        if rows == "names":  # a scope that holds several kinds is still one scope
            scopes = list({row.scope: row for row in scopes}.values())
        shown: Sequence[Row] = scopes
        columns: Sequence[Column] = _SCOPE
        if format == "table":
            parts = [row.bytes for row in scopes]
            shown, columns = with_shares(scopes, _SCOPE, parts, listing.totals.bytes, terminal)
        write_rows(shown, columns, rows, stream, terminal=terminal)
    elif folded is not None:
        write_rows(folded, _FOLDED, rows, stream, terminal=terminal)
    elif listing.rows or format != "table":  # a heading alone would look like a mistake
        left_out = _write_tensors(listing, rows, stream, terminal, long=long, keys=keys)
    if format == "table":
        _write_totals(listing, stream, terminal, left_out)


# Many times as fast as naming the members, which counts where there are hundreds of thousands.
_usual_cells = attrgetter("dtype", "shape", "kind", "bytes")


def _write_tensors(
    listing: Listing,
    format: RowFormat,
    stream: TextIO,
    terminal: Terminal,
    *,
    long: bool,
    keys: bool,
) -> tuple[str, ...]:
    rows = listing.rows
    if format == "jsonl":
        paths = listing.source.names.paths
        write_jsonl((tensor_document(row, paths) for row in rows), stream)
        return ()
    columns: tuple[Column, ...]
    cells: list[Sequence[object]]
    if isinstance(rows, BundleRows):
        keys = keys or listing.source.style == "name"
        columns, cells = (KEY if keys else PATH,), [rows.keys if keys else rows.short_names()]
        if not keys and (telling := rows.telling_names()) is not None:
            columns, cells = (*columns, NAME), [*cells, telling]
        cells += rows.columns()
    else:
        names = NameColumns(rows, by_key=keys)
        columns = names.columns
        cells = _turned(map(names.cells, rows), len(columns))
        cells += _turned(map(_usual_cells, rows), len(_TENSOR))
    columns += _TENSOR
    if long:
        columns += _PLACE
        cells += _turned(map(_place, rows), len(_PLACE))
    return write_rows(ByColumn(tuple(cells)), columns, format, stream, terminal=terminal)


def _turned(rows: Iterable[Iterable[object]], columns: int) -> list[Sequence[object]]:
    """Return the cells of rows by column."""
    return list(zip(*rows, strict=True)) or [()] * columns


def write_checkpoints(
    rows: Sequence[CheckpointRow], format: RowFormat, stream: TextIO, terminal: Terminal
) -> None:
    """Write the checkpoints of a folder as rows; people read one status in place of three cells."""
    if format == "jsonl":
        write_jsonl(map(_checkpoint_document, rows), stream)
        return
    cells: Iterator[tuple[object, ...]] = (
        (
            row.name,
            row.latest,
            humanize.moment(row.saved),
            row.step,
            row.generation,
            None if row.tensors is None else row.tensors - row.graph,
            row.bytes,
            row.complete,
            "; ".join(row.missing) or None,
        )
        for row in rows
    )
    columns: tuple[Column, ...] = _CHECKPOINT
    if format in ("table", "markdown"):
        name, _, saved, step, form, *sums = columns[:-2]
        # Of the old format there is hardly ever any.
        legacy = any(row.generation != "V2" for row in rows)
        columns = (name, saved, step, *([form] if legacy else []), *sums, _STATUS)
        cells = (
            (cell[0], *cell[2:4], *(cell[4:5] if legacy else ()), *cell[5:7], _status(row))
            for cell, row in zip(cells, rows, strict=True)
        )
    write_rows(cells, columns, format, stream, terminal=terminal)


def _status(row: CheckpointRow) -> str:
    """Return the state of a checkpoint in words."""
    if row.complete:
        return "latest" if row.latest else "complete"
    text = "latest, missing " if row.latest else "missing "
    more = len(row.missing) - 1
    return text + row.missing[0] + (f", and {more} more" if more else "")


def write_folder_document(
    folder: str, checkpoints: Iterable[CheckpointRow], stream: TextIO
) -> None:
    """Write the checkpoints of a folder as one JSON object."""
    rows = map(_checkpoint_document, checkpoints)
    write_json({"schema": SCHEMA, "folder": folder, "checkpoints": rows}, stream)


def _view_members(
    listing: Listing,
    scopes: Sequence[ScopeRow] | None,
    folded: Sequence[FoldedRow] | None,
    tree: Iterable[TreeNode] | None,
) -> dict[str, object]:
    if tree is not None:
        return {"tree": map(_tree_document, tree)}
    if scopes is not None:
        return {"scopes": (row._asdict() for row in scopes)}
    if folded is not None:
        return {"folded": (row._asdict() for row in folded)}
    paths = listing.source.names.paths
    return {"tensors": (tensor_document(row, paths) for row in listing.rows)}


def _write_document(
    stream: TextIO,
    listing: Listing,
    checkpoints: Sequence[CheckpointRow] | None,
    view: dict[str, object],
) -> None:
    document: dict[str, object] = {"schema": SCHEMA, "source": source_document(listing.source)}
    if checkpoints is not None:
        document["checkpoints"] = map(_checkpoint_document, checkpoints)
    document |= view
    document["totals"] = asdict(listing.totals)
    if listing.damaged:
        document["damaged"] = [
            {
                "key": each.key,
                **listing.source.names.members(each.key),
                "kind": each.kind,
                "problem": each.error.message,
            }
            for each in listing.damaged
        ]
    write_json(document, stream)


def tensor_document(row: TensorRow, paths: Callable[[str], tuple[str, ...]]) -> dict[str, object]:
    """Return a tensor as its JSON object.

    Args:
        row: the tensor.
        paths: returns the object paths for a key.
    """
    return {
        "key": row.key,
        "object_path": row.object_path,
        "name": row.name,
        "paths": paths(row.key),
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
    return {**part._asdict(), "crc32c": None if part.crc32c is None else f"{part.crc32c:08x}"}


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
        " ".join(
            f"{part.spec}@{part.shard}" + ("" if part.offset is None else f":{part.offset}")
            for part in row.slices
        )
        if row.slices
        else None
    )


def _write_totals(
    listing: Listing, stream: TextIO, terminal: Terminal, left_out: Sequence[str]
) -> None:
    totals, shown = listing.totals, len(listing.rows)
    text = (
        f"{humanize.stored(totals.tensors, graph=listing.graph)}, "
        f"{humanize.counted(totals.elements - listing.graph, 'element')}, "
        f"{humanize.size(totals.bytes)}"
    )
    if shown < totals.tensors:
        text += f"; {humanize.number(shown)} shown"
    if listing.damaged:
        text += f"; {humanize.counted(len(listing.damaged), 'damaged tensor')} not listed"
    if left_out:
        text += f"; no room for {', '.join(left_out)}"
    write_prose(text, stream, terminal, style="dim")
