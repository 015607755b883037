"""What is read from V1 checkpoints, and which are refused."""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path

import cramjam
import numpy as np
import pytest

from ckpttool.errors import (
    ChangedError,
    ChecksumError,
    CkptError,
    CorruptError,
    MissingFileError,
    MissingKeyError,
    UnsupportedError,
)
from ckpttool.legacy.reader import LegacyReader
from ckpttool.table import values as table_values
from ckpttool.tensor.region import Index
from tests.legacy import handmade
from tests.legacy.handmade import (
    BOOL,
    F32,
    F64,
    HALF,
    I32,
    I64,
    STRING,
    U8,
    LegacyFixture,
    described,
    description,
    legacy_fixture,
    legacy_fixtures,
    packed,
    record,
    strings,
    table,
    varints,
)
from tests.support import encoder, fixtures

EACH = pytest.mark.parametrize("fixture", legacy_fixtures(), ids=lambda fixture: fixture.name)
SHARDED = "v1/tf1.15/partitioned_sharded/model.ckpt-7"
FULL = (0, -1)


def reader_of(data: bytes, folder: Path) -> LegacyReader:
    path = handmade.write(folder / "model", data)
    return LegacyReader(path, (path,))


@EACH
def test_every_fixture_reads_as_it_was_saved(fixture: LegacyFixture) -> None:
    with LegacyReader(fixture.prefix, fixture.paths) as reader:
        keys = list(reader.entries)
        assert keys == sorted(fixture.tensors, key=str.encode)
        assert reader.num_shards == len(fixture.paths)
        assert [file.size for file in reader.shard_files()] == [
            os.path.getsize(path) for path in fixture.paths
        ]
        for key, facts in fixture.tensors.items():
            entry = reader.entries[key]
            assert (entry.dtype.name, entry.shape) == (facts.dtype, facts.shape)
            assert reader.dtype_and_shape(key) == (entry.dtype, entry.shape)
            value = reader.read(key)
            assert value.dtype == entry.dtype.numpy_dtype
            assert value.shape == entry.shape
            assert fixtures.digest(value) == facts.sha256
            assert value.flags.writeable
            if entry.dtype.size is not None:
                assert entry.size == value.nbytes


@EACH
def test_chunks_are_the_elements(fixture: LegacyFixture) -> None:
    with LegacyReader(fixture.prefix, fixture.paths) as reader:
        for key, entry in reader.entries.items():
            if entry.dtype.size is None:
                continue
            joined = b"".join(bytes(chunk) for chunk in reader.chunks(key))
            value = reader.read(key)
            parts = [
                value[tuple(slice(*edges) for edges in part.bounds(entry.shape))].tobytes()
                for part, _ in entry.parts
            ]
            assert joined == b"".join(parts)


@EACH
def test_regions_are_parts_of_the_value(fixture: LegacyFixture) -> None:
    with LegacyReader(fixture.prefix, fixture.paths) as reader:
        for key, entry in reader.entries.items():
            value = reader.read(key)
            indices: list[Index] = [
                tuple(slice(None) for _ in entry.shape),
                tuple(slice(1, None, 2) for _ in entry.shape),
                tuple(slice(None, None, -1) for _ in entry.shape),
                tuple(slice(0, 0) for _ in entry.shape),
            ]
            if entry.elements:
                indices.append(tuple(dim - 1 for dim in entry.shape))
            for index in indices:
                part = np.asarray(reader.read_region(key, index), value.dtype)
                wanted = np.asarray(value[index], value.dtype)
                assert part.shape == wanted.shape
                assert fixtures.digest(part) == fixtures.digest(wanted)


