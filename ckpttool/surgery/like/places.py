"""The tensors of a reference checkpoint, as places for other tensors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from ckpttool.checkpoint.kinds.rules import Described
from ckpttool.checkpoint.kinds.slots import Family, families_of_slots, family_of_lists
from ckpttool.checkpoint.nearest import quoted
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.errors import SurgeryError
from ckpttool.objects.graph import Attribute, Node
from ckpttool.surgery.flattening import spelled

# The step counters of optimizers, by the edges that lead to them.
COUNTERS = frozenset({"iter", "iterations", "_iterations"})
# What optimizers of today's Keras call the slots in each list.
_WORDS = {
    "_momentums": ("m", "momentum"),
    "momentums": ("m", "momentum"),
    "_m": ("m", "momentum"),
    "_velocities": ("v", "velocity"),
    "_u": ("u", "norm"),
    "_average_gradients": ("average_gradient",),
    "_accumulators": ("accumulator",),
    "_linears": ("linear",),
    "_accumulated_grads": ("accumulated_grad",),
    "_accumulated_delta_vars": ("accumulated_delta_var",),
}


@dataclass(frozen=True, slots=True)
class Place:
    """A tensor of the reference.

    Attributes:
        key: its key.
        node_id: the object that it belongs to.
        attribute: the attribute of that object.
        entry: its dtype and shape.
    """

    key: str
    node_id: int
    attribute: Attribute
    entry: Described


@dataclass(frozen=True, slots=True)
class OptimizerSlots:
    """The slots that one optimizer of the reference keeps for one variable.

    Attributes:
        families: what the optimizer may be.
        keras: whether it is one of Keras.
        keys: of the slots, by position.
    """

    families: tuple[Family, ...]
    keras: bool
    keys: dict[int, str] = field(default_factory=dict)


# An optimizer, what it may be, and of one of its slots the variable, the position and the key.
_Slot = tuple[Node, tuple[Family, ...], int, int, str]


class Places:
    """All places of a reference; reads its index and its object graph.

    Args:
        reference: an object-based checkpoint.

    Attributes:
        reference: the same.
        graph: its object graph.
        by_key: the places.
        by_name: places by the full name of the variable. Several may have the same.

    Raises:
        SurgeryError: the reference is name-based.
        CkptError: its object graph is damaged.
    """

    def __init__(self, reference: Checkpoint) -> None:
        graph = reference.object_graph
        if graph is None:
            raise SurgeryError(
                "the reference has no object graph to follow: it is name-based",
                path=reference.prefix,
            )
        self.reference = reference
        self.graph = graph
        self.by_key: dict[str, Place] = {}
        self.by_name: dict[str, list[Place]] = {}
        for key, (node_id, attribute) in graph.claims(reference.entries.keys()).owners.items():
            if graph.paths[node_id] is None:
                continue
            place = Place(key, node_id, attribute, reference.entries[key])
            self.by_key[key] = place
            if attribute.full_name and key == attribute.checkpoint_key:
                self.by_name.setdefault(attribute.full_name, []).append(place)

    def find(self, name: str) -> Place | None:
        """Return the place with a full name or, if there is none, with a key or an object path.

        Raises:
            SurgeryError: several variables have that full name.
        """
        named = self.by_name.get(name)
        if named is None:
            return self.by_key.get(self.reference.resolve(name)) if name in self.reference else None
        if len(named) > 1:
            raise self.ambiguous(name, named)
        return named[0]

    def at_path(self, name: str) -> Place | None:
        """Return the place with an object path, or what `flatten` makes a name of."""
        if name not in self._by_spelling and name in self.reference:
            return self.by_key.get(self.reference.resolve(name))
        return self._by_spelling.get(name)

    def ambiguous(self, name: str, places: list[Place]) -> SurgeryError:
        """Return the error that says that several variables have the same full name."""
        paths = quoted(self.short_name(place.key) for place in places[:5])
        more = f" and {len(places) - 5} more" if len(places) > 5 else ""
        return SurgeryError(
            f"{paths}{more} of the reference have the same full name '{name}'; say which is meant "
            "by its object path",
            path=self.reference.prefix,
        )

    def short_name(self, key: str) -> str:
        """Return the object path of a place, or its key where it has none."""
        return self.reference.object_path(key) or key

    def below(self, names: frozenset[str]) -> list[Place]:
        """Return the places of the variables that an edge of one of these names leads to."""
        nodes = {
            edge.node_id
            for node in self.graph.nodes
            for edge in node.children
            if edge.name in names
        }
        return [place for place in self.by_key.values() if place.node_id in nodes]

    def slots_of(self, node_id: int) -> list[OptimizerSlots]:
        """Return the slots of a variable, for each optimizer that keeps some."""
        return self._slots.get(node_id, [])

    @cached_property
    def slot_keys(self) -> frozenset[str]:
        """The keys of all places of slots."""
        linked = {self.graph.key_of_node(link.slot_id) for link in self.graph.slots}
        listed = {
            slots.keys[at] for each in self._slots.values() for slots in each for at in slots.keys
        }
        return frozenset(key for key in linked | listed if key is not None)

    @cached_property
    def _slots(self) -> dict[int, list[OptimizerSlots]]:
        found: dict[int, dict[int, OptimizerSlots]] = {}
        for optimizer, families, variable_id, position, key in (*self._linked(), *self._listed()):
            slots = found.setdefault(variable_id, {}).get(optimizer.id)
            if slots is None:
                keras = any(edge.name in COUNTERS for edge in optimizer.children)
                slots = found[variable_id][optimizer.id] = OptimizerSlots(families, keras)
            slots.keys[position] = key
        return {variable_id: list(slots.values()) for variable_id, slots in found.items()}

    def _linked(self) -> Iterator[_Slot]:
        """Yield the slots that the graph has references for."""
        for optimizer in self.graph.nodes:
            names = {slot.slot_name for slot in optimizer.slots}
            families = families_of_slots(names) if names else ()
            for slot in optimizer.slots if families else ():
                key = self.graph.key_of_node(slot.slot_id)
                position = families[0].position(slot.slot_name)
                if key in self.by_key and position is not None:
                    yield optimizer, families, slot.variable_id, position, key

    def _listed(self) -> Iterator[_Slot]:
        """Yield the slots that optimizers of today's Keras keep in lists.

        Which variable each belongs to is told by their names: for `net/w` these are `Adam/m/net/w`
        or `m/net/w`, and in Keras 3 `adam/net_w_momentum`.
        """
        for optimizer in self.graph.nodes:
            lists = {edge.name: edge.node_id for edge in optimizer.children}
            family = family_of_lists(lists.keys()) if "_iterations" in lists else None
            for position, name in enumerate(family.lists if family else ()):
                for edge in self.graph.nodes[lists[name]].children:
                    slot = self.by_key.get(self.graph.key_of_node(edge.node_id) or "")
                    variable = self._variable_of(slot, _WORDS[name]) if slot else None
                    if family and slot and variable:
                        yield optimizer, (family,), variable.node_id, position, slot.key

    def _variable_of(self, slot: Place, words: tuple[str, ...]) -> Place | None:
        """Return the variable that the full name of a slot tells; None if it is not certain."""
        first, _, rest = slot.attribute.full_name.partition("/")
        second, _, inner = rest.partition("/")
        found = []
        if first in words:
            found += self.by_name.get(rest, [])
        if second in words:
            found += self.by_name.get(inner, [])
        if not inner:
            stem, _, word = rest.rpartition("_")
            while stem and word not in words:
                stem, _, before = stem.rpartition("_")
                word = f"{before}_{word}"
            found += self._by_flat_name.get(stem, [])
        return found[0] if len(found) == 1 and found[0].entry.shape == slot.entry.shape else None

    @cached_property
    def _by_spelling(self) -> dict[str, Place]:
        return {spelled(key): place for key, place in self.by_key.items()}

    @cached_property
    def _by_flat_name(self) -> dict[str, list[Place]]:
        """Places by full names in which "_" stands for "/"."""
        found: dict[str, list[Place]] = {}
        for name, places in self.by_name.items():
            found.setdefault(name.replace("/", "_"), []).extend(places)
        return found
