"""Writing a plan as a bundle: the order in which its files appear.

A new checkpoint is staged beside its destination and appears with its index, in one step:

    1  data shards and index under temporary names, their bytes on the disk
    2  data shards get their names; those are made durable
    3  the index gets its name: the only step that a reader can notice
    4  read back; if that fails, all of it is taken back

In place, step 3 replaces the old index. If shards change, the new set has another count in its
names, so that each index has its own shards until the old ones are removed, last.

Killed at any instant, a reader finds the old or the new checkpoint whole; leftovers have names that
end in `.ckpt-tmp`, or another shard count.
"""

from __future__ import annotations

import os
from collections.abc import Set
from typing import Protocol

from ckpttool.bundle.index import BundleIndex
from ckpttool.bundle.naming import index_path
from ckpttool.checkpoint.state import STATE_NAME
from ckpttool.errors import CorruptError
from ckpttool.objects.keys import GRAPH_KEY
from ckpttool.storage.source import RandomAccessFile
from ckpttool.storage.staging import StagedFiles
from ckpttool.storage.work import Progress
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.writing.bundle.carry import DataMode
from ckpttool.surgery.writing.bundle.layout import Layout
from ckpttool.surgery.writing.bundle.old_shards import OldShards
from ckpttool.surgery.writing.bundle.stage import Stage, refuse_overlaps
from ckpttool.surgery.writing.bundle.undo import Undo
from ckpttool.surgery.writing.destination import check_destination, refuse_in_place
from ckpttool.surgery.writing.legacy.old_files import old_files
from ckpttool.surgery.writing.links import replacement_notes
from ckpttool.surgery.writing.receipt import Written, already_written
from ckpttool.surgery.writing.recoding.spread import Recoding
from ckpttool.surgery.writing.watch import Watch, watched


class Staging(Protocol):
    """Stages the files of a plan: shards carried over, or every value rewritten.

    Attributes:
        notes: for the user.
        bytes_written: so far.
    """

    notes: list[str]
    bytes_written: int

    def all_shards(self, *, taken: Set[int]) -> Layout:
        """Stage all data shards; return the layout that fits them."""

    def index(self, layout: Layout) -> None:
        """Stage the index."""


class NewBundle:
    """Writes a plan as a new bundle.

    Args:
        plan: the plan.
        prefix: the destination.
        recoding: the layout of rewritten values; None to carry data shards over.
        data: how to carry data shards.
        compact: rewrite them without dead bytes.
        force: replace an existing checkpoint.
        follow_links: carry data shards from wherever links lead.
    """

    def __init__(
        self,
        plan: Plan,
        prefix: str,
        recoding: Recoding | None,
        *,
        data: DataMode,
        compact: bool,
        force: bool,
        follow_links: bool,
    ) -> None:
        self._plan = plan
        self._prefix = prefix
        self._recoding = recoding
        self._data: DataMode = data
        self._compact = compact
        self._force = force
        self._follow_links = follow_links
        self._watch: Watch | None = None

    def check(self) -> list[str]:
        """Make every check; return notes for the user."""
        check_destination(self._plan, self._prefix, generation="V2", force=self._force)
        self._watch = watched(self._plan, self._watch)
        if self._recoding is not None:
            from ckpttool.surgery.writing.recoding.stage import recoding_notes  # it needs NumPy

            return recoding_notes(self._plan, self._recoding)
        if self._plan.source.generation != "V2":
            self._watch.refuse_foreign(follow=self._follow_links)
            return []
        if self._compact:
            refuse_overlaps(self._plan)
        else:
            self._watch.refuse_foreign(follow=self._follow_links)
        refuse_unknown_fields(self._plan)
        return []

    def write(self, on_progress: Progress | None) -> Written:
        """Write the files; the folder is locked, and `check` has just passed."""
        watch = self._watch = watched(self._plan, self._watch)
        with OldShards(self._prefix) as old:
            replaced = old_files(self._plan, self._prefix)
            with StagedFiles() as staged:
                stage = self._staging(staged, watch, on_progress)
                with watch.guarding():
                    layout = stage.all_shards(taken=old.counts)
                    stage.index(layout)
                with Undo(self._prefix, staged):
                    replacing = self._force and os.path.lexists(index_path(self._prefix))
                    staged.commit(replace_last=replacing, before_last=watch.check)
                    _read_back(layout, self._prefix)
            with already_written(self._prefix):
                notes = [*stage.notes, *old.remove(old.all), *replaced.retire()]
        return layout.written(stage.bytes_written, notes)

    def _staging(self, staged: StagedFiles, watch: Watch, on_progress: Progress | None) -> Staging:
        if self._recoding is not None:
            from ckpttool.surgery.writing.recoding.stage import RecodedStage  # it needs NumPy

            return RecodedStage(self._plan, staged, self._prefix, self._recoding, on_progress)
        if self._plan.source.generation != "V2":
            from ckpttool.surgery.writing.bundle.adopt import AdoptedStage  # hardly ever needed

            return AdoptedStage(
                self._plan,
                staged,
                self._prefix,
                watch,
                on_progress,
                data=self._data,
                follow_links=self._follow_links,
            )
        return Stage(
            self._plan,
            staged,
            self._prefix,
            watch,
            on_progress,
            data=self._data,
            compact=self._compact,
            follow_links=self._follow_links,
        )