def test_entries_tell_of_slices_and_files() -> None:
    fixture = legacy_fixture(SHARDED)
    with LegacyReader(fixture.prefix, fixture.paths) as reader:
        whole = reader.entries["a"]
        assert whole.slices == () and whole.whole is not None
        rows = reader.entries["rows"]
        assert rows.whole is None
        assert sorted(map(str, rows.slices)) == ["0,3:0,2", "3,2:0,2"]
        assert {shard_id for _, shard_id in reader.entries["columns"].parts} == {1}
        assert reader.missing_files == ()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    fixture = legacy_fixture(SHARDED)
    shutil.copy(fixture.paths[1], tmp_path)
    paths = [str(tmp_path / os.path.basename(path)) for path in fixture.paths]
    with LegacyReader(str(tmp_path / "model.ckpt-7"), paths) as reader:
        assert list(reader.entries) == ["b", "columns", "scope/rows"]
        assert reader.shard_files()[0].size is None
        assert reader.missing_files[:1] == (paths[0],)
        assert reader.path == paths[1]
        assert fixtures.digest(reader.read("b")) == fixture.tensors["b"].sha256
        with pytest.raises(MissingKeyError):
            reader.read("a")
    with pytest.raises(MissingFileError, match="no file of the checkpoint"):
        LegacyReader(str(tmp_path / "model.ckpt-7"), paths[:1])


HALVES = [((0, 2), FULL), ((2, 1), FULL)]


def halves(*, first: int = F32, second: int = F32, dims: tuple[int, int] = (3, 2)) -> list[bytes]:
    """Return two files with a slice of the same tensor each."""
    return [
        table(
            description(described(b"t", dtype, shape, [part])),
            record(b"t", part, packed(5, struct.pack(f"<{count}f", *range(count)))),
        )
        for dtype, shape, part, count in (
            (first, (3, 2), HALVES[0], 4),
            (second, dims, HALVES[1], 2),
        )
    ]


def write_all(folder: Path, files: list[bytes]) -> tuple[str, list[str]]:
    prefix = str(folder / "m")
    paths = [f"{prefix}-{at:05d}-of-{len(files):05d}" for at in range(len(files))]
    for path, data in zip(paths, files, strict=True):
        handmade.write(path, data)
    return prefix, paths


def test_slices_are_joined_across_files(tmp_path: Path) -> None:
    with LegacyReader(*write_all(tmp_path, halves())) as reader:
        assert reader.read("t").tolist() == [[0, 1], [2, 3], [0, 1]]


def test_half_a_tensor_is_no_tensor(tmp_path: Path) -> None:
    prefix, paths = write_all(tmp_path, halves())
    # Under another name nobody can know of the other file.
    alone = str(tmp_path / "alone")
    shutil.copy(paths[1], alone)
    with LegacyReader(alone, [alone]) as reader:
        with pytest.raises(CorruptError, match="gap: 2 of 6 elements") as caught:
            reader.read("t")
        assert (caught.value.path, caught.value.key) == (alone, "t")
    os.unlink(paths[0])
    with LegacyReader(prefix, paths) as reader:
        for read in (reader.read, lambda key: list(reader.chunks(key))):
            with pytest.raises(MissingFileError, match="file of the checkpoint is missing") as gone:
                read("t")
            assert (gone.value.path, gone.value.key) == (paths[0], "t")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (halves(second=F64), r"float64 \[3, 2\] here, but float32 \[3, 2\] in '.*00000-of-00002'"),
        (halves(dims=(4, 2)), r"float32 \[4, 2\] here, but float32 \[3, 2\]"),
    ],
)
def test_files_that_disagree(files: list[bytes], message: str, tmp_path: Path) -> None:
    prefix, paths = write_all(tmp_path, files)
    with LegacyReader(prefix, paths) as reader:
        assert list(reader.entries) == list(reader.damaged) == ["t"]
        with pytest.raises(CorruptError, match=message) as caught:
            reader.read("t")
    assert (caught.value.path, caught.value.key) == (paths[1], "t")


def test_slices_that_overlap(tmp_path: Path) -> None:
    with LegacyReader(*write_all(tmp_path, [*halves(), halves()[0]])) as reader:
        with pytest.raises(CorruptError, match="overlaps another"):
            reader.read("t")
        assert list(reader.entries) == ["t"]


