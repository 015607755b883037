"""Data shards, as far as they can be told without reading them: are they there, and long enough."""

from __future__ import annotations

import os

from ckpttool.errors import MissingFileError, TruncatedError
from ckpttool.storage.source import file_error


def shard_status(path: str, end: int, key: str) -> os.stat_result:
    """Return the status of a data shard that must be as long as its tensors need.

    Args:
        path: the shard.
        end: where the last tensor in it ends.
        key: the key of that tensor.

    Raises:
        MissingFileError: the shard does not exist.
        FileAccessError: the operating system does not tell.
        TruncatedError: the shard ends before the tensor does.
    """
    try:
        status = os.stat(path)
    except FileNotFoundError as error:
        raise MissingFileError("the data shard is missing", path=path, key=key) from error
    except OSError as error:
        raise file_error(error, path).locate(key=key) from error
    if status.st_size < end:
        from ckpttool.storage.foreign import foreign_file

        found = foreign_file(path)
        hint = f"; it is {found}" if found else ""
        raise TruncatedError(
            f"the tensor ends at byte {end}, but the data shard has {status.st_size}{hint}",
            path=path,
            key=key,
        )
    return status
