"""Writing arrays as a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ckpttool.bundle.writer import BundleWriter
from ckpttool.coding.text import encode_text
from ckpttool.storage.paths import StrPath, path_text

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def save_checkpoint(
    prefix: StrPath,
    tensors: Mapping[str, ArrayLike],
    *,
    num_shards: int = 1,
    force: bool = False,
) -> None:
    """Write a name-based checkpoint that TensorFlow reads.

    The files appear after all bytes are on the disk, the index last.

    Args:
        prefix: path of the checkpoint without the endings of its files, such as "out/ckpt-1". Its
            last folder is made if need be.
        tensors: arrays by key. Arrays of text or bytes become strings; quantised dtypes are
            structures of one field named like "qint8"; bfloat16, float8, int4 and their like come
            from ml_dtypes.
        num_shards: how many data shards to spread the tensors over, evenly by size.
        force: replace a checkpoint of that name.

    Raises:
        DestinationError: files of that name exist and `force` is not given.
        InvalidTensorError: a key is empty, or a value has no TensorFlow dtype.
    """
    with BundleWriter(path_text(prefix), num_shards=num_shards, force=force) as writer:
        # To the emptiest shard each, in key order: the same tensors give the same files.
        for key in sorted(tensors, key=encode_text):
            writer.add(key, tensors[key], shard_id=writer.emptiest_shard)
