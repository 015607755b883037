"""Bringing checkpoints of old forms up to date, and back."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Literal

from ckpttool.checkpoint.folder import list_checkpoints, name_here
from ckpttool.checkpoint.locate import Location, locate, location_of
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.checkpoint.state import STATE_NAME, CheckpointState, format_state, read_state
from ckpttool.errors import DestinationError, MissingFileError, SurgeryError
from ckpttool.storage.source import Permissions, RandomAccessFile
from ckpttool.storage.staging import StagedFiles
from ckpttool.surgery.flattening import flatten
from ckpttool.surgery.like.reference import follow
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.renaming import rename
from ckpttool.surgery.rules import MoveRule, RenameRule
from ckpttool.surgery.writing.companions import planned_state
from ckpttool.surgery.writing.destination import destination_prefix
from ckpttool.surgery.writing.prepare import WriteOptions
from ckpttool.surgery.writing.receipt import Receipt
from ckpttool.surgery.writing.recoding.payloads import payloads
from ckpttool.surgery.writing.recoding.spread import Recoding
from ckpttool.tensor.dtypes import STRING

TargetForm = Literal["v2", "v1", "name-based"]
TARGET_FORMS: tuple[TargetForm, ...] = ("v2", "v1", "name-based")


@dataclass(frozen=True, slots=True)
class Conversion:
    """A checkpoint to be converted.

    Attributes:
        location: where it is.
        prefix: where the result goes.
    """

    location: Location
    prefix: str


def find_conversions(path: str, destination: str) -> list[Conversion]:
    """Return the checkpoint that a path means, or all of a folder.

    Args:
        path: anything that names a checkpoint. A folder means all checkpoints in it; without any,
            the same as elsewhere, such as the variables of a SavedModel.
        destination: prefix of the result; for a folder another folder, in which names are kept.

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
        if found:
            return [
                Conversion(location_of(files), os.path.join(destination, files.name))
                for files in reversed(found)
            ]
    location = locate(path)
    if location.address == "state" and os.path.isdir(path):
        raise MissingFileError("the checkpoints that its state file names are elsewhere", path=path)
    return [Conversion(location, destination_prefix(destination))]


def plan_conversion(
    source: Checkpoint,
    to: TargetForm,
    *,
    like: Checkpoint | None = None,
    rules: Sequence[RenameRule] = (),
    number: int = 1,
) -> Plan:
    """Return the plan for a checkpoint in another form.

    Args:
        source: the open checkpoint.
        to: `"v2"` keeps names, or follows `like`; `"v1"` and `"name-based"` give each tensor its
            full name.
        like: an object-based checkpoint whose objects the tensors are to become part of.
        rules: new names. A `MoveRule` goes, with `like`, to a full name or an object path there;
            where an object-based checkpoint becomes name-based, from a key or an object path.
        number: of the result among the checkpoints of its program, for the save counter of `like`.

    Raises:
        SurgeryError: there is no such way.
        CkptError: as renaming, following and flattening do.
    """
    plan = Plan.of(source)
    moves = {rule.old: rule.new for rule in rules if isinstance(rule, MoveRule)}
    others = [rule for rule in rules if not isinstance(rule, MoveRule)]
    if like is not None:
        if others:
            plan = rename(plan, others)
        return follow(plan, like, moves, save_counter=number)
    if plan.graph is None and to == "name-based":
        raise SurgeryError("the checkpoint is already name-based", path=source.prefix)
    if plan.graph is None or to == "v2":
        return rename(plan, rules) if rules else plan
    plan = flatten(plan, moves)
    return rename(plan, others) if others else plan


def is_current(source: Checkpoint) -> bool:
    """Tell whether every value is stored as TensorFlow stores it today.

    Raises:
        CkptError: a string tensor is damaged.
    """
    if source.generation == "V1" or source.reader.big_endian:
        return False
    strings = (tensor for tensor in Plan.of(source).tensors if tensor.entry.dtype == STRING)
    return all(
        sum(len(chunk) for each in payloads(source, tensor, join=False) for chunk in each.chunks)
        == tensor.bytes
        for tensor in strings
    )


def conversion_options(
    plan: Plan, to: TargetForm, recoding: Recoding, how: WriteOptions
) -> WriteOptions:
    """Return the write options of a conversion.

    Values are rewritten only if needed: a checkpoint in today's form keeps its data shards.

    Args:
        plan: from `plan_conversion`.
        to: as there.
        recoding: the requested layout, if any.
        how: the other options.

    Raises:
        CkptError: a string tensor is damaged.
    """
    if to == "v1":
        if plan.source.generation == "V1" and recoding == Recoding():
            return how
        return replace(how, generation="V1", recoding=recoding)
    if recoding != Recoding() or not is_current(plan.source):
        return replace(how, generation="V2", recoding=recoding)
    return how


def changes_nothing(plan: Plan, how: WriteOptions) -> bool:
    """Tell whether writing a plan would give an equal checkpoint."""
    return how.recoding is None and not plan.changes and plan.graph == plan.source.object_graph


@dataclass(frozen=True, slots=True)
class CarriedState:
    """The state file of a folder whose checkpoints are converted into another folder.

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

    def write(self, names: Mapping[str, str]) -> str | None:
        """Write the new file, with the same order, times and latest, and relative paths.

        Args:
            names: old name of each checkpoint -> its name in the new file.

        Returns:
            The path of the file; None if the latest is not among the names.

        Raises:
            CkptError: it cannot be written.
        """
        folder, old = os.path.dirname(self.path), self.old
        times = old.all_model_checkpoint_timestamps
        kept = [
            (names[name], time)
            for path, time in zip_longest(old.all_model_checkpoint_paths, times)
            if path is not None and (name := name_here(folder, path) or "") in names
        ]
        latest = names.get(name_here(folder, old.model_checkpoint_path) or "")
        if latest is None:
            return None
        state = CheckpointState(
            latest,
            tuple(name for name, _ in kept),
            tuple(time for _, time in kept if time is not None) if times else (),
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


def name_latest(receipts: Iterable[Receipt]) -> str:
    """Name written checkpoints as the latest of their folder, in order.

    Returns:
        The path of the state file.

    Raises:
        CkptError: it cannot be read or written.
    """
    for receipt in receipts:
        state = planned_state(receipt.prefix)
        replace(state, prefix=receipt.address).write()
    return state.path
