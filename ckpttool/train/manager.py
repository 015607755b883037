"""Saving into one folder, and deleting there what is too old."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from ckpttool.bundle.naming import index_path
from ckpttool.checkpoint.retention import active_set, delete_checkpoint, plan_sweep
from ckpttool.checkpoint.state import STATE_NAME, CheckpointState, write_state
from ckpttool.checkpoint.tf_train import get_checkpoint_state
from ckpttool.errors import CkptError, DestinationError
from ckpttool.storage.locks import Patience, locked_folder
from ckpttool.storage.paths import StrPath, lies_in, path_text
from ckpttool.storage.source import Identity, identity_of
from ckpttool.train.checkpoint import Checkpoint
from ckpttool.train.options import CheckpointOptions

# Of a state file that the system does not tell about.
_UNKNOWN: Identity = (-1, -1, -1, -1)
# How long, in seconds, a save waits for others who write to the folder.
_PATIENCE = 0.5


class CheckpointManager:
    """Saves checkpoints into a folder, and deletes all but the newest.

    Its state is the folder's state file: which checkpoint is the latest, which may be deleted
    later, and when the last one was kept for good. At any instant, killed or not, that file names
    a complete checkpoint as the latest. One process may manage a folder at a time.

    Args:
        checkpoint: what is saved.
        directory: the folder.
        max_to_keep: how many checkpoints stay; None for all.
        keep_checkpoint_every_n_hours: of those that would be deleted, keep one for good whenever
            so many hours have passed since the last one.
        checkpoint_name: how the names of checkpoints begin.
        step_counter: a variable that counts steps, for the interval.
        checkpoint_interval: the least number of steps between two checkpoints.
        init_fn: called by `restore_or_initialize` where there is no checkpoint.
        last_checkpoint_step: the step of the last checkpoint, for the interval.
        overwrite: let a number that counts up replace a checkpoint of an earlier run.
        clock: returns the time in seconds since 1970.

    Raises:
        ValueError: `max_to_keep` is not positive, there is an interval and no step counter, or the
            state file names no checkpoint.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        directory: StrPath,
        max_to_keep: int | None,
        keep_checkpoint_every_n_hours: float | None = None,
        checkpoint_name: str = "ckpt",
        step_counter: Any = None,
        checkpoint_interval: int | None = None,
        init_fn: Callable[[], object] | None = None,
        last_checkpoint_step: int | None = None,
        *,
        overwrite: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if max_to_keep is not None and max_to_keep <= 0:
            raise ValueError(f"max_to_keep is {max_to_keep}; it may be a positive number or None")
        if checkpoint_interval is not None and step_counter is None:
            raise ValueError("a checkpoint_interval needs a step_counter")
        self._checkpoint = checkpoint
        self._directory = path_text(directory)
        self._max_to_keep = max_to_keep
        self._keep_every = keep_checkpoint_every_n_hours
        self._name = checkpoint_name
        self._step_counter = step_counter
        self._interval = checkpoint_interval
        self._init_fn = init_fn
        self._last_step = last_checkpoint_step
        self._overwrite = overwrite
        self._clock = clock
        self._written: set[str] = set()
        self._active: dict[str, float] = {}
        self._latest: str | None = None
        self._seen = self._state_identity()
        now = clock()
        self._last_preserved = now - 1.0
        state = get_checkpoint_state(self._directory)
        if state is not None:
            self._take(state, now)

    def _take(self, state: CheckpointState, now: float) -> None:
        """Continue from a state file."""
        active = active_set(state, now)
        if active.ahead > 0:
            warnings.warn(
                f"{self._directory}: the clock is {active.ahead:.0f} seconds behind the last "
                "checkpoint; checkpoints that seem to be of the future may never be deleted",
                stacklevel=3,
            )
        self._latest = state.model_checkpoint_path
        self._active, self._last_preserved = active.times, active.last_preserved

    @property
    def directory(self) -> str:
        """The folder, as given."""
        return self._directory

    @property
    def checkpoint(self) -> Checkpoint:
        """What is saved."""
        return self._checkpoint

    @property
    def checkpoint_interval(self) -> int | None:
        """The least number of steps between two checkpoints."""
        return self._interval

    @property
    def latest_checkpoint(self) -> str | None:
        """The path of the latest checkpoint by the state file; None without one."""
        return self._latest

    @property
    def checkpoints(self) -> list[str]:
        """The paths of the checkpoints that may be deleted later, oldest first."""
        return list(self._active)

    def save(
        self,
        checkpoint_number: Any = None,
        check_interval: bool = True,
        options: CheckpointOptions | None = None,
    ) -> str | None:
        """Save a checkpoint, name it as the latest, and delete what is too old.

        Args:
            checkpoint_number: its number; if None, that of the save counter, which counts up in
                any case.
            check_interval: do nothing before the interval is over.
            options: how to save.

        Returns:
            The path; None if nothing was saved.

        Raises:
            DestinationError: a checkpoint of an earlier run has the number that comes next.
            ContainerChangedError, UntrackableError: an object cannot be saved.
            CkptError: a file cannot be written. Then counter and folder are as before.
        """
        self.sync()
        step = None if self._interval is None else int(self._step_counter)
        if step is not None and self._is_too_early(step, check_interval=check_interval):
            return None
        with self._checkpoint._counted_up() as count:
            number = count.number if checkpoint_number is None else int(checkpoint_number)
            path = os.path.join(self._directory, f"{self._name}-{number}")
            if checkpoint_number is None and not self._overwrite:
                self._refuse_foreign(path)

            def written(path: str) -> None:
                self._written.add(path)
                count.kept = True

            def record(path: str) -> None:
                try:
                    self._name_latest(path)
                finally:
                    count.kept = self._latest == path
                self._sweep()

            self._checkpoint._save_as(path, options, written=written, record=record)
        if step is not None:
            self._last_step = step
        return path

    def restore_or_initialize(self) -> str | None:
        """Restore the latest checkpoint; without one, call `init_fn`.

        Returns:
            The path of what was restored, if anything was.

        Raises:
            CkptError: as of `Checkpoint.restore`.
        """
        self.sync()
        if self._latest is not None:
            self._checkpoint.restore(self._latest)
            if self._interval is not None:
                self._last_step = int(self._step_counter)
            return self._latest
        if self._init_fn is not None:
            self._init_fn()
        return None

    def sync(self) -> None:
        """Wait for what is saved in the background.

        Raises:
            CkptError: it could not be written.
        """
        self._checkpoint.sync()

    def _is_too_early(self, step: int, *, check_interval: bool) -> bool:
        last = self._last_step
        if last is None or self._interval is None:
            return False
        return step == last or (check_interval and step < last + self._interval)

    def _refuse_foreign(self, path: str) -> None:
        """Refuse to replace a checkpoint that this manager did not write.

        One that was finished after the state file, and is not in it, is what a killed process left.
        """
        index = index_path(path)
        if path in self._written or not os.path.lexists(index):
            return
        if path not in self._active and path != self._latest and self._is_unrecorded(index):
            return
        # A run killed in its first save leaves a checkpoint and no state file.
        restore = "restore_or_initialize()" if self._latest else f"restore({path!r})"
        raise DestinationError(
            "a checkpoint of an earlier run has the number that comes next; restore the latest "
            f"one before you save ({restore}), use another folder, or give "
            "CheckpointManager(…, overwrite=True)",
            path=path,
        )

    def _is_unrecorded(self, index: str) -> bool:
        try:
            state = os.stat(os.path.join(self._directory, STATE_NAME))
            return os.stat(index).st_mtime_ns >= state.st_mtime_ns
        except OSError:
            return False

    def _name_latest(self, path: str) -> None:
        before, seen = (dict(self._active), self._latest), self._seen
        self._active.pop(path, None)
        self._active[path] = self._clock()
        self._latest = path
        try:
            self._write_state()
        except BaseException:
            if self._seen == seen:  # else it was written, whatever failed after that
                self._active, self._latest = before
            raise

    def _sweep(self) -> None:
        sweep = plan_sweep(
            self._active,
            self._last_preserved,
            max_to_keep=self._max_to_keep,
            keep_every_hours=self._keep_every,
        )
        for old in sweep.deleted:
            # A state file from elsewhere may name anything.
            if lies_in(os.path.dirname(old), self._directory):
                delete_checkpoint(old)
        self._active, self._last_preserved = sweep.active, sweep.last_preserved
        self._write_state()

    def _relative(self, path: str) -> str:
        return os.path.relpath(path, self._directory or os.curdir)

    def _write_state(self) -> None:
        if self._latest is None:
            return
        state = CheckpointState(
            self._relative(self._latest),
            tuple(map(self._relative, self._active)),
            tuple(self._active.values()),
            self._last_preserved,
        )
        with ExitStack() as held:
            # So that `ckpt gc` does not write meanwhile. Without a lock a trainer goes on.
            with suppress(CkptError):
                folder = self._directory or os.curdir
                held.enter_context(locked_folder(folder, Patience(_PATIENCE)))
            with self._watched():
                write_state(os.path.join(self._directory, STATE_NAME), state)

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Warn if another process has written the state file since it was written here."""
        now = self._state_identity()
        if now != self._seen and _UNKNOWN not in (now, self._seen):
            warnings.warn(
                f"{self._directory}: something else has changed the state file; one process may "
                "manage a folder at a time, and what the other one saved is not deleted any more",
                stacklevel=5,
            )
        try:
            yield
        finally:
            self._seen = self._state_identity()

    def _state_identity(self) -> Identity | None:
        """Return the identity of the state file."""
        try:
            return identity_of(os.stat(os.path.join(self._directory, STATE_NAME)))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError):
            return _UNKNOWN
