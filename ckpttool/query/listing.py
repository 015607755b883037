"""The tensors of a checkpoint, from its index alone: no data shard is opened."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ckpttool.bundle.entry import BundleEntry
from ckpttool.bundle.reader import BundleReader
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.checkpoint.select import Selector
from ckpttool.coding.checksum import unmask
from ckpttool.meta.object_keys import object_path
from ckpttool.query.source import Source, select_rows
from ckpttool.tensor.shape import Shape, element_count

if TYPE_CHECKING:
    from ckpttool.legacy.reader import LegacyReader

SORT_ORDERS = ("key", "bytes", "shard")


class SliceRow(NamedTuple):
    """A slice of a partitioned tensor; the attributes are those of `TensorRow`."""

    spec: str
    shard: int
    offset: int | None
    bytes: int | None
    crc32c: int | None


class TensorRow(NamedTuple):
    """A tensor, as the index describes it.

    A named tuple, not a dataclass: a listing can hold millions of them.

    Attributes:
        key: its name in the file.
        object_path: its short name; None where it has none.
        dtype: name of the dtype.
        shape: of the whole tensor.
        kind: what it is: weight, slot, optimizer, step, ema, iterator, table, graph or other.
        elements: how many it has.
        bytes: stored bytes, of all slices together. For V1, where that cannot be told without
            reading them, what the elements take in memory; None for strings.
        shard: number of the data shard, or of the file of V1; None for a partitioned tensor.
        offset: first byte in that shard; None for a partitioned tensor and for V1.
        crc32c: of the stored bytes, not masked; None for a partitioned tensor and for V1.
        slices: of a partitioned tensor.
    """

    key: str
    object_path: str | None
    dtype: str
    shape: tuple[int, ...]
    kind: str
    elements: int
    bytes: int | None
    shard: int | None
    offset: int | None
    crc32c: int | None
    slices: tuple[SliceRow, ...] = ()


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over tensors; bytes that cannot be told are left out."""

    tensors: int
    elements: int
    bytes: int

    @classmethod
    def of(cls, rows: Iterable[TensorRow]) -> Totals:
        """Add rows up."""
        tensors = elements = size = 0
        for row in rows:
            tensors += 1
            elements += row.elements
            size += row.bytes or 0
        return cls(tensors, elements, size)


@dataclass(frozen=True, slots=True)
class Listing:
    """The answer of `list_tensors`.

    Attributes:
        source: the checkpoint.
        rows: the selected tensors in the order asked for.
        totals: over all selected tensors, also those that a limit cut off.
    """

    source: Source
    rows: list[TensorRow]
    totals: Totals


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
        CorruptError: an entry contradicts itself.
    """
    rows = tensor_rows(ckpt)
    if selector is not None:
        rows = select_rows(ckpt, selector, rows)
    totals = Totals.of(rows)
    if sort == "bytes":
        rows.sort(key=lambda row: -(row.bytes or 0))
    elif sort == "shard":
        rows.sort(key=_place)
    return Listing(Source.of(ckpt), rows if limit is None else rows[:limit], totals)


def tensor_rows(ckpt: Checkpoint) -> list[TensorRow]:
    """Return the row of every tensor, by key bytes."""
    kinds = ckpt.kinds
    reader = ckpt.reader
    if not isinstance(reader, BundleReader):
        return list(_legacy_rows(ckpt, reader))
    entries = reader.entries.items()
    paths: Iterable[str | None] = [None] * len(entries)
    if ckpt.style == "object":
        paths = map(object_path, ckpt.entries)
    # Tensors by the hundred thousand share a few shapes.
    counts: dict[Shape, int] = {}
    rows = []
    for (key, entry), path in zip(entries, paths, strict=True):
        dtype, shape, shard_id, offset, size, crc, slices, _ = entry
        count = counts.get(shape)
        if count is None:
            count = counts[shape] = element_count(shape)
        kind = kinds[key]
        if slices:
            rows.append(_partitioned_row(reader, key, path, kind, entry))
        else:
            row = (
                key,
                path,
                dtype.name,
                shape,
                kind,
                count,
                size,
                shard_id,
                offset,
                unmask(crc),
                (),
            )
            rows.append(_new_row(TensorRow, row))
    return rows


# What the class itself would call, without the time that takes.
_new_row: Callable[[type[TensorRow], tuple[object, ...]], TensorRow] = tuple.__new__


def _partitioned_row(
    reader: BundleReader, key: str, path: str | None, kind: str, entry: BundleEntry
) -> TensorRow:
    slices = tuple(
        SliceRow(str(part), stored.shard_id, stored.offset, stored.size, unmask(stored.crc32c))
        for part, stored in reader.index.slice_entries(key)
    )
    size = sum(part.bytes or 0 for part in slices)
    dtype, shape = entry.dtype.name, entry.shape
    return TensorRow(key, path, dtype, shape, kind, entry.elements, size, None, None, None, slices)


def _legacy_rows(ckpt: Checkpoint, reader: LegacyReader) -> Iterator[TensorRow]:
    for key, entry in reader.entries.items():
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
        )


def _place(row: TensorRow) -> tuple[int, int]:
    if row.shard is not None:
        return row.shard, row.offset or 0
    return min(((part.shard, part.offset or 0) for part in row.slices), default=(0, 0))