def one(
    dtype: int, dims: tuple[int, ...], values: bytes, *, extra: bytes = b""
) -> list[encoder.Record]:
    """Return the records of a file with one tensor."""
    part = [FULL] * len(dims)
    return [description(described(b"t", dtype, dims)), record(b"t", part, values, extra=extra)]


def doubles(*numbers: float) -> bytes:
    return struct.pack(f"<{len(numbers)}d", *numbers)


@pytest.mark.parametrize(
    ("dtype", "values", "expected"),
    [
        (I32, varints(7, [1, -1, 300]), [1, -1, 300]),
        (I32, varints(7, [1]) + varints(7, []) + varints(7, [-(2**31), 2**31 - 1]), None),
        (I64, varints(10, [-(2**63), 2**63 - 1, 0]), [-(2**63), 2**63 - 1, 0]),
        (U8, varints(7, [0, 127, 255]), [0, 127, 255]),
        (BOOL, varints(11, [0, 1, 7]), [False, True, True]),
        (HALF, varints(13, [0x3C00, 0xC000, 0x7BFF]), [1.0, -2.0, 65504.0]),
        (F64, packed(12 - 6, doubles(1, 2, 3)), [1.0, 2.0, 3.0]),
        (F64, packed(6, doubles(1)) + packed(6, doubles(2, 3)), [1.0, 2.0, 3.0]),
        (F64, packed(4, doubles(1, 2, 3)), [1.0, 2.0, 3.0]),
        (I32, packed(4, struct.pack("<3i", 1, -2, 3)), [1, -2, 3]),
        (BOOL, packed(4, b"\0\1\7"), [False, True, True]),
        (STRING, strings([b"", b"x" * 70_000, b"\xff"]), [b"", b"x" * 70_000, b"\xff"]),
        # Neither the dtype nor the shape is looked at: the description tells.
        (I32, b"\x08\x09" + b"\x12\x00" + varints(7, [1, 2, 3]), [1, 2, 3]),
    ],
)
def test_forms_of_values(
    dtype: int, values: bytes, expected: list[object] | None, tmp_path: Path
) -> None:
    with reader_of(table(*one(dtype, (3,), values)), tmp_path) as reader:
        found = reader.read("t").tolist()
    assert found == (expected or [1, -(2**31), 2**31 - 1])


@pytest.mark.parametrize(
    ("dtype", "values", "error", "message"),
    [
        (I32, b"", CorruptError, "0 bytes are too few for 3 elements"),
        # Elsewhere a TensorProto may leave out what repeats its last element; not here.
        (I32, varints(7, [1]) + b"\x08\x03", CorruptError, "1 instead of 3 elements"),
        (I32, varints(7, [1, 2, 3, 4]), CorruptError, "more than 3 elements"),
        (I32, varints(7, [1, 2, 2**31]), CorruptError, "outside the range of int32"),
        (U8, varints(7, [1, 2, 256]), CorruptError, "outside the range of uint8"),
        (U8, varints(7, [1, 2, -1]), CorruptError, "outside the range of uint8"),
        (HALF, varints(13, [1, 2, 65536]), CorruptError, "outside the range of float16"),
        (I64, packed(10, b"\1\2" + b"\xff" * 10 + b"\1"), CorruptError, "64 bits"),
        (I64, packed(10, b"\1\2" + b"\xff" * 9 + b"\2"), CorruptError, "64 bits"),
        (I64, packed(10, b"\1\2" + b"\xff" * 40), CorruptError, "64 bits"),
        (I64, packed(10, b"\1\2\x80"), CorruptError, "past its end"),
        (F64, packed(6, doubles(1, 2, 3)[:-1]), CorruptError, "23 bytes are no"),
        (F64, packed(6, doubles(1, 2)), CorruptError, "18 bytes are too few"),
        (F64, packed(6, doubles(1, 2, 3) + b"1"), CorruptError, "not elements of float64"),
        (F64, packed(5, doubles(1, 2, 3)), CorruptError, "field 5, which is not that of float64"),
        (F64, packed(6, doubles(1, 2, 3)) + packed(4, b""), CorruptError, "in two fields"),
        (I32, b"\x38\1\x38\2\x38\3", UnsupportedError, "not packed"),
        (STRING, strings([b"a", b"b"]), CorruptError, "2 instead of 3"),
        (STRING, strings([b"a"] * 4), CorruptError, "more than 3"),
        (STRING, packed(4, b"abcdefg"), CorruptError, "not that of string"),
        (14, varints(13, [1, 2, 3]), UnsupportedError, "bfloat16"),
        (99, b"", UnsupportedError, r"unknown\(99\)"),
    ],
)
def test_values_that_are_refused(
    dtype: int, values: bytes, error: type[CkptError], message: str, tmp_path: Path
) -> None:
    with reader_of(table(*one(dtype, (3,), values)), tmp_path) as reader:
        with pytest.raises(error, match=message) as caught:
            reader.read("t")
        assert caught.value.key == "t"
        assert caught.value.path == str(tmp_path / "model")
        assert list(reader.entries) == ["t"]


