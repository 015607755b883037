"""Notes on tensors without a place, and places without a tensor."""

from __future__ import annotations

from collections.abc import Iterable

from ckpttool.checkpoint.kinds.rules import KINDS
from ckpttool.checkpoint.nearest import listed, nearest_names, quoted
from ckpttool.objects.keys import attribute_key
from ckpttool.surgery.like.places import Place, Places
from ckpttool.surgery.plan import Plan, PlannedTensor

# TensorFlow's `restore` creates this variable itself, and needs its value.
SAVE_COUNTER = attribute_key("save_counter")
SCALED_MOMENTUM = (
    "momentum is carried over as it is, but Keras keeps it multiplied by the negative learning "
    "rate: the first steps of further training will differ"
)
_SHOWN = 5


def tensors_left(
    plan: Plan, tensors: Iterable[PlannedTensor], places: Places, free: Iterable[Place]
) -> list[str]:
    """Return a note for each kind of tensors without a place, and for weights near misses.

    Args:
        plan: the plan as it was.
        tensors: those without a place.
        places: the places of the reference.
        free: the places that no tensor took.
    """
    names = [_name_of(place, places) for place in free]
    notes = []
    named = ((plan.kinds[each.source_key], plan.short_name(each.key)) for each in tensors)
    for kind, left in _by_kind(named):
        note = f"no place in the reference, left out: {kind} ({len(left)}): {listed(left)}"
        near = {one: nearest_names(one, names) for one in left[:_SHOWN]} if kind == "weight" else {}
        hints = [f"near to '{one}': {quoted(found)}" for one, found in near.items() if found]
        notes.append("; ".join([note, *hints]))
    return notes


def places_left(places: Places, free: Iterable[Place], *, filled: bool) -> list[str]:
    """Return a note for each kind of places without a tensor.

    Args:
        places: the places of the reference.
        free: those that no tensor took.
        filled: whether they keep the values of the reference.
    """
    fate = "as in the reference" if filled else "left out of the graph"
    kinds = places.reference.graph_kinds
    names_of = {place.key: places.short_name(place.key) for place in free}
    names_of.pop(SAVE_COUNTER, None)
    named = ((kinds[key], name) for key, name in names_of.items())
    notes = [
        f"no value in the source, {fate}: {kind} ({len(names)}): {listed(names)}"
        for kind, names in _by_kind(named)
    ]
    if places.graph.columns.savers:
        notes.append("objects that a function of the program saves are left out of the graph")
    return notes


def _by_kind(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    found: dict[str, list[str]] = {}
    for kind, name in pairs:
        found.setdefault(kind, []).append(name)
    return sorted(found.items(), key=lambda item: KINDS.index(item[0]))


def _name_of(place: Place, places: Places) -> str:
    """Return the name that a rule may call a place by."""
    name = place.attribute.full_name
    return name if len(places.by_name.get(name, ())) == 1 else places.short_name(place.key)
