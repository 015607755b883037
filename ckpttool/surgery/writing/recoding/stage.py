"""Rewriting the values of a plan, as data shards of today's form.

Every value is read, checked and written: little-endian, string lengths in their shortest form and,
if requested, partitioned tensors as wholes.
"""

from __future__ import annotations

from collections.abc import Set

from ckpttool.bundle.entry import BundleEntry, BundleHeader
from ckpttool.bundle.naming import shard_path
from ckpttool.checkpoint.nearest import listed
from ckpttool.coding.checksum import crc32c, mask
from ckpttool.coding.text import encode_text
from ckpttool.objects.keys import GRAPH_KEY
from ckpttool.storage.source import Permissions
from ckpttool.storage.staged_file import StagedFile
from ckpttool.storage.staging import StagedFiles
from ckpttool.storage.work import Progress
from ckpttool.surgery.plan import Plan, PlannedTensor
from ckpttool.surgery.values import NewValue, value_size
from ckpttool.surgery.writing.bundle.carry import check_space
from ckpttool.surgery.writing.bundle.layout import Layout
from ckpttool.surgery.writing.fresh import write_value
from ckpttool.surgery.writing.receipt import ShardReceipt
from ckpttool.surgery.writing.recoding.payloads import (
    Payload,
    check_slices,
    payload_shapes,
    payloads,
)
from ckpttool.surgery.writing.recoding.spread import Recoding, spread
from ckpttool.tensor.dtypes import STRING
from ckpttool.tensor.shape import element_count
from ckpttool.tensor.slices import TensorSlice
from ckpttool.tensor.strings import encode_strings


class RecodedStage:
    """Stages the files of a plan, every value rewritten.

    Args:
        plan: the plan.
        staged: the set of files to add to.
        prefix: the destination.
        how: the layout.
        on_progress: called with the bytes written and their total.
    """

    def __init__(
        self,
        plan: Plan,
        staged: StagedFiles,
        prefix: str,
        how: Recoding,
        on_progress: Progress | None,
    ) -> None:
        self.notes: list[str] = []
        self.bytes_written = 0
        self._plan = plan
        self._staged = staged
        self._prefix = prefix
        self._how = how
        self._on_progress = on_progress
        self._done = self._total = 0

    def all_shards(self, *, taken: Set[int]) -> Layout:
        """Stage all data shards; return the layout that fits them.

        Args:
            taken: counts of shards that the destination has files of; another one is used.

        Raises:
            CkptError: a value is damaged or cannot be stored.
        """
        tensors = sorted(self._plan.tensors, key=lambda tensor: _raw(tensor.key))
        sizes = [self._sizes(tensor) for tensor in tensors]
        self._total = sum(map(sum, sizes))
        check_space(self._prefix, self._total)
        places, count = spread(sizes, self._how, self._plan.source.reader.num_shards)
        while count in taken:
            count += 1
        shards = _Shards(
            self._staged,
            self._prefix,
            count,
            self._plan.source.reader.permissions,
            in_order=self._how.max_shard_size is not None,
        )
        entries: dict[str, BundleEntry] = {}
        slices: dict[str, tuple[tuple[TensorSlice, BundleEntry], ...]] = {}
        for tensor, shard_ids in zip(tensors, places, strict=True):
            if tensor.value is not None:
                entries[tensor.key] = self._write_value(
                    tensor.key, tensor.value, shards, shard_ids[0]
                )
                continue
            written = [
                (payload.part, self._write(tensor, payload, shards, shard_id))
                for payload, shard_id in zip(
                    payloads(self._plan.source, tensor, join=_joins(tensor, self._how)),
                    shard_ids,
                    strict=True,
                )
            ]
            parts = tuple((part, entry) for part, entry in written if part is not None)
            if parts:
                # As TensorFlow's merging: this entry gets the first shard with a slice.
                first = min(entry.shard_id for _, entry in parts)
                whole = BundleEntry(tensor.entry.dtype, tensor.entry.shape, first)
                entries[tensor.key] = whole._replace(slices=tuple(part for part, _ in parts))
                slices[tensor.key] = parts
            else:
                entries[tensor.key] = written[0][1]
        if self._plan.graph is not None:
            entries[GRAPH_KEY] = self._write_graph(shards)
        for added in self._plan.added:
            last = shards.count - 1
            entries[added.key] = self._write_value(added.key, added.value, shards, last)
        files = shards.finish()
        self.bytes_written += sum(file.size for file in files)
        receipts = tuple(ShardReceipt(file.path, file.size, "rewritten") for file in files)
        return Layout(BundleHeader(num_shards=count), entries, slices, receipts)

    def index(self, layout: Layout) -> None:
        """Stage the index."""
        permissions = self._plan.source.reader.permissions
        self.bytes_written += layout.stage_index(self._staged, self._prefix, permissions)

    def _sizes(self, tensor: PlannedTensor) -> list[int]:
        """Return the bytes of each payload of a tensor."""
        if tensor.value is not None:
            size = value_size(tensor.value)
            return [sum(map(len, tensor.value.chunks())) if size is None else size]
        item, join = tensor.entry.dtype.size, _joins(tensor, self._how)
        if item is not None:
            return [item * element_count(shape) for _, shape in payload_shapes(tensor, join=join)]
        return [
            sum(map(len, payload.chunks))
            for payload in payloads(self._plan.source, tensor, join=join)
        ]

    def _write(
        self, tensor: PlannedTensor, payload: Payload, shards: _Shards, shard_id: int
    ) -> BundleEntry:
        file = shards.file(shard_id)
        offset, crc = file.size, 0
        for chunk in payload.chunks:
            if payload.crc is None:
                crc = crc32c(chunk, crc)
            file.write(chunk)
            self._advance(len(chunk))
        stored = mask(crc if payload.crc is None else payload.crc)
        size = file.size - offset
        return BundleEntry(tensor.entry.dtype, payload.shape, shard_id, offset, size, stored)

    def _write_value(
        self, key: str, value: NewValue, shards: _Shards, shard_id: int
    ) -> BundleEntry:
        file = shards.file(shard_id)
        return write_value(key, value, file, shard_id, big_endian=False, on_bytes=self._advance)

    def _advance(self, size: int) -> None:
        self._done += size
        if self._on_progress is not None:
            self._on_progress(self._done, max(self._total, self._done))

    def _write_graph(self, shards: _Shards) -> BundleEntry:
        plan = self._plan
        if plan.graph is None or plan.graph_changed:
            serialized = plan.graph.to_bytes() if plan.graph is not None else b""
        else:
            serialized = bytes(plan.source.reader.read(GRAPH_KEY)[()])
        data, crc = encode_strings([serialized])
        shard_id = shards.count - 1
        file = shards.file(shard_id)
        entry = BundleEntry(STRING, (), shard_id, file.size, len(data), mask(crc))
        file.write(data)
        return entry


