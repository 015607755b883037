"""Reading commands take V1 wherever they take V2."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from ckpttool import open_checkpoint
from ckpttool.query.folder import list_folder
from ckpttool.query.listing import list_tensors
from ckpttool.query.summary import summarize
from ckpttool.query.values.detail import Values, describe_tensors
from ckpttool.query.values.files import ValueFile
from ckpttool.query.values.parts import Part
from ckpttool.query.values.targets import Target
from ckpttool.storage.source import RandomAccessFile
from tests.legacy.handmade import LegacyFixture, legacy_fixture, legacy_fixtures
from tests.support import corruption
from tests.support.fixtures import digest, read_bytes

SHARDED = "v1/tf1.15/partitioned_sharded/model.ckpt-7"
BLOCKS = "v1/tf2.21/blocks/model"
EACH = pytest.mark.parametrize("fixture", legacy_fixtures(), ids=lambda fixture: fixture.name)


@EACH
def test_rows(fixture: LegacyFixture) -> None:
    with open_checkpoint(fixture.address) as ckpt:
        listing = list_tensors(ckpt)
        by_shard = list_tensors(ckpt, sort="shard")
        by_bytes = list_tensors(ckpt, sort="bytes")
    found = {row.key: (row.dtype, row.shape) for row in listing.rows}
    assert found == {key: (facts.dtype, facts.shape) for key, facts in fixture.tensors.items()}
    assert len(by_shard.rows) == len(by_bytes.rows) == len(listing.rows)
    source = listing.source
    assert (source.generation, source.byte_order, source.index_bytes) == ("V1", None, None)
    assert (source.shards, source.missing_shards) == (len(fixture.paths), ())
    assert source.data_bytes == sum(map(os.path.getsize, fixture.paths))
    for row in listing.rows:
        assert row.offset is None and row.crc32c is None
        assert (row.bytes is None) == (row.dtype == "string")
        assert (row.shard is None) == bool(row.slices)
        if row.slices and row.bytes is not None:
            assert row.bytes == sum(part.bytes or 0 for part in row.slices)
            assert {part.shard for part in row.slices} <= set(range(source.shards))
    assert listing.totals.bytes == sum(row.bytes or 0 for row in listing.rows)


def test_a_listing_reads_no_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a file of several blocks only the first, the index and the footer are read."""
    fixture = legacy_fixture(BLOCKS)
    data = read_bytes(fixture.paths[0])
    blocks = corruption.spans(data)[:-2]  # those behind are the metaindex and the index
    assert len(blocks) > 1
    touched: list[tuple[int, int]] = []
    for name in ("read_at", "read_into", "mapped", "chunks"):
        original = getattr(RandomAccessFile, name)

        def noted(self, offset, length, original=original, **more):  # type: ignore[no-untyped-def]
            if self.path == fixture.paths[0]:
                touched.append((offset, offset + length))
            return original(self, offset, length, **more)

        monkeypatch.setattr(RandomAccessFile, name, noted)
    with open_checkpoint(fixture.address) as ckpt:
        list_tensors(ckpt)
    assert touched
    for block in blocks[1:]:
        assert not any(start < block.stop and stop > block.start for start, stop in touched), block


def test_a_listing_with_a_file_missing(tmp_path: Path) -> None:
    fixture = legacy_fixture(SHARDED)
    shutil.copy(fixture.paths[0], tmp_path)
    with open_checkpoint(tmp_path / "model.ckpt-7") as ckpt:
        listing = list_tensors(ckpt)
        summary = summarize(ckpt)
    assert [row.key for row in listing.rows] == ["a", "rows", "wide"]
    assert listing.source.missing_shards == ("model.ckpt-7-00001-of-00002",)
    assert [shard.bytes is None for shard in summary.shards] == [False, True]


@EACH
def test_parts_and_details(fixture: LegacyFixture) -> None:
    with open_checkpoint(fixture.address) as ckpt:
        for key, facts in fixture.tensors.items():
            part = Part(ckpt, key)
            whole = part.read()
            assert digest(whole) == facts.sha256
            joined = np.concatenate(list(part.blocks()))
            assert digest(joined) == facts.sha256
            (detail,) = describe_tensors(ckpt, [Target(key)], limit=None)
            assert detail.shape == facts.shape and detail.verified
            assert isinstance(detail.content, Values) and detail.content.complete


def test_large_parts_come_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ckpttool.query.values.parts._SMALL", 8)
    monkeypatch.setattr("ckpttool.query.values.parts._BLOCK", 64)
    for name in (SHARDED, "v1/tf2.21/partitioned_dtypes/model", "v1/tf2.21/dtypes/vector"):
        fixture = legacy_fixture(name)
        with open_checkpoint(fixture.address) as ckpt:
            for key, facts in fixture.tensors.items():
                part = Part(ckpt, key)
                plain = [block.copy() for block in part.blocks()]
                assert digest(np.concatenate(plain)) == facts.sha256
                assert sum(map(len, part.blocks(ordered=False))) == part.elements
                index = tuple(slice(None, None, -1) for _ in facts.shape)
                turned = Part(ckpt, key, index)
                found = np.concatenate([block.copy() for block in turned.blocks()])
                assert digest(found) == digest(part.read()[index].reshape(-1))


def test_summary() -> None:
    fixture = legacy_fixture("v1/tf1.15/saver/model.ckpt-3")
    with open_checkpoint(os.path.dirname(fixture.prefix)) as ckpt:
        summary = summarize(ckpt)
    assert summary.latest is True
    assert summary.writer.version == "1.15.5"
    assert not summary.problems and summary.graph is None
    assert [step.value for step in summary.steps] == [3]
    with open_checkpoint(legacy_fixture(SHARDED).prefix) as ckpt:
        assert summarize(ckpt).latest is True


def test_folders(tmp_path: Path) -> None:
    fixture = legacy_fixture("v1/tf1.15/saver/model.ckpt-3")
    rows = list_folder(os.path.dirname(fixture.prefix))
    assert [(row.name, row.generation, row.complete) for row in rows] == [
        ("model.ckpt-2", "V1", True),
        ("model.ckpt-3", "V1", True),
    ]
    assert [row.tensors for row in rows] == [len(fixture.tensors)] * 2
    assert rows[1].latest
    shutil.copy(legacy_fixture(SHARDED).paths[1], tmp_path)
    (tmp_path / "cut").write_bytes(read_bytes(fixture.paths[0])[:-1])
    cut, partial = list_folder(str(tmp_path))
    assert (partial.tensors, partial.missing) == (3, ("model.ckpt-7-00000-of-00002",))
    assert cut.tensors is None and not cut.complete
    assert "magic" in cut.missing[0]


def test_npy(tmp_path: Path) -> None:
    fixture = legacy_fixture(SHARDED)
    out = str(tmp_path / "wide.npy")
    with open_checkpoint(fixture.address) as ckpt:
        ValueFile(ckpt, [Target("wide")], "npy").write(out)
        assert np.array_equal(np.load(out), ckpt["wide"])
        with pytest.raises(Exception, match="file of the checkpoint"):
            ValueFile(ckpt, [Target("wide")], "npy").write(fixture.paths[1], force=True)
