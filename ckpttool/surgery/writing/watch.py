"""Detecting changes of the source's files."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from ckpttool.bundle.naming import shard_path
from ckpttool.bundle.reader import BundleReader
from ckpttool.bundle.shards import shard_status
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.errors import CkptError, SurgeryError
from ckpttool.objects.keys import GRAPH_KEY
from ckpttool.storage.source import Identity, RandomAccessFile, file_error, identity_of
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.writing.bundle.carry import SourceExtent, verify_extent
from ckpttool.surgery.writing.links import refuse_foreign


def carried_extents(plan: Plan) -> dict[int, list[SourceExtent]]:
    """Return the kept extents of each data shard: tensors, and an unchanged graph."""
    extents: dict[int, list[SourceExtent]] = {}
    for tensor in plan.tensors:
        for part in tensor.parts:
            extents.setdefault(part.shard_id, []).append(SourceExtent(tensor.source_key, part))
    if plan.graph is not None and not plan.graph_changed:
        graph = plan.source.bundle.entries[GRAPH_KEY]
        extents.setdefault(graph.shard_id, []).append(SourceExtent(GRAPH_KEY, graph))
    return extents


def _read_extents(plan: Plan) -> dict[int, list[SourceExtent]]:
    """Return the kept extents, and those that new values are computed from."""
    extents = carried_extents(plan)
    computed = {
        each.key
        for _, value in plan.fresh
        for each in value.sources
        if each.checkpoint is plan.source
    }
    for tensor in plan.tensors if computed else ():
        if tensor.value is not None and tensor.source_key in computed:
            for part in replace(tensor, value=None).parts:
                extents.setdefault(part.shard_id, []).append(SourceExtent(tensor.source_key, part))
    return extents


class Watch:
    """Notes the identities of the source's files, and compares them later.

    To save a checkpoint again under its name, TensorFlow first renames new data shards into place
    and then overwrites the index. In between, index and shards do not belong together. So a shard
    younger than the index is read and checked (which also happens to some copied checkpoints).

    Raises:
        MissingFileError: a file is missing.
        TruncatedError: a shard is shorter than its tensors need it.
        SurgeryError: the checkpoint changed since it was read, or a younger shard does not belong
            to the index.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._prefix = plan.source.prefix
        self._files: dict[str, Identity] = {}
        self._others: dict[str, Identity] = {}
        self._over = False
        for other in plan.read[1:]:
            self._others |= _identities(other)
        reader = plan.source.reader
        if not isinstance(reader, BundleReader):
            self._index = ""  # V1: each file is its own index
            self._files |= _identities(plan.source)
            self.check()
            return
        index = reader.index
        self._index = index.path
        self._files[index.path] = index.identity
        # After waiting for another run that changed the checkpoint in place, shards may be gone.
        with self.guarding():
            for shard_id, found in _read_extents(plan).items():
                self._look_at(shard_path(self._prefix, shard_id, index.header.num_shards), found)

    def refuse_foreign(self, *, follow: bool) -> None:
        """Raise `SurgeryError` for a data shard neither with the checkpoint nor in its store."""
        reader = self._plan.source.reader
        paths: Iterable[str] = self._files
        if self._index:
            numbers = carried_extents(self._plan)
            paths = (shard_path(self._prefix, number, reader.num_shards) for number in numbers)
        for path in paths:
            with self.open(path) as file:
                refuse_foreign(file, reader.path, follow=follow)

    @contextlib.contextmanager
    def guarding(self) -> Iterator[None]:
        """Report a change of the source instead of the damage that it causes."""
        try:
            yield
        except CkptError:
            if not self._over:
                self.check()
            raise

    def open(self, path: str) -> RandomAccessFile:
        """Open a data shard; refuse it if it was replaced."""
        file = RandomAccessFile(path)
        if file.identity != self._files.get(path):
            file.close()
            raise _changed(path)
        return file

    def check_last(self) -> None:
        """Check for the last time, right before the source itself is replaced."""
        self.check()
        self._over = True

    def check(self, *, index: str | None = None) -> None:
        """Raise `SurgeryError` if a file has been replaced or written to.

        Args:
            index: present path of the index, if it was replaced on purpose; if nothing is there,
                only the shards are checked.
        """
        for path, identity in (*self._files.items(), *self._others.items()):
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
        """The files of the source."""
        return self._files.keys()

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
    """Return a new watch over the source of a plan, or the given one after a check.

    Raises:
        CkptError: as of `Watch`, or a file has been replaced or written to.
    """
    watch = watch or Watch(plan)
    watch.check()
    return watch


def _identities(source: Checkpoint) -> dict[str, Identity]:
    """Return the identities of the files of a checkpoint, as they were when it was opened.

    Raises:
        CkptError: a file is gone or cannot be looked at.
    """
    reader = source.reader
    known = (
        {reader.index.path: reader.index.identity}
        if isinstance(reader, BundleReader)
        else reader.identities
    )
    found = dict(known)
    for file in reader.shard_files():
        try:
            found.setdefault(file.path, identity_of(os.stat(file.path)))
        except OSError as error:
            if file.path in known:
                raise _changed(file.path) from error
            raise file_error(error, file.path) from error
    return found


def _changed(path: str) -> SurgeryError:
    return SurgeryError("the checkpoint changed while it was read", path=path)
