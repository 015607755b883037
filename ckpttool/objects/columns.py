"""The nodes of an object graph, held by columns.

A graph has a node for each variable and each slot, a million of them in large checkpoints, and an
object for each node, edge and attribute would take several times the memory of the index. So the
edges of all nodes are columns, one behind another in the order of the nodes, and so are the
attributes and the slot variables; objects are made of them on demand.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, compress
from operator import sub
from typing import Literal, TypeVar, overload

from ckpttool.objects.nodes import (
    Attribute,
    Edge,
    Node,
    RegisteredSaver,
    SlotLink,
    SlotVariable,
)

# What a node says about values, as a number.
STATES: tuple[bool | None, ...] = (None, False, True)
_Part = Literal["node", "edge", "attribute", "slot"]
T = TypeVar("T")


def _ints() -> array[int]:
    return array("i")


def _starts() -> array[int]:
    return array("i", [0])


@dataclass(slots=True)
class GraphColumns:
    """The nodes of a graph.

    The edges of node `n` are at `edge_starts[n]` to `edge_starts[n + 1]` in the columns of edges,
    and so for attributes.

    Attributes:
        edge_starts: by node, and the number of all at the end.
        edge_names: unescaped.
        edge_targets: the node that each leads to.
        attribute_starts: by node, and the number of all at the end.
        attribute_names: by attribute; so are the next two.
        full_names: a variable's name in its program; empty for other objects.
        keys: of the tensors.
        optional: the positions of attributes that a program may do without.
        optimizers: node -> where its slots are in the columns of slots; in their order.
        slot_variables: the variable of each slot.
        slot_names: of each slot.
        slot_nodes: the slot variable itself.
        savers: by node.
        states: by node, what it says about values: a position in `STATES`.
        unknown: unknown fields, serialized, by what they are of and its position.
    """

    edge_starts: array[int] = field(default_factory=_starts)
    edge_names: list[str] = field(default_factory=list)
    edge_targets: array[int] = field(default_factory=_ints)
    attribute_starts: array[int] = field(default_factory=_starts)
    attribute_names: list[str] = field(default_factory=list)
    full_names: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    optional: set[int] = field(default_factory=set)
    optimizers: dict[int, range] = field(default_factory=dict)
    slot_variables: array[int] = field(default_factory=_ints)
    slot_names: list[str] = field(default_factory=list)
    slot_nodes: array[int] = field(default_factory=_ints)
    savers: dict[int, RegisteredSaver] = field(default_factory=dict)
    states: bytearray = field(default_factory=bytearray)
    unknown: dict[tuple[_Part, int], bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, nodes: Iterable[Node]) -> GraphColumns:
        """Return the columns of nodes."""
        columns = cls()
        for node in nodes:
            columns.append(node)
        return columns

    def __len__(self) -> int:
        return len(self.states)

    def append(self, node: Node) -> None:
        """Add a node; its id is its position."""
        at = len(self)
        unknown = self.unknown
        if node.unknown:
            unknown["node", at] = node.unknown
        for edge in node.children:
            if edge.unknown:
                unknown["edge", len(self.edge_names)] = edge.unknown
            self.edge_names.append(edge.name)
            self.edge_targets.append(edge.node_id)
        for one in node.attributes:
            if one.unknown:
                unknown["attribute", len(self.keys)] = one.unknown
            if one.optional_restore:
                self.optional.add(len(self.keys))
            self.attribute_names.append(one.name)
            self.full_names.append(one.full_name)
            self.keys.append(one.checkpoint_key)
        first = len(self.slot_names)
        for slot in node.slots:
            if slot.unknown:
                unknown["slot", len(self.slot_names)] = slot.unknown
            self.slot_variables.append(slot.variable_id)
            self.slot_names.append(slot.slot_name)
            self.slot_nodes.append(slot.slot_id)
        if node.saver is not None:
            self.savers[at] = node.saver
        self.close(first, STATES.index(node.has_values))

    def close(self, first_slot: int, state: int) -> None:
        """End a node, of which all edges, attributes and slots have been added."""
        self.edge_starts.append(len(self.edge_names))
        self.attribute_starts.append(len(self.keys))
        if first_slot < len(self.slot_names):
            self.optimizers[len(self)] = range(first_slot, len(self.slot_names))
        self.states.append(state)

    def edges_of(self, node_id: int) -> range:
        """Return where the edges of a node are."""
        return range(self.edge_starts[node_id], self.edge_starts[node_id + 1])

    def attributes_of(self, node_id: int) -> range:
        """Return where the attributes of a node are."""
        return range(self.attribute_starts[node_id], self.attribute_starts[node_id + 1])

    def children(self, node_id: int) -> Iterator[tuple[str, int]]:
        """Yield name and target of the edges of a node."""
        start, stop = self.edge_starts[node_id], self.edge_starts[node_id + 1]
        return zip(self.edge_names[start:stop], self.edge_targets[start:stop], strict=True)

    def parents_with_edges(self) -> Iterator[int]:
        """Yield the nodes that have edges, in order."""
        return _not_empty(self.edge_starts)

    def nodes_with_attributes(self) -> Iterator[int]:
        """Yield the nodes that have attributes, in order."""
        return _not_empty(self.attribute_starts)

    def source(self, edge: int) -> int:
        """Return the node that an edge belongs to."""
        return bisect_right(self.edge_starts, edge) - 1

    def holder(self, attribute: int) -> int:
        """Return the node that an attribute belongs to."""
        return bisect_right(self.attribute_starts, attribute) - 1

    def attribute(self, at: int) -> Attribute:
        """Return an attribute by its position."""
        return Attribute(
            self.attribute_names[at],
            self.full_names[at],
            self.keys[at],
            at in self.optional,
            self.unknown.get(("attribute", at), b""),
        )

    def edge(self, at: int) -> Edge:
        """Return an edge by its position."""
        unknown = self.unknown.get(("edge", at), b"")
        return Edge(self.edge_names[at], self.edge_targets[at], unknown)

    def node(self, node_id: int) -> Node:
        """Return a node."""
        return Node(
            node_id,
            tuple(map(self.edge, self.edges_of(node_id))),
            tuple(map(self.attribute, self.attributes_of(node_id))),
            tuple(map(self._slot, self.optimizers.get(node_id, ()))),
            self.savers.get(node_id),
            STATES[self.states[node_id]],
            self.unknown.get(("node", node_id), b""),
        )

    def _slot(self, at: int) -> SlotVariable:
        return SlotVariable(
            self.slot_variables[at],
            self.slot_names[at],
            self.slot_nodes[at],
            self.unknown.get(("slot", at), b""),
        )

    def with_keys(self, keys: list[str]) -> GraphColumns:
        """Return the columns with other keys of the attributes."""
        return self._replaced(keys=keys)

    def with_states(self, states: bytearray) -> GraphColumns:
        """Return the columns with other words about values."""
        return self._replaced(states=states)

    def without_savers(self) -> GraphColumns:
        """Return the columns without registered savers."""
        return self._replaced(savers={})

    def with_some_edges(self, flags: bytes | bytearray) -> GraphColumns:
        """Return the columns with some edges only: those with a flag that is not zero."""
        return self._replaced(
            edge_starts=_fewer(self.edge_starts, flags),
            edge_names=[*compress(self.edge_names, flags)],
            edge_targets=array("i", compress(self.edge_targets, flags)),
            unknown=self._moved_unknown("edge", flags),
        )

    def with_some_attributes(self, flags: bytes | bytearray) -> GraphColumns:
        """Return the columns with some attributes only."""
        number = [*accumulate(flags, initial=0)] if self.optional else []
        return self._replaced(
            attribute_starts=_fewer(self.attribute_starts, flags),
            attribute_names=[*compress(self.attribute_names, flags)],
            full_names=[*compress(self.full_names, flags)],
            keys=[*compress(self.keys, flags)],
            optional={number[at] for at in self.optional if flags[at]},
            unknown=self._moved_unknown("attribute", flags),
        )

    def with_some_slots(self, flags: bytes | bytearray) -> GraphColumns:
        """Return the columns with some slots only."""
        before = [0, *accumulate(flags)]
        optimizers = {
            node_id: range(before[slots.start], before[slots.stop])
            for node_id, slots in self.optimizers.items()
            if before[slots.start] < before[slots.stop]
        }
        return self._replaced(
            optimizers=optimizers,
            slot_variables=array("i", compress(self.slot_variables, flags)),
            slot_names=[*compress(self.slot_names, flags)],
            slot_nodes=array("i", compress(self.slot_nodes, flags)),
            unknown=self._moved_unknown("slot", flags),
        )

    def with_children(
        self, changed: Mapping[int, Sequence[Edge]], added: Sequence[Sequence[Edge]]
    ) -> GraphColumns:
        """Return the columns with other edges.

        Args:
            changed: the edges of some nodes.
            added: those of new nodes, which come last and hold nothing else.
        """
        out = self._replaced(
            edge_starts=_starts(),
            edge_names=[],
            edge_targets=_ints(),
            unknown={place: data for place, data in self.unknown.items() if place[0] != "edge"},
        )
        before = 0
        for node_id in sorted(changed):
            out._copy_edges(self, before, node_id)
            out._add_edges(changed[node_id])
            before = node_id + 1
        out._copy_edges(self, before, len(self))
        for edges in added:
            out._add_edges(edges)
        out.attribute_starts = self.attribute_starts + array("i", [len(self.keys)] * len(added))
        out.states = self.states + bytes(len(added))
        return out

    def _copy_edges(self, other: GraphColumns, first: int, stop: int) -> None:
        """Add the edges of some nodes of another graph."""
        start, end = other.edge_starts[first], other.edge_starts[stop]
        shift = len(self.edge_names) - start
        self.edge_names += other.edge_names[start:end]
        self.edge_targets += other.edge_targets[start:end]
        self.edge_starts.extend([at + shift for at in other.edge_starts[first + 1 : stop + 1]])
        for (part, at), data in other.unknown.items():
            if part == "edge" and start <= at < end:
                self.unknown["edge", at + shift] = data

    def _add_edges(self, edges: Sequence[Edge]) -> None:
        for edge in edges:
            if edge.unknown:
                self.unknown["edge", len(self.edge_names)] = edge.unknown
            self.edge_names.append(edge.name)
            self.edge_targets.append(edge.node_id)
        self.edge_starts.append(len(self.edge_names))

    def _moved_unknown(
        self, part: _Part, flags: bytes | bytearray
    ) -> dict[tuple[_Part, int], bytes]:
        if not self.unknown:
            return {}
        number = [*accumulate(flags, initial=0)]
        return {
            (each, number[at] if each == part else at): data
            for (each, at), data in self.unknown.items()
            if each != part or flags[at]
        }

    def _replaced(self, **columns: object) -> GraphColumns:
        out = GraphColumns.__new__(GraphColumns)
        for name in GraphColumns.__slots__:
            setattr(out, name, columns.get(name, getattr(self, name)))
        return out


def _not_empty(starts: array[int]) -> Iterator[int]:
    return compress(range(len(starts) - 1), map(sub, starts[1:], starts))


def _fewer(starts: array[int], flags: bytes | bytearray) -> array[int]:
    """Return where each node's begin when only those with a flag are left."""
    number = array("i", accumulate(map(bool, flags), initial=0))
    return array("i", map(number.__getitem__, starts))


