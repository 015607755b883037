"""Names of the files of a V1 checkpoint.

PREFIX                      all in one file
PREFIX-00000-of-00002       or in several: number and count, of five digits
PREFIX-00001-of-00002
PREFIX-?????-of-00002       TensorFlow's name for the set
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from ckpttool.storage.source import file_error

_SHARD = re.compile(r"-([0-9]{5})-of-([0-9]{5})\Z")
_PATTERN = re.compile(r"-\?{5}-of-([0-9]{5}|\?{5})\Z")

# Count of files -> number of a present file -> its name.
Sets = dict[int, dict[int, str]]


def v1_shard_path(prefix: str, shard_id: int, num_shards: int) -> str:
    """Return the path of one file of several."""
    return f"{prefix}-{shard_id:05d}-of-{num_shards:05d}"


def shard_pattern(prefix: str, num_shards: int) -> str:
    """Return the name of the set."""
    return f"{prefix}-?????-of-{num_shards:05d}"


def split_v1_shard_path(path: str) -> tuple[str, int, int] | None:
    """Return prefix, number and count for one file of several; None for any other name."""
    match = _SHARD.search(path)
    if match is None or int(match[1]) >= int(match[2]):
        return None
    return path[: match.start()], int(match[1]), int(match[2])


def shard_stem(path: str) -> str:
    """Return a path without the ending of one file of several."""
    return _SHARD.sub("", path)


def split_shard_pattern(path: str) -> tuple[str, int | None] | None:
    """Return prefix and count for the name of a set, None for any other name.

    The count is None if it is a pattern as well.
    """
    match = _PATTERN.search(path)
    if match is None:
        return None
    return path[: match.start()], None if "?" in match[1] else int(match[1])


def sets_among(names: Iterable[str]) -> dict[str, Sets]:
    """Return the names that belong to checkpoints in several files, by prefix."""
    found: dict[str, Sets] = {}
    for name in names:
        split = split_v1_shard_path(name)
        if split is not None:
            prefix, number, count = split
            found.setdefault(prefix, {}).setdefault(count, {})[number] = name
    return found


def find_sets(prefix: str) -> dict[int, tuple[str, ...]]:
    """Return the paths of the files of a prefix, by the count in their names.

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
    return {
        count: tuple(os.path.join(folder, present[number]) for number in sorted(present))
        for count, present in sets_among(names).get(base, {}).items()
    }
