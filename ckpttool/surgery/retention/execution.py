"""Sweeping a folder as a manager does, from outside."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from ckpttool.bundle.naming import INDEX_SUFFIX
from ckpttool.checkpoint.folder import CheckpointFiles, name_here
from ckpttool.checkpoint.retention import delete_checkpoint
from ckpttool.checkpoint.state import STATE_NAME, parse_state, replace_state, state_bytes
from ckpttool.errors import ChangedError, CkptError
from ckpttool.storage.locks import Patience, locked_folder
from ckpttool.storage.paths import StrPath, path_text
from ckpttool.storage.source import Identity, identity_of
from ckpttool.surgery.retention.plan import (
    DeletedCheckpoint,
    KeptCheckpoint,
    RetentionPlan,
    SweepPolicy,
    plan_retention,
    refuse_other_folders,
)

_TRIES = 5
# A trainer names a checkpoint in the state file a moment after its index is there.
_SETTLED = 1.0
_UNREAD: Identity = (-1, -1, -1, -1)


@dataclass(frozen=True, slots=True)
class FolderSweep:
    """What a sweep did, or would do.

    Attributes:
        folder: the folder.
        state_path: path of its state file; None without one.
        policy: which checkpoints are kept.
        deleted: the checkpoints that went, in that order.
        kept: those that stay, by number, and why.
        dry_run: whether nothing was done.
        notes: what the user should know, in words.
    """

    folder: str
    state_path: str | None
    policy: SweepPolicy
    deleted: tuple[DeletedCheckpoint, ...]
    kept: tuple[KeptCheckpoint, ...]
    dry_run: bool
    notes: tuple[str, ...]

    @property
    def bytes(self) -> int:
        """How many bytes are freed."""
        return sum(each.bytes for each in self.deleted)


def sweep(
    folder: StrPath,
    *,
    max_to_keep: int | None,
    keep_checkpoint_every_n_hours: float | None = None,
    keep_every_steps: int | None = None,
    unlisted: bool = False,
    dry_run: bool = True,
    on_wait: Callable[[str], None] | None = None,
) -> FolderSweep:
    """Delete the checkpoints of a folder that a manager would delete at its next sweep.

    No manager may save into the folder meanwhile. One that does is noticed: then the sweep ends,
    and a checkpoint that the state file names is never deleted. Nor is the latest one, a state
    file, a `.meta` file, an incomplete checkpoint, or anything outside of the folder.

    Args:
        folder: the folder.
        max_to_keep: how many checkpoints stay; None for all.
        keep_checkpoint_every_n_hours: of those that would go, keep one for good whenever so many
            hours have passed since the last one.
        keep_every_steps: of those that would go, keep those whose number is a multiple of this.
        unlisted: take in complete checkpoints that the state file does not list: by number, those
            without a number by the time of the index.
        dry_run: only tell.
        on_wait: told, once, if another process has the lock of the folder.

    Raises:
        ValueError: a number is not positive.
        MissingFileError: there is no such folder, no checkpoint in it, or its latest one is gone.
        SurgeryError: the folder belongs to a model, or the latest checkpoint is not whole.
        ChangedError: another process has changed the state file.
        CkptError: something cannot be read, written or deleted.
    """
    for name, value in (
        ("max_to_keep", max_to_keep),
        ("keep_checkpoint_every_n_hours", keep_checkpoint_every_n_hours),
        ("keep_every_steps", keep_every_steps),
    ):
        if value is not None and not value > 0:
            raise ValueError(f"{name} is {value}; it may be a positive number or None")
    policy = SweepPolicy(max_to_keep, keep_checkpoint_every_n_hours, keep_every_steps, unlisted)
    path = path_text(folder)
    refuse_other_folders(path)
    with ExitStack() as stack:
        plan = _settled_plan(path, policy)
        if not dry_run and (plan.deleted or plan.state is not None):
            stack.enter_context(locked_folder(path or os.curdir, Patience(tell=on_wait)))
            plan = _wait_for_names(_settled_plan(path, policy))
            _carry_out(plan)
    return FolderSweep(
        path,
        None if plan.before is None else plan.state_path,
        policy,
        plan.deleted,
        plan.kept,
        dry_run,
        plan.notes,
    )


def _settled_plan(folder: str, policy: SweepPolicy) -> RetentionPlan:
    """Plan by a folder and a state file that belong together."""
    path = os.path.join(folder, STATE_NAME)
    for attempt in range(_TRIES):
        before = state_bytes(path)
        try:
            plan = plan_retention(folder, policy, before, time.time())
        except CkptError:
            # A trainer may have deleted what the old state file named.
            if attempt + 1 == _TRIES or state_bytes(path) == before:
                raise
            continue
        if state_bytes(path) == before:
            return plan
    raise ChangedError("other processes keep changing the state file", path=path)


def _wait_for_names(plan: RetentionPlan) -> RetentionPlan:
    """Return the plan, made again if a checkpoint that goes may get its name any moment."""
    try:
        recorded = os.stat(plan.state_path).st_mtime
    except OSError:
        return plan
    new = max(
        (each.modified for each in plan.going if each.name not in plan.listed), default=-_SETTLED
    )
    rest = new + _SETTLED - time.time()
    if new < recorded or not 0 < rest <= _SETTLED:
        return plan
    time.sleep(rest)
    return _settled_plan(plan.folder, plan.policy)


def _carry_out(plan: RetentionPlan) -> None:
    # First the names, then the files: whenever this ends, the state file names what is there.
    if plan.state is not None:
        replace_state(plan.state_path, plan.state, plan.before)
    elif state_bytes(plan.state_path) != plan.before:
        raise ChangedError("other processes keep changing the state file", path=plan.state_path)
    seen: Identity | None = _UNREAD
    for number, files in enumerate(plan.going):
        try:
            now = _identity(plan.state_path)
            if now != seen:
                _refuse_claimed(plan, plan.going[number:])
                seen = now
            _refuse_changed(files)
            delete_checkpoint(files.prefix, files.shards)
        except CkptError as error:
            error.message += f"; {number} of {len(plan.going)} checkpoints are deleted"
            raise


def _refuse_claimed(plan: RetentionPlan, going: Sequence[CheckpointFiles]) -> None:
    """Refuse to delete what the state file names now."""
    text = state_bytes(plan.state_path)
    if text is None:
        return
    state = parse_state(text, path=plan.state_path)
    paths = (state.model_checkpoint_path, *state.all_model_checkpoint_paths)
    claimed = {name_here(plan.folder, path) for path in paths if path}
    if any(files.name in claimed for files in going):
        raise ChangedError(
            "another process, such as a trainer, has changed the state file and names what was to "
            "go",
            path=plan.state_path,
        )


def _refuse_changed(files: CheckpointFiles) -> None:
    try:
        modified = os.stat(files.prefix + INDEX_SUFFIX).st_mtime
    except (OSError, ValueError):
        return
    if modified != files.modified:
        raise ChangedError("another process has saved the checkpoint again", path=files.prefix)


def _identity(path: str) -> Identity | None:
    try:
        return identity_of(os.stat(path))
    except OSError:
        return None
