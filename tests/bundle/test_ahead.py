"""Bytes read ahead are those of the file, in whatever order they are asked for."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ckpttool.bundle.ahead import ReadAhead
from ckpttool.errors import TruncatedError
from ckpttool.storage.source import RandomAccessFile


def test_any_order_of_several_shards(tmp_path: Path) -> None:
    rng = random.Random(3)
    contents = [rng.randbytes(300_000), rng.randbytes(5)]
    files = []
    for at, data in enumerate(contents):
        (tmp_path / str(at)).write_bytes(data)
        files.append(RandomAccessFile(str(tmp_path / str(at))))
    ahead = ReadAhead(files.__getitem__)
    places = [(0, at, rng.randrange(90)) for at in range(0, 299_000, 50)]
    places += [(0, at, rng.randrange(900)) for at in rng.sample(range(299_000), 300)]
    places += [(1, 0, 5), (0, 1, 2), (1, 5, 0), (1, 2, 3), (0, 299_999, 1), (0, 0, 300_000)]
    kept = [(ahead.read(*place), place) for place in places]
    for found, (shard, offset, size) in kept:
        assert found == contents[shard][offset : offset + size]
    for offset, size in ((299_999, 2), (300_001, 0), (-1, 1)):
        with pytest.raises(TruncatedError):
            ahead.read(0, offset, size)
