"""Staging the files of a plan: data shards, a new object graph and new values, the index."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import replace

from ckpttool.bundle.entry import BundleEntry, BundleHeader
from ckpttool.bundle.naming import shard_path
from ckpttool.coding.checksum import mask
from ckpttool.errors import UnsupportedError
from ckpttool.objects.keys import GRAPH_KEY
from ckpttool.storage.staged_file import StagedFile
from ckpttool.storage.staging import StagedFiles
from ckpttool.storage.work import Progress
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.writing.bundle.carry import (
    Carried,
    DataMode,
    carry_shard,
    check_space,
    copy_extent,
)
from ckpttool.surgery.writing.bundle.layout import Layout
from ckpttool.surgery.writing.fresh import known_size, write_values
from ckpttool.surgery.writing.links import refuse_foreign
from ckpttool.surgery.writing.receipt import ShardReceipt
from ckpttool.surgery.writing.watch import Watch, carried_extents
from ckpttool.tensor.dtypes import STRING
from ckpttool.tensor.strings import encode_strings

# (shard, offset, size) in the source -> (shard, offset) in the destination.
_Moves = dict[tuple[int, int, int], tuple[int, int]]


class Stage:
    """Stages the files of a plan beside their destination.

    Args:
        plan: the plan.
        staged: the set of files to add to.
        prefix: the destination.
        watch: opens the data shards of the source.
        on_progress: called with the bytes copied and their total.
        data: how to carry data shards.
        compact: rewrite them without dead bytes.
        follow_links: carry data shards from wherever links lead.
    """

    def __init__(
        self,
        plan: Plan,
        staged: StagedFiles,
        prefix: str,
        watch: Watch,
        on_progress: Progress | None,
        *,
        data: DataMode = "auto",
        compact: bool = False,
        follow_links: bool = False,
    ) -> None:
        self.notes: list[str] = []
        self._mode: DataMode = data
        self._compact = compact
        self.bytes_written = 0
        self._plan = plan
        self._staged = staged
        self._prefix = prefix
        self._watch = watch
        self._follow_links = follow_links
        self._on_progress = on_progress
        self._copied = 0
        self._to_copy = 0
        header = plan.source.bundle.header
        self._header: BundleHeader = header
        self._extents = carried_extents(plan)

    def no_shards(self) -> Layout:
        """Return the layout with all shards unchanged."""
        shards = tuple(
            ShardReceipt(file.path, file.size or 0, "kept")
            for file in self._plan.source.bundle.shard_files()
        )
        count = self._header.num_shards
        ids = {shard_id: shard_id for shard_id in range(count)}
        return self._layout(count, lambda entry: entry, ids, shards, None)

    def all_shards(self, *, taken: Set[int]) -> Layout:
        """Stage all data shards; return the layout that fits them.

        Args:
            taken: counts of shards that the destination has files of; another one is used.
        """
        compact = self._compact
        ids = {old: new for new, old in enumerate(sorted(self._extents))}
        graph = self._plan.graph if self._plan.graph_changed else None
        values = self._plan.fresh
        fresh = graph is not None or bool(values)
        count = len(ids) + (fresh and not compact)
        while count in taken or not count:
            count += 1
        self._count_copies(ids, known_size(values))
        moves: _Moves = {}
        files: list[tuple[StagedFile, Carried]] = []
        for old in sorted(self._extents):
            if compact and files:
                files[-1][0].sync()  # only the last one may get the object graph
            path = shard_path(self._prefix, len(files), count)
            files.append(
                self._rewrite(old, path, len(files), moves) if compact else self._carry(old, path)
            )
        graph_entry, added = None, dict[str, BundleEntry]()
        if fresh:
            if not compact or not files:
                path = shard_path(self._prefix, len(files), count)
                files.append((self._new_file(path), "new"))
            shard_id = len(files) - 1
            file = files[shard_id][0]
            if graph is not None:
                graph_entry = self._write_graph(graph.to_bytes(), file, shard_id)
            added = write_values(
                values,
                file,
                shard_id,
                big_endian=self._header.big_endian,
                on_bytes=self._advance,
            )
        while len(files) < count:
            path = shard_path(self._prefix, len(files), count)
            files.append((self._new_file(path), "new"))
        for file, how in files:
            file.sync()
            if how in ("copy", "rewritten", "new"):
                self.bytes_written += file.size
        shards = tuple(ShardReceipt(file.path, file.size, how) for file, how in files)

        def place(entry: BundleEntry) -> BundleEntry:
            if not compact:
                return entry._replace(shard_id=ids.get(entry.shard_id, 0))
            shard_id, offset = moves[entry.shard_id, entry.offset, entry.size]
            return entry._replace(shard_id=shard_id, offset=offset)

        layout = self._layout(count, place, ids, shards, graph_entry)
        return replace(layout, entries=layout.entries | added)

    def index(self, layout: Layout) -> None:
        """Stage the index."""
        permissions = self._plan.source.bundle.permissions
        self.bytes_written += layout.stage_index(self._staged, self._prefix, permissions)

    def _new_file(self, path: str) -> StagedFile:
        file = self._staged.create(path, mode=0o600)
        file.take_permissions(self._plan.source.bundle.permissions)
        return file

    def _layout(
        self,
        count: int,
        place: Callable[[BundleEntry], BundleEntry],
        ids: dict[int, int],
        shards: tuple[ShardReceipt, ...],
        graph_entry: BundleEntry | None,
    ) -> Layout:
        entries = {}
        slices = {}
        for tensor in self._plan.tensors:
            if tensor.value is not None:
                continue
            if tensor.slices:
                parts = tuple((part, place(stored)) for part, stored in tensor.slices)
                slices[tensor.key] = parts
                first = min(stored.shard_id for _, stored in parts)
                shard_id = ids.get(tensor.bundle_entry.shard_id, first)
                entries[tensor.key] = tensor.bundle_entry._replace(shard_id=shard_id)
            else:
                entries[tensor.key] = place(tensor.bundle_entry)
        if graph_entry is None and self._plan.graph is not None:
            graph_entry = place(self._plan.source.bundle.entries[GRAPH_KEY])
        if graph_entry is not None:
            entries[GRAPH_KEY] = graph_entry
        return Layout(replace(self._header, num_shards=count), entries, slices, shards)

    def _carry(self, old: int, path: str) -> tuple[StagedFile, Carried]:
        with self._watch.open(self._source_path(old)) as source:
            if self._prefix == self._plan.source.prefix:  # in place: a link stays a link
                link = self._staged.symlink(source, path)
                if link is not None:
                    return link, "symlink"
            refuse_foreign(source, self._plan.source.bundle.index.path, follow=self._follow_links)
            return carry_shard(
                self._staged,
                source,
                path,
                self._extents[old],
                mode=self._mode,
                big_endian=self._header.big_endian,
                on_bytes=self._advance,
            )

    def _rewrite(
        self, old: int, path: str, shard_id: int, moves: _Moves
    ) -> tuple[StagedFile, Carried]:
        """Write a shard with only the kept tensors, in their order."""
        with self._watch.open(self._source_path(old)) as source:
            file = self._staged.create(path, mode=0o600)
            file.take_permissions(source.permissions)
            for extent in sorted(self._extents[old], key=lambda each: each.entry.offset):
                place = (old, extent.entry.offset, extent.entry.size)
                if place in moves:
                    continue  # bytes that two tensors share
                moves[place] = (shard_id, file.size)
                copy_extent(
                    source,
                    extent,
                    file.write,
                    big_endian=self._header.big_endian,
                    on_bytes=self._advance,
                )
        return file, "rewritten"

    def _write_graph(self, serialized: bytes, file: StagedFile, shard_id: int) -> BundleEntry:
        data, crc = encode_strings([serialized], big_endian=self._header.big_endian)
        entry = BundleEntry(STRING, (), shard_id, file.size, len(data), mask(crc))
        file.write(data)
        return entry

    def _count_copies(self, ids: dict[int, int], fresh: int) -> None:
        """Count the bytes to write, as far as known.

        Args:
            ids: the data shards that are carried over.
            fresh: bytes of new values.

        Raises:
            DestinationError: there is no room for them.
        """
        if self._compact:
            entries = (extent.entry for each in self._extents.values() for extent in each)
            places = {(entry.shard_id, entry.offset, entry.size) for entry in entries}
            self._to_copy = sum(size for _, _, size in places)
        elif self._mode == "copy":
            shards = self._plan.source.bundle.shard_files()
            paths = {self._source_path(old) for old in ids}
            self._to_copy = sum(file.size or 0 for file in shards if file.path in paths)
        self._to_copy += fresh
        if self._compact or self._mode == "copy" or fresh:
            check_space(self._prefix, self._to_copy)

    def _source_path(self, shard_id: int) -> str:
        return shard_path(self._plan.source.prefix, shard_id, self._header.num_shards)

    def _advance(self, size: int) -> None:
        self._copied += size
        if self._on_progress is not None:
            self._on_progress(self._copied, max(self._to_copy, self._copied))


def refuse_overlaps(plan: Plan) -> None:
    """Raise `UnsupportedError` if tensors overlap in part: compacting could make a huge file."""
    for shard_id, extents in carried_extents(plan).items():
        stop, places = 0, set()
        for extent in sorted(extents, key=lambda each: each.entry.offset):
            entry = extent.entry
            if (entry.offset, entry.size) in places:
                continue  # bytes that two tensors share
            places.add((entry.offset, entry.size))
            if entry.size and entry.offset < stop:
                raise UnsupportedError(
                    "it overlaps another tensor in part, and compacting would separate them",
                    path=shard_path(plan.source.prefix, shard_id, plan.source.reader.num_shards),
                    offset=entry.offset,
                    key=extent.key,
                )
            stop = max(stop, entry.offset + entry.size)
