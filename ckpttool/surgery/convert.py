"""Bringing checkpoints of old forms up to date, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from ckpttool.checkpoint.open import Checkpoint
from ckpttool.errors import SurgeryError
from ckpttool.surgery.flattening import flatten
from ckpttool.surgery.like.reference import follow
from ckpttool.surgery.maps.reading import refuse_layouts
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.renaming import rename
from ckpttool.surgery.rules import MoveRule, RenameRule
from ckpttool.surgery.writing.prepare import WriteOptions
from ckpttool.surgery.writing.recoding.payloads import payloads
from ckpttool.surgery.writing.recoding.spread import Recoding
from ckpttool.tensor.dtypes import STRING

TargetForm = Literal["v2", "v1", "name-based"]
TARGET_FORMS: tuple[TargetForm, ...] = ("v2", "v1", "name-based")


def plan_conversion(
    source: Checkpoint,
    to: TargetForm,
    *,
    like: Checkpoint | None = None,
    rules: Sequence[RenameRule] = (),
    number: int = 1,
    strict: bool = False,
    by_order: bool = False,
    fill: bool = False,
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
        strict: with `like`, refuse to leave anything out.
        by_order: with `like`, take the order of tensors that several places would fit.
        fill: with `like`, keep its values where the source has none.

    Raises:
        SurgeryError: there is no such way.
        CkptError: as renaming, following and flattening do.
    """
    plan = Plan.of(source)
    refuse_layouts(source, rules)
    moves = {rule.old: rule.new for rule in rules if isinstance(rule, MoveRule)}
    others = [rule for rule in rules if not isinstance(rule, MoveRule)]
    if like is not None:
        if others:
            plan = rename(plan, others)
        return follow(
            plan, like, moves, save_counter=number, strict=strict, by_order=by_order, fill=fill
        )
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
