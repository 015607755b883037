"""Which checkpoints of a folder go, which stay, and why; nothing is changed here."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ckpttool.bundle.naming import INDEX_SUFFIX, split_shard_path
from ckpttool.checkpoint.folder import (
    CheckpointFiles,
    by_step,
    by_time,
    list_checkpoints,
    name_here,
    oldest_first,
    stem_of,
)
from ckpttool.checkpoint.locate import EXPORT_META, graph_file_of, saved_model_of
from ckpttool.checkpoint.retention import ActiveSet, active_set, plan_sweep
from ckpttool.checkpoint.state import STATE_NAME, CheckpointState, parse_state
from ckpttool.checkpoint.wholeness import has_all_files, inspect_files
from ckpttool.errors import CkptError, MissingFileError, SurgeryError
from ckpttool.storage.source import file_error
from ckpttool.surgery.retention.files import files_of, freed_bytes

KeptReason = Literal["recent", "preserved", "latest", "unlisted", "incomplete", "v1", "elsewhere"]
_Series = list[CheckpointFiles]


@dataclass(frozen=True, slots=True)
class SweepPolicy:
    """Which checkpoints are kept; arguments of `ckpttool.train.sweep`.

    Attributes:
        max_to_keep: how many stay; None for all.
        keep_checkpoint_every_n_hours: of those that would go, keep one for good whenever so many
            hours have passed since the last one.
        keep_every_steps: of those that would go, keep those whose number is a multiple of this.
        unlisted: take in complete checkpoints that the state file does not list.
    """

    max_to_keep: int | None
    keep_checkpoint_every_n_hours: float | None = None
    keep_every_steps: int | None = None
    unlisted: bool = False


@dataclass(frozen=True, slots=True)
class DeletedCheckpoint:
    """A checkpoint that goes.

    Attributes:
        name: in the folder.
        files: names of its files, in the order in which they are deleted.
        bytes: what deleting it frees, after those before it.
    """

    name: str
    files: tuple[str, ...]
    bytes: int


@dataclass(frozen=True, slots=True)
class KeptCheckpoint:
    """A checkpoint that stays.

    Attributes:
        name: in the folder, or as the state file names it.
        reason: `"recent"`, `"latest"`; `"preserved"` for good; `"unlisted"` in the state file;
            `"incomplete"`, `"v1"` or `"elsewhere"`, of which none is ever deleted.
    """

    name: str
    reason: KeptReason


@dataclass(frozen=True, slots=True)
class RetentionPlan:
    """What a sweep of a folder does.

    Attributes:
        folder: the folder.
        policy: which checkpoints are kept.
        deleted: what goes, in that order.
        going: the files of each of them.
        kept: what stays, by number.
        before: the bytes of the state file; None without one.
        state: the new state; None if it stays as it is.
        listed: names of the checkpoints that the state file lists now.
        notes: what the user should know, in words.
    """

    folder: str
    policy: SweepPolicy
    deleted: tuple[DeletedCheckpoint, ...]
    going: tuple[CheckpointFiles, ...]
    kept: tuple[KeptCheckpoint, ...]
    before: bytes | None
    state: CheckpointState | None
    listed: frozenset[str]
    notes: tuple[str, ...]

    @property
    def state_path(self) -> str:
        """Path of the state file."""
        return os.path.join(self.folder, STATE_NAME)


def plan_retention(
    folder: str, policy: SweepPolicy, before: bytes | None, now: float
) -> RetentionPlan:
    """Plan a sweep.

    Args:
        folder: the folder.
        policy: which checkpoints are kept.
        before: the bytes of its state file; None without one.
        now: the time.

    Raises:
        MissingFileError: there is no checkpoint, or the latest one is gone.
        SurgeryError: the latest checkpoint is not whole.
        CorruptError: the state file cannot be read.
    """
    found = list_checkpoints(folder)
    path = os.path.join(folder, STATE_NAME)
    if not found:
        raise MissingFileError("no checkpoints in the folder itself", path=folder)
    state = None
    if before is not None:
        try:
            state = parse_state(before, path=path)
        except CkptError as error:
            error.message += f"; `{_repair_command(folder)}` writes a new state file"
            raise
    return _Planner(folder, policy, now, found, state).plan(before)


def refuse_other_folders(folder: str) -> None:
    """Refuse what is no folder of checkpoints that may be deleted.

    Raises:
        MissingFileError: it is no folder.
        SurgeryError: it belongs to a model.
    """
    if not os.path.isdir(folder):
        hint = ""
        if os.path.exists(folder):
            home = os.path.dirname(folder) or os.curdir
            hint = f"; a folder is wanted, such as '{home}'"
        raise MissingFileError(f"not a folder of checkpoints{hint}", path=folder)
    model = saved_model_of(os.path.join(folder, "variables"))
    if model is not None or graph_file_of(folder):
        raise SurgeryError("it is part of a SavedModel, which needs all of its files", path=folder)
    if os.path.isfile(os.path.join(folder, EXPORT_META)):
        raise SurgeryError("it is an export, which needs all of its files", path=folder)


def _repair_command(folder: str) -> str:
    return f"ckpt verify {shlex.quote(folder)} --repair-state"


@dataclass
class _Planner:
    folder: str
    policy: SweepPolicy
    now: float
    found: Sequence[CheckpointFiles]
    state: CheckpointState | None
    here: dict[str, CheckpointFiles] = field(init=False)
    whole: set[str] = field(init=False)
    active: ActiveSet = field(init=False)
    notes: list[str] = field(init=False, default_factory=list)

    def plan(self, before: bytes | None) -> RetentionPlan:
        self.here = {each.name: each for each in self.found if not each.shadowed}
        self.whole = {name for name, each in self.here.items() if has_all_files(each)}
        self.active = active_set(self.state or CheckpointState(), self.now)
        names = self._names()
        latest = self._latest(names)
        times = {
            name: when
            for path, when in self.active.times.items()
            if (name := names.get(path)) in self.whole
        }
        listed = {name for name in names.values() if name is not None}
        active: dict[str, float] = {}
        preserved: set[str] = set()
        going: list[str] = []
        last_preserved = self.active.last_preserved
        for pool, since in self._pools(times, latest):
            sweep = plan_sweep(
                pool,
                since,
                max_to_keep=self.policy.max_to_keep,
                keep_every_hours=self.policy.keep_checkpoint_every_n_hours,
                keep_every_steps=self.policy.keep_every_steps,
            )
            going += [name for name in sweep.deleted if name != latest]
            preserved.update(name for name in sweep.preserved if name != latest)
            # Others than those of the latest one's name are no business of a manager's.
            if latest in pool or not self.policy.unlisted:
                stay = sweep.active | ({latest: pool[latest]} if latest in pool else {})
                active.update((name, when) for name, when in pool.items() if name in stay)
                if sweep.preserved and math.isfinite(sweep.last_preserved):
                    last_preserved = max(sweep.last_preserved, since)
            else:
                active.update({name: pool[name] for name in sweep.active if name in times})
        deleted = [self.here[name] for name in going]
        state = None
        if self.state is not None and latest is not None and (going or preserved):
            last, leaving = self.here[latest], {*going, *preserved}
            state = self._new_state(names, active, leaving, last, last_preserved)
        self._note(names, deleted)
        return RetentionPlan(
            self.folder,
            self.policy,
            tuple(
                DeletedCheckpoint(files.name, tuple(map(os.path.basename, files_of(files))), size)
                for files, size in zip(deleted, freed_bytes(deleted), strict=True)
            ),
            tuple(deleted),
            tuple(self._kept(names, latest, set(going), active, preserved, listed)),
            before,
            None if state == self.state else state,
            frozenset(listed),
            tuple(self.notes),
        )

    def _names(self) -> dict[str, str | None]:
        """Return the name in the folder of each path in the state file; None where it is not."""
        if self.state is None:
            return {}
        paths = (self.state.model_checkpoint_path, *self.state.all_model_checkpoint_paths)
        return {path: name_here(self.folder, path) for path in paths if path}

    def _latest(self, names: Mapping[str, str | None]) -> str | None:
        """Return the latest checkpoint, which must be whole, since all others may go."""
        repair = f"; `{_repair_command(self.folder)}` names one that is whole"
        if self.state is None:
            usable = [self.here[name] for name in self.whole]
            return oldest_first(usable)[-1].name if usable else None
        path = os.path.join(self.folder, STATE_NAME)
        named = self.state.model_checkpoint_path
        if not named:
            raise SurgeryError(f"the state file names no checkpoint{repair}", path=path)
        name = names[named]
        if name is None:
            raise SurgeryError(
                f"the latest checkpoint, '{named}', lies outside of the folder{repair}", path=path
            )
        files = self.here.get(name)
        if files is None:
            message = f"the latest checkpoint, '{named}', does not exist{repair}"
            raise MissingFileError(message, path=path)
        missing = inspect_files(files).missing
        if missing:
            raise SurgeryError(
                f"the latest checkpoint, '{named}', is incomplete: it lacks {missing[0]}{repair}",
                path=path,
            )
        return name

    def _pools(
        self, times: Mapping[str, float], latest: str | None
    ) -> Iterator[tuple[dict[str, float], float]]:
        """Yield what is swept together, oldest first, and when the last one was preserved."""
        if not self.policy.unlisted:
            yield self._confirmed(times), self.active.last_preserved
            return
        # Each name is a series of its own: a manager writes one. What has no number is one, too.
        series: dict[str | None, _Series] = {}
        for files in (self.here[name] for name in self.whole):
            key = None if files.step is None else stem_of(files.name)
            series.setdefault(key, []).append(files)
        for key in sorted(series, key=lambda key: key or ""):
            order = sorted(series[key], key=by_time if key is None else by_step)
            pool = {
                files.name: times.get(files.name, min(files.modified, self.now)) for files in order
            }
            # What was preserved before is in the pool, and is preserved again by the same rule.
            yield self._confirmed(pool), -math.inf
        if len(series) > 1 and self.policy.max_to_keep is not None:
            told = sorted("names without a number" if key is None else f"'{key}'" for key in series)
            self.notes.append(
                f"checkpoints of several names, each with its own {self.policy.max_to_keep} to "
                f"keep: {', '.join(told)}"
            )

    def _confirmed(self, pool: Mapping[str, float]) -> dict[str, float]:
        """Return a pool whose last ones, which are to be kept, are whole by their indexes too.

        Those that go have all files; to read 10,000 indexes would take a minute.
        """
        wanted = self.policy.max_to_keep
        if wanted is not None and wanted < len(pool):
            for name in reversed(list(pool)):
                if not wanted:
                    break
                if inspect_files(self.here[name]).missing:
                    self.whole.discard(name)
                else:
                    wanted -= 1
        return {name: when for name, when in pool.items() if name in self.whole}

    def _new_state(
        self,
        names: Mapping[str, str | None],
        active: Mapping[str, float],
        leaving: set[str],
        latest: CheckpointFiles,
        last_preserved: float,
    ) -> CheckpointState:
        """Return the state file of what stays, with relative paths."""
        paths: dict[str, float] = {}
        for path, when in self.active.times.items():
            name = names.get(path)
            if name is None:
                paths[path] = when
                continue
            ordered_anew = self.policy.unlisted and name in active
            if name in self.here and name not in leaving and not ordered_anew:
                paths[self.here[name].state_name] = when
        paths.update(active)
        last = latest.state_name
        if last not in paths:
            paths[last] = min(latest.modified, self.now)
        if active and self.policy.unlisted:
            # A manager forgets what is not newer than the last one that was preserved.
            oldest = min(active.values())
            if oldest <= last_preserved:
                last_preserved = math.nextafter(oldest, -math.inf)
        return CheckpointState(last, tuple(paths), tuple(paths.values()), last_preserved)

    def _kept(
        self,
        names: Mapping[str, str | None],
        latest: str | None,
        going: set[str],
        active: Mapping[str, float],
        preserved: set[str],
        listed: set[str],
    ) -> Iterator[KeptCheckpoint]:
        reason: KeptReason
        for files in sorted(self.found, key=by_step):
            name = files.name
            if files.generation == "V1":
                is_latest = name == latest and not files.shadowed
                yield KeptCheckpoint(
                    os.path.basename(files.address), "latest" if is_latest else "v1"
                )
                continue
            if name in going:
                continue
            if name == latest:
                reason = "latest"
            elif name not in self.whole:
                reason = "incomplete"
            elif name in preserved:
                reason = "preserved"
            elif name in active or self.policy.unlisted:
                reason = "recent"
            else:
                reason = "preserved" if name in listed else "unlisted"
            yield KeptCheckpoint(name, reason)
        yield from (KeptCheckpoint(name, "incomplete") for name in self._without_index())
        for path, here in names.items():
            if here is None:
                yield KeptCheckpoint(path, "elsewhere")

    def _without_index(self) -> list[str]:
        """Return the names of checkpoints of which there are data shards alone."""
        try:
            names = set(os.listdir(self.folder or os.curdir))
        except OSError as error:
            raise file_error(error, self.folder) from error
        found = {split[0] for name in names if (split := split_shard_path(name))}
        return sorted(name for name in found if name + INDEX_SUFFIX not in names)

    def _note(self, names: Mapping[str, str | None], deleted: Sequence[CheckpointFiles]) -> None:
        if self.state is None:
            if not self.policy.unlisted:
                self.notes.append(
                    "the folder has no state file, so no checkpoint counts; --all takes in all"
                )
        elif not self.active.times and not self.policy.unlisted:
            self.notes.append(
                "the state file has no times of checkpoints, so a manager deletes none of them; "
                "--all takes the times of the index files"
            )
        if self.state is not None and self.active.ahead > 0:
            self.notes.append(
                f"the clock is {self.active.ahead:.0f} seconds behind the state file; checkpoints "
                "that seem to be of the future may never be deleted"
            )
        for path, name in names.items():
            if name is not None and name not in self.here:
                self.notes.append(f"the state file lists '{path}', which does not exist")
        graphs = sum(files.meta_path is not None for files in deleted)
        if graphs:
            self.notes.append(
                f"{graphs} .meta file{'s' * (graphs > 1)} of deleted checkpoints stay"
            )
