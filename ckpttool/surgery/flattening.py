"""Object-based checkpoints made name-based, for programs of TensorFlow 1.

Every tensor gets its variable's full name from the object graph, which the Saver of TensorFlow 1
asks for. Slots have the full names that their optimizer gave them. A tensor without a full name
gets its object path, unescaped, in the style of TensorFlow 1:

    object path          name
    words/.table-keys    words-keys        as the Saver calls what a hash table "words" holds
    data/.ITERATOR_STATE data_STATE
    state/.py_state      state/py_state
    net/k.S2             net/k/2

So does each of several with the same full name, such as the variables "total" and "count" of Keras
metrics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ckpttool.checkpoint.nearest import listed, nearest_names, quoted
from ckpttool.errors import KeyCollisionError, SelectionError, SurgeryError
from ckpttool.objects.graph import ObjectGraph
from ckpttool.objects.keys import GRAPH_KEY, VARIABLE_VALUE, split_key, unescape
from ckpttool.surgery.plan import Plan

_NO_RULES: Mapping[str, str] = {}


def flatten(plan: Plan, rules: Mapping[str, str] = _NO_RULES) -> Plan:
    """Return an object-based plan without its graph, with full names for its tensors.

    Args:
        plan: the plan.
        rules: key or object path -> another name. The slots of a variable get matching names.

    Raises:
        KeyCollisionError: a rule gives two tensors one name, or two have one path.
        SelectionError: a rule matches nothing.
        SurgeryError: the plan is name-based, or a name is that of object graphs.
    """
    graph = plan.graph
    if graph is None:
        raise SurgeryError("already name-based", path=plan.source.prefix)
    keys = {tensor.key for tensor in plan.tensors}
    columns = graph.columns
    full_names = {
        key: columns.full_names[at]
        for key, at in graph.claims(keys).at.items()
        if columns.full_names[at] and key == columns.keys[at]
    }
    ruled = _ruled(plan, graph, rules)
    names = full_names | _slots_to_match(graph, full_names, ruled) | ruled
    shared = {key for key in _sharing(names) if key not in ruled}
    names = {key: name for key, name in names.items() if key not in shared}
    tensors = tuple(t.called(names.get(t.key) or spelled(t.key)) for t in plan.tensors)
    takers: dict[str, str] = {}
    for before, after in zip(plan.tensors, tensors, strict=True):
        if after.key == GRAPH_KEY:
            raise SurgeryError("that name is reserved for the object graph", key=before.key)
        other = takers.setdefault(after.key, before.key)
        if other != before.key:
            raise KeyCollisionError(
                f"{quoted(map(plan.short_name, (other, before.key)))} would both be called "
                f"'{after.key}'; give one another name by a rule",
                path=plan.source.prefix,
            )
    notes = []
    unnamed = [t.key for t in plan.tensors if t.key not in names and t.key not in shared]
    for why, found in (
        ("without a full name", unnamed),
        ("with a full name that others have too", sorted(shared)),
    ):
        if found:
            said = listed([plan.short_name(key) for key in found])
            notes.append(f"{why}, called by their object paths: {said}")
    return replace(plan, tensors=tensors, graph=None).with_notes(*notes)


def _sharing(names: Mapping[str, str]) -> list[str]:
    """Return the keys of tensors that share their name."""
    takers: dict[str, list[str]] = {}
    for key, name in names.items():
        takers.setdefault(name, []).append(key)
    return [key for keys in takers.values() if len(keys) > 1 for key in keys]


def _ruled(plan: Plan, graph: ObjectGraph, rules: Mapping[str, str]) -> dict[str, str]:
    """Return the names that rules give, by key."""
    keys = {tensor.key for tensor in plan.tensors}
    by_path = {plan.short_name(key): key for key in keys}
    found = {}
    for old, new in rules.items():
        node_id = graph.node_at(old)
        further = graph.key_of_node(node_id) if node_id is not None else None
        key = old if old in keys else by_path.get(old, further)
        if key is None or key not in keys:
            near = nearest_names(old, by_path)
            hint = f"; nearest: {quoted(near)}" if near else ""
            raise SelectionError(f"the rule '{old}={new}' matches nothing{hint}")
        found[key] = new
    return found


def _slots_to_match(
    graph: ObjectGraph, full_names: Mapping[str, str], ruled: Mapping[str, str]
) -> dict[str, str]:
    """Return names, by key, for the slots of variables that rules renamed."""
    found: dict[str, str] = {}
    for link in graph.slots:
        variable = graph.key_of_node(link.variable_id) or ""
        key = graph.key_of_node(link.slot_id) or ""
        if variable not in ruled or variable not in full_names or key not in full_names:
            continue
        old, new, name = full_names[variable], ruled[variable], full_names[key]
        if name.startswith(f"{old}/"):  # "w/Adam", of an optimizer of TensorFlow 1
            found[key] = new + name[len(old) :]
        elif name.endswith(f"/{old}/{link.slot_name}"):  # "Adam/w/m", of one of Keras
            found[key] = name[: -len(f"{old}/{link.slot_name}")] + f"{new}/{link.slot_name}"
    return found


def spelled(key: str) -> str:
    """Return the name that a tensor without a full name of its own gets."""
    part = split_key(key)
    if part is None:
        return key  # written by a function of the program, under its own name
    path = part.path if part.slot is None else (*part.path, part.slot.name)
    stem = "/".join(map(unescape, path))
    if part.suffix:
        return (stem or part.attribute) + part.suffix
    if part.attribute == VARIABLE_VALUE:
        return stem or VARIABLE_VALUE
    attribute = unescape(part.attribute)
    return f"{stem}/{attribute}" if stem else attribute