def recoding_notes(plan: Plan, how: Recoding) -> list[str]:
    """Check the slices of a plan to be rewritten; return notes for the user.

    Raises:
        CorruptError: slices of a tensor leave a gap or overlap.
    """
    check_slices(plan)
    joined = [
        plan.short_name(tensor.key)
        for tensor in plan.tensors
        if tensor.value is None
        and tensor.entry.slices
        and _joins(tensor, how)
        and not how.join_slices
    ]
    if not joined:
        return []
    return [
        "stored as wholes, since TensorFlow cannot join slices of their dtypes: "
        f"{listed(joined)}; a program that has them partitioned cannot restore them"
    ]


def _joins(tensor: PlannedTensor, how: Recoding) -> bool:
    # TensorFlow writes slices of any dtype, but cannot join these.
    return how.join_slices or not tensor.entry.dtype.joinable


class _Shards:
    """The data shards being written; `in_order` if no shard is written after a later one."""

    def __init__(
        self, staged: StagedFiles, prefix: str, count: int, like: Permissions, *, in_order: bool
    ) -> None:
        self._staged = staged
        self._prefix = prefix
        self._like = like
        self._in_order = in_order
        self._files: dict[int, StagedFile] = {}
        self.count = count

    def file(self, shard_id: int) -> StagedFile:
        """Return a shard to write to."""
        file = self._files.get(shard_id)
        if file is None:
            if self._in_order and self._files:  # there may be more than can be open
                next(reversed(self._files.values())).sync()
            path = shard_path(self._prefix, shard_id, self.count)
            file = self._files[shard_id] = self._staged.create(path, mode=0o600)
            file.take_permissions(self._like)
        return file

    def finish(self) -> list[StagedFile]:
        """Return all shards in order, their bytes on the disk."""
        files = [self.file(shard_id) for shard_id in range(self.count)]
        for file in files:
            file.sync()
        return files


def _raw(key: str) -> bytes:
    return encode_text(key)
