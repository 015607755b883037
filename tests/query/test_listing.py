"""Listings agree with the manifest of the fixtures, and open no data shard."""

from __future__ import annotations

import os
import shutil

import pytest

from ckpttool import open_checkpoint
from ckpttool.checkpoint.locate import locate
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.checkpoint.selection.select import SelectionRule, Selector
from ckpttool.errors import SelectionError
from ckpttool.query.listing import list_tensors
from tests.support.fixtures import BundleFixture, bundle
from tests.support.sweeps import each_bundle

GUIDE = "v2/tf2.21/guide_legacy_adam/tf_ckpts/ckpt-5"


@each_bundle
def test_rows_agree_with_tensorflow(fixture: BundleFixture) -> None:
    with open_checkpoint(fixture.prefix) as ckpt:
        listing = list_tensors(ckpt)
    found = {row.key: (row.dtype, row.shape) for row in listing.rows}
    assert found == {key: (facts.dtype, facts.shape) for key, facts in fixture.tensors.items()}
    keys = [row.key.encode("utf-8", "surrogateescape") for row in listing.rows]
    assert keys == sorted(keys)
    assert listing.totals.tensors == len(listing.rows)
    assert listing.totals.bytes == sum(row.bytes or 0 for row in listing.rows)


@each_bundle
def test_no_data_shard_is_needed(fixture: BundleFixture, tmp_path: os.PathLike[str]) -> None:
    prefix = os.path.join(tmp_path, "model")
    shutil.copy(fixture.prefix + ".index", prefix + ".index")
    # The kinds are then those that the keys tell.
    location = locate(fixture.prefix)
    with Checkpoint(location, index_only=True) as whole, open_checkpoint(prefix) as bare:
        complete, alone = list_tensors(whole), list_tensors(bare)
    assert alone.rows == complete.rows
    assert not complete.source.missing_shards
    assert len(alone.source.missing_shards) >= any(row.bytes for row in alone.rows)


def test_slices_are_told_with_their_places() -> None:
    with open_checkpoint(bundle("v2/tf2.21/partitioned_sharded/model").prefix) as ckpt:
        rows = {row.key: row for row in list_tensors(ckpt).rows}
    partitioned = [row for row in rows.values() if row.slices]
    assert partitioned
    for row in partitioned:
        assert row.shard is None and row.offset is None and row.crc32c is None
        assert row.bytes == sum(part.bytes or 0 for part in row.slices)
    assert len({part.shard for row in partitioned for part in row.slices}) > 1


def test_sorting_and_limits() -> None:
    with open_checkpoint(bundle(GUIDE).prefix) as ckpt:
        by_bytes = list_tensors(ckpt, sort="bytes", limit=3)
        by_place = list_tensors(ckpt, sort="shard")
        everything = list_tensors(ckpt)
    sizes = [row.bytes for row in by_bytes.rows]
    assert sizes == sorted((row.bytes or 0 for row in everything.rows), reverse=True)[:3]
    assert by_bytes.totals == everything.totals
    places = [(row.shard, row.offset) for row in by_place.rows]
    assert places == sorted(places)
    assert by_place.rows[-1].kind == "graph"


def test_selection_by_pattern_and_kind() -> None:
    with open_checkpoint(bundle(GUIDE).prefix) as ckpt:
        slots = list_tensors(ckpt, Selector([SelectionRule("net")], kinds=["slot"]))
        assert len(slots.rows) == 4
        assert all(".OPTIMIZER_SLOT" in row.key for row in slots.rows)
        one = list_tensors(ckpt, Selector([SelectionRule("net/l1/kernel")]))
        with pytest.raises(SelectionError, match="net/l1/kernel"):
            list_tensors(ckpt, Selector([SelectionRule("net/l1/kernle")]))
    assert "net/l1/kernel/.ATTRIBUTES/VARIABLE_VALUE" in {row.key for row in one.rows}


def test_crc32c_is_told_unmasked() -> None:
    # crc32c of 8 zero bytes, which the counter of a fresh int64 step would have, is known.
    with open_checkpoint(bundle("v2/tf2.21/keras3_adam/ckpt-1").prefix) as ckpt:
        from ckpttool.coding.checksum import crc32c

        rows = {row.key: row for row in list_tensors(ckpt).rows}
        key = "save_counter/.ATTRIBUTES/VARIABLE_VALUE"
        assert rows[key].crc32c == crc32c(ckpt[key].tobytes())
