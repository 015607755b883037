"""Writing a plan: the only place where surgery touches files.

A new checkpoint is staged beside its destination, its data shards first, and appears with its
index, in one step. In place, the new index takes the place of the old one in one step; if shards
change, the new set has another count in its names, so that both indexes have their own shards
until the old ones are removed. Killed at any instant, a reader finds the old checkpoint or the new
one whole; what may be left over has names that end in `.ckpt-tmp`, or another shard count.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass

from ckpttool.bundle.index import BundleIndex
from ckpttool.bundle.naming import find_shards, index_path, shard_path, split_shard_path
from ckpttool.checkpoint.folder import META_SUFFIX
from ckpttool.errors import CorruptError, DestinationError, SurgeryError, TruncatedError
from ckpttool.storage.locking import locked_folder
from ckpttool.storage.source import Identity, file_error, identity_of
from ckpttool.storage.staging import StagedFiles, remove_quietly, sync_folder
from ckpttool.surgery.carry import DataMode
from ckpttool.surgery.companions import MetaMode, carry_meta, check_sequence, update_state
from ckpttool.surgery.layout import Layout
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.receipt import Receipt
from ckpttool.surgery.stage import Stage

OnProgress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How a plan is written.

    Attributes:
        data: how data shards get to the destination.
        compact: rewrite data shards without dead bytes.
        force: replace a checkpoint at the destination.
        update_state: name the result as the latest in the state file of its folder.
        meta: what becomes of a `.meta` file beside the source.
    """

    data: DataMode = "auto"
    compact: bool = False
    force: bool = False
    update_state: bool = False
    meta: MetaMode = "auto"


def write_plan(
    plan: Plan,
    prefix: str,
    options: WriteOptions | None = None,
    *,
    on_progress: OnProgress | None = None,
) -> Receipt:
    """Write a plan as a new checkpoint.

    Args:
        plan: what to write.
        prefix: path of the checkpoint without the endings of its files. The last folder in it is
            made if need be.
        options: how.
        on_progress: told bytes copied and bytes to copy, if any are.

    Raises:
        DestinationError: there is something at the destination, or it is the source itself.
        SurgeryError: the source changed meanwhile.
        CkptError: a file could not be read or written. Nothing is left behind in any case.
    """
    options = options or WriteOptions()
    folder = os.path.dirname(prefix)
    _check_destination(plan, prefix, options)
    made = _make_folder(folder)
    try:
        with locked_folder(folder or os.curdir), StagedFiles() as staged:
            _check_destination(plan, prefix, options)
            old = find_shards(prefix)
            watch = _Watch(plan)
            stage = Stage(plan, staged, prefix, options.data, on_progress)
            layout = stage.all_shards(compact=options.compact, taken=_counts(old))
            stage.index(layout)
            watch.check()
            replacing = options.force and os.path.lexists(index_path(prefix))
            staged.commit(replace_last=replacing)
            made = None
            try:
                _read_back(layout, prefix)
            except BaseException:
                for path in (index_path(prefix), *(shard.path for shard in layout.shards)):
                    remove_quietly(path)
                raise
            for path in old:
                remove_quietly(path)
            return _finish(plan, prefix, layout, stage, options)
    finally:
        if made is not None:
            with contextlib.suppress(OSError):
                os.rmdir(made)


def replace_source(
    plan: Plan,
    options: WriteOptions | None = None,
    *,
    on_progress: OnProgress | None = None,
) -> Receipt:
    """Write a plan in place of its source.

    Args:
        plan: what to write.
        options: how; `data` and `force` do not apply.
        on_progress: told bytes copied and bytes to copy, if any are.

    Raises:
        SurgeryError: the source is part of a SavedModel, or changed meanwhile.
        CkptError: a file could not be read or written; the source is as it was.
    """
    options = options or WriteOptions()
    prefix = plan.source.prefix
    if plan.source.location.saved_model is not None:
        raise SurgeryError(
            "the variables of a SavedModel are tied to its graph by their names; write a plain "
            "checkpoint with -o",
            path=plan.source.location.saved_model,
        )
    with locked_folder(os.path.dirname(prefix) or os.curdir), StagedFiles() as staged:
        watch = _Watch(plan)
        old = find_shards(prefix)
        stage = Stage(plan, staged, prefix, "auto", on_progress)
        if options.compact or plan.graph_changed:
            layout = stage.all_shards(compact=options.compact, taken=_counts(old))
        else:
            layout, old = stage.no_shards(), []
        stage.index(layout)
        watch.check()
        with _Backup(index_path(prefix), staged, layout) as backup:
            staged.commit(replace_last=True)
            _read_back(layout, prefix)
            backup.drop()
        watch.remove(old)
        return _finish(plan, prefix, layout, stage, options)


def plan_receipt(plan: Plan, prefix: str, options: WriteOptions | None = None) -> Receipt:
    """Return what `write_plan` would do, as far as it can be told without writing.

    Raises:
        DestinationError: as `write_plan` would.
    """
    options = options or WriteOptions()
    if prefix != plan.source.prefix:
        _check_destination(plan, prefix, options)
    return Receipt(prefix, len(plan.tensors), (), 0, 0, None, None, plan.notes)


