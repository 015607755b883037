"""Finding single keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckpttool.errors import CkptError, CorruptError
from ckpttool.storage.source import RandomAccessFile
from ckpttool.table import reader, values
from ckpttool.table.reader import TableLookup
from tests.support import corruption, encoder

RECORDS = [(b"", b"first"), *((b"%04d" % (3 * at), b"v%d" % at) for at in range(500))]


def open_table(folder: Path, data: bytes) -> RandomAccessFile:
    (folder / "table").write_bytes(data)
    return RandomAccessFile(str(folder / "table"))


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("block_size", [64, 1000, 262144])
def test_every_key_is_found(
    large: bool, block_size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if large:
        monkeypatch.setattr(values, "SMALL_BLOCK", 0)
        monkeypatch.setattr(reader, "SMALL_BLOCK", 0)
    with open_table(tmp_path, encoder.table(RECORDS, block_size=block_size)) as file:
        table = TableLookup(file)
        for key, expected in [*RECORDS, *reversed(RECORDS)]:
            for verify in (False, True):
                value = table.find(key, verify=verify)
                assert value is not None
                assert value.read_at(0, value.size) == expected
        for key in (b"0001", b"00", b"9999", b"\xff", b"\0"):
            assert table.find(key) is None


def test_only_the_block_of_the_key_is_read(tmp_path: Path) -> None:
    data = encoder.table(RECORDS, block_size=256)
    spans = corruption.spans(data)
    bad = corruption.flip(data, spans[3].start + 9, 1)
    refused = 0
    with open_table(tmp_path, bad) as file:
        table = TableLookup(file)
        for key, expected in RECORDS:
            try:
                value = table.find(key)
            except CorruptError as error:
                assert error.offset == spans[3].start
                refused += 1
            else:
                assert value is not None and value.read_at(0, value.size) == expected
    assert 0 < refused < 100


def test_keys_outside_of_their_separators(tmp_path: Path) -> None:
    block = encoder.block([(b"a", b""), (b"c", b"")])
    with open_table(tmp_path, encoder.Table().add(block, b"b").encode()) as file:
        with pytest.raises(CorruptError, match="outside what the index says"):
            TableLookup(file).find(b"a")
        assert TableLookup(file).find(b"c") is None


def test_an_empty_table(tmp_path: Path) -> None:
    with open_table(tmp_path, encoder.Table().encode()) as file:
        assert TableLookup(file).find(b"") is None
    with open_table(tmp_path, b"x" * 100) as file, pytest.raises(CkptError):
        TableLookup(file)
