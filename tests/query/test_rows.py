"""The rows of a listing, by columns."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from ckpttool import open_checkpoint
from ckpttool.bundle.entry import BundleEntry, EntryDecoder
from ckpttool.bundle.reader import BundleReader
from ckpttool.checkpoint.save import save_checkpoint
from ckpttool.query.listing import list_tensors, tensor_rows
from ckpttool.query.rows import (
    BundleRows,
    MergedRows,
    TensorRow,
    Totals,
    ends,
    keys_of,
    short_name,
    telling_name,
)
from ckpttool.tensor.dtypes import dtype_of_name
from tests.support.fixtures import FIXTURES

PREFIXES = sorted(
    str(path.with_suffix(""))
    for path in Path(FIXTURES, "v2").rglob("*.index")
    if path.stat().st_size < 1 << 20
)


@pytest.mark.parametrize("prefix", PREFIXES, ids=lambda name: name.rpartition("v2/")[2])
def test_columns_say_what_single_rows_say(prefix: str) -> None:
    with open_checkpoint(prefix) as ckpt:
        rows = tensor_rows(ckpt)
        assert isinstance(rows, BundleRows)
        listed = list(rows)
        assert listed == [rows[at] for at in range(len(rows))] == rows[:]
        assert rows[-1] == listed[-1] and rows == listed
        cells = [(row.dtype, row.shape, row.kind, row.bytes) for row in listed]
        assert list(zip(*rows.columns(), strict=True)) == cells
        assert Totals.of(rows) == Totals.of(listed)
        assert ends(rows) == ends(listed)
        short = rows.short_names()
        assert list(short) == short[:] == list(map(short_name, listed))
        names = [telling_name(short_name(row), row.name) for row in listed]
        assert rows.telling_names() == (names if any(names) else None)
        assert [row.object_path for row in listed] == list(map(ckpt.object_path, rows.keys))
        for row in listed:
            entry = ckpt.bundle.entries[row.key]
            assert (row.dtype, row.shape) == (entry.dtype.name, entry.shape)
            assert row.elements == entry.elements
            assert bool(row.slices) == bool(entry.slices)
            if not entry.slices:
                assert (row.shard, row.offset, row.bytes) == entry[2:5]
        files = ckpt.bundle.shard_files()
        assert ckpt.bundle.shard_files(rows.shards()) == files


def test_a_row_beyond_the_last_is_none(tmp_path: Path) -> None:
    save_checkpoint(str(tmp_path / "m"), {"a": np.ones(2, np.float32)})
    with open_checkpoint(tmp_path / "m") as ckpt:
        rows = tensor_rows(ckpt)
        with pytest.raises(IndexError):
            rows[1]


@pytest.mark.large
def test_a_listing_takes_little_more_than_the_index(tmp_path: Path) -> None:
    number = 20_000
    values = {f"scope/layer_{at:06}/kernel": np.ones(3, np.float32) for at in range(number)}
    save_checkpoint(str(tmp_path / "m"), values)
    with BundleReader(str(tmp_path / "m")) as reader:
        reader.entries.described()
    tracemalloc.start()
    try:
        with open_checkpoint(tmp_path / "m") as ckpt:
            listing = list_tensors(ckpt)
            assert sum(1 for _ in listing.rows) == number
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # A row and a decoded entry for each tensor would be 700 bytes.
    assert peak / number < 450


def test_offsets_of_every_length_are_decoded() -> None:
    decoder = EntryDecoder(1)
    draw = random.Random(5)
    offsets = [0, *(draw.randrange(1 << bits, 2 << bits) for bits in range(60) for _ in range(4))]
    for offset in [*offsets, *((1 << bits) - 1 for bits in range(1, 62))]:
        entry = BundleEntry(dtype_of_name("float32"), (2, 3), 0, offset, 24, 77)
        assert decoder.decode(entry.encode()) == entry


def test_merged_rows_are_in_the_order_of_key_bytes() -> None:
    def row(key: str, shard: int) -> TensorRow:
        return TensorRow(key, None, "float32", (), "weight", 1, 4, shard, 0, 0)

    first = {key: row(key, 0) for key in ("a", "c", "\udc80")}
    second = {key: row(key, 1) for key in ("\U0001f600", "c", "b")}
    merged = MergedRows(first, second)
    assert merged.keys == ["a", "b", "c", "\udc80", "\U0001f600"]
    assert [each.shard for each in merged] == [0, 1, 0, 0, 1]
    assert merged[1:3] == [row("b", 1), row("c", 0)]
    assert keys_of(merged) is merged.keys