class _Watch:
    """Tells whether the files of the source are still those that were read."""

    def __init__(self, plan: Plan) -> None:
        self._prefix = plan.source.prefix
        index = plan.source.bundle.index
        self._files: dict[str, Identity] = {index.path: index.identity}
        ends: dict[int, tuple[int, str]] = {}
        for tensor in plan.tensors:
            for part in tensor.parts:
                last = (part.offset + part.size, tensor.source_key)
                ends[part.shard_id] = max(ends.get(part.shard_id, (0, "")), last)
        for shard_id, (end, key) in ends.items():
            path = shard_path(self._prefix, shard_id, index.header.num_shards)
            try:
                status = os.stat(path)
            except OSError as error:
                raise file_error(error, path).locate(key=key) from error
            if status.st_size < end:
                raise TruncatedError(
                    f"the data shard has {status.st_size} bytes, its tensors need {end}",
                    path=path,
                    key=key,
                )
            self._files[path] = identity_of(status)

    def check(self) -> None:
        """Raise `SurgeryError` if a file has been replaced or written to."""
        for path, identity in self._files.items():
            try:
                same = identity_of(os.stat(path)) == identity
            except OSError:
                same = False
            if not same:
                raise SurgeryError("the checkpoint changed while it was read", path=path)

    def remove(self, paths: list[str]) -> None:
        """Remove files of the source, but only those that are still the ones that were read."""
        for path in paths:
            with contextlib.suppress(OSError):
                known = self._files.get(path)
                if known is None or identity_of(os.stat(path)) == known:
                    os.unlink(path)
        sync_folder(os.path.dirname(self._prefix) or os.curdir)


class _Backup:
    """A second name for the old index until the new one has been read back."""

    def __init__(self, path: str, staged: StagedFiles, layout: Layout) -> None:
        self._path = path
        self._name = staged.temporary_name(path + ".old")
        self._new_shards = [shard.path for shard in layout.shards if shard.how != "kept"]
        self._kept = False

    def __enter__(self) -> _Backup:
        with contextlib.suppress(OSError):  # without links there is none
            os.link(self._path, self._name)
            self._kept = True
        return self

    def drop(self) -> None:
        """Let go of the old index."""
        if self._kept:
            remove_quietly(self._name)
            self._kept = False

    def __exit__(self, *error: object) -> None:
        if not self._kept:
            return
        with contextlib.suppress(OSError):
            os.rename(self._name, self._path)
            for path in self._new_shards:
                remove_quietly(path)
        # Where the index was not replaced yet, both names are one file, and renaming does nothing.
        remove_quietly(self._name)


def _check_destination(plan: Plan, prefix: str, options: WriteOptions) -> None:
    if not os.path.basename(prefix) or os.path.isdir(prefix):
        raise DestinationError("a folder; a name for the checkpoint must follow", path=prefix)
    present = [path for path in (index_path(prefix), *find_shards(prefix)) if os.path.lexists(path)]
    own = [index_path(plan.source.prefix), *find_shards(plan.source.prefix)]
    for path in present:
        if any(_same_file(path, other) for other in own):
            raise DestinationError("it shares a file with the source", path=path)
    meta = prefix + META_SUFFIX
    if os.path.lexists(meta):
        present.append(meta)
    if present and not options.force:
        raise DestinationError("it exists already", path=present[0])
    if not options.force:
        check_sequence(prefix)


def _same_file(path: str, other: str) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False


def _counts(shards: list[str]) -> set[int]:
    return {split[2] for split in map(split_shard_path, shards) if split}


def _make_folder(folder: str) -> str | None:
    """Make the last folder of a path; return it if it was not there."""
    if not folder or os.path.isdir(folder):
        return None
    try:
        os.mkdir(folder)
    except OSError as error:
        raise file_error(error, folder) from error
    return folder


def _read_back(layout: Layout, prefix: str) -> None:
    """Check that what can be read now is what was meant."""
    written = BundleIndex(prefix)
    found = dict(written.entries.items())
    same = written.header == layout.header and found.keys() == layout.entries.keys()
    if not same or any(found[key] != entry for key, entry in layout.entries.items()):
        raise CorruptError("the index reads back otherwise than written", path=written.path)
    for key, slices in layout.slices.items():
        if tuple(written.slice_entries(key)) != slices:
            raise CorruptError(
                "slices read back otherwise than written", path=written.path, key=key
            )
    for shard in layout.shards:
        if os.stat(shard.path).st_size != shard.bytes:
            raise CorruptError("the data shard has another size than written", path=shard.path)


def _finish(
    plan: Plan, prefix: str, layout: Layout, stage: Stage, options: WriteOptions
) -> Receipt:
    meta, note = carry_meta(plan, prefix, options.meta)
    state = update_state(prefix) if options.update_state else None
    used = sum(part.size for tensor in plan.tensors for part in tensor.parts)
    graph = layout.graph_size
    total = sum(shard.bytes for shard in layout.shards)
    return Receipt(
        prefix=prefix,
        tensors=len(layout.entries),
        shards=layout.shards,
        bytes_written=stage.bytes_written,
        bytes_dead=max(0, total - used - graph),
        meta=meta,
        state=state,
        notes=plan.notes + ((note,) if note else ()),
    )
