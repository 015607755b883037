"""How the files of a bundle are called.

    PREFIX.index
    PREFIX.data-00000-of-00002     shard number and count, five digits or more
    PREFIX.data-00001-of-00002

The prefix may be any text that a path can be.
"""

from __future__ import annotations

import os
import re

from ckpttool.storage.source import file_error

_SHARD = re.compile(r"\.data-(\d{5,})-of-(\d{5,})\Z")
INDEX_SUFFIX = ".index"


def index_path(prefix: str) -> str:
    """Return the path of the index."""
    return prefix + INDEX_SUFFIX


def shard_path(prefix: str, shard_id: int, num_shards: int) -> str:
    """Return the path of a data shard."""
    return f"{prefix}.data-{shard_id:05d}-of-{num_shards:05d}"


def find_shards(prefix: str) -> list[str]:
    """Return the paths of all data shards of a prefix that exist, whatever their count.

    Raises:
        FileAccessError: the folder cannot be read.
    """
    folder, name = os.path.split(prefix)
    try:
        names = os.listdir(folder or os.curdir)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # no folder, or no path at all
        return []
    except OSError as error:
        raise file_error(error, folder) from error
    begin = f"{name}.data-"
    found = [
        each
        for each in names
        if each.startswith(begin) and (split := split_shard_path(each)) and split[0] == name
    ]
    return [os.path.join(folder, each) for each in sorted(found)]


def split_shard_path(path: str) -> tuple[str, int, int] | None:
    """Return (prefix, shard number, count) for the path of a data shard, None for another."""
    match = _SHARD.search(path)
    if match is None:
        return None
    return path[: match.start()], int(match[1]), int(match[2])
