"""Bringing checkpoints of old forms up to date, and back."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Literal

from ckpttool.checkpoint.folder import checkpoint_name, list_checkpoints
from ckpttool.checkpoint.locate import Location, locate
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.errors import MissingFileError, SurgeryError
from ckpttool.meta.state import STATE_NAME, CheckpointState, format_state, read_state
from ckpttool.storage.staging import StagedFiles
from ckpttool.surgery.apply import WriteOptions
from ckpttool.surgery.flatten import flatten
from ckpttool.surgery.like import follow
from ckpttool.surgery.payloads import payloads
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.rename import rename
from ckpttool.surgery.rules import MoveRule, Rule
from ckpttool.surgery.spread import Recoding
from ckpttool.tensor.dtypes import STRING

Form = Literal["v2", "v1", "name-based"]
FORMS: tuple[Form, ...] = ("v2", "v1", "name-based")


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
    """Return what a path means: one checkpoint, or all of a folder.

    Args:
        path: anything that names a checkpoint. A folder means all checkpoints in it; one that has
            none means what it means elsewhere, such as the variables of a SavedModel.
        destination: prefix of the result; for a folder another folder, in which names are kept.

    Raises:
        MissingFileError: there is no checkpoint.
        CkptError: the path cannot be made out.
    """
    if os.path.isdir(path):
        found = list_checkpoints(path)
        if found:
            return [
                Conversion(locate(files.prefix), os.path.join(destination, files.name))
                for files in reversed(found)
            ]
    location = locate(path)
    if location.address == "state":
        raise MissingFileError("the checkpoints that its state file names are elsewhere", path=path)
    return [Conversion(location, destination)]


def plan_conversion(
    source: Checkpoint,
    to: Form,
    *,
    like: Checkpoint | None = None,
    rules: Sequence[Rule] = (),
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
        raise SurgeryError("the checkpoint is name-based already", path=source.prefix)
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


def conversion_options(plan: Plan, to: Form, recoding: Recoding, how: WriteOptions) -> WriteOptions:
    """Return how a conversion is written.

    Values are written anew only where they have to be: a checkpoint that is stored as it would be
    today keeps its data shards.

    Args:
        plan: what `plan_conversion` gave.
        to: likewise.
        recoding: a layout that was asked for.
        how: everything else.

    Raises:
        SurgeryError: nothing would be another than it is.
        CkptError: a string tensor is damaged.
    """
    if to == "v1":
        return replace(how, generation="V1", recoding=recoding)
    if recoding != Recoding() or not is_current(plan.source):
        return replace(how, generation="V2", recoding=recoding)
    return how


def changes_nothing(plan: Plan, how: WriteOptions) -> bool:
    """Tell whether writing a plan so would give what is there already."""
    return how.recoding is None and not plan.changes and plan.graph == plan.source.object_graph


def carry_state(folder: str, destination: str, names: Mapping[str, str]) -> str | None:
    """Write the state file for checkpoints that were converted into another folder.

    Order, times and the latest are those of the folder that they come from; paths are relative.

    Args:
        folder: where they come from.
        destination: where they are now.
        names: by the name of each there, what a state file calls it now.

    Returns:
        The path of the file; None where there was none, or it names none of them.

    Raises:
        CkptError: a state file cannot be read, or the new one not be written.
    """
    try:
        old = read_state(folder)
    except MissingFileError:
        return None
    times = old.all_model_checkpoint_timestamps
    kept = [
        (names[name], time)
        for path, time in zip_longest(old.all_model_checkpoint_paths, times)
        if path is not None and (name := checkpoint_name(path)) in names
    ]
    latest = names.get(checkpoint_name(old.model_checkpoint_path))
    if latest is None:
        return None
    state = CheckpointState(
        latest,
        tuple(name for name, _ in kept),
        tuple(time for _, time in kept if time is not None) if times else (),
        old.last_preserved_timestamp,
    )
    path = os.path.join(destination, STATE_NAME)
    with StagedFiles() as staged:
        file = staged.create(path)
        file.write(format_state(state).encode())
        file.take_permissions(os.path.join(folder, STATE_NAME))
        staged.commit(replace_last=True)
    return path
