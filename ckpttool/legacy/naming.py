"""How the files of a V1 checkpoint are called.

PREFIX                      all in one file
PREFIX-00000-of-00002       or several: number and count, five digits or more
PREFIX-00001-of-00002
PREFIX-?????-of-00002       the name by which TensorFlow knows them together
"""

from __future__ import annotations

import os
import re

from ckpttool.storage.source import file_error

_SHARD = re.compile(r"-([0-9]{5})-of-([0-9]{5})\Z")


def shard_path(prefix: str, shard_id: int, num_shards: int) -> str:
    """Return the path of one file of several."""
    return f"{prefix}-{shard_id:05d}-of-{num_shards:05d}"


def shard_pattern(prefix: str, num_shards: int) -> str:
    """Return the name for all files together."""
    return f"{prefix}-?????-of-{num_shards:05d}"


def find_sets(prefix: str) -> dict[int, tuple[str, ...]]:
    """Return the paths of all files that are called like one of several of a prefix, by count.

    Raises:
        FileAccessError: the folder cannot be read.
    """
    folder, base = os.path.split(prefix)
    try:
        names = os.listdir(folder or os.curdir)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # no folder, or no path at all
        return {}
    except OSError as error:
        raise file_error(error, folder) from error
    sets: dict[int, tuple[str, ...]] = {}
    for name in sorted(names):
        match = _SHARD.search(name)
        if match and name[: match.start()] == base and int(match[1]) < int(match[2]):
            count = int(match[2])
            sets[count] = (*sets.get(count, ()), os.path.join(folder, name))
    return sets
