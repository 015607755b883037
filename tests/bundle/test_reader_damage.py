from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np
import pytest

from ckpttool.bundle.reader import BundleReader
from ckpttool.errors import (
    ChecksumError,
    CorruptError,
    FileAccessError,
    MissingFileError,
    UnsupportedError,
)
from ckpttool.storage.source import ShardFile
from tests.support import corruption, encoder
from tests.support.encoder import entry
from tests.support.handmade import Bundle, shard_path
from tests.support.refusals import refused

F32, F64, I32, U8, I16, I8, STRING, C64, I64, BOOL = range(1, 11)
QINT32, BFLOAT16, C128, F16, RESOURCE, VARIANT, U32 = 13, 14, 18, 19, 20, 21, 22
MIB = 1 << 20


def simple() -> Bundle:
    made = Bundle().add(b"f", F32, (2, 3), np.arange(6, dtype="<f4").tobytes())
    made.add_strings(b"s", (2,), [b"one", b"\xff\0"])
    made.add(b"x", U8, (), b"\x07")
    rows = [(((0, 2), (0, -1)), struct.pack("<4i", 0, 1, 2, 3)), (((2, 1), (0, -1)), bytes(8))]
    return made.add_slices(b"p", I32, (3, 2), rows)


def test_damage_is_found_before_a_value_leaves(prefix: str) -> None:
    made = simple()
    made.write(prefix)
    good = made.shards[0]
    places = {"f": (0, 24), "s": (24, 35), "x": (35, 36), "p": (36, 60)}
    assert len(good) == 60
    for at in range(len(good)):
        Path(shard_path(prefix)).write_bytes(corruption.flip(good, at, corruption.bits_for(at)))
        with BundleReader(prefix) as reader:
            for key, (start, stop) in places.items():
                if not start <= at < stop:
                    reader.read(key)
                    continue
                with pytest.raises(CorruptError) as caught:
                    reader.read(key)
                assert caught.value.path == shard_path(prefix)
                assert caught.value.key == key
                assert start <= (caught.value.offset or 0) < stop


def test_the_checksum_error_says_where(prefix: str) -> None:
    made = simple()
    made.shards[0] = corruption.flip(made.shards[0], 35, 1)
    made.write(prefix)
    with pytest.raises(ChecksumError) as caught:
        BundleReader(prefix).read("x")
    error = caught.value
    assert (error.path, error.offset, error.key) == (shard_path(prefix), 35, "x")
    assert error.computed == encoder.crc32c(b"\x06")
    assert error.stored == encoder.crc32c(b"\x07")


def test_a_missing_crc_is_a_crc_of_zero_and_not_none(prefix: str) -> None:
    made = Bundle(shards=[b"\x07"])
    made.records[b"x"] = entry(U8, (), size=1)
    made.write(prefix)
    with pytest.raises(ChecksumError):
        BundleReader(prefix).read("x")


@pytest.mark.parametrize("size", range(0, 60, 7))
def test_a_shard_that_is_cut(prefix: str, size: int) -> None:
    made = simple()
    made.write(prefix)
    os.truncate(shard_path(prefix), size)
    reader = BundleReader(prefix)
    for key, stop in {"f": 24, "s": 35, "x": 36, "p": 60}.items():
        if stop <= size:
            reader.read(key)
            continue
        with pytest.raises(CorruptError) as caught:
            reader.read(key)
        assert caught.value.key == key
        assert caught.value.path in (shard_path(prefix), prefix + ".index")


def test_a_missing_shard(prefix: str) -> None:
    simple().write(prefix)
    os.unlink(shard_path(prefix))
    reader = BundleReader(prefix)
    assert reader.shard_files() == [ShardFile(shard_path(prefix), None)]
    for key in reader.entries:
        with refused(MissingFileError, "shard is missing") as caught:
            reader.read(key)
        assert (caught.value.path, caught.value.key) == (shard_path(prefix), key)


def test_only_the_shard_of_the_tensor_is_opened(prefix: str) -> None:
    made = Bundle(header=encoder.header(2), shards=[b"", b""])
    made.add(b"a", U8, (), b"a").add(b"b", U8, (), b"b", shard=1).write(prefix)
    os.unlink(shard_path(prefix, 1, 2))
    reader = BundleReader(prefix)
    assert reader.read("a") == ord("a")
    with pytest.raises(MissingFileError):
        reader.read("b")


def test_a_shard_that_is_no_file(prefix: str) -> None:
    simple().write(prefix)
    os.unlink(shard_path(prefix))
    os.mkfifo(shard_path(prefix))
    with refused(FileAccessError, "regular"):
        BundleReader(prefix).read("x")


@pytest.mark.parametrize("number", [0, 34, 99, 101, RESOURCE])
def test_dtypes_that_cannot_be_read(prefix: str, number: int) -> None:
    made = simple()
    made.add(b"u", number, (2,), b"12345")
    parts = [(((0, 1),), b"1"), (((1, 1),), b"2")]
    made.add_slices(b"up", number, (2,), parts)
    made.write(prefix)
    reader = BundleReader(prefix)
    assert reader.entries["u"].shape == (2,)
    for key in ("u", "up"):
        with refused(UnsupportedError, "dtype") as caught:
            reader.read(key)
        assert (caught.value.path, caught.value.key) == (prefix + ".index", key)
    assert reader.read("x") == 7


@pytest.mark.parametrize("rank", [65, 200, 254])
def test_more_dimensions_than_numpy_has(prefix: str, rank: int) -> None:
    made = simple()
    made.add(b"u", U8, (1,) * rank, b"1")
    halves = [(((at, 1), *[(0, 1)] * (rank - 1)), b"1") for at in (0, 1)]
    made.add_slices(b"up", U8, (2, *[1] * (rank - 1)), halves)
    made.add_strings(b"us", (1,) * rank, [b"s"])
    made.write(prefix)
    reader = BundleReader(prefix)
    assert len(reader.entries["u"].shape) == rank
    for key in ("u", "up", "us"):
        with refused(UnsupportedError, f"{rank} dimensions") as caught:
            reader.read(key)
        assert caught.value.key == key


@pytest.mark.parametrize("dtype", [F32, STRING, VARIANT, C128, U8])
@pytest.mark.parametrize("dims", [(0, 2**40), (2**40, 0), (0, 2**58)])
def test_no_elements_in_a_huge_shape(prefix: str, dtype: int, dims: tuple[int, ...]) -> None:
    made = Bundle()
    if dtype == STRING:
        made.add_strings(b"z", dims, [])
    else:
        made.add(b"z", dtype, dims, b"")
    made.write(prefix)
    assert BundleReader(prefix).read("z").shape == dims


def test_strings_of_no_bytes_and_no_elements(prefix: str) -> None:
    made = Bundle()
    made.records[b"s"] = entry(STRING, (0, 3))
    made.records[b"v"] = entry(VARIANT, (0,), crc=encoder.mask(0))
    made.write(prefix)
    reader = BundleReader(prefix)
    assert reader.read("s").shape == (0, 3)
    assert reader.read("v").shape == (0,)
