"""Blocks whose values stay in the file."""

from __future__ import annotations

from pathlib import Path

import cramjam
import pytest

from ckpttool.errors import ChecksumError, CkptError, CorruptError, TruncatedError, UnsupportedError
from ckpttool.storage.source import RandomAccessFile
from ckpttool.table import values
from ckpttool.table.format import BlockHandle
from ckpttool.table.values import load_block
from tests.support import encoder
from tests.support.encoder import block_entry, close_block

RECORDS = [(b"key/%03d" % at, bytes((at,)) * at) for at in range(60)]
GOOD = encoder.block(RECORDS)


@pytest.fixture(params=[False, True], ids=["small", "large"])
def large(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param:
        monkeypatch.setattr(values, "SMALL_BLOCK", 0)
    return bool(request.param)


def stored(folder: Path, block: bytes, kind: int = 0) -> tuple[RandomAccessFile, BlockHandle]:
    """Write a block behind three other bytes, with a footer's room after it."""
    data = bytes(cramjam.snappy.compress_raw(block)) if kind == 1 else block
    path = folder / "table"
    path.write_bytes(b"abc" + data + encoder.trailer(data, kind) + bytes(48))
    return RandomAccessFile(str(path)), BlockHandle(3, len(data))


@pytest.mark.parametrize("kind", [0, 1])
def test_keys_and_values(large: bool, kind: int, tmp_path: Path) -> None:
    file, handle = stored(tmp_path, GOOD, kind)
    with file:
        found = load_block(file, handle)
        assert [key for key, _ in found] == [key for key, _ in RECORDS]
        for (_, value), (_, expected) in zip(found, RECORDS, strict=True):
            assert value.size == len(expected) and value.path == file.path
            assert value.in_memory is not (large and kind == 0)
            if not value.in_memory:
                assert file.read_at(value.offset, value.size) == expected
            assert value.read_at(0, value.size) == expected
            assert bytes(value.read_at(0, value.size)) == expected
            if value.size > 3:
                assert value.read_at(1, 2) == expected[1:3]
                chunks = value.chunks(1, value.size - 2, chunk_size=7)
                assert b"".join(map(bytes, chunks)) == expected[1:-1]


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("kind", [0, 1])
def test_damage(kind: int, tmp_path: Path) -> None:
    file, handle = stored(tmp_path, GOOD, kind)
    raw = bytearray((tmp_path / "table").read_bytes())
    raw[handle.offset + 2] ^= 4
    (tmp_path / "table").write_bytes(raw)
    with file, pytest.raises(ChecksumError) as caught:
        load_block(file, handle)
    assert (caught.value.path, caught.value.offset) == (file.path, 3)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize(
    ("block", "message"),
    [
        (b"", "restarts"),
        (b"\0\0\0\0", "restarts"),
        (close_block(b"", count=9), "restarts"),
        (close_block(b"", (1,)), "do not rise from 0"),
        (close_block(block_entry(0, b"a", b""), (0, 0)), "do not rise from 0"),
        (close_block(block_entry(0, b"a", b""), (0, 4)), "points at no entry"),
        (close_block(b"", (0, 1)), "points at no entry"),
        (
            close_block(block_entry(0, b"a", b"") + block_entry(1, b"b", b""), (0, 4)),
            "cut short at a restart",
        ),
        (close_block(block_entry(0, b"a", b"", size=9)), "impossible lengths"),
        (close_block(block_entry(0, b"a", b"", fresh=99)), "impossible lengths"),
        (close_block(block_entry(1, b"a", b"")), "impossible lengths"),
        (close_block(block_entry(0, b"b", b"") + block_entry(0, b"a", b"")), "do not rise"),
        (close_block(b"\x80"), "past its end|lengths"),
        (close_block(b"\xff" * 20), "64 bits|lengths"),
    ],
)
@pytest.mark.parametrize("kind", [0, 1])
def test_malformed_blocks(block: bytes, message: str, kind: int, tmp_path: Path) -> None:
    if kind and not block:
        return
    file, handle = stored(tmp_path, block, kind)
    with file, pytest.raises(CorruptError, match=message) as caught:
        load_block(file, handle)
    assert caught.value.path == file.path
    assert caught.value.offset is not None and caught.value.offset >= 3


@pytest.mark.usefixtures("large")
def test_keys_that_share_much(tmp_path: Path) -> None:
    entries = block_entry(0, b"k" * 50_000, b"")
    entries += b"".join(block_entry(50_000 + at, b"a", b"") for at in range(3000))
    file, handle = stored(tmp_path, close_block(entries))
    with file, pytest.raises(CorruptError, match="share more"):
        load_block(file, handle)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize(
    ("handle", "error"),
    [
        (BlockHandle(0, 1 << 40), TruncatedError),
        (BlockHandle(1 << 62, 1), TruncatedError),
    ],
)
def test_blocks_that_are_not_there(
    handle: BlockHandle, error: type[CkptError], tmp_path: Path
) -> None:
    file, _ = stored(tmp_path, GOOD)
    with file, pytest.raises(error):
        load_block(file, handle)


@pytest.mark.usefixtures("large")
def test_compression_that_is_not_known(tmp_path: Path) -> None:
    file, handle = stored(tmp_path, GOOD, 7)
    with file, pytest.raises(UnsupportedError, match="compression 7"):
        load_block(file, handle)
    assert handle.size == len(GOOD)


def test_a_large_block_need_not_be_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "SMALL_BLOCK", 0)
    file, handle = stored(tmp_path, GOOD)
    raw = (tmp_path / "table").read_bytes().replace(bytes((59,)) * 59, bytes(59))
    (tmp_path / "table").write_bytes(raw)
    with file:
        assert load_block(file, handle, verify=False)[-1][1].read_at(0, 59) == bytes(59)
        with pytest.raises(ChecksumError):
            load_block(file, handle)
