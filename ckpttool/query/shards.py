"""Whether the data shards exist and are long enough for the index; none of them is read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from ckpttool.bundle.naming import shard_path
from ckpttool.bundle.reader import BundleReader
from ckpttool.bundle.shards import shard_status
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.errors import CkptError, CorruptError, MissingFileError
from ckpttool.query.rows import BundleRows, TensorRow, ends
from ckpttool.query.source import Source

# Claims of so many bytes are always allowed.
_FREE = 1 << 30


def require_data(source: Source, rows: Iterable[TensorRow]) -> None:
    """Refuse a checkpoint with incomplete data.

    Raises:
        MissingFileError: a data shard does not exist.
        TruncatedError: a data shard ends before a tensor in it does.
    """
    if source.missing_shards:
        folder = os.path.dirname(source.prefix)
        path = os.path.join(folder, source.missing_shards[0])
        raise MissingFileError("the data shard is missing", path=path)
    for error in missing_data(source, rows):
        raise error


def missing_data(source: Source, rows: Iterable[TensorRow]) -> Iterator[CkptError]:
    """Yield an error for each data shard that is missing or too short for the tensors in it.

    Needed before comparing checksums of two indexes: equal ones mean nothing for missing bytes.
    """
    if source.generation != "V2":  # data and index are one file
        folder = os.path.dirname(source.prefix)
        for name in source.missing_shards:
            yield MissingFileError("a file of it is missing", path=os.path.join(folder, name))
        return
    for shard, (end, key) in sorted(ends(rows).items()):
        try:
            shard_status(shard_path(source.prefix, shard, source.shards), end, key)
        except CkptError as error:
            yield error


def require_apart(ckpt: Checkpoint, keys: Iterable[str]) -> None:
    """Raise `CorruptError` if the tensors to read claim many times the bytes of the data shards.

    Any number of tensors may claim the same bytes; reading all of them could take forever.
    """
    reader = ckpt.reader
    if not isinstance(reader, BundleReader):
        return  # in V1 every tensor has its own records
    claimed = 0
    used: set[int] = set()
    for key in set(keys):
        entry = reader.entries[key]
        parts = [part for _, part in reader.index.slice_entries(key)] if entry.slices else [entry]
        claimed += sum(part.size for part in parts)
        used.update(part.shard_id for part in parts)
    _require_room(reader, claimed, used)


def require_rows_apart(
    ckpt: Checkpoint,
    rows: Sequence[TensorRow],
    places: Iterable[int],
    more: Iterable[TensorRow] = (),
) -> None:
    """Do as `require_apart` for the tensors at some places in `rows`, and some more."""
    reader = ckpt.reader
    if not isinstance(reader, BundleReader):
        return
    claimed, used = 0, set[int]()
    if isinstance(rows, BundleRows):
        claimed, used = rows.claims(places)
    else:
        more = chain(map(rows.__getitem__, places), more)
    for row in more:
        for part in row.slices or (row,):
            claimed += part.bytes or 0
            used.update(() if part.shard is None else (part.shard,))
    _require_room(reader, claimed, used)


def _require_room(reader: BundleReader, claimed: int, used: Iterable[int]) -> None:
    if claimed <= _FREE:
        return
    present = sum(file.size or 0 for file in reader.shard_files(used))
    if claimed > present + _FREE:
        raise CorruptError(
            f"the tensors claim {claimed} bytes of data shards that have {present}; "
            "select fewer of them",
            path=reader.path,
        )
