"""What was read and written by TensorFlow is read and written here with the same result."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from ckpttool.bundle.entry import EntryDecoder, decode_header
from ckpttool.bundle.naming import shard_path
from ckpttool.bundle.reader import BundleReader
from ckpttool.bundle.writer import BundleWriter
from ckpttool.storage.source import RandomAccessFile
from ckpttool.table.builder import TableBuilder
from ckpttool.table.reader import TableReader
from tests.support import corruption, encoder, fixtures
from tests.support.fixtures import BundleFixture, TensorFacts
from tests.support.sweeps import each_bundle

BUNDLES = fixtures.bundles()

# A variant is whatever its type makes of it, so TensorFlow hands out no value of one.
NO_VALUE = ("Tensorflow type 21 not convertible", "Could not decode variant")

# Quantised dtypes are told by the integers that hold them where the old reader knows no others.
ALSO_CALLED = {"qint8": "int8", "quint8": "uint8", "qint32": "int32"}


def records_of(prefix: str) -> list[tuple[bytes, bytes]]:
    with RandomAccessFile(prefix + ".index") as file:
        return list(TableReader(file).items())


def test_the_fixtures_are_many_and_of_all_generations() -> None:
    assert len(BUNDLES) >= 100
    producers = Counter(fixture.producer for fixture in BUNDLES)
    for version in ("0.12.1", "1.4.1", "1.15.5", "2.21.0"):
        assert producers[f"TensorFlow {version}"] >= 5, version
    assert len({name for b in BUNDLES for name in os.listdir(os.path.dirname(b.prefix))}) > 50


def test_every_index_is_in_the_manifest() -> None:
    found = {
        os.path.join(folder, name)[: -len(".index")]
        for folder, _, names in os.walk(fixtures.FIXTURES)
        for name in names
        if name.endswith(".index")
    }
    known = {fixture.prefix for fixture in BUNDLES}
    known |= {
        os.path.join(fixtures.FIXTURES, path)[: -len(".index")]
        for row in fixtures.manifest()
        if row["format"] not in ("V2", "SavedModel")
        for path in row["files"]
        if path.endswith(".index")
    }
    assert found == known


def test_files_are_those_of_the_manifest() -> None:
    others = []
    for row in fixtures.manifest():
        assert row["files"], row["name"]
        for path, sha256 in row["files"].items():
            if fixtures.sha256_of_file(os.path.join(fixtures.FIXTURES, path)) != sha256:
                others.append(path)
    assert not others


@each_bundle
def test_values(fixture: BundleFixture) -> None:
    with BundleReader(fixture.prefix) as reader:
        assert set(reader.entries) == set(fixture.tensors)
        assert list(reader.entries) == sorted(
            fixture.tensors, key=lambda key: key.encode("utf-8", "surrogateescape")
        )
        for key, facts in fixture.tensors.items():
            check_value(reader, key, facts)


def check_value(reader: BundleReader, key: str, facts: TensorFacts) -> None:
    entry = reader.entries[key]
    assert reader.entries.dtype_and_shape(key) == (entry.dtype, entry.shape)
    assert facts.dtype in (entry.dtype.name, ALSO_CALLED.get(entry.dtype.name)), key
    assert entry.shape == facts.shape, key
    array = reader.read(key)
    assert array.shape == facts.shape, key
    assert array.dtype == entry.dtype.numpy_dtype, key
    if facts.sha256 is not None:
        assert fixtures.digest(array) == facts.sha256, key
        return
    assert facts.reason is not None, key
    assert facts.reason.startswith(NO_VALUE), key
    assert entry.dtype.name == "variant", key
    # Its own checksums have been checked; the message itself must parse.
    assert all(element.type_name for element in array.reshape(-1).tolist()), key


def test_nearly_every_value_has_a_digest() -> None:
    facts = [facts for fixture in BUNDLES for facts in fixture.tensors.values()]
    without = [one for one in facts if one.sha256 is None]
    assert len(facts) > 1500
    assert len(without) < 30
    assert {one.dtype for one in facts} >= {"string", "variant", "bfloat16", "int4", "qint8"}


@each_bundle
def test_chunks_are_the_values(fixture: BundleFixture) -> None:
    with BundleReader(fixture.prefix) as reader:
        for key, entry in list(reader.entries.items())[:200]:
            if entry.dtype.size is None:
                continue
            stored = b"".join(bytes(chunk) for chunk in reader.chunks(key))
            assert len(stored) == entry.elements * entry.dtype.size
            if not entry.slices:
                assert stored == reader.read(key).tobytes()


@each_bundle
def test_the_index_is_rewritten_to_the_same_bytes(fixture: BundleFixture) -> None:
    records = records_of(fixture.prefix)
    assert records[0][0] == b""
    pieces: list[bytes | memoryview] = []
    builder = TableBuilder(pieces.append)
    for key, value in records:
        builder.add(key, value)
    builder.finish()
    assert b"".join(pieces) == fixture.index


@each_bundle
def test_the_second_opinion_agrees_with_tensorflow(fixture: BundleFixture) -> None:
    """The other tests build on `encoder`; here it is held against files that it did not make."""
    assert encoder.table(records_of(fixture.prefix)) == fixture.index
    for span in corruption.spans(fixture.index):
        assert corruption.reseal(fixture.index, span) == fixture.index


@each_bundle
def test_every_record_is_encoded_to_the_same_bytes(fixture: BundleFixture) -> None:
    (_, first), *others = records_of(fixture.prefix)
    header = decode_header(first)
    assert header.encode() == first
    decoder = EntryDecoder(header.num_shards)
    for key, value in others:
        assert decoder.decode(value).encode() == value, key


@each_bundle
def test_the_bundle_is_rewritten_to_the_same_bytes(fixture: BundleFixture, tmp_path: Path) -> None:
    """All tensors in the order in which they lie, each into the shard that it came from."""
    prefix = str(tmp_path / "m")
    with BundleReader(fixture.prefix) as reader:
        count = reader.header.num_shards
        with BundleWriter(prefix, num_shards=count) as writer:
            for key, at in in_file_order(reader):
                entry = reader.entries[key]
                if at is None:
                    writer.add(key, reader.read(key), shard_id=entry.shard_id)
                    continue
                part, stored = reader.index.slice_entries(key)[at]
                index = tuple(slice(a, b) for a, b in part.bounds(entry.shape))
                value = reader.read_region(key, index)
                writer.add_slice(key, entry.shape, part, value, shard_id=stored.shard_id)
    for at in range(count):
        data = fixtures.read_bytes(shard_path(fixture.prefix, at, count))
        assert fixtures.read_bytes(shard_path(prefix, at, count)) == data
    assert fixtures.read_bytes(prefix + ".index") == fixture.index


def in_file_order(reader: BundleReader) -> list[tuple[str, int | None]]:
    """Return keys, and numbers of their slices, by shard and offset; no bytes come first."""
    places: list[tuple[int, int, int, str, int | None]] = []
    for key, entry in reader.entries.items():
        if not entry.slices:
            places.append((entry.shard_id, entry.offset, entry.size, key, None))
        for at, (_, stored) in enumerate(reader.index.slice_entries(key)):
            places.append((stored.shard_id, stored.offset, stored.size, key, at))
    places.sort(key=lambda place: place[:3])
    return [(key, at) for *_, key, at in places]
