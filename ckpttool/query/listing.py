"""The tensors of a checkpoint, from its index or headers alone: no values are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ckpttool.bundle.reader import BundleReader
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.checkpoint.selection.select import Selector
from ckpttool.errors import CkptError
from ckpttool.objects.keys import GRAPH_KEY
from ckpttool.query.rows import BundleRows, SliceRow, TensorRow, Totals, keys_of
from ckpttool.query.source import Source, select_rows
from ckpttool.tensor.shape import element_count

if TYPE_CHECKING:
    from ckpttool.interchange.reader import ArrayReader
    from ckpttool.legacy.reader import LegacyReader

SORT_ORDERS = ("key", "bytes", "shard")


class DamagedRow(NamedTuple):
    """A tensor whose entry, or that of one of its slices, is damaged.

    Attributes:
        key: its name in the file.
        object_path: its short name, if any.
        kind: as far as known.
        error: the damage.
        name: full name of the variable, if known.
    """

    key: str
    object_path: str | None
    kind: str
    error: CkptError
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """The answer of `list_tensors`.

    Attributes:
        source: the checkpoint.
        rows: the selected tensors in the requested order.
        totals: over all selected tensors, those beyond a limit included.
        damaged: selected tensors with damaged entries; they are in no row and no total.
        graph: whether the object graph is among them.
    """

    source: Source
    rows: Sequence[TensorRow]
    totals: Totals
    damaged: tuple[DamagedRow, ...] = ()
    graph: bool = False


def list_tensors(
    ckpt: Checkpoint,
    selector: Selector | None = None,
    *,
    sort: str = "key",
    limit: int | None = None,
) -> Listing:
    """List tensors.

    Args:
        ckpt: the checkpoint.
        selector: which tensors; all without one.
        sort: `"key"` by key bytes, `"bytes"` largest first, `"shard"` as they lie in the shards.
        limit: how many rows at most.

    Raises:
        SelectionError: a pattern selects nothing.
    """
    rows = tensor_rows(ckpt)
    source = Source.of(ckpt, rows)
    damaged = damaged_rows(ckpt)
    if selector is not None and damaged:
        names: list[TensorRow | DamagedRow] = [*rows, *damaged]
        both = select_rows(ckpt, selector, names)
        rows = [row for row in both if isinstance(row, TensorRow)]
        damaged = [row for row in both if isinstance(row, DamagedRow)]
    elif selector is not None:
        rows = select_rows(ckpt, selector, rows)
    totals = Totals.of(rows)
    graph = source.style == "object" and GRAPH_KEY in keys_of(rows)
    if sort == "bytes":
        rows = sorted(rows, key=lambda row: -(row.bytes or 0))
    elif sort == "shard":
        rows = sorted(rows, key=_place)
    return Listing(source, rows if limit is None else rows[:limit], totals, tuple(damaged), graph)


def damaged_rows(ckpt: Checkpoint) -> list[DamagedRow]:
    """Return the tensors whose entries are damaged, by key bytes."""
    return [
        DamagedRow(key, ckpt.object_path(key), ckpt.kinds[key], error, ckpt.variable_names.get(key))
        for key, error in ckpt.damaged.items()
    ]


def tensor_rows(ckpt: Checkpoint) -> Sequence[TensorRow]:
    """Return the row of every tensor, by key bytes, but for those that are damaged."""
    reader = ckpt.reader
    if isinstance(reader, BundleReader):
        return BundleRows(
            reader,
            lambda: ckpt.kinds,
            lambda: ckpt.variable_names,
            object_based=ckpt.style == "object",
        )
    from ckpttool.interchange.reader import ArrayReader  # a bundle needs nothing of it

    if isinstance(reader, ArrayReader):
        return list(_array_rows(ckpt, reader))
    return list(_legacy_rows(ckpt, reader))


def _array_rows(ckpt: Checkpoint, reader: ArrayReader) -> Iterator[TensorRow]:
    for key, entry in reader.entries.sound():
        yield TensorRow(
            key,
            ckpt.object_path(key),
            entry.dtype.name,
            entry.shape,
            ckpt.kinds[key],
            entry.elements,
            entry.size,
            entry.shard_id,
            entry.offset,
            None,
            (),
            ckpt.variable_names.get(key),
        )


def _legacy_rows(ckpt: Checkpoint, reader: LegacyReader) -> Iterator[TensorRow]:
    for key, entry in reader.entries.sound():
        whole, size = entry.whole, entry.dtype.size
        slices = tuple(
            SliceRow(
                str(part),
                shard_id,
                None,
                None if size is None else size * element_count(part.shape(entry.shape)),
                None,
            )
            for part, shard_id in (() if whole else entry.parts)
        )
        yield TensorRow(
            key,
            ckpt.object_path(key),
            entry.dtype.name,
            entry.shape,
            ckpt.kinds[key],
            entry.elements,
            entry.size,
            whole.shard_id if whole else None,
            None,
            None,
            slices,
            ckpt.variable_names.get(key),
        )


def _place(row: TensorRow) -> tuple[int, int]:
    if row.shard is not None:
        return row.shard, row.offset or 0
    return min(((part.shard, part.offset or 0) for part in row.slices), default=(0, 0))
