"""Whether the data shards can hold what the index says; none of them is read."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ckpttool.bundle.naming import shard_path
from ckpttool.errors import MissingFileError, TruncatedError
from ckpttool.query.listing import TensorRow
from ckpttool.query.rows import ends
from ckpttool.query.source import Source
from ckpttool.storage.source import RandomAccessFile

_POINTER = b"version https://git-lfs"


def require_data(source: Source, rows: Iterable[TensorRow]) -> None:
    """Refuse a checkpoint whose data are not all there.

    Args:
        source: the checkpoint.
        rows: all its tensors.

    Raises:
        MissingFileError: a data shard does not exist.
        TruncatedError: a data shard ends before a tensor in it does.
    """
    if source.missing_shards:
        folder = os.path.dirname(source.prefix)
        path = os.path.join(folder, source.missing_shards[0])
        raise MissingFileError("the data shard is missing", path=path)
    if source.generation != "V2":
        return  # data and index are one file
    for shard, last in sorted(ends(rows).items()):
        _require_size(shard_path(source.prefix, shard, source.shards), *last)


def _require_size(path: str, end: int, key: str) -> None:
    with RandomAccessFile(path) as file:
        if file.size >= end:
            return
        start = file.read_at(0, min(file.size, len(_POINTER)))
        hint = "; it is a pointer of Git LFS in place of the data" if start == _POINTER else ""
        raise TruncatedError(
            f"the tensor ends at byte {end}, but the data shard has {file.size}{hint}",
            path=path,
            key=key,
        )
