"""Reading data shards, in windows and pieces, alone and in threads."""

from __future__ import annotations

import errno
import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckpttool.api.verify import verify
from ckpttool.bundle.entry import BundleEntry
from ckpttool.coding.checksum import crc32c
from ckpttool.errors import MissingFileError
from ckpttool.query.verify import data as integrity_data
from ckpttool.query.verify.data import read_shards
from ckpttool.query.verify.extents import Extent, Shard
from ckpttool.query.verify.index import Stored
from ckpttool.tensor.dtypes import STRING, VARIANT, DType, dtype_of_name
from ckpttool.tensor.strings import encode_strings
from ckpttool.tensor.variants import VariantElement, encode_variants
from tests.query.verify.victims import Victim
from tests.support import encoder
from tests.support.handmade import Bundle
from tests.support.limits import memory_limit

UINT8 = dtype_of_name("uint8")
MIB = 1 << 20


@pytest.fixture(params=["large", "small"])
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let windows and pieces be what they are, or so small that everything is cut."""
    if request.param == "small":
        monkeypatch.setattr(integrity_data, "_WINDOW", 64)
        monkeypatch.setattr(integrity_data, "_PIECE", 256)
        monkeypatch.setattr(integrity_data, "_ALONE", 0)


class Layout:
    """A data shard that is put together, with what has to be found in it."""

    def __init__(self, path: Path) -> None:
        self.shard = Shard(0, str(path), 0)
        self.data = b""
        self.wanted: list[int | None] = []

    def add(self, data: bytes, dtype: DType | None, count: int, wanted: int | None) -> None:
        extent = Extent(len(self.data), len(data), dtype, count)
        entry = BundleEntry(dtype or UINT8, (count,))
        extent.claims.append(Stored(f"k{len(self.wanted)}", None, entry))
        self.shard.extents.append(extent)
        self.data += data
        self.wanted.append(wanted)

    def fill(self, kinds: str, rng: random.Random) -> None:
        for kind in kinds:
            raw = rng.randbytes(rng.choice([0, 1, 17, 63, 64, 65, 300, 1500]))
            words = [raw[:20], raw[20:], b""][: rng.randrange(4)]
            if kind == "f":
                self.add(raw, UINT8, len(raw), crc32c(raw))
            elif kind == "s":
                data, crc = encode_strings(words)
                self.add(data, STRING, len(words), crc)
            elif kind == "v":
                data, crc = encode_variants([VariantElement(word) for word in words])
                self.add(data, VARIANT, len(words), crc if words else None)
            elif raw:
                at = len(self.data)
                zeros = rng.random() < 0.5
                hole = bytes(len(raw)) if zeros else bytes(len(raw) - 1) + b"\1"
                self.add(hole, None, 0, None if zeros else at + len(raw) - 1)

    def write(self) -> Layout:
        Path(self.shard.path).write_bytes(self.data)
        self.shard.size = len(self.data)
        return self

    def check(self) -> None:
        for extent, wanted in zip(self.shard.extents, self.wanted, strict=True):
            found = extent.nonzero if extent.dtype is None else extent.crc
            assert (found, extent.error) == (wanted, None)


@pytest.mark.parametrize("jobs", [1, 2, 7])
@pytest.mark.usefixtures("sizes")
def test_every_extent_is_read(jobs: int, tmp_path: Path) -> None:
    @settings(max_examples=60)
    @given(st.text("fffsvh", max_size=12), st.integers(0, 1 << 20))
    def check(kinds: str, seed: int) -> None:
        made = Layout(tmp_path / "shard")
        made.fill(kinds, random.Random(seed))
        made.write()
        assert read_shards([made.shard], big_endian=False, jobs=jobs) == len(made.data)
        made.check()

    check()


def test_pieces_of_a_large_tensor_are_joined(tmp_path: Path) -> None:
    made = Layout(tmp_path / "shard")
    raw = random.Random(1).randbytes(20 * MIB + 12345)
    made.add(b"before", UINT8, 6, crc32c(b"before"))
    made.add(raw, UINT8, len(raw), crc32c(raw))
    words, crc = encode_strings([raw[: 3 * MIB], b"", raw[3 * MIB : 4 * MIB]])
    made.add(words, STRING, 3, crc)
    made.add(bytes(3 * MIB), None, 0, None)
    made.write()
    for jobs in (1, 3):
        read_shards([made.shard], big_endian=False, jobs=jobs)
        made.check()


def test_the_first_byte_of_a_large_hole_that_is_not_zero(tmp_path: Path) -> None:
    size = 3 * integrity_data._PIECE
    made = Layout(tmp_path / "shard")
    hole = bytearray(size)
    for at in (size - 1, 2 * integrity_data._PIECE + 5, integrity_data._PIECE + 7):
        hole[at] = 9
    made.add(bytes(hole), None, 0, integrity_data._PIECE + 7)
    made.write()
    read_shards([made.shard], big_endian=False, jobs=4)
    made.check()


def test_progress_is_told_in_the_thread_of_the_caller(tmp_path: Path) -> None:
    made = Layout(tmp_path / "shard")
    raw = bytes(30 * MIB)
    made.add(raw, UINT8, len(raw), crc32c(raw))
    made.write()
    told: list[tuple[int, int]] = []
    threads = set()

    def progress(done: int, total: int) -> None:
        told.append((done, total))
        threads.add(threading.get_ident())

    for jobs in (1, 2):
        told.clear()
        read_shards([made.shard], big_endian=False, jobs=jobs, on_progress=progress)
        assert told == sorted(told) and told[-1] == (len(raw), len(raw))
        assert {total for _, total in told} == {len(raw)}
    assert threads == {threading.get_ident()}


def test_an_interrupt_stops_all_threads(tmp_path: Path) -> None:
    made = Layout(tmp_path / "shard")
    with open(made.shard.path, "wb") as file:
        file.truncate(64 << 30)
    made.shard.size = 64 << 30
    made.shard.extents.append(Extent(0, 64 << 30, UINT8, 64 << 30))
    before = threading.active_count()

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        read_shards([made.shard], big_endian=False, jobs=3, on_progress=interrupt)
    assert threading.active_count() == before
    assert time.monotonic() - start < 10


def test_a_mistake_in_a_thread_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Layout(tmp_path / "shard")
    raw = bytes(30 * MIB)
    made.add(raw, UINT8, len(raw), crc32c(raw))
    made.write()

    def fail(data: object, crc: int = 0) -> int:
        raise IndexError("no such thing")

    monkeypatch.setattr(integrity_data, "crc32c", fail)
    for jobs in (1, 2):
        with pytest.raises(IndexError, match="no such thing"):
            read_shards([made.shard], big_endian=False, jobs=jobs)


def test_a_bad_spot_of_the_disk_is_that_of_one_tensor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = Victim("v2/tf1.15/saver/model.ckpt-3", tmp_path)
    shard = os.path.realpath(victim.shard())
    pread = os.pread

    def broken(fd: int, length: int, offset: int) -> bytes:
        if os.readlink(f"/proc/self/fd/{fd}") == shard and offset <= 40 < offset + length:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return pread(fd, length, offset)

    monkeypatch.setattr(os, "pread", broken)
    (found,) = victim.findings()
    assert (found.code, found.key, found.offset, found.size) == (
        "unreadable",
        "dense/kernel",
        32,
        24,
    )
    assert "input/output error" in found.message
    assert victim.verify().verdict == "unchecked"


def test_a_shard_that_cannot_be_opened_is_told_once(tmp_path: Path) -> None:
    made = Layout(tmp_path / "shard")
    made.add(b"a", UINT8, 1, None)
    made.add(b"b", UINT8, 1, None)
    made.shard.size = 2
    read_shards([made.shard], big_endian=False)
    first, second = (extent.error for extent in made.shard.extents)
    assert isinstance(first, MissingFileError) and first is second


@pytest.mark.parametrize("order", ["<", ">"])
def test_strings_of_either_byte_order(order: str, tmp_path: Path) -> None:
    data, crc = encoder.string_data([b"abc", b"", b"d" * 300], order=order)
    made = Bundle(header=encoder.header(1, endianness=int(order == ">")))
    made.add(b"s", 7, (3,), data, crc=crc)
    prefix = made.write(tmp_path / "m")
    (report,) = verify(prefix)
    assert report.findings == ()
    made.header = encoder.header(1, endianness=int(order == "<"))
    made.write(prefix)
    (report,) = verify(prefix)
    assert [each.code for each in report.findings] == ["bad-strings"]


def test_more_shards_than_a_process_may_open(tmp_path: Path) -> None:
    made = Bundle(header=encoder.header(200), shards=[b""] * 200)
    for at in range(200):
        made.add(f"k{at:03d}".encode(), 4, (3,), bytes((at, 1, 2)), shard=at)
    prefix = made.write(tmp_path / "m")
    descriptors = len(os.listdir("/proc/self/fd"))
    (report,) = verify(prefix, jobs=3)
    assert (report.verdict, report.bytes_read) == ("ok", 600)
    assert len(os.listdir("/proc/self/fd")) <= descriptors


def sparse(path: Path, size: int) -> Iterator[Shard]:
    with open(path, "wb") as file:
        file.truncate(size)
    shard = Shard(0, str(path), size)
    shard.extents.append(Extent(0, size // 2, UINT8, size // 2))
    shard.extents.append(Extent(size // 2, size - size // 2, None, 0))
    yield shard


@pytest.mark.large
def test_memory_does_not_grow_with_the_tensor(tmp_path: Path) -> None:
    # Threads have their stacks and arenas of address space, which are hardly used.
    with memory_limit(64 * MIB):
        (shard,) = sparse(tmp_path / "shard", 512 * MIB)
        assert read_shards([shard], big_endian=False, jobs=1) == 512 * MIB
    assert shard.extents[0].crc is not None and shard.extents[1].nonzero is None