class _View(Sequence[T]):
    """What is made of columns when it is looked at."""

    __slots__ = ("_make", "_places")

    def __init__(self, make: Callable[[int], T], places: range) -> None:
        self._make = make
        self._places = places

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[T, ...]: ...
    def __getitem__(self, at: int | slice) -> T | tuple[T, ...]:
        if isinstance(at, slice):
            return tuple(map(self._make, self._places[at]))
        return self._make(self._places[at])

    def __iter__(self) -> Iterator[T]:
        return map(self._make, self._places)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(tuple(self))


def view_nodes(columns: GraphColumns) -> Sequence[Node]:
    """Return the nodes of a graph, each made when it is looked at."""
    return _View(columns.node, range(len(columns)))


def view_slots(columns: GraphColumns) -> Sequence[SlotLink]:
    """Return the slot variables of all optimizers in their order, each made when looked at."""
    optimizers = [*columns.optimizers]
    starts = [slots.start for slots in columns.optimizers.values()]

    def make(at: int) -> SlotLink:
        optimizer = optimizers[bisect_right(starts, at) - 1]
        slot = columns.slot_variables[at], columns.slot_names[at], columns.slot_nodes[at]
        return SlotLink(optimizer, *slot)

    return _View(make, range(len(columns.slot_names)))
