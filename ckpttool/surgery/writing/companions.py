"""The files beside a checkpoint: its `.meta` file and the state file of its folder."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from ckpttool.bundle.naming import index_path
from ckpttool.checkpoint.folder import META_SUFFIX, is_regular
from ckpttool.checkpoint.generation import Generation
from ckpttool.checkpoint.named import checkpoint_name
from ckpttool.checkpoint.state import (
    STATE_NAME,
    CheckpointState,
    format_state,
    read_state,
    replace_state,
    state_bytes,
)
from ckpttool.errors import ChangedError, CkptError, DestinationError, MissingFileError
from ckpttool.storage.source import RandomAccessFile
from ckpttool.storage.staging import StagedFiles
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.writing.links import refuse_foreign

MetaMode = Literal["auto", "copy", "drop"]
META_MODES: tuple[MetaMode, ...] = ("auto", "copy", "drop")
_TRIES = 5
_NUMBERED = re.compile(r"(.*)-(\d+)\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PlannedMeta:
    """What to do with the `.meta` file of a source, decided before anything is written.

    Attributes:
        plan: the plan.
        prefix: the destination.
        mode: `"auto"`, `"copy"` or `"drop"`.
        generation: the format to write.
        updated: its bytes brought up to date, if a bundle is made of a V1 checkpoint; else None.
        update_notes: for the user, about that.
        follow_links: copy it from wherever a link leads.
    """

    plan: Plan
    prefix: str
    mode: MetaMode
    generation: Generation
    updated: bytes | None
    update_notes: tuple[str, ...] = ()
    follow_links: bool = False

    def write(self) -> tuple[str | None, list[str]]:
        """Carry the file over after the checkpoint; return its path, if any, and notes."""
        plan, mode = self.plan, self.mode
        source, destination = plan.source.prefix + META_SUFFIX, self.prefix + META_SUFFIX
        there = is_regular(source)
        if _same_place(destination, source):
            return self._keep() if there else (None, [])
        if not there or mode == "drop" or (mode == "auto" and _is_stale(plan)):
            notes = removal_notes([destination])  # of a checkpoint that was replaced
            if there and mode == "drop":
                notes.append(f"'{source}' was left behind")
            elif there:
                what = (
                    "names variables that were renamed or dropped"
                    if plan.keys_changed
                    else "describes variables of other dtypes or shapes"
                )
                notes.append(f"'{source}' was left behind: it {what}")
            return None, notes
        note = f"'{source}' was copied"
        with RandomAccessFile(source) as file, StagedFiles() as staged:
            copy = staged.create(destination, mode=0o600)
            copy.take_permissions(file.permissions)
            self._refuse_foreign(file)
            if self.updated is not None:
                copy.write(self.updated)
                note += ", its Saver brought up to date"
            else:
                for chunk in file.chunks(0, file.size):
                    copy.write(chunk)
            staged.commit(replace_last=True)
        if _is_stale(plan):
            note += f"; it still {_verb(plan)} the variables as they were"
        return destination, [note, *self.update_notes]

    def _refuse_foreign(self, file: RandomAccessFile) -> None:
        if self.updated is None:
            refuse_foreign(file, self.plan.source.reader.path, follow=self.follow_links)

    def _keep(self) -> tuple[str | None, list[str]]:
        """Keep or remove the file of a checkpoint that is changed in place or replaced."""
        path = self.plan.source.prefix + META_SUFFIX
        if self.generation != self.plan.source.generation:
            return path, [f"'{path}' is as it was: it belongs to the source"]
        if self.mode == "drop":
            return None, removal_notes([path]) or [f"'{path}' was removed"]
        plan = self.plan
        stale = f"'{path}' still {_verb(plan)} the variables as they were"
        return path, [stale] if _is_stale(plan) else []


def planned_meta(
    plan: Plan,
    prefix: str,
    mode: MetaMode,
    generation: Generation,
    *,
    follow_links: bool = False,
) -> PlannedMeta:
    """Prepare to carry the `.meta` file of the source over; arguments as for `PlannedMeta`.

    It names and describes variables, so with `"auto"` it is carried only if no key, dtype or shape
    changed.

    Raises:
        SurgeryError: it is a link that leads elsewhere.
        CkptError: it must be brought up to date but cannot be read.
    """
    source = plan.source.prefix + META_SUFFIX
    carried = mode == "copy" or (mode == "auto" and not _is_stale(plan))
    updated: bytes | None = None
    notes: tuple[str, ...] = ()
    if carried and plan.source.generation != generation == "V2" and is_regular(source):
        from ckpttool.metagraph.loading import updated_metagraph

        updated, notes = updated_metagraph(source)
    planned = PlannedMeta(plan, prefix, mode, generation, updated, notes, follow_links)
    if carried and is_regular(source) and not _same_place(prefix, plan.source.prefix):
        with RandomAccessFile(source) as file:
            planned._refuse_foreign(file)
    return planned


def _is_stale(plan: Plan) -> bool:
    """Tell whether the `.meta` file of the source does not fit the new checkpoint."""
    return plan.keys_changed or plan.types_changed


def _verb(plan: Plan) -> str:
    return "names" if plan.keys_changed else "describes"


def _same_place(path: str, other: str) -> bool:
    """Tell whether two paths are the same name in the same folder."""
    folders = {os.path.realpath(os.path.dirname(each)) for each in (path, other)}
    return len(folders) == 1 and os.path.basename(path) == os.path.basename(other)


def removal_notes(paths: list[str]) -> list[str]:
    """Remove existing files; return a note for each that cannot be removed.

    By path: the user gave these names, and a link itself is removed. Data shards, which need more
    care, are removed by `OldShards`.
    """
    notes = []
    for path in paths:
        try:
            os.unlink(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            notes.append(f"'{path}' could not be removed: {(error.strerror or '').lower()}")
    return notes


@dataclass(frozen=True, slots=True)
class PlannedState:
    """A state file to be updated: `prefix` becomes its latest checkpoint.

    Attributes:
        path: of the file.
        prefix: the checkpoint.
        timed: write timestamps, even if the file has none. A `CheckpointManager` forgets every
            checkpoint without one: it never removes it. Saver needs none, and before
            TensorFlow 1.11 it cannot read them.
    """

    path: str
    prefix: str
    timed: bool

    def write(self) -> None:
        """Write it after the checkpoint; changes by others are kept, since it is read again first.

        Raises:
            CkptError: it cannot be read or written.
        """
        for attempt in range(_TRIES):
            before = state_bytes(self.path)
            try:
                replace_state(self.path, self._state(), before)
                return
            except ChangedError:
                if attempt + 1 == _TRIES:
                    raise

    def _state(self) -> CheckpointState:
        folder, name = os.path.split(self.prefix)
        try:
            old = read_state(self.path)
        except MissingFileError:
            old = CheckpointState()
        names = [_relative(each, folder) for each in old.all_model_checkpoint_paths]
        times = dict(zip(names, old.all_model_checkpoint_timestamps, strict=False))
        times[name] = time.time()
        names = [each for each in names if each != name] + [name]
        timestamps: tuple[float, ...] = ()
        if self.timed or old.all_model_checkpoint_timestamps:
            timestamps = tuple(
                times.get(each) or modified(os.path.join(folder, each)) for each in names
            )
        return CheckpointState(name, tuple(names), timestamps, old.last_preserved_timestamp)


def modified(prefix: str) -> float:
    """Return when a checkpoint was written, in seconds since 1970; 0 if its files do not tell."""
    for path in (index_path(prefix), prefix):
        with suppress(OSError, ValueError):
            return os.stat(path).st_mtime
    return 0.0


def planned_state(prefix: str, *, timed: bool) -> PlannedState:
    """Prepare to name a checkpoint as the latest in its folder's state file.

    Args:
        prefix: the checkpoint.
        timed: as of `PlannedState`.

    Raises:
        CkptError: the existing state file cannot be read, or cannot hold that name.
    """
    state = PlannedState(os.path.join(os.path.dirname(prefix), STATE_NAME), prefix, timed)
    format_state(state._state())
    return state


def check_sequence(prefix: str, *, reached: str | None = None) -> None:
    """Refuse a name that a trainer in the same folder will use: it would overwrite the files.

    Args:
        prefix: the checkpoint to be written.
        reached: prefix of the source, if the result becomes the latest: then the trainer goes on
            from the number of the source, and uses only later names.

    Raises:
        DestinationError: the name is the next, or a later one, of the folder's checkpoints.
    """
    folder, name = os.path.split(prefix)
    try:
        latest = checkpoint_name(read_state(os.path.join(folder, STATE_NAME)).model_checkpoint_path)
    except CkptError:
        return
    known, wanted = _NUMBERED.match(latest), _NUMBERED.match(name)
    if not (known and wanted and known[1] == wanted[1]):
        return
    source = _NUMBERED.match(reached) if reached is not None else None
    if int(wanted[2]) > max(int(known[2]), int(source[2]) if source else -1):
        raise DestinationError(
            f"a program that saves checkpoints after '{latest}' in this folder will write that "
            "name; choose another, or use --force",
            path=prefix,
        )


def _relative(path: str, folder: str) -> str:
    """Return a path relative to the folder if it lies in it, else unchanged."""
    inside = os.path.join(os.path.abspath(folder), "")
    return path[len(inside) :] if path.startswith(inside) else path
