"""How the files of a V1 checkpoint are called.

PREFIX                      all in one file
PREFIX-00000-of-00002       or several: number and count, five digits or more
PREFIX-00001-of-00002
PREFIX-?????-of-00002       the name by which TensorFlow knows them together
"""

from __future__ import annotations


def shard_path(prefix: str, shard_id: int, num_shards: int) -> str:
    """Return the path of one file of several."""
    return f"{prefix}-{shard_id:05d}-of-{num_shards:05d}"


def shard_pattern(prefix: str, num_shards: int) -> str:
    """Return the name for all files together."""
    return f"{prefix}-?????-of-{num_shards:05d}"
