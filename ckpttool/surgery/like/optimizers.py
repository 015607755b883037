"""What optimizers keep in an object graph, under names that all generations of them share.

    one of TensorFlow 1, or of Keras up to 2.10   slot variables `m`, `v`; `iter`, `beta_1`
    tf_keras                                      lists `_momentums`, `_velocities`; `_iterations`
    Keras 3                                       the same, beside `_trainable_variables`

In tf_keras the name of a slot tells its variable, in Keras 3 its place in the list. What scales
the loss wraps an optimizer and belongs to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ckpttool.checkpoint.kinds.averages import AVERAGES_LIST, WEIGHTS_LIST
from ckpttool.checkpoint.kinds.rules import LEGACY_HYPER_PARAMETERS
from ckpttool.checkpoint.kinds.slots import Family, families_of_slots, family_of_lists
from ckpttool.objects.graph import ObjectGraph
from ckpttool.objects.keys import VARIABLE_VALUE
from ckpttool.tensor.shape import Shape

COUNTER = "iterations"
AVERAGE = "average"
_SPELLINGS = {
    "iter": COUNTER,
    "lr": "learning_rate",
    "current_loss_scale": "loss_scale",
    "dynamic_scale": "loss_scale",
    "step_counter": "good_steps",
    "momentum_cache": "u_product",
}
_WRAPPED = ("inner_optimizer", "base_optimizer", "_optimizer")
_LOSS_SCALE = "loss_scale"
_POWERS = frozenset({"beta1_power", "beta2_power"})
_VARIABLES = "_variables"


@dataclass(slots=True)
class KeptState:
    """What one optimizer keeps.

    Attributes:
        node_id: the optimizer; of one within another, the inner one.
        nodes: the objects that belong to it: itself, what wraps it, its lists.
        families: what it may be, by its slots.
        hypers: keys of its counter and its hyper-parameters.
        slots: keys of its slots, by the object of the variable and the name of the slot.
        further: keys of what else is its own.
    """

    node_id: int
    nodes: set[int]
    families: tuple[Family, ...] = ()
    hypers: dict[str, str] = field(default_factory=dict)
    slots: dict[tuple[int, str], str] = field(default_factory=dict)
    further: set[str] = field(default_factory=set)

    @property
    def keys(self) -> set[str]:
        """All that is its own."""
        return {*self.hypers.values(), *self.slots.values(), *self.further}

    @property
    def names(self) -> frozenset[str]:
        """The names of its slots, but for averages, which any optimizer may keep."""
        return frozenset(name for _, name in self.slots if name != AVERAGE)

    def may_be(self, other: KeptState) -> bool:
        """Tell whether the slots of both mean the same."""
        if self.families or other.families:
            return any(family in other.families for family in self.families)
        return self.names == other.names


def kept_states(
    graph: ObjectGraph, keys: Mapping[int, str], shapes: Mapping[int, Shape]
) -> tuple[KeptState, ...]:
    """Return what each optimizer of a graph keeps, in the order of the objects.

    Args:
        graph: the graph.
        keys: of variables, by the object.
        shapes: of these, by the object.
    """
    scalars = {node_id: key for node_id, key in keys.items() if not shapes[node_id]}
    columns = graph.columns
    slotted = set(columns.optimizers)
    found: dict[int, dict[str, int]] = {}
    for node_id in dict.fromkeys((*columns.parents_with_edges(), *columns.optimizers)):
        children = dict(columns.children(node_id))
        if node_id in slotted or _is_optimizer(children, scalars):
            found[node_id] = children
    within: dict[int, int] = {}
    for node_id, children in found.items():
        inner = next((children[name] for name in _WRAPPED if children.get(name) in found), None)
        if inner is not None and inner != node_id:
            within[inner] = node_id
    names = _NamedVariables(graph, shapes)
    states = []
    for node_id, children in found.items():
        if node_id in within.values():
            continue
        state = KeptState(node_id, {node_id})
        _take_slots(state, graph, keys)
        _take_lists(state, children, graph, keys, names)
        _take_scalars(state, children, graph, scalars)
        if node_id in within:
            outer = within[node_id]
            state.nodes.add(outer)
            lists = [child for name, child in found[outer].items() if name.startswith("_")]
            state.nodes.update(child for child in lists if child not in keys)
            _take_scalars(state, found[outer], graph, scalars)
        states.append(state)
    return tuple(states)


def _is_optimizer(children: Mapping[str, int], scalars: Mapping[int, str]) -> bool:
    held = {name for name, child in children.items() if child in scalars}
    return (
        "_iterations" in held
        or ("iter" in held and not LEGACY_HYPER_PARAMETERS.isdisjoint(held))
        or held >= _POWERS
    )


def _take_slots(state: KeptState, graph: ObjectGraph, keys: Mapping[int, str]) -> None:
    """Take what the graph has slot references for."""
    columns = graph.columns
    rows = columns.optimizers.get(state.node_id, range(0))
    names = {columns.slot_names[at] for at in rows}
    state.families = families_of_slots(names - {AVERAGE}) if names else ()
    for at in rows:
        key = keys.get(columns.slot_nodes[at])
        if key is not None:
            name = _shared_name(columns.slot_names[at], state.families)
            state.slots[columns.slot_variables[at], name] = key


def _shared_name(name: str, families: tuple[Family, ...]) -> str:
    position = families[0].position(name) if families else None
    return name if position is None else families[0].slots[position][0]


def _take_lists(
    state: KeptState,
    children: Mapping[str, int],
    graph: ObjectGraph,
    keys: Mapping[int, str],
    names: _NamedVariables,
) -> None:
    """Take what is in the lists of an optimizer of today's Keras."""
    columns = graph.columns
    if "_iterations" not in children:
        return
    lists = {
        name: sorted((int(n), c) for n, c in columns.children(child))
        for name, child in children.items()
        if child not in keys and all(n.isdecimal() for n, _ in columns.children(child))
    }
    state.nodes.update(children[name] for name in lists)
    variables = dict(lists.get(WEIGHTS_LIST, ()))
    family = family_of_lists(lists.keys())
    if family is not None and not state.families:
        state.families = (family,)
    own = {child for _, child in lists.get(_VARIABLES, ())}
    for name, members in lists.items():
        if name in (WEIGHTS_LIST, _VARIABLES):
            continue
        slot = _name_of_list(name, family)
        for at, child in members:
            key = keys.get(child)
            # A list may hold variables of the program, and the same in place of unused slots.
            if key is None or (own and child not in own):
                continue
            variable = variables.get(at) if variables else names.variable_of(child)
            if variable is not None:
                state.slots[variable, slot] = key
    state.further.update(keys[child] for child in own if child in keys)


