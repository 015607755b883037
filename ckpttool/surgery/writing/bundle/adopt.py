"""Safetensors files adopted as data shards.

The bytes of a tensor in a safetensors file are those that a bundle stores, so the file becomes a
data shard as it is, and the index points behind its header. Each tensor is read once for its
crc32c. Graph and computed values go into a shard of their own.
"""

from __future__ import annotations

from collections.abc import Set

from ckpttool.bundle.entry import BundleEntry, BundleHeader
from ckpttool.bundle.naming import shard_path
from ckpttool.coding.checksum import crc32c, mask
from ckpttool.errors import CorruptError, DestinationError
from ckpttool.interchange.entry import ArrayEntry
from ckpttool.objects.keys import GRAPH_KEY
from ckpttool.storage.source import RandomAccessFile
from ckpttool.storage.staged_file import StagedFile
from ckpttool.storage.staging import StagedFiles
from ckpttool.storage.work import Progress
from ckpttool.surgery.plan import Plan, PlannedTensor
from ckpttool.surgery.values import BytesValue
from ckpttool.surgery.writing.bundle.carry import Carried, DataMode, check_space
from ckpttool.surgery.writing.bundle.layout import Layout
from ckpttool.surgery.writing.fresh import known_size, write_value, write_values
from ckpttool.surgery.writing.links import refuse_foreign
from ckpttool.surgery.writing.receipt import ShardReceipt
from ckpttool.surgery.writing.watch import Watch
from ckpttool.tensor.dtypes import STRING
from ckpttool.tensor.strings import encode_strings


class AdoptedStage:
    """Stages the files of a plan whose source is safetensors.

    Args:
        plan: the plan.
        staged: the set of files to add to.
        prefix: the destination.
        watch: opens the files of the source.
        on_progress: called with the bytes read and their total.
        data: how files become data shards. Programs may write into a safetensors file later, so
            `"auto"` makes no hard link.
        follow_links: accept files wherever links lead.
    """

    def __init__(
        self,
        plan: Plan,
        staged: StagedFiles,
        prefix: str,
        watch: Watch,
        on_progress: Progress | None,
        *,
        data: DataMode,
        follow_links: bool,
    ) -> None:
        self.notes: list[str] = []
        self.bytes_written = 0
        self._plan = plan
        self._staged = staged
        self._prefix = prefix
        self._watch = watch
        self._on_progress = on_progress
        self._mode: DataMode = data
        self._follow_links = follow_links
        self._done = self._total = 0

    def all_shards(self, *, taken: Set[int]) -> Layout:
        """Stage all data shards; return the layout that fits them.

        Args:
            taken: counts of shards that the destination has files of; another one is used.
        """
        plan = self._plan
        kept: dict[int, list[tuple[PlannedTensor, ArrayEntry]]] = {}
        for tensor in plan.tensors:
            if tensor.value is None and isinstance(tensor.entry, ArrayEntry):
                kept.setdefault(tensor.entry.shard_id, []).append((tensor, tensor.entry))
        fresh = plan.graph is not None or bool(plan.fresh)
        count = len(kept) + fresh
        while count in taken or not count:
            count += 1
        paths = [file.path for file in plan.source.reader.shard_files()]
        self._total = sum(entry.size for each in kept.values() for _, entry in each)
        self._total += known_size(plan.fresh)
        entries: dict[str, BundleEntry] = {}
        files: list[tuple[StagedFile, Carried]] = []
        for number in sorted(kept):
            with self._watch.open(paths[number]) as source:
                refuse_foreign(source, plan.source.reader.path, follow=self._follow_links)
                path = shard_path(self._prefix, len(files), count)
                files.append(self._adopt(source, path, kept[number], len(files), entries))
        while len(files) < count:
            files.append((self._new_file(shard_path(self._prefix, len(files), count)), "new"))
        last, shard_id = files[-1][0], len(files) - 1
        if plan.graph is not None:
            serialized, _ = encode_strings([plan.graph.to_bytes()])
            entries[GRAPH_KEY] = write_value(
                GRAPH_KEY,
                BytesValue(STRING, (), serialized),
                last,
                shard_id,
                big_endian=False,
                on_bytes=self._advance,
            )
        if plan.fresh:
            entries |= write_values(
                plan.fresh, last, shard_id, big_endian=False, on_bytes=self._advance
            )
        for file, how in files:
            file.sync()
            if how in ("copy", "new"):
                self.bytes_written += file.size
        receipts = tuple(ShardReceipt(file.path, file.size, how) for file, how in files)
        return Layout(BundleHeader(num_shards=count), entries, {}, receipts)

    def index(self, layout: Layout) -> None:
        """Stage the index."""
        permissions = self._plan.source.reader.permissions
        self.bytes_written += layout.stage_index(self._staged, self._prefix, permissions)

    def _new_file(self, path: str) -> StagedFile:
        file = self._staged.create(path, mode=0o600)
        file.take_permissions(self._plan.source.reader.permissions)
        return file

    def _adopt(
        self,
        source: RandomAccessFile,
        path: str,
        tensors: list[tuple[PlannedTensor, ArrayEntry]],
        shard_id: int,
        entries: dict[str, BundleEntry],
    ) -> tuple[StagedFile, Carried]:
        """Make a data shard of a file; add the entries of its tensors."""
        carried = self._carry(source, path)
        copy: StagedFile | None = None
        if carried is None:
            check_space(path, source.size)
            copy = self._staged.create(path, mode=0o600)
            copy.take_permissions(source.permissions)
        end = 0
        for tensor, entry in sorted(tensors, key=lambda each: (each[1].offset, each[1].size)):
            offset = entry.offset or 0
            if offset < end:
                raise CorruptError(
                    "tensors share bytes", path=source.path, offset=offset, key=tensor.source_key
                )
            self._copy(source, copy, end, offset)
            crc = 0
            for chunk in source.chunks(offset, entry.size):
                crc = crc32c(chunk, crc)
                if copy is not None:
                    copy.write(chunk)
                self._advance(len(chunk))
            end = offset + entry.size
            entries[tensor.key] = BundleEntry(
                entry.dtype, entry.shape, shard_id, offset, entry.size, mask(crc)
            )
        if copy is None:
            return carried or (self._new_file(path), "new")
        self._copy(source, copy, end, source.size)
        copy.sync()
        return copy, "copy"

    def _carry(self, source: RandomAccessFile, path: str) -> tuple[StagedFile, Carried] | None:
        """Stage a file that shares its bytes with the source; None if it has to be copied."""
        file: StagedFile | None = None
        how: Carried = "hardlink" if self._mode == "hardlink" else "reflink"
        if self._mode in ("auto", "reflink"):
            file = self._staged.clone(source, path)
        elif self._mode == "hardlink":
            file = self._staged.link(source, path)
        if file is not None:
            return file, how
        if self._mode not in ("auto", "copy"):
            raise DestinationError(f"the file system cannot make a {self._mode} there", path=path)
        return None

    def _copy(
        self, source: RandomAccessFile, copy: StagedFile | None, start: int, end: int
    ) -> None:
        """Copy the bytes before a tensor or behind the last one: the header, dropped tensors."""
        if copy is not None:
            for chunk in source.chunks(start, end - start):
                copy.write(chunk)

    def _advance(self, size: int) -> None:
        self._done += size
        if self._on_progress is not None:
            self._on_progress(self._done, max(self._total, self._done))
