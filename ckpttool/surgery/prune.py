"""Dropping tensors."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from typing import NamedTuple

from ckpttool.checkpoint.select import Rule, Selector
from ckpttool.errors import SurgeryError
from ckpttool.meta.object_graph import Attribute
from ckpttool.meta.object_keys import GRAPH_KEY
from ckpttool.surgery.graph_drops import AttributeId, drop_attributes
from ckpttool.surgery.plan import Plan, refuse_disputes

SLOT_KINDS = frozenset({"slot"})
OPTIMIZER_KINDS = frozenset({"slot", "optimizer"})
WEIGHT_KINDS = frozenset({"weight"})
# Without it TensorFlow's `restore` finds fault with what is left.
_SAVE_COUNTER = "save_counter/.ATTRIBUTES/VARIABLE_VALUE"


class _Name(NamedTuple):
    """What tensors are selected by."""

    key: str
    object_path: str | None
    kind: str


def select_drops(
    plan: Plan,
    *,
    drop: tuple[str, ...] = (),
    keep: tuple[str, ...] = (),
    drop_kinds: Set[str] = frozenset(),
    only_kinds: Set[str] = frozenset(),
) -> frozenset[str]:
    """Return the source keys of the tensors to drop.

    What `keep` selects stays in any case; with nothing else given, all else goes but the save
    counter of an object-based checkpoint. The slot variables of a variable that goes go with it.

    Args:
        plan: the plan.
        drop: patterns of tensors to drop.
        keep: patterns of tensors to keep.
        drop_kinds: kinds to drop; averages that an optimizer keeps go with its slots.
        only_kinds: if any, all other kinds are dropped; but the save counter of an object-based
            checkpoint stays.

    Raises:
        SelectionError: a pattern selects nothing.
    """
    rows = [
        _Name(key, plan.source.object_path(key), kind)
        for key, kind in plan.kinds.items()
        if key != GRAPH_KEY
    ]
    counter = {_SAVE_COUNTER} if plan.graph is not None else set()
    going = _selected(rows, drop)
    going |= {row.key for row in rows if row.kind in drop_kinds}
    if drop_kinds >= SLOT_KINDS:
        going |= {average.key for average in plan.source.averages if average.optimizer}
    if only_kinds:
        going |= {row.key for row in rows if row.kind not in only_kinds} - counter
    staying = _selected(rows, keep)
    if keep and not (drop or drop_kinds or only_kinds):
        going = {row.key for row in rows} - counter
    going -= staying
    return frozenset(going | (_orphaned_slots(plan, going) - staying))


def _orphaned_slots(plan: Plan, going: set[str]) -> set[str]:
    """Return the slot variables of variables that go altogether: nothing could take them in."""
    if plan.graph is None or not going:
        return set()
    source_key = {tensor.key: tensor.source_key for tensor in plan.tensors}
    held: dict[int, set[str]] = {}
    for key, (node_id, _) in plan.graph.claims(source_key.keys()).owners.items():
        held.setdefault(node_id, set()).add(source_key[key])
    orphans = (
        held.get(link.slot_id, set())
        for link in plan.graph.slots
        if held.get(link.variable_id) and held[link.variable_id] <= going
    )
    return set().union(*orphans)


def prune(plan: Plan, dropped: Set[str]) -> Plan:
    """Return the plan without some tensors.

    In an object-based checkpoint attributes without tensors, references to slot variables and
    objects that hold nothing any more leave the graph, so that TensorFlow restores what is left.

    Args:
        plan: the plan.
        dropped: source keys of the tensors.

    Raises:
        SurgeryError: nothing would be left, or half of what a hash table holds.
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
    held = {_attribute_id(claims.owners[t.key]) for t in left if t.key in claims.owners}
    gone = {claims.owners[t.key][1].checkpoint_key for t in going if t.key in claims.owners}
    # Damage may have more than one object claim a key: then none of them has the tensor any more.
    lost = {
        (node.id, attribute.name)
        for node in plan.graph.nodes
        for attribute in node.attributes
        if attribute.checkpoint_key in gone
    }
    for tensor in going:
        if tensor.key in claims.owners and _attribute_id(claims.owners[tensor.key]) in held:
            raise SurgeryError(
                "TensorFlow restores the tensors of this object together or not at all; drop all "
                "of them",
                path=plan.source.prefix,
                key=tensor.source_key,
            )
    notes = _notes_on_averages(plan, dropped)
    if any(tensor.key not in claims.owners for tensor in going):
        notes.append("tensors that a saver of the program's own wrote were dropped")
    graph = drop_attributes(plan.graph, lost)
    return refuse_disputes(replace(plan, tensors=left, graph=graph).with_notes(*notes))


def _notes_on_averages(plan: Plan, dropped: Set[str]) -> list[str]:
    """Return a note if averages go whose weights stay: they may be the better weights."""
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


def _selected(rows: list[_Name], patterns: tuple[str, ...]) -> set[str]:
    if not patterns:
        return set()
    return {row.key for row in Selector(map(Rule, patterns)).select(rows)}


def _attribute_id(owner: tuple[int, Attribute]) -> AttributeId:
    node_id, attribute = owner
    return node_id, attribute.name