def test_a_tensor_without_a_record(tmp_path: Path) -> None:
    records = one(I32, (1,), varints(7, [1]))
    reader = reader_of(table(records[0]), tmp_path)
    with reader, pytest.raises(CorruptError, match="no record"):
        reader.read("t")


def test_a_file_without_a_description(tmp_path: Path) -> None:
    with pytest.raises(CorruptError, match="no key is empty"):
        reader_of(table(one(I32, (1,), varints(7, [1]))[1]), tmp_path)


def test_compressed_blocks(tmp_path: Path) -> None:
    records = sorted(one(F32, (5000,), packed(5, bytes(20000))))
    block = encoder.block(records)
    stored = bytes(cramjam.snappy.compress_raw(block))
    assert len(stored) < len(block) / 10
    data = encoder.Table().add(stored, b"\xff", 1).encode()
    with reader_of(data, tmp_path) as reader:
        assert not reader.read("t").any()
        assert reader.read_region("t", (slice(1, 3),)).tolist() == [0, 0]


@pytest.fixture
def large_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every block for a large one."""
    monkeypatch.setattr(table_values, "SMALL_BLOCK", 0)


@pytest.mark.usefixtures("large_blocks")
@EACH
def test_every_fixture_by_way_of_large_blocks(fixture: LegacyFixture) -> None:
    with LegacyReader(fixture.prefix, fixture.paths) as reader:
        for key, facts in fixture.tensors.items():
            whole = tuple(slice(None) for _ in facts.shape)
            for value in (reader.read_region(key, whole), reader.read(key)):
                assert fixtures.digest(np.asarray(value)) == facts.sha256


@pytest.mark.usefixtures("large_blocks")
@pytest.mark.parametrize("kind", [0, 1])
def test_damage_to_large_blocks(kind: int, tmp_path: Path) -> None:
    block = encoder.block(sorted(one(F32, (500,), packed(5, bytes(2000)))))
    stored = bytes(cramjam.snappy.compress_raw(block)) if kind else block
    data = encoder.Table().add(stored, b"\xff", kind).encode()
    for at in range(0, len(stored), 7):
        bad = data[:at] + bytes((data[at] ^ 0x10,)) + data[at + 1 :]
        with pytest.raises(ChecksumError):
            reader_of(bad, tmp_path).read("t")


def test_a_file_that_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ckpttool.legacy.files._MAX_OPEN", 1)
    prefix, paths = write_all(tmp_path, halves())
    with LegacyReader(prefix, paths) as reader:
        other = handmade.write(tmp_path / "other", halves()[0])
        os.replace(other, paths[0])
        with pytest.raises(ChangedError, match="changed"):
            reader.read("t")


def test_closing(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with LegacyReader(*write_all(tmp_path, halves())) as reader:
        value = reader.read("t")
        assert len(os.listdir("/proc/self/fd")) > before
    assert len(os.listdir("/proc/self/fd")) == before
    assert value.shape == (3, 2)
    with pytest.raises(CorruptError):
        LegacyReader(*write_all(tmp_path, [halves()[0], b"x" * 100]))
    assert len(os.listdir("/proc/self/fd")) == before