def _name_of_list(name: str, family: Family | None) -> str:
    if name == AVERAGES_LIST:
        return AVERAGE
    if name == "_velocity_hats":
        return "vhat"
    if family is not None and name in family.lists:
        return family.slots[family.lists.index(name)][0]
    return name.lstrip("_")


def _take_scalars(
    state: KeptState, children: Mapping[str, int], graph: ObjectGraph, scalars: Mapping[int, str]
) -> None:
    """Take counter and hyper-parameters; what is taken already, of the inner optimizer, stays."""
    edges = list(children.items())
    scale = children.get(_LOSS_SCALE)
    if scale is not None and scale not in scalars:
        state.nodes.add(scale)
        edges += graph.columns.children(scale)
    for name, child in edges:
        key = scalars.get(child)
        if key is None or name == "global_step":
            continue
        bare = name.lstrip("_")
        if state.hypers.setdefault(_SPELLINGS.get(bare, bare), key) != key:
            state.further.add(key)


class _NamedVariables:
    """Variables by full names, to find those that the names of slots tell.

    Several may have the same name; then it is the one with the shape of the slot.
    """

    def __init__(self, graph: ObjectGraph, shapes: Mapping[int, Shape]) -> None:
        columns = graph.columns
        self._shapes = shapes
        self._names: dict[int, str] = {}
        self._by_name: dict[str, list[int]] = {}
        for node_id in shapes:
            for at in columns.attributes_of(node_id):
                if columns.attribute_names[at] == VARIABLE_VALUE and columns.full_names[at]:
                    self._names[node_id] = columns.full_names[at]
                    self._by_name.setdefault(columns.full_names[at], []).append(node_id)

    def variable_of(self, slot: int) -> int | None:
        """Return the variable of a slot such as `Adam/m/net/w` or `m/net/w`, if it is certain."""
        found = [
            node_id
            for ending in _endings(self._names.get(slot, ""))
            for node_id in self._by_name.get(ending, ())
            if self._shapes[node_id] == self._shapes[slot]
        ]
        return found[0] if len(found) == 1 else None


def _endings(name: str) -> Iterator[str]:
    """Yield a name without its first segment, and without its first two."""
    parts = name.split("/", 2)
    for cut in range(1, len(parts)):
        yield "/".join(parts[cut:])


def paired_states(
    ours: Iterable[KeptState], theirs: Iterable[KeptState], nodes: Mapping[int, int]
) -> tuple[list[tuple[KeptState, KeptState]], list[KeptState]]:
    """Return which optimizer of one side is which of the other, and those in doubt.

    They are if the same path leads to both, if they keep slots for the same variables and no
    others do, or if there is but one of each.

    Args:
        ours: the optimizers of the source.
        theirs: those of the reference.
        nodes: objects of the reference by those of the source that they were paired with.
    """
    left, free = list(ours), list(theirs)
    pairs: list[tuple[KeptState, KeptState]] = []

    def take(one: KeptState, found: list[KeptState], rivals: list[KeptState]) -> None:
        if len(found) == 1 and rivals == [one]:
            left.remove(one)
            free.remove(found[0])
            pairs.append((one, found[0]))

    for one in list(left):
        reached = {nodes[node_id] for node_id in one.nodes if node_id in nodes}
        take(one, [other for other in free if reached & other.nodes], [one])
    for one in list(left):
        found = [other for other in free if _share(one, other, nodes)]
        take(one, found, [each for each in left if found and _share(each, found[0], nodes)])
    if len(left) == 1:
        take(left[0], list(free), list(left))
    return pairs, left if free else []


def _share(one: KeptState, other: KeptState, nodes: Mapping[int, int]) -> bool:
    """Tell whether two optimizers keep slots for the same variable."""
    theirs = {variable for variable, _ in other.slots}
    return any(nodes.get(variable) in theirs for variable, _ in one.slots)
