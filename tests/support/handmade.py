"""Bundles put together by hand, from the parts that `encoder` makes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.support import encoder

_STRING = 7


def shard_path(prefix: str, at: int = 0, count: int = 1) -> str:
    """Return the path of a data shard."""
    return f"{prefix}.data-{at:05d}-of-{count:05d}"


@dataclass
class Bundle:
    """A bundle put together by hand.

    Attributes:
        header: the record under the empty key; None leaves it out.
        records: all other records, in any order.
        shards: the bytes of the data shards.
        count: the number of shards in their names; None for that of `shards`.
    """

    header: bytes | None = field(default_factory=encoder.header)
    records: dict[bytes, bytes] = field(default_factory=dict)
    shards: list[bytes] = field(default_factory=lambda: [b""])
    count: int | None = None

    def add(
        self,
        key: bytes,
        dtype: int,
        dims: Sequence[int],
        data: bytes,
        *,
        crc: int | None = None,
        shard: int = 0,
        extra: bytes = b"",
    ) -> Bundle:
        """Append a tensor; `crc` is the masked one, by default that of the bytes."""
        self.records[key] = self.store(dtype, dims, data, crc=crc, shard=shard, extra=extra)
        return self

    def add_strings(self, key: bytes, dims: Sequence[int], elements: Sequence[bytes]) -> Bundle:
        """Append a string tensor."""
        data, crc = encoder.string_data(elements)
        return self.add(key, _STRING, dims, data, crc=crc)

    def add_slices(
        self,
        key: bytes,
        dtype: int,
        dims: Sequence[int],
        parts: Sequence[tuple[encoder.Extents, bytes]],
        *,
        shard: int = 0,
    ) -> Bundle:
        """Append a partitioned tensor: the extents and the bytes of each slice."""
        for extents, data in parts:
            stored = [
                dim if length == -1 else length
                for dim, (_, length) in zip(dims, extents, strict=False)
            ]
            self.records[encoder.slice_key(key, extents)] = self.store(
                dtype, stored, data, shard=shard
            )
        self.records[key] = encoder.entry(dtype, dims, slices=[extents for extents, _ in parts])
        return self

    def store(
        self,
        dtype: int,
        dims: Sequence[int],
        data: bytes,
        *,
        crc: int | None = None,
        shard: int = 0,
        extra: bytes = b"",
    ) -> bytes:
        """Append bytes to a shard and return the entry for them."""
        offset = len(self.shards[shard])
        self.shards[shard] += data
        sealed = encoder.masked_crc(data) if crc is None else crc
        return encoder.entry(
            dtype, dims, shard=shard, offset=offset, size=len(data), crc=sealed, extra=extra
        )

    def sorted_records(self) -> list[encoder.Record]:
        """Return all records in key order, the header first."""
        records = dict(self.records)
        if self.header is not None:
            records[b""] = self.header
        return sorted(records.items())

    def write(self, prefix: str | os.PathLike[str], index: bytes | None = None) -> str:
        """Write the files and return the prefix; `index` replaces the index that would be made."""
        prefix = os.fspath(prefix)
        for at, data in enumerate(self.shards):
            with open(shard_path(prefix, at, self.count or len(self.shards)), "wb") as file:
                file.write(data)
        with open(prefix + ".index", "wb") as file:
            file.write(encoder.table(self.sorted_records()) if index is None else index)
        return prefix
