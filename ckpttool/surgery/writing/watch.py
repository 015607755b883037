"""Telling whether the files of a source are still those that were read."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator

from ckpttool.bundle.naming import shard_path
from ckpttool.bundle.reader import BundleReader
from ckpttool.bundle.shards import shard_status
from ckpttool.errors import CkptError, SurgeryError
from ckpttool.objects.keys import GRAPH_KEY
from ckpttool.storage.source import Identity, RandomAccessFile, file_error, identity_of
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.writing.carry import SourceExtent, verify_extent
from ckpttool.surgery.writing.links import refuse_foreign


def carried_extents(plan: Plan) -> dict[int, list[SourceExtent]]:
    """Return what is kept of each data shard of a bundle: its tensors, and an unchanged graph."""
    extents: dict[int, list[SourceExtent]] = {}
    for tensor in plan.tensors:
        for part in tensor.parts:
            extents.setdefault(part.shard_id, []).append(SourceExtent(tensor.source_key, part))
    if plan.graph is not None and not plan.graph_changed:
        graph = plan.source.bundle.entries[GRAPH_KEY]
        extents.setdefault(graph.shard_id, []).append(SourceExtent(GRAPH_KEY, graph))
    return extents


class Watch:
    """Notes what the files of a plan's source are, and looks again later.

    Saving a checkpoint anew under its own name, TensorFlow renames new data shards into place
    first and then writes the index over the old one. In between, the index that was read and the
    shards do not belong together. So a shard that is younger than the index is read and checked;
    copying a checkpoint may also make one so, which then costs the time of reading it.

    Raises:
        MissingFileError: a file is missing.
        TruncatedError: a shard is shorter than its tensors need it.
        SurgeryError: the checkpoint is not the one any more that was read, or a younger shard does
            not belong to the index.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._prefix = plan.source.prefix
        self._files: dict[str, Identity] = {}
        self._over = False
        if plan.source.generation == "V1":
            self._index = ""  # each file tells of itself
            self._look_at_files()
            self.check()
            return
        index = plan.source.bundle.index
        self._index = index.path
        self._files[index.path] = index.identity
        # Who had to wait for another run that changed the checkpoint in place finds shards gone.
        with self.guarding():
            for shard_id, found in carried_extents(plan).items():
                self._look_at(shard_path(self._prefix, shard_id, index.header.num_shards), found)

    def refuse_foreign(self, *, follow: bool) -> None:
        """Refuse data shards that must not be carried along, as carrying them would.

        Raises:
            SurgeryError: one lies neither with the checkpoint nor in its store.
        """
        for path in self._files:
            if path != self._index and self._index:
                with self.open(path) as file:
                    refuse_foreign(file, self._index, follow=follow)

    @contextlib.contextmanager
    def guarding(self) -> Iterator[None]:
        """Tell of a source that changes while it is read, not of what then looks damaged."""
        try:
            yield
        except CkptError:
            if not self._over:
                self.check()
            raise

    def open(self, path: str) -> RandomAccessFile:
        """Open a data shard: the one that was looked at, whatever has its name by now."""
        file = RandomAccessFile(path)
        if file.identity != self._files.get(path):
            file.close()
            raise _changed(path)
        return file

    def check_last(self) -> None:
        """Check right before the source itself is replaced; later looks would find that."""
        self.check()
        self._over = True

    def check(self, *, index: str | None = None) -> None:
        """Raise `SurgeryError` if a file has been replaced or written to.

        Args:
            index: where the index is to be found now, if it has been replaced on purpose. Where
                there is nothing, only the shards are looked at.
        """
        for path, identity in self._files.items():
            now = index if path == self._index and index is not None else path
            if now == index and not os.path.lexists(now):
                continue
            try:
                same = identity_of(os.stat(now)) == identity
            except OSError:
                same = False
            if not same:
                raise _changed(path)

    @property
    def files(self) -> Collection[str]:
        """The files that belong together, and are what was read."""
        return self._files.keys()

    def _look_at_files(self) -> None:
        reader = self._plan.source.reader
        known = {} if isinstance(reader, BundleReader) else reader.identities
        for file in reader.shard_files():
            try:
                found = identity_of(os.stat(file.path))
            except OSError as error:
                if file.path in known:
                    raise _changed(file.path) from error
                raise file_error(error, file.path) from error
            self._files[file.path] = known.get(file.path, found)

    def _look_at(self, path: str, extents: list[SourceExtent]) -> None:
        last = max(extents, key=lambda each: each.entry.offset + each.entry.size)
        end = last.entry.offset + last.entry.size
        status = shard_status(path, end, last.key)
        self._files[path] = identity_of(status)
        if status.st_mtime_ns > self._files[self._index][3]:
            self._verify(path, extents)

    def _verify(self, path: str, extents: list[SourceExtent]) -> None:
        big_endian = self._plan.source.bundle.header.big_endian
        with RandomAccessFile(path) as file:
            for extent in sorted(extents, key=lambda each: each.entry.offset):
                try:
                    verify_extent(file, extent, big_endian=big_endian)
                except CkptError as error:
                    raise SurgeryError(
                        f"the data shard is younger than the index and does not belong to it: it "
                        f"is being written, or damaged ({error.message})",
                        path=path,
                        offset=extent.entry.offset,
                        key=extent.key,
                    ) from error


def watched(plan: Plan, watch: Watch | None) -> Watch:
    """Return a watch over the source of a plan: a new one, or one that still finds it the same.

    Raises:
        CkptError: as of `Watch`, or a file has been replaced or written to.
    """
    watch = watch or Watch(plan)
    watch.check()
    return watch


def _changed(path: str) -> SurgeryError:
    return SurgeryError("the checkpoint changed while it was read", path=path)
