"""Giving a checkpoint the objects of a reference.

The reference is a checkpoint of the program that will load the values. A tensor of a name-based
checkpoint goes to the variable with the same full name (its name in TensorFlow 1), or else to the
one with that object path; `objects` tells where those of an object-based one go. Slots go to the
slots of the reference's optimizer for the same variable, the step to its counter. Everything in
the resulting graph has a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ckpttool.checkpoint.nearest import joined, listed
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.coding.text import encode_text
from ckpttool.errors import SurgeryError
from ckpttool.objects.drops import drop_attributes, with_values
from ckpttool.objects.graph import ObjectGraph
from ckpttool.objects.keys import object_path
from ckpttool.surgery.like.matching import Matching
from ckpttool.surgery.like.notes import SAVE_COUNTER, places_left, tensors_left
from ckpttool.surgery.like.objects import ObjectMatching
from ckpttool.surgery.like.places import Place, Places
from ckpttool.surgery.plan import (
    AddedTensor,
    EmptyPlace,
    Placement,
    Plan,
    PlannedTensor,
    refuse_damage,
)
from ckpttool.surgery.values import StoredValue, int64_value

_NO_RULES: Mapping[str, str] = {}


def follow(
    plan: Plan,
    reference: Checkpoint,
    rules: Mapping[str, str] = _NO_RULES,
    *,
    save_counter: int = 1,
    strict: bool = False,
    by_order: bool = False,
    fill: bool = False,
) -> Plan:
    """Return a plan with the object graph and the keys of a reference.

    Tensors without a place in the reference are dropped, as are its objects without a tensor
    unless they are filled; notes name both.

    Args:
        plan: the plan.
        reference: an object-based checkpoint. Only its index and object graph are read, and what
            fills places.
        rules: for tensors whose names do not lead to their place: a mapping from keys, or scopes
            of keys, to full names, object paths or keys of the reference, or scopes of these. Of
            an object-based plan, object paths and full names are mapped in the same way. A rule
            for a variable applies to its slots, too.
        save_counter: how many checkpoints the program has saved, which `Checkpoint.restore` needs
            if the reference counts them; the number of an object-based source goes before.
        strict: refuse to leave anything out, of the source or of the reference.
        by_order: pair what several places of an object-based plan would fit in the order that it
            has in both programs.
        fill: keep the values of the reference where the source has none, instead of leaving its
            objects out. Then the reference must stay open until the plan is written.

    Raises:
        SelectionError: a rule matches no tensor, or no place in the reference.
        KeyCollisionError: two tensors would take the same place.
        SurgeryError: the reference is name-based, no weight gets a value, a tensor differs from
            its place in dtype or shape, or several places could be meant.
    """
    places = Places(reference)
    if plan.graph is None:
        matching: Matching | ObjectMatching = _of_names(plan, places, rules)
    else:
        matching = _of_objects(plan, places, rules, by_order=by_order)
    tensors = tuple(
        tensor.called(matching.placed[tensor.key])
        for tensor in plan.tensors
        if tensor.key in matching.placed
    )
    left = tensors_left(plan, matching.left, places, matching.free)
    _refuse_without_weights(plan, places, tensors, left)
    keys = {tensor.key for tensor in tensors}
    counted = SAVE_COUNTER in places.by_key and SAVE_COUNTER not in keys
    added: tuple[AddedTensor, ...] = ()
    if counted:
        added += (AddedTensor(SAVE_COUNTER, int64_value(save_counter)),)
    empty = _empty(places, matching.free)
    if fill:
        added += _kept(reference, empty)
    if strict:
        _refuse_leftovers(plan, matching.left, () if fill else empty)
    graph = _emptied(places, {*keys, *(each.key for each in added)})
    notes = (*matching.notes, *left, *places_left(places, matching.free, filled=fill))
    sources = {tensor.key: tensor.source_key for tensor in plan.tensors}
    placement = Placement(
        reference.prefix,
        {sources[key]: reason for key, reason in matching.reasons.items()},
        {key: place.attribute.full_name for key, place in places.by_key.items()},
        empty,
        fill,
    )
    return replace(plan, tensors=tensors, graph=graph, added=added, placement=placement).with_notes(
        *notes
    )


def _of_names(plan: Plan, places: Places, rules: Mapping[str, str]) -> Matching:
    """Return what becomes of the tensors of a name-based plan."""
    matching = Matching(plan, places)
    matching.by_rules(rules)
    matching.by_names(slots=False)
    matching.by_paths(slots=False)
    matching.by_slots()
    matching.by_names(slots=True)
    matching.by_paths(slots=True)
    matching.by_roles()
    _refuse_unlike(plan, places, matching.placed.items())
    return matching


def _of_objects(
    plan: Plan, places: Places, rules: Mapping[str, str], *, by_order: bool
) -> ObjectMatching:
    """Return what becomes of the tensors of an object-based plan."""
    refuse_damage(plan)  # a damaged tensor has no shape to go by, and must not get lost
    matching = ObjectMatching(plan, places)
    matching.by_rules(rules)
    matching.by_paths()
    matching.by_names()
    matching.by_shapes()
    if by_order:
        matching.by_order()
    matching.by_optimizers()
    _refuse_unlike(plan, places, [*matching.placed.items(), *matching.unlike()])
    matching.refuse_doubt()
    matching.note_shapes()
    return matching


def _empty(places: Places, free: Iterable[Place]) -> tuple[EmptyPlace, ...]:
    """Return the places without a value; the save counter gets one."""
    kinds = places.reference.graph_kinds
    return tuple(
        EmptyPlace(
            place.key,
            place.attribute.full_name,
            kinds[place.key],
            place.entry.dtype,
            place.entry.shape,
        )
        for place in free
        if place.key != SAVE_COUNTER
    )


def _kept(reference: Checkpoint, empty: Iterable[EmptyPlace]) -> tuple[AddedTensor, ...]:
    """Return the values that a reference has for places without one.

    Raises:
        CkptError: the reference is damaged there.
    """
    tensors = {tensor.key: tensor for tensor in Plan.of(reference).tensors}
    added = []
    for place in empty:
        tensor = tensors[place.key]
        if tensor.damage is not None:
            raise tensor.damage
        added.append(AddedTensor(place.key, StoredValue(reference, tensor)))
    return tuple(added)


def _refuse_leftovers(
    plan: Plan, left: Sequence[PlannedTensor], empty: Sequence[EmptyPlace]
) -> None:
    """Raise `SurgeryError` if a tensor has no place, or a place no tensor."""
    told = []
    if left:
        names = listed([plan.short_name(tensor.key) for tensor in left])
        told.append(f"no place in the reference ({len(left)}): {names}")
    if empty:
        names = listed([object_path(place.key) or place.key for place in empty])
        told.append(f"no value in the source ({len(empty)}): {names}")
    if told:
        raise SurgeryError("; ".join(told), path=plan.source.prefix)


def _refuse_without_weights(
    plan: Plan, places: Places, tensors: tuple[PlannedTensor, ...], left: list[str]
) -> None:
    """Refuse a result without weights: a matched step counter alone is no model.

    Raises:
        SurgeryError: one of the two has weights, and no tensor became a weight.
    """
    theirs = places.reference.graph_kinds
    ours = plan.kinds.values()
    if "weight" in theirs.values():
        reason = "no weight of the reference is called as a tensor of the source"
        found = any(theirs.get(tensor.key) == "weight" for tensor in tensors)
    else:
        reason = "nothing of the reference is called as a weight of the source"
        placed = {plan.kinds[tensor.source_key] for tensor in tensors}
        found = "weight" in placed or ("weight" not in ours and bool(tensors))
    if not found:
        raise SurgeryError("; ".join([reason, *left]), path=plan.source.prefix)


def _refuse_unlike(plan: Plan, places: Places, pairs: Iterable[tuple[str, str]]) -> None:
    """Raise `SurgeryError` if a tensor has another dtype or shape than its place."""
    tensors = {tensor.key: tensor for tensor in plan.tensors}
    unlike = []
    for key, place_key in sorted(pairs, key=lambda pair: encode_text(pair[0])):
        ours, place = tensors[key], places.by_key[place_key]
        theirs = place.entry
        if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
            unlike.append(
                f"'{plan.short_name(key)}' is {ours.dtype.name} {list(ours.shape)}, but "
                f"'{places.short_name(place.key)}' of the reference is {theirs.dtype.name} "
                f"{list(theirs.shape)}"
            )
    if unlike:
        raise SurgeryError(joined(unlike), path=plan.source.prefix)


def _emptied(places: Places, keys: set[str]) -> ObjectGraph:
    """Return the graph of the reference without the attributes that have no tensor.

    Raises:
        SurgeryError: an attribute has only half of its tensors.
    """
    owners = {key: (place.node_id, place.attribute.name) for key, place in places.by_key.items()}
    filled = {owner for key, owner in owners.items() if key in keys}
    halves = [key for key, owner in owners.items() if owner in filled and key not in keys]
    if halves:
        raise SurgeryError(
            "TensorFlow restores the tensors of this object together or not at all; there is none "
            f"for '{places.short_name(halves[0])}'"
        )
    graph = places.graph
    columns = graph.columns
    every = {
        (node_id, columns.attribute_names[at])
        for node_id in columns.nodes_with_attributes()
        for at in columns.attributes_of(node_id)
    }
    graph = drop_attributes(graph, every - filled)
    # What a function of the program's own restores has no attributes.
    emptied = with_values(graph.columns.without_savers(), before=graph.columns)
    return ObjectGraph.of(emptied, graph.unknown)
