"""V1 files are written as TensorFlow writes them, or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckpttool.errors import CkptError, DestinationError, InvalidTensorError
from ckpttool.legacy.files import LegacyFiles
from ckpttool.legacy.naming import shard_pattern, v1_shard_path
from ckpttool.legacy.reader import LegacyReader
from ckpttool.legacy.writer import LegacyWriter
from ckpttool.tensor.dtypes import DTYPES, dtype_of_name
from ckpttool.tensor.slices import TensorSlice
from tests.legacy.handmade import LegacyFixture, legacy_fixtures
from tests.support.fixtures import folder_contents, read_bytes
from tests.support.slices import parse_slice

FLOAT = dtype_of_name("float32")
INT = dtype_of_name("int32")
STRING = dtype_of_name("string")
Array = np.ndarray[Any, np.dtype[Any]]


def part_of(value: Array, part: TensorSlice) -> Callable[[], Array]:
    bounds = tuple(slice(*edges) for edges in part.bounds(value.shape))
    return lambda: value[bounds] if bounds else value


def refuse() -> Array:
    raise AssertionError("nobody wants this value")


@pytest.mark.parametrize("fixture", legacy_fixtures(), ids=lambda fixture: fixture.name)
def test_the_files_of_tensorflow_come_out_again(fixture: LegacyFixture, tmp_path: Path) -> None:
    prefix = str(tmp_path / "model")
    before = [read_bytes(path) for path in fixture.paths]
    sharded = None if fixture.paths == (fixture.prefix,) else len(fixture.paths)
    files = LegacyFiles(fixture.paths)
    with (
        LegacyReader(fixture.prefix, fixture.paths) as reader,
        LegacyWriter(prefix, num_shards=sharded) as writer,
    ):
        for shard_id in range(len(fixture.paths)):
            for tensor in files.describe(shard_id) or ():
                value = reader.read(tensor.name)
                for part in tensor.slices:
                    writer.add_slice(
                        tensor.name,
                        tensor.dtype,
                        tensor.shape,
                        part,
                        part_of(value, part),
                        shard_id=shard_id,
                    )
    files.close()
    assert [read_bytes(path) for path in writer.paths] == before
    assert [read_bytes(path) for path in fixture.paths] == before
    assert sorted(os.listdir(tmp_path)) == sorted(map(os.path.basename, writer.paths))


def test_large_and_small_records(tmp_path: Path) -> None:
    """Blocks end as in a table that was built from whole values."""
    values = {
        "a": np.arange(200_000, dtype=np.float32),
        "b": np.arange(-50_000, 50_000, dtype=np.int32),
        "c": np.zeros((), np.float32),
        "d": np.array([b"x" * 600_000, b""], object),
        "e": np.zeros(0, np.int32),
    }
    path = str(tmp_path / "model")
    with LegacyWriter(path) as writer:
        for key, value in values.items():
            dtype = STRING if value.dtype == object else dtype_of_name(value.dtype.name)
            writer.add(key, dtype, value.shape, lambda value=value: value)  # type: ignore[misc]
    with LegacyReader(path, [path]) as reader:
        assert list(reader.entries) == list(values)
        for key, value in values.items():
            np.testing.assert_array_equal(reader.read(key), value)


def test_values_are_asked_for_in_the_end_one_at_a_time(tmp_path: Path) -> None:
    asked: list[str] = []

    def read(key: str) -> Callable[[], Array]:
        def give() -> Array:
            asked.append(key)
            return np.zeros(2, np.float32)

        return give

    with LegacyWriter(str(tmp_path / "model")) as writer:
        for key in ("b", "a", "c"):
            writer.add(key, FLOAT, (2,), read(key))
        assert asked == [] and os.listdir(tmp_path) == []
        writer.finish()
        assert asked == ["a", "b", "c"]
        writer.finish()
    assert asked == ["a", "b", "c"]


def test_names() -> None:
    assert v1_shard_path("x", 3, 12) == "x-00003-of-00012"
    assert shard_pattern("x", 12) == "x-?????-of-00012"


@pytest.mark.parametrize(
    "dtype", [each for each in DTYPES.values() if each.name != "resource"], ids=str
)
def test_dtypes_of_the_format(dtype: Any, tmp_path: Path) -> None:
    written = {"float32", "float64", "int32", "uint8", "int16", "int8", "string", "complex64"}
    written |= {"int64", "bool", "qint8", "quint8", "qint32", "uint16", "complex128", "float16"}
    path = str(tmp_path / "model")
    writer = LegacyWriter(path)
    if dtype.name not in written:
        with pytest.raises(InvalidTensorError, match=f"no dtype {dtype.name}"):
            writer.add("t", dtype, (2,), refuse)
        return
    value = np.array([b"x", b""], object) if dtype == STRING else np.ones(2, dtype.numpy_dtype)
    writer.add("t", dtype, (2,), lambda: value)
    writer.finish()
    with LegacyReader(path, [path]) as reader:
        assert reader.read("t").tolist() == value.tolist()


Add = Callable[[LegacyWriter], object]
ROW = parse_slice("0,1:-")


@pytest.mark.parametrize(
    ("add", "message"),
    [
        (lambda w: w.add("", FLOAT, (), refuse), "empty key"),
        (lambda w: w.add("a", FLOAT, (), refuse), "already exists"),
        (lambda w: w.add("\ud800", FLOAT, (), refuse), "not Unicode"),
        (lambda w: w.add("t", FLOAT, (1 << 29,), refuse), "partitioned"),
        (lambda w: w.add("t", INT, (214_748_365,), refuse), "partitioned"),
        (lambda w: w.add_slice("a", FLOAT, (), TensorSlice(()), refuse), "already exists"),
        (lambda w: w.add_slice("a", INT, (), TensorSlice(()), refuse), "a slice of int32"),
        (lambda w: w.add_slice("a", FLOAT, (2, 2), ROW, refuse), r"float32 \[2, 2\]"),
        (lambda w: w.add_slice("t", FLOAT, (2,), ROW, refuse), "another rank"),
        (lambda w: w.add_slice("t", FLOAT, (0, 2), ROW, refuse), "does not fit"),
    ],
)
def test_what_cannot_be_added(add: Add, message: str, tmp_path: Path) -> None:
    with LegacyWriter(str(tmp_path / "model")) as writer:
        writer.add("a", FLOAT, (), lambda: np.zeros((), np.float32))
        with pytest.raises(InvalidTensorError, match=message):
            add(writer)
    with LegacyReader(writer.prefix, writer.paths) as reader:
        assert list(reader.entries) == ["a"]


@pytest.mark.parametrize(
    ("add", "message"),
    [
        (lambda w: w.add_slice("t", FLOAT, (2, 2), ROW, refuse), "gap"),
        (lambda w: w.add("t", FLOAT, (2,), lambda: np.zeros(3, np.float32)), r"not \[3\]"),
        (lambda w: w.add("t", FLOAT, (2,), lambda: np.zeros(2)), "float64"),
        (lambda w: w.add("t", STRING, (1,), lambda: np.array([3], object)), "cannot hold int"),
    ],
)
def test_what_cannot_be_written_leaves_nothing(add: Add, message: str, tmp_path: Path) -> None:
    with (
        pytest.raises(InvalidTensorError, match=message) as caught,
        LegacyWriter(str(tmp_path / "new" / "model")) as writer,
    ):
        add(writer)
    assert caught.value.key == "t"
    assert os.listdir(tmp_path) == []


def test_what_exists_stays(tmp_path: Path) -> None:
    single = tmp_path / "model"
    single.write_bytes(b"mine")
    (tmp_path / "model-00001-of-00002").write_bytes(b"mine")
    before = folder_contents(tmp_path)
    for shards in (None, 2):
        with pytest.raises(DestinationError, match="exists"):
            LegacyWriter(str(single), num_shards=shards)
    with pytest.raises(RuntimeError), LegacyWriter(str(single), force=True) as writer:
        raise RuntimeError
    assert folder_contents(tmp_path) == before
    with LegacyWriter(str(single), force=True) as writer:
        writer.add("a", FLOAT, (), lambda: np.zeros((), np.float32))
    assert single.read_bytes() != b"mine"
    assert set(folder_contents(tmp_path)) == set(before)


def test_somebody_else_writes_meanwhile(tmp_path: Path) -> None:
    prefix = str(tmp_path / "model")
    with pytest.raises(CkptError, match="exists"), LegacyWriter(prefix, num_shards=2) as writer:
        for number, key in enumerate("ab"):
            writer.add(key, FLOAT, (), lambda: np.zeros((), np.float32), shard_id=number)
        (tmp_path / "model-00001-of-00002").write_bytes(b"theirs")
    assert folder_contents(tmp_path) == {"model-00001-of-00002": b"theirs"}
    with pytest.raises(ValueError, match="at least one"):
        LegacyWriter(prefix, num_shards=0)
