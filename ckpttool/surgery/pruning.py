"""Dropping tensors."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import replace

from ckpttool.checkpoint.kinds.rules import OPTIMIZER_KINDS, SLOT_KINDS
from ckpttool.checkpoint.selection.select import Choice, Listed, SelectionRule, Selector
from ckpttool.errors import SelectionError, SurgeryError
from ckpttool.objects.drops import drop_attributes
from ckpttool.surgery.choosing import PlannedName, chosen_keys, planned_names
from ckpttool.surgery.plan import Plan, refuse_disputes

WEIGHT_KINDS = frozenset({"weight"})
# Without it TensorFlow's `restore` complains about the rest.
_SHOWN = 3
_SAVE_COUNTER = "save_counter/.ATTRIBUTES/VARIABLE_VALUE"


def prune(
    plan: Plan,
    *,
    drop: str | Iterable[str] = (),
    keep: str | Iterable[str] = (),
    slots: bool = False,
    optimizer: bool = False,
    weights_only: bool = False,
    kinds: str | Iterable[str] = (),
) -> Plan:
    """Return the plan without some tensors; the arguments are the options of `ckpt prune`.

    Args:
        plan: what to start from.
        drop: patterns of tensors to drop.
        keep: patterns of tensors to keep in any case; alone, all others are dropped.
        slots: drop the slot variables of optimizers.
        optimizer: drop all optimizer state, slots included.
        weights_only: drop everything but weights.
        kinds: drop tensors of these kinds, of all or of those that `drop` selects.

    Raises:
        SelectionError: there is nothing to drop, or a pattern selects nothing.
        SurgeryError: nothing would be left, or half of what a hash table holds.
    """
    drop = (drop,) if isinstance(drop, str) else tuple(drop)
    keep = (keep,) if isinstance(keep, str) else tuple(keep)
    chosen = Selector.from_patterns(kinds=kinds).kinds
    if not (drop or keep or slots or optimizer or weights_only or chosen):
        raise SelectionError("nothing to drop: no pattern and no kind is given")
    dropped = select_drops(
        plan,
        drop=drop,
        keep=keep,
        drop_kinds=OPTIMIZER_KINDS if optimizer else SLOT_KINDS if slots else frozenset(),
        only_kinds=WEIGHT_KINDS if weights_only else frozenset(),
        among=chosen,
    )
    return note_staying(drop_tensors(plan, dropped), drop, dropped)


def select_drops(
    plan: Plan,
    *,
    drop: tuple[str, ...] = (),
    keep: tuple[str, ...] = (),
    drop_kinds: Set[str] = frozenset(),
    only_kinds: Set[str] = frozenset(),
    among: Set[str] = frozenset(),
) -> frozenset[str]:
    """Return the source keys of the tensors to drop.

    `keep` always wins; given alone, it drops everything else except the save counter of an
    object-based checkpoint. In a scope that `drop` selects, a tensor with another path stays. The
    slot variables of a dropped variable or optimizer are dropped too.

    Args:
        plan: the plan.
        drop: patterns of tensors to drop.
        keep: patterns of tensors to keep.
        drop_kinds: kinds to drop; averages kept by an optimizer are dropped with its slots.
        only_kinds: if any, all other kinds are dropped, except the save counter of an object-based
            checkpoint.
        among: if any, `drop` drops tensors of these kinds only, and all of them without a pattern.

    Raises:
        SelectionError: a pattern selects nothing, or nothing that could be dropped.
    """
    if "graph" in among and plan.graph is not None:
        raise SelectionError(
            "the object graph stays as long as the checkpoint is object-based; "
            "`ckpt convert-legacy --to name-based` makes one without",
            path=plan.source.prefix,
        )
    rows = planned_names(plan)
    counter = {_SAVE_COUNTER} if plan.graph is not None else set()
    choice = _left_by(plan, rows, drop)
    going = {row.key for row in rows} - {row.key for row in choice.chosen}
    if drop and not (going or drop_kinds or only_kinds):
        raise SelectionError(
            f"nothing to drop: {_staying(plan, choice, frozenset()) or 'there is no pattern'}",
            path=plan.source.prefix,
        )
    if among:
        of_kind = {row.key for row in rows if row.kind in among}
        going = going & of_kind if drop else of_kind
    going |= {row.key for row in rows if row.kind in drop_kinds}
    if drop_kinds >= SLOT_KINDS:
        going |= {average.key for average in plan.source.averages if average.optimizer}
    if only_kinds:
        going |= {row.key for row in rows if row.kind not in only_kinds} - counter
    staying = chosen_keys(plan, keep, rows)
    if keep and not (drop or drop_kinds or only_kinds or among):
        going = {row.key for row in rows} - counter
    going -= staying
    scopes = choice.left_in[0].scopes if choice.left_in else frozenset()
    return frozenset(going | (_orphaned_slots(plan, going, scopes) - staying))


def note_staying(plan: Plan, drop: tuple[str, ...], dropped: Set[str]) -> Plan:
    """Return the plan with a note on tensors that stay although they lie in a dropped scope.

    Args:
        plan: the plan, before or after it was pruned.
        drop: patterns of tensors to drop.
        dropped: source keys of all dropped tensors.
    """
    note = _staying(plan, _left_by(plan, planned_names(plan), drop), dropped)
    return plan.with_notes(note) if note else plan


def _left_by(plan: Plan, rows: list[PlannedName], drop: tuple[str, ...]) -> Choice[PlannedName]:
    """Return what patterns of tensors to drop leave."""
    rules = [SelectionRule(pattern, include=False) for pattern in drop]
    return Selector(rules).choose([Listed(rows, plan.source)])


def _staying(plan: Plan, choice: Choice[PlannedName], dropped: Set[str]) -> str:
    """Return the note on tensors in dropped scopes that stay because of another path."""
    names = plan.source.graph_names
    held = [row for part in choice.left_in for row in part.rows if row.key not in dropped]
    if names is None or not held:
        return ""
    (part,) = choice.left_in
    shown = []
    for row in held[:_SHOWN]:
        name, other = row.object_path or row.key, names.name_outside(row.key, part.scopes)
        shown.append(f"'{name}'" if name == other else f"'{name}', which is '{other}'")
    more = f" and {len(held) - _SHOWN} more" if len(held) > _SHOWN else ""
    return (
        "what other paths lead to stays, unless it is named itself with '=' before it: "
        f"{'; '.join(shown)}{more}"
    )


def _orphaned_slots(plan: Plan, going: set[str], scopes: Set[int]) -> set[str]:
    """Return the slot variables of completely dropped variables and optimizers.

    Args:
        plan: the plan.
        going: source keys of the dropped tensors.
        scopes: the dropped objects.
    """
    if plan.graph is None or not going:
        return set()
    source_key = {tensor.key: tensor.source_key for tensor in plan.tensors}
    columns = plan.graph.columns
    held: dict[int, set[str]] = {}
    for key, at in plan.graph.claims(source_key.keys()).at.items():
        held.setdefault(columns.holder(at), set()).add(source_key[key])
    lost: Set[int] = frozenset()
    if scopes and plan.source.graph_names is not None:
        lost = columns.optimizers.keys() - plan.source.graph_names.reachable(scopes)
    orphans = (
        held.get(link.slot_id, set())
        for link in plan.graph.slots
        if link.optimizer_id in lost
        or (held.get(link.variable_id) and held[link.variable_id] <= going)
    )
    return set().union(*orphans)


def drop_tensors(plan: Plan, dropped: Set[str]) -> Plan:
    """Return the plan without some tensors.

    In an object-based checkpoint their attributes, and references to slot variables and objects
    without any tensor left, are removed from the graph, so that TensorFlow restores the rest.

    Args:
        plan: the plan.
        dropped: source keys of the tensors.

    Raises:
        SurgeryError: nothing would be left, or half of a hash table.
    """
    going = [tensor for tensor in plan.tensors if tensor.source_key in dropped]
    left = tuple(tensor for tensor in plan.tensors if tensor.source_key not in dropped)
    if not left:
        raise SurgeryError("nothing would be left of the checkpoint", path=plan.source.prefix)
    if not going:
        return plan
    if plan.graph is None:
        return replace(plan, tensors=left).with_notes(*_notes_on_averages(plan, dropped))
    claims = plan.graph.claims({tensor.key for tensor in plan.tensors})
    columns = plan.graph.columns
    held = {claims.at[tensor.key] for tensor in left if tensor.key in claims.at}
    gone = {columns.keys[claims.at[tensor.key]] for tensor in going if tensor.key in claims.at}
    # In a damaged graph several objects may claim a key: then all of them lose the tensor.
    lost = {
        (columns.holder(at), columns.attribute_names[at])
        for at, key in enumerate(columns.keys)
        if key in gone
    }
    for tensor in going:
        if claims.at.get(tensor.key) in held:
            raise SurgeryError(
                "TensorFlow restores the tensors of this object together or not at all; drop all "
                "of them",
                path=plan.source.prefix,
                key=tensor.source_key,
            )
    notes = _notes_on_averages(plan, dropped)
    if any(tensor.key not in claims.at for tensor in going):
        notes.append("tensors that a saver of the program's own wrote were dropped")
    graph = drop_attributes(plan.graph, lost)
    return refuse_disputes(replace(plan, tensors=left, graph=graph).with_notes(*notes))


def _notes_on_averages(plan: Plan, dropped: Set[str]) -> list[str]:
    """Return a note if averages are dropped whose weights stay: they may be the better weights."""
    going = [
        average
        for average in plan.source.averages
        if average.optimizer and average.key in dropped and average.weight not in dropped
    ]
    if not going:
        return []
    counted = "1 average goes" if len(going) == 1 else f"{len(going)} averages go"
    return [
        f"{counted} with the optimizer; `ckpt rename --promote-ema` before this puts averages in "
        "the place of the weights"
    ]
