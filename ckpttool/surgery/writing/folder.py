"""Writing the checkpoints of a folder: all are checked before the first one is written.

Each is written as if it were alone, so that a run that is killed leaves every one of them whole. A
state file for another folder comes last.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Generic, TypeVar

from ckpttool.bundle.naming import INDEX_SUFFIX
from ckpttool.checkpoint.folder import list_checkpoints, name_here
from ckpttool.checkpoint.locate import Location, locate, location_of
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.checkpoint.state import STATE_NAME, CheckpointState, format_state, read_state
from ckpttool.errors import CkptError, DestinationError, MissingFileError, SurgeryError
from ckpttool.storage.source import Permissions, RandomAccessFile
from ckpttool.storage.staging import StagedFiles
from ckpttool.storage.work import Progress
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.writing.companions import modified
from ckpttool.surgery.writing.destination import destination_prefix
from ckpttool.surgery.writing.prepare import Prepared, WriteOptions, prepare
from ckpttool.surgery.writing.receipt import Receipt


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """A checkpoint to be written anew.

    Attributes:
        location: where it is.
        prefix: where the result goes; None to write in place.
    """

    location: Location
    prefix: str | None

    @property
    def place(self) -> str:
        """The prefix of the result."""
        return self.location.prefix if self.prefix is None else self.prefix


@dataclass(frozen=True, slots=True)
class Planned:
    """What becomes of a checkpoint.

    Attributes:
        plan: the plan.
        options: how to write it.
    """

    plan: Plan
    options: WriteOptions


P = TypeVar("P", bound=Planned)


@dataclass(frozen=True, slots=True)
class WrittenTarget(Generic[P]):
    """A checkpoint that was written, or would be.

    Attributes:
        target: which one.
        planned: what became of it.
        prepared: the plan as it was checked.
        receipt: what was written.
    """

    target: WriteTarget
    planned: P
    prepared: Prepared
    receipt: Receipt


def find_sources(path: str, destination: str | None) -> list[WriteTarget]:
    """Return the checkpoint that a path means, or all of a folder, the latest last.

    Args:
        path: anything that names a checkpoint. A folder means all checkpoints in it; without any,
            the same as elsewhere, such as the variables of a SavedModel.
        destination: prefix of the result; for a folder another folder, in which names are kept.
            None to write in place.

    Raises:
        MissingFileError: there is no checkpoint.
        SurgeryError: two checkpoints of a folder have the same name.
        CkptError: the path cannot be resolved.
    """
    if os.path.isdir(path):
        found = list_checkpoints(path)
        for files in found:
            if files.shadowed:
                raise SurgeryError(
                    f"two checkpoints are called '{files.name}', one of each format; that of V1"
                    f" is meant by '{files.address}'",
                    path=path,
                )
            if not files.name:
                raise SurgeryError(
                    "it has a checkpoint whose files have no name before their endings; write it "
                    f"by itself: name '{files.address}{INDEX_SUFFIX}', and give -o a prefix",
                    path=path,
                )
        if found:
            return [
                WriteTarget(
                    location_of(files),
                    None if destination is None else os.path.join(destination, files.name),
                )
                for files in reversed(found)
            ]
    location = locate(path)
    if location.address == "state" and os.path.isdir(path):
        raise MissingFileError("the checkpoints that its state file names are elsewhere", path=path)
    return [WriteTarget(location, None if destination is None else destination_prefix(destination))]


class PreparedTargets(Generic[P]):
    """Checkpoints that have been planned and checked, so that they can be written.

    Args:
        path: the folder of the sources, or one source.
        output: the folder of the results, or one result; None to write in place.
        plan_of: plans one of them; it gets its open source.
        how: the options of all of them.

    Attributes:
        planned: what becomes of each.
        whole: whether they are the checkpoints of a folder, and not one alone.
        state: path of the state file that was written after all of them.
        notes: for the user, about it.

    Raises:
        CkptError: one of them cannot be read, planned or written; nothing is written then.
    """

    def __init__(
        self,
        path: str,
        output: str | None,
        plan_of: Callable[[Checkpoint, WriteTarget], P],
        how: WriteOptions,
    ) -> None:
        self._targets = targets = find_sources(path, output)
        self._plan_of = plan_of
        self.state: str | None = None
        self.notes: list[str] = []
        prepared = [self._prepare(each) for each in targets]
        self.planned: list[P] = [planned for planned, _ in prepared]
        self._prepared = [each for _, each in prepared]
        self._carried: CarriedState | None = None
        folder = os.path.normpath(path if output is None else output)
        self.whole = os.path.normpath(os.path.dirname(targets[0].place)) == folder
        if output is not None and self.whole and not how.update_state:
            self._carried = carried_state(path, output, force=how.force)

    def write(self, *, dry_run: bool, on_progress: Progress | None) -> Iterator[WrittenTarget[P]]:
        """Write one after the other.

        Args:
            dry_run: write nothing; each receipt says what can be said before.
            on_progress: told bytes written and bytes to write.

        Raises:
            CkptError: one cannot be written. Those before it are, and the message says so.
        """
        done: list[WrittenTarget[P]] = []
        for target, planned, prepared in zip(
            self._targets, self.planned, self._prepared, strict=True
        ):
            try:
                with planned.plan.source:
                    if dry_run:
                        receipt = prepared.receipt()
                    else:
                        receipt = prepared.write(on_progress=on_progress)
            except CkptError as error:
                if done and not dry_run:
                    count = f"{len(done)} of {len(self._targets)}"
                    error.message += f"; {count} checkpoints are written"
                raise
            done.append(WrittenTarget(target, planned, prepared, receipt))
            yield done[-1]
        if self.whole and not dry_run:
            self._write_state(done)

    def _write_state(self, done: Sequence[WrittenTarget[P]]) -> None:
        states = [each.receipt.state for each in done if each.receipt.state is not None]
        if states:
            self.state = states[-1]
        elif self._carried is not None:
            names = {
                os.path.basename(each.target.place): os.path.basename(each.receipt.address)
                for each in done
            }
            timed = done[-1].planned.plan.graph is not None
            self.state = self._carried.write(names, timed=timed)
            if self.state is None:
                self.notes.append(
                    f"no state file was written: the latest in '{self._carried.path}' is not in"
                    " its folder"
                )
        if self.state is not None:
            self.notes.append(f"wrote {self.state}")

    def _prepare(self, target: WriteTarget) -> tuple[P, Prepared]:
        # Closed until it is written, since a process may not have as many files open. Reading opens
        # the files again, and those that changed since are refused.
        with Checkpoint(target.location) as source:
            planned = self._plan_of(source, target)
            return planned, prepare(planned.plan, target.prefix, planned.options)


@dataclass(frozen=True, slots=True)
class CarriedState:
    """The state file of a folder whose checkpoints are written to another folder.

    Attributes:
        path: of the old file.
        destination: of the new file.
        old: its contents.
        permissions: of the old file.
    """

    path: str
    destination: str
    old: CheckpointState
    permissions: Permissions

    def write(self, names: Mapping[str, str], *, timed: bool) -> str | None:
        """Write the new file, with the same order, times and latest, and relative paths.

        Args:
            names: old name of each checkpoint -> its name in the new file.
            timed: write timestamps even if the old file has none, as of `PlannedState`.

        Returns:
            The path of the file; None if the latest is not among the names.

        Raises:
            CkptError: it cannot be written.
        """
        folder, old = os.path.dirname(self.path), self.old
        times = old.all_model_checkpoint_timestamps
        kept = [
            (names[name], time or (modified(os.path.join(folder, name)) if timed else None))
            for path, time in zip_longest(old.all_model_checkpoint_paths, times)
            if path is not None and (name := name_here(folder, path) or "") in names
        ]
        latest = names.get(name_here(folder, old.model_checkpoint_path) or "")
        if latest is None:
            return None
        state = CheckpointState(
            latest,
            tuple(name for name, _ in kept),
            tuple(time for _, time in kept if time is not None),
            old.last_preserved_timestamp,
        )
        with StagedFiles() as staged:
            file = staged.create(self.destination, mode=0o600)
            file.take_permissions(self.permissions)
            file.write(format_state(state).encode())
            staged.commit(replace_last=True)
        return self.destination


def carried_state(folder: str, destination: str, *, force: bool) -> CarriedState | None:
    """Prepare to carry the state file of a folder over; None if it has none.

    Args:
        folder: of the source.
        destination: the folder of the results.
        force: whether an existing state file may be replaced.

    Raises:
        DestinationError: one exists.
        CkptError: the old one cannot be read.
    """
    path, target = os.path.join(folder, STATE_NAME), os.path.join(destination, STATE_NAME)
    try:
        old = read_state(path)
        with RandomAccessFile(path) as file:
            permissions = file.permissions
    except MissingFileError:
        return None
    if os.path.lexists(target) and not force:
        raise DestinationError("a state file already exists", path=target)
    return CarriedState(path, target, old, permissions)
