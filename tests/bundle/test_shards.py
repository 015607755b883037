"""Data shards that are there and long enough, and others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ckpttool.bundle.shards import shard_status
from ckpttool.errors import CkptError, FileAccessError, MissingFileError, TruncatedError


def test_long_enough(tmp_path: Path) -> None:
    path = tmp_path / "m.data-00000-of-00001"
    path.write_bytes(bytes(10))
    assert shard_status(str(path), 10, "w") == os.stat(path)


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (None, MissingFileError, "the data shard is missing"),
        (bytes(9), TruncatedError, "the tensor ends at byte 10, but the data shard has 9"),
        (b"version https://git-lfs.github.com/spec/v1\n", TruncatedError, "a pointer of Git LFS"),
    ],
)
def test_not_there_or_too_short(
    tmp_path: Path, content: bytes | None, error: type[CkptError], message: str
) -> None:
    path = tmp_path / "m.data-00000-of-00001"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(error, match=message) as caught:
        shard_status(str(path), 10 if content is None else len(content) + 1, "w")
    assert (caught.value.path, caught.value.key) == (str(path), "w")


def test_what_the_system_does_not_tell(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileAccessError):
        shard_status(str(tmp_path / "file" / "shard"), 1, "w")
