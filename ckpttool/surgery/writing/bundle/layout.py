"""The place of every tensor of a plan in the written shards."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ckpttool.bundle.entry import BundleEntry, BundleHeader
from ckpttool.bundle.naming import index_path
from ckpttool.coding.text import encode_text
from ckpttool.storage.source import Permissions
from ckpttool.storage.staging import StagedFiles
from ckpttool.surgery.writing.receipt import ShardReceipt, Written
from ckpttool.table.builder import TableBuilder
from ckpttool.tensor.slices import TensorSlice, encode_slice_key


@dataclass(frozen=True, slots=True)
class Layout:
    """The index and shards of the new checkpoint.

    Attributes:
        header: of the index.
        entries: every tensor by key.
        slices: of partitioned tensors, by key.
        shards: the data shards, by number.
    """

    header: BundleHeader
    entries: dict[str, BundleEntry]
    slices: dict[str, tuple[tuple[TensorSlice, BundleEntry], ...]]
    shards: tuple[ShardReceipt, ...]

    def records(self) -> list[tuple[bytes, bytes]]:
        """Return the records of the index in the order of their keys."""
        records = [(b"", self.header.encode())]
        for key, entry in self.entries.items():
            raw = encode_text(key)
            records.append((raw, entry.encode()))
            records += [
                (encode_slice_key(raw, part), stored.encode())
                for part, stored in self.slices.get(key, ())
            ]
        return sorted(records)

    def stage_index(self, staged: StagedFiles, prefix: str, permissions: Permissions) -> int:
        """Stage the index as a table; return its size in bytes.

        Args:
            staged: the set of files to add to.
            prefix: the destination.
            permissions: those of the source.
        """
        file = staged.create(index_path(prefix), mode=0o600)
        file.take_permissions(permissions)
        builder = TableBuilder(file.write)
        for key, value in self.records():
            builder.add(key, value)
        builder.finish()
        return file.size

    def written(self, size: int, notes: Iterable[str]) -> Written:
        """Return the result of writing it: `size` bytes were written."""
        used = sum(entry.size for entry in self.entries.values())
        used += sum(part.size for parts in self.slices.values() for _, part in parts)
        dead = sum(shard.bytes for shard in self.shards) - used
        return Written(self.shards, len(self.entries), size, max(0, dead), tuple(notes))
