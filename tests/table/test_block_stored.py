from __future__ import annotations

import os
from pathlib import Path

import cramjam
import pytest

from ckpttool.errors import ChecksumError, CkptError, CorruptError, TruncatedError, UnsupportedError
from ckpttool.storage.source import RandomAccessFile
from ckpttool.table.block import read_entries
from ckpttool.table.format import BlockHandle, Footer
from ckpttool.table.reader import read_footer
from tests.support import corruption, encoder
from tests.support.limits import memory_limit
from tests.support.refusals import refused

RECORDS = [(b"", b"h"), (b"a", b"1"), (b"b", b"2")]
BLOCK = encoder.block(RECORDS)
TABLE = encoder.table(RECORDS)
WHOLE = BlockHandle(0, len(BLOCK))


def opened(path: Path, raw: bytes) -> RandomAccessFile:
    path.write_bytes(raw)
    return RandomAccessFile(str(path))


def test_footer(tmp_path: Path) -> None:
    metaindex, index = corruption.spans(TABLE)[-2:]
    with opened(tmp_path / "t", TABLE) as file:
        assert read_footer(file) == Footer(
            BlockHandle(metaindex.start, 8), BlockHandle(index.start, index.stop - index.start)
        )


@pytest.mark.parametrize(
    ("raw", "error", "offset"),
    [
        (b"", TruncatedError, None),
        (TABLE[-47:], TruncatedError, None),
        (TABLE[:-1], CorruptError, len(TABLE) - 9),
        (b"x" * 10 + b"\xff" * 40 + encoder.MAGIC, CorruptError, 10),
    ],
    ids=["empty", "47 bytes", "cut", "handle without end"],
)
def test_bad_footer(tmp_path: Path, raw: bytes, error: type[CkptError], offset: int | None) -> None:
    with opened(tmp_path / "t", raw) as file, pytest.raises(error) as caught:
        read_footer(file)
    assert (caught.value.path, caught.value.offset) == (str(tmp_path / "t"), offset)


def test_entries(tmp_path: Path) -> None:
    with opened(tmp_path / "t", TABLE) as file:
        assert read_entries(file, WHOLE) == RECORDS
        assert read_entries(file, read_footer(file).metaindex) == []


def test_entries_whose_checksum_is_wrong(tmp_path: Path) -> None:
    at = TABLE.index(b"a1") + 1
    with opened(tmp_path / "t", corruption.flip(TABLE, at, 0x08)) as file:
        with pytest.raises(ChecksumError) as caught:
            read_entries(file, WHOLE)
        assert caught.value.offset == 0
        assert read_entries(file, WHOLE, verify=False) == [(b"", b"h"), (b"a", b"9"), (b"b", b"2")]


def test_without_checksums_the_rest_is_checked_all_the_same(tmp_path: Path) -> None:
    with opened(tmp_path / "t", corruption.flip(TABLE, 0, 0x08)) as file:
        with refused(CorruptError, "lengths") as caught:
            read_entries(file, WHOLE, verify=False)
        assert (caught.value.path, caught.value.offset) == (str(tmp_path / "t"), 0)
        with pytest.raises(TruncatedError):
            read_entries(file, BlockHandle(0, 2**63), verify=False)
        with pytest.raises(CorruptError):
            read_entries(file, BlockHandle(1, 5), verify=False)


def test_compressed_entries_whose_checksum_is_wrong(tmp_path: Path) -> None:
    stored = bytes(cramjam.snappy.compress_raw(BLOCK))
    raw = stored + encoder.trailer(stored, 1, crc=0) + bytes(48)
    with opened(tmp_path / "t", raw) as file:
        with pytest.raises(ChecksumError):
            read_entries(file, BlockHandle(0, len(stored)))
        assert read_entries(file, BlockHandle(0, len(stored)), verify=False) == RECORDS


@pytest.mark.parametrize("size", [2**31 + 2**20 + 1, 2**33, 2**39])
def test_a_block_that_no_writer_makes(tmp_path: Path, size: int) -> None:
    path = tmp_path / "t"
    path.write_bytes(b"")
    os.truncate(path, 2**40)
    with (
        RandomAccessFile(str(path)) as file,
        memory_limit(64 << 20),
        refused(UnsupportedError, f"{size} bytes") as caught,
    ):
        read_entries(file, BlockHandle(7, size))
    assert (caught.value.path, caught.value.offset) == (str(path), 7)


@pytest.mark.parametrize("kind", [2, 3, 255])
def test_compressions_that_are_not_known(tmp_path: Path, kind: int) -> None:
    raw = BLOCK + encoder.trailer(BLOCK, kind) + bytes(48)
    with (
        opened(tmp_path / "t", raw) as file,
        refused(UnsupportedError, f"compression {kind}") as caught,
    ):
        read_entries(file, WHOLE)
    assert caught.value.offset == 0
