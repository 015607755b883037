"""Grafting: tensors of another checkpoint in place of those with the same names."""

from __future__ import annotations

from collections.abc import Mapping

from ckpttool.checkpoint.kinds.rules import OPTIMIZER_KINDS, SLOT_KINDS
from ckpttool.checkpoint.nearest import joined, listed
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.errors import SelectionError, SurgeryError
from ckpttool.surgery.edits.setting import refuse_second
from ckpttool.surgery.plan import Plan, PlannedTensor
from ckpttool.surgery.values import NewValue, StoredValue


def graft(plan: Plan, other: Checkpoint, theirs: str = "", ours: str | None = None) -> Plan:
    """Return the plan with the tensors of another checkpoint below a scope.

    The tensors below both scopes must have the same names there, dtypes and shapes; they need not
    be of the same style or format. Slot variables stay as they are, unless the scope holds nothing
    but what an optimizer keeps: momentum fits the weights it was made with.

    Args:
        plan: what to start from.
        other: the other checkpoint, open until the plan is written.
        theirs: a scope in it, or a tensor: a key, object path or variable name; "" for all.
        ours: the scope in the plan's source; the same if None.

    Raises:
        SelectionError: a scope selects nothing.
        SurgeryError: the tensors below the scopes do not agree, or have new values already.
    """
    ours = theirs if ours is None else ours
    source = Plan.of(other)
    found = _below(source, theirs)
    places = _below(plan, ours)
    left = [plan.short_name(places.pop(name).key) for name in _slots(plan, places)]
    for name in _slots(source, found):
        del found[name]
    _refuse_unlike(plan, places, other, found)
    values: dict[str, NewValue] = {}
    for name, tensor in places.items():
        refuse_second(plan, tensor)
        values[tensor.source_key] = StoredValue(other, found[name])
    planned = plan.with_values(values)
    if left:
        planned = planned.with_notes(f"slot variables stay as they were: {listed(left)}")
    return planned


def _below(plan: Plan, scope: str) -> dict[str, PlannedTensor]:
    """Return the tensors below a scope, by the rest of their names.

    Raises:
        SelectionError: there are none, or two have one name there.
    """
    found: dict[str, PlannedTensor] = {}
    scope = scope.rstrip("/")
    for tensor in plan.tensors:
        rest = _rest(plan.source, tensor.source_key, scope)
        if rest is None:
            continue
        if tensor.damage is not None:
            raise tensor.damage
        if rest in found:
            raise SelectionError(
                f"two tensors below '{scope}' are called '{rest}'", path=plan.source.prefix
            )
        found[rest] = tensor
    if not found:
        raise SelectionError(f"nothing lies below '{scope}'", path=plan.source.prefix)
    return found


def _rest(source: Checkpoint, key: str, scope: str) -> str | None:
    """Return what follows a scope in a name of a tensor; None if none begins with it."""
    path = source.object_path(key)
    short = key if path is None else path
    names = [short]
    if scope and not (short == scope or short.startswith(scope + "/")):
        names = [name for name in source.names_of(key) if name != key or path is None]
        names += filter(None, [source.variable_names.get(key)])
    for name in names:
        if not scope:
            return name
        if name == scope:
            return ""
        if name.startswith(scope + "/"):
            return name[len(scope) + 1 :]
    return None


def _slots(plan: Plan, tensors: Mapping[str, PlannedTensor]) -> list[str]:
    """Return the names of slot variables among tensors that are not all an optimizer's."""
    kinds = {name: plan.kinds[tensor.source_key] for name, tensor in tensors.items()}
    if set(kinds.values()) <= OPTIMIZER_KINDS | {"step"}:
        return []
    return [name for name, kind in kinds.items() if kind in SLOT_KINDS]


def _refuse_unlike(
    plan: Plan,
    places: Mapping[str, PlannedTensor],
    other: Checkpoint,
    found: Mapping[str, PlannedTensor],
) -> None:
    """Raise `SurgeryError` if the tensors of two scopes do not agree."""
    unlike = []
    for name in sorted(places.keys() | found.keys()):
        if name not in found:
            place = plan.short_name(places[name].source_key)
            unlike.append(f"'{other.prefix}' has nothing for '{place}'")
            continue
        theirs = found[name]
        if name not in places:
            path = other.object_path(theirs.key) or theirs.key
            unlike.append(f"there is no place for '{path}' of '{other.prefix}'")
            continue
        ours = places[name]
        if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
            unlike.append(
                f"'{plan.short_name(ours.source_key)}' is {ours.dtype} {list(ours.shape)}, and "
                f"{theirs.dtype} {list(theirs.shape)} in '{other.prefix}'"
            )
    if unlike:
        raise SurgeryError(joined(unlike), path=plan.source.prefix)
