"""Bundles whose every value is written anew."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ckpttool import open_checkpoint
from ckpttool.bundle.naming import find_shards
from ckpttool.bundle.reader import BundleReader
from ckpttool.errors import CkptError, CorruptError, MissingFileError
from ckpttool.legacy.writer import _MOST_BYTES
from ckpttool.objects.graph import ObjectGraph
from ckpttool.objects.keys import GRAPH_KEY
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.writing.prepare import WriteOptions, prepare
from ckpttool.surgery.writing.recoding.spread import Recoding
from ckpttool.tensor.dtypes import STRING, dtype_of_name
from tests.faults.checkpoints import SLICES, names, stored
from tests.legacy.handmade import LegacyFixture, legacy_fixtures
from tests.support import conversions, encoder
from tests.support.conversions import (
    COLUMNS,
    ROWS,
    SHARDED,
    convert,
    copy_v1,
    elements,
    everything,
    findings,
    old_strings,
    write_v1,
)
from tests.support.fixtures import BundleFixture, bundle, digest
from tests.support.refusals import refused
from tests.support.surgery import spoil
from tests.support.sweeps import each_bundle

V1_DTYPES = list(_MOST_BYTES)


@pytest.mark.sweep(6)
@pytest.mark.parametrize("fixture", legacy_fixtures(), ids=lambda fixture: fixture.name)
@pytest.mark.parametrize(
    "how", [Recoding(), Recoding(join_slices=True), Recoding(shards=3), Recoding(max_shard_size=1)]
)
def test_every_v1_fixture(fixture: LegacyFixture, how: Recoding, tmp_path: Path) -> None:
    receipt = convert(fixture.address, tmp_path / "m", recoding=how)
    assert everything(tmp_path / "m") == everything(fixture.address)
    with open_checkpoint(tmp_path / "m") as ckpt:
        assert ckpt.generation == "V2"
        for key, facts in fixture.tensors.items():
            entry = ckpt.entries[key]
            assert (entry.dtype.name, entry.shape) == (facts.dtype, facts.shape)
            assert digest(ckpt[key]) == facts.sha256
            assert not entry.slices or not how.join_slices
    assert not findings(tmp_path / "m")
    assert sorted(find_shards(str(tmp_path / "m"))) == [each.path for each in receipt.shards]
    assert receipt.bytes_dead == 0
    assert receipt.bytes_written == sum(
        path.stat().st_size for path in tmp_path.iterdir() if path.suffix != ".meta"
    )


@each_bundle
@pytest.mark.parametrize("count", [1, 3])
def test_every_bundle_spread_anew(fixture: BundleFixture, count: int, tmp_path: Path) -> None:
    receipt = convert(fixture.prefix, tmp_path / "m", recoding=Recoding(shards=count))
    assert len(receipt.shards) == count
    before = {
        key: each._replace(unknown=b"") for key, each in stored(fixture.prefix).items() if key[1]
    }
    with BundleReader(fixture.prefix) as reader:
        joined = {
            key
            for key, entry in reader.entries.items()
            if entry.slices and not entry.dtype.joinable
        }
    after = stored(str(tmp_path / "m"))
    for (key, part), each in before.items():
        if key not in joined:
            assert after[key, part]._replace(unknown=b"") == each
    assert everything(tmp_path / "m") == everything(fixture.prefix)
    # In one of them TensorFlow itself has left out a tensor.
    lost = [each.key for each in findings(fixture.prefix) if each.code == "graph-key-missing"]
    assert [each.key for each in findings(tmp_path / "m")] == lost


@pytest.mark.parametrize("dtype_name", V1_DTYPES)
@pytest.mark.parametrize("specs", [ROWS, COLUMNS], ids=str)
@pytest.mark.parametrize("join", [False, True])
def test_partitioned_tensors_of_every_dtype(
    dtype_name: str, specs: tuple[str, ...], join: bool, tmp_path: Path
) -> None:
    dtype = dtype_of_name(dtype_name)
    value = elements(dtype, (3, 4))
    arrays = {"before": np.float32(1), "w": value}
    source = write_v1(
        tmp_path / "v1", arrays, slices={"w": specs}, shards=2, dtypes={"w": dtype_name}
    )
    receipt = convert(source, tmp_path / "m", recoding=Recoding(join_slices=join))
    assert everything(tmp_path / "m") == everything(source)
    kept = dtype.joinable and not join
    with BundleReader(str(tmp_path / "m")) as reader:
        entry = reader.entries["w"]
        assert sorted(map(str, entry.slices)) == (sorted(specs) if kept else [])
        if kept:
            shards = [part.shard_id for _, part in reader.index.slice_entries("w")]
            assert entry.shard_id == min(shards)
    notes = "\n".join(receipt.notes)
    assert ("cannot join slices of their dtypes: 'w'" in notes) == (not dtype.joinable and not join)
    with open_checkpoint(source) as ckpt:
        how = WriteOptions(generation="V2", recoding=Recoding(join_slices=join))
        assert prepare(Plan.of(ckpt), str(tmp_path / "n"), how).receipt().notes == receipt.notes


def test_big_endian_bundles(tmp_path: Path) -> None:
    expected = conversions.big_endian(tmp_path / "big", [(), (3,), (2, 0)])
    assert {name for name, _, _ in expected.values()} > {
        "float64",
        "complex64",
        "string",
        "half"[:0] or "float16",
    }
    receipt = convert(tmp_path / "big", tmp_path / "m")
    assert everything(tmp_path / "m") == expected
    with BundleReader(str(tmp_path / "m")) as reader:
        assert not reader.big_endian
        for entry in reader.entries.values():
            assert entry.dtype == STRING or entry.size == (entry.dtype.size or 0) * entry.elements
    assert not findings(tmp_path / "m")
    assert {shard.how for shard in receipt.shards} == {"rewritten"}


def test_old_strings(tmp_path: Path) -> None:
    texts = old_strings(tmp_path / "old")
    convert(tmp_path / "old", tmp_path / "m")
    with open_checkpoint(tmp_path / "m") as ckpt:
        assert ckpt["s"].tolist() == texts
        # Lengths of 3, 0 and 200 take a byte, a byte and two; then comes their checksum.
        assert ckpt.bundle.entries["s"].size == 1 + 1 + 2 + 4 + 203
    assert not findings(tmp_path / "m")


def test_the_largest_files(tmp_path: Path) -> None:
    arrays = {f"w{at}": np.full(10, at, np.float32) for at in range(9)}
    source = write_v1(tmp_path / "v1", arrays)
    receipt = convert(source, tmp_path / "m", recoding=Recoding(max_shard_size=100))
    assert [shard.bytes for shard in receipt.shards] == [80, 80, 80, 80, 40]
    with BundleReader(str(tmp_path / "m")) as reader:
        assert [entry.shard_id for entry in reader.entries.values()] == [0, 0, 1, 1, 2, 2, 3, 3, 4]


def test_more_shards_than_files_that_can_be_open(tmp_path: Path) -> None:
    import resource

    arrays = {f"w{at:03}": np.full(2, at, np.float32) for at in range(300)}
    source = write_v1(tmp_path / "v1", arrays)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard))
    try:
        receipt = convert(source, tmp_path / "m", recoding=Recoding(max_shard_size=8))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(receipt.shards) == 300
    assert everything(tmp_path / "m") == everything(source)


def test_as_many_shards_as_the_source(tmp_path: Path) -> None:
    receipt = convert(copy_v1(SHARDED, tmp_path / "src"), tmp_path / "m")
    assert len(receipt.shards) == 2
    assert all(shard.bytes for shard in receipt.shards)


def test_slices_of_a_bundle_are_joined(tmp_path: Path) -> None:
    source = bundle(SLICES).prefix
    convert(source, tmp_path / "m", recoding=Recoding(join_slices=True))
    assert everything(tmp_path / "m") == everything(source)
    with open_checkpoint(tmp_path / "m") as ckpt:
        assert not any(entry.slices for entry in ckpt.entries.values())


def test_another_count_than_the_shards_that_are_there(tmp_path: Path) -> None:
    """Until the new index is there, the old one has to find its own shards."""
    source = write_v1(tmp_path / "v1", {"w": np.arange(3, dtype=np.int64)})
    convert(source, tmp_path / "m")
    receipt = convert(source, tmp_path / "m", options=WriteOptions(force=True))
    assert [Path(shard.path).name for shard in receipt.shards] == [
        "m.data-00000-of-00002",
        "m.data-00001-of-00002",
    ]
    assert find_shards(str(tmp_path / "m")) == [shard.path for shard in receipt.shards]
    assert everything(tmp_path / "m") == everything(source)


def test_permissions_are_those_of_the_source(tmp_path: Path) -> None:
    source = write_v1(tmp_path / "v1", {"w": np.arange(3, dtype=np.int64)})
    os.chmod(source, 0o640)
    convert(source, tmp_path / "m", recoding=Recoding(shards=2))
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_progress_reaches_its_end(tmp_path: Path) -> None:
    arrays = {"w": np.zeros(1000, np.int32), "s": np.array([b"word"], object)}
    told: list[tuple[int, int]] = []
    with open_checkpoint(write_v1(tmp_path / "v1", arrays)) as ckpt:
        how = WriteOptions(generation="V2")
        prepare(Plan.of(ckpt), str(tmp_path / "m"), how).write(
            on_progress=lambda *done: told.append(done)
        )
    assert told == sorted(told)
    assert told[-1] == (4000 + 9, 4000 + 9)


def test_object_graphs_come_along(tmp_path: Path) -> None:
    source = bundle("v2/tf2.21/guide_legacy_adam/tf_ckpts/ckpt-5").prefix
    convert(source, tmp_path / "m", recoding=Recoding(shards=2))
    with open_checkpoint(source) as before, open_checkpoint(tmp_path / "m") as after:
        assert before.object_graph == after.object_graph is not None
        assert before.bundle.read(GRAPH_KEY) == after.bundle.read(GRAPH_KEY)
    with open_checkpoint(source) as ckpt:
        plan = Plan.of(ckpt)
        assert plan.graph is not None
        changed = replace(plan, graph=ObjectGraph(plan.graph.nodes, plan.graph.unknown))
        prepare(changed, str(tmp_path / "n"), WriteOptions(recoding=Recoding())).write()
    assert everything(tmp_path / "n") == everything(source)


def refused_and_nothing_left(
    source: str, folder: Path, error: type[CkptError], reason: str, how: Recoding
) -> CkptError:
    """Convert a damaged checkpoint; expect an error, and nothing else."""
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with refused(error, reason) as caught:
        convert(source, folder / "made" / "m", recoding=how)
    after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert after == before
    assert not (folder / "made").exists()
    return caught.value


@pytest.mark.parametrize("how", [Recoding(), Recoding(join_slices=True), Recoding(shards=3)])
@pytest.mark.parametrize("key", ["a", "s", "w"])
def test_damaged_bytes_are_not_carried(key: str, how: Recoding, tmp_path: Path) -> None:
    value = elements(dtype_of_name("float32"), (3, 4))
    strings = np.array([b"Q" * 50, b"text"], object)
    arrays = {"a": np.arange(40, dtype=np.float64), "s": strings, "w": value}
    source = write_v1(tmp_path / "v1", arrays, slices={"w": ROWS})
    data = Path(source).read_bytes()
    needle = {"a": np.float64(17).tobytes(), "s": b"QQQQ", "w": value[2].tobytes()}[key]
    spoil(Path(source), data.index(needle) + 1)
    error = refused_and_nothing_left(source, tmp_path, CorruptError, "", how)
    assert error.path == source


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    source = copy_v1(SHARDED, tmp_path / "src")
    lost = source + "-00001-of-00002"
    os.unlink(lost)
    error = refused_and_nothing_left(source, tmp_path, MissingFileError, "", Recoding())
    assert error.path == lost


@pytest.mark.parametrize("join", [False, True])
@pytest.mark.parametrize("dtype", [1, 7])
def test_gaps_and_overlaps_are_named(join: bool, dtype: int, tmp_path: Path) -> None:
    from tests.legacy import handmade

    def record(start: int, count: int) -> encoder.Record:
        values = (
            handmade.strings([b"x"] * count) if dtype == 7 else handmade.packed(5, bytes(4 * count))
        )
        return handmade.record(b"w", [(start, count)], values)

    for parts, reason in (
        ([(0, 2), (3, 1)], "leave a gap: 3 of 4"),
        ([(0, 2), (1, 3)], "overlap"),
    ):
        described = handmade.described(b"w", dtype, [4], [[part] for part in parts])
        path = handmade.write(
            tmp_path / "v1",
            handmade.table(handmade.description(described), *(record(*part) for part in parts)),
        )
        error = refused_and_nothing_left(
            path, tmp_path, CorruptError, reason, Recoding(join_slices=join)
        )
        assert (error.path, error.key) == (path, "w")


@pytest.mark.parametrize(
    "other", [("float64", (3, 4)), ("float32", (4, 3)), ("float32", (3, 5)), ("int32", (3, 4))]
)
def test_files_that_disagree_are_named(other: tuple[str, tuple[int, ...]], tmp_path: Path) -> None:
    write_v1(
        tmp_path / "m",
        {"w": elements(dtype_of_name("float32"), (3, 4))},
        slices={"w": ROWS},
        shards=2,
    )
    dtype, shape = other
    specs = (f"0,2:0,{shape[1]}", f"2,{shape[0] - 2}:0,{shape[1]}")
    write_v1(
        tmp_path / "n", {"w": elements(dtype_of_name(dtype), shape)}, slices={"w": specs}, shards=2
    )
    os.replace(tmp_path / "n-00001-of-00002", tmp_path / "m-00001-of-00002")
    os.unlink(tmp_path / "n-00000-of-00002")
    error = refused_and_nothing_left(
        str(tmp_path / "m"), tmp_path, CorruptError, "float32 .3, 4. in", Recoding()
    )
    assert (error.path, error.key) == (str(tmp_path / "m-00001-of-00002"), "w")


def test_bundles_are_refused_likewise(tmp_path: Path) -> None:
    conversions.big_endian(tmp_path / "big", [(3,)])
    data = tmp_path / "big.data-00000-of-00001"
    spoil(data, data.stat().st_size // 2)
    refused_and_nothing_left(str(tmp_path / "big"), tmp_path, CorruptError, "", Recoding())
    data.write_bytes(data.read_bytes()[:20])
    refused_and_nothing_left(str(tmp_path / "big"), tmp_path, CorruptError, "", Recoding())
    data.unlink()
    refused_and_nothing_left(str(tmp_path / "big"), tmp_path, MissingFileError, "", Recoding())
    assert names(tmp_path) == ["big.index"]