class BundleInPlace:
    """Writes a plan in place of the bundle that it was made from.

    Args:
        plan: the plan.
        compact: rewrite data shards without dead bytes.
        updates_state: whether the state file is written too.
    """

    def __init__(self, plan: Plan, *, compact: bool, updates_state: bool) -> None:
        self._plan = plan
        self._prefix = plan.source.prefix
        self._compact = compact
        self._updates_state = updates_state
        self._watch: Watch | None = None

    def check(self) -> list[str]:
        """Make every check; return notes for the user."""
        refuse_in_place(self._plan)
        self._watch = watched(self._plan, self._watch)
        refuse_unknown_fields(self._plan)
        source = self._plan.source
        paths = [source.reader.path]
        if self._compact:
            refuse_overlaps(self._plan)
            paths += [file.path for file in source.reader.shard_files()]
        if self._updates_state:
            paths.append(os.path.join(os.path.dirname(self._prefix), STATE_NAME))
        return replacement_notes(paths)

    def write(self, on_progress: Progress | None) -> Written:
        """Write the files; the folder is locked, and `check` has just passed."""
        watch = self._watch = watched(self._plan, self._watch)
        with OldShards(self._prefix) as old:
            with StagedFiles() as staged:
                stage = Stage(
                    self._plan, staged, self._prefix, watch, on_progress, compact=self._compact
                )
                with watch.guarding():
                    plan = self._plan
                    rewritten = self._compact or plan.graph_changed or bool(plan.fresh)
                    layout = stage.all_shards(taken=old.counts) if rewritten else stage.no_shards()
                    stage.index(layout)
                    index = self._plan.source.bundle.index
                    going = old.superseded(index, watch.files, rewritten=rewritten)
                with Undo(self._prefix, staged) as undo:
                    staged.commit(replace_last=True, before_last=watch.check)
                    # Somebody may have saved this checkpoint again in the last moment.
                    watch.check(index=undo.old_index)
                    _read_back(layout, self._prefix)
            with already_written(self._prefix):
                notes = [*stage.notes, *old.remove(going)]
        return layout.written(stage.bytes_written, notes)


def refuse_unknown_fields(plan: Plan) -> None:
    """Raise `UnsupportedError` if a kept record has unknown fields, which would be lost."""
    kept = [tensor.source_key for tensor in plan.tensors]
    if plan.graph is not None and not plan.graph_changed:
        kept.append(GRAPH_KEY)
    plan.source.bundle.index.refuse_unknown_fields(kept)


def _read_back(layout: Layout, prefix: str) -> None:
    """Read the new checkpoint back and compare it with the layout."""
    written = BundleIndex(prefix)
    found = dict(written.entries.items())
    same = written.header == layout.header and found.keys() == layout.entries.keys()
    if not same or any(found[key] != entry for key, entry in layout.entries.items()):
        raise CorruptError("the index does not read back as written", path=written.path)
    for key, slices in layout.slices.items():
        if tuple(written.slice_entries(key)) != slices:
            raise CorruptError("slices do not read back as written", path=written.path, key=key)
    for shard in layout.shards:
        with RandomAccessFile(shard.path) as file:
            size = file.size
        if size != shard.bytes:
            raise CorruptError(
                "the data shard does not have the size that was written", path=shard.path
            )
