"""What every answer says of the checkpoint it is about."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ckpttool.checkpoint.open import Checkpoint


@dataclass(frozen=True, slots=True)
class Source:
    """A checkpoint, as far as it can be told without its values.

    Attributes:
        path: what was typed.
        prefix: the checkpoint that this led to.
        generation: `"V1"` or `"V2"`.
        style: `"object"` or `"name"`.
        shards: how many data shards the index counts.
        byte_order: `"little"` or `"big"`.
        index_bytes: size of the index.
        data_bytes: size of the data shards that are there.
        missing_shards: names of the data shards that hold tensors and are not there.
    """

    path: str
    prefix: str
    generation: str
    style: str
    shards: int
    byte_order: str
    index_bytes: int
    data_bytes: int
    missing_shards: tuple[str, ...]

    @classmethod
    def of(cls, ckpt: Checkpoint) -> Source:
        """Describe an open checkpoint; its shards are looked for, not opened."""
        files = ckpt.bundle.shard_files()
        return cls(
            path=ckpt.location.typed,
            prefix=ckpt.prefix,
            generation=ckpt.generation,
            style=ckpt.style,
            shards=ckpt.bundle.header.num_shards,
            byte_order="big" if ckpt.bundle.header.big_endian else "little",
            index_bytes=ckpt.bundle.index.size,
            data_bytes=sum(file.size or 0 for file in files),
            missing_shards=tuple(os.path.basename(f.path) for f in files if f.size is None),
        )
