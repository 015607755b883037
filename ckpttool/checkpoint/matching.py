"""Which object of a program each node of a stored object graph is.

Graph and program are walked side by side from the root, along edges of equal names. What the
program lacks waits: for an object under that name, for the owner of a slot variable, or for the
slot. The walk is the one of `tf.train.Checkpoint.restore`, over any program: live objects, the
objects of another graph, or a list of paths. Nothing here recurses.

A `Load` is one reading of a checkpoint with all that it has been matched with so far. The changes
of a `GraphMatch` to loads and program are made together, or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from ckpttool.objects.columns import STATES
from ckpttool.objects.graph import ObjectGraph, SlotLink
from ckpttool.objects.keys import VARIABLE_VALUE

T = TypeVar("T")


class Program(Protocol[T]):
    """What a checkpoint is matched with. Objects are compared by identity."""

    def edges(self, parent: T, path: Callable[[], str]) -> Mapping[str, T]:
        """Return the edges of an object; its path is for errors."""

    def is_open(self, found: T) -> bool:
        """Tell whether an object takes all edges and slots that the checkpoint has for it."""

    def new_object(self) -> T:
        """Return a new open object."""

    def number(self, found: T) -> int:
        """Return the number of the newest load that restored an object; -1 without one."""

    def takes_slots(self, owner: T, variable: T, *, waited: bool) -> bool:
        """Tell whether an object can have slot variables of another.

        Args:
            owner: the object.
            variable: the other one.
            waited: whether the variable was met before the owner.
        """

    def slot(self, owner: T, variable: T, name: str) -> T | None:
        """Return a slot variable if there is one."""


@dataclass(frozen=True, slots=True, eq=False)
class Conflict(Generic[T]):
    """A second object of the program for a node, which gets nothing.

    Attributes:
        node_id: the node.
        found: the object.
        late: whether it was met by itself, not along an edge of the program as it was then.
    """

    node_id: int
    found: T
    late: bool


class Load(Generic[T]):
    """One reading of a checkpoint, and what it was matched with so far.

    Args:
        number: higher than that of all loads before.
        graph: of the checkpoint.
        bound: where to keep the object of each node, by id.
        skip_slots: whether slot variables are left out.
        reserved: edges that an open root does not take, because the program has others for them.

    Attributes:
        matched: ids of the nodes that were matched, also if their objects are gone.
        coming: slot variables by the node of their variable, until that is matched.
        waiting: slot variables whose variable was matched, by the node of their owner.
    """

    def __init__(
        self,
        number: int,
        graph: ObjectGraph,
        bound: MutableMapping[int, T],
        *,
        skip_slots: bool = False,
        reserved: Collection[str] = (),
    ) -> None:
        self.number = number
        self.graph = graph
        self.bound = bound
        self.skip_slots = skip_slots
        self.reserved = reserved
        self.matched: set[int] = set()
        self.coming: dict[int, list[SlotLink]] = {}
        self.waiting: dict[int, list[tuple[SlotLink, T]]] = {}
        if not skip_slots:
            for link in graph.slots:
                self.coming.setdefault(link.variable_id, []).append(link)

    def path(self, node_id: int) -> str:
        """Return the path of a node."""
        return self.graph.path(node_id) or ""

    def unresolved(self) -> list[int]:
        """Return the nodes with attributes that were never matched."""
        known = self.matched
        if self.skip_slots:
            known = known.union(link.slot_id for link in self.graph.slots)
        return [each for each in self.graph.columns.nodes_with_attributes() if each not in known]

    def has_values(self, node_id: int) -> bool:
        """Tell whether a node or anything below it has values; of old graphs, whether it may."""
        columns = self.graph.columns
        stored = STATES[columns.states[node_id]]
        if stored is not None:
            return stored
        return bool(
            columns.edges_of(node_id)
            or columns.attributes_of(node_id)
            or node_id in columns.optimizers
            or node_id in columns.savers
        )

    def is_simple(self, node_id: int) -> bool:
        """Tell whether a node is that of a variable, with nothing below it."""
        columns = self.graph.columns
        names = [columns.attribute_names[at] for at in columns.attributes_of(node_id)]
        return names == [VARIABLE_VALUE] and not columns.edges_of(node_id)


@dataclass(frozen=True, slots=True, eq=False)
class Wait(Generic[T]):
    """An edge of the checkpoint for which the program has no object yet."""

    parent: T
    name: str
    load: Load[T]
    node_id: int


@dataclass(frozen=True, slots=True, eq=False)
class SlotWait(Generic[T]):
    """A slot variable that its owner has not made yet."""

    owner: T
    variable: T
    load: Load[T]
    link: SlotLink


@dataclass(frozen=True, slots=True, eq=False)
class NewChild(Generic[T]):
    """An edge of the checkpoint that an open object takes."""

    parent: T
    name: str
    child: T


@dataclass(slots=True)
class _Draft(Generic[T]):
    """What is to change of a load."""

    bound: dict[int, T] = field(default_factory=dict)
    matched: set[int] = field(default_factory=set)
    met: set[int] = field(default_factory=set)
    owners_met: set[int] = field(default_factory=set)
    waiting: dict[int, list[tuple[SlotLink, T]]] = field(default_factory=dict)


class GraphMatch(Generic[T]):
    """Changes of loads and of a program that are made together.

    Args:
        program: what is matched.

    Attributes:
        reads: nodes and the objects that take their values, in the order in which they were met.
        waits: what the program lacks.
        new_slots: slot variables to make with dtype and shape of the checkpoint.
        slot_waits: those that the owner has to make.
        new_children: edges to make.
        conflicts: second objects for nodes that have one.
    """

    def __init__(self, program: Program[T]) -> None:
        self._program = program
        self._drafts: dict[Load[T], _Draft[T]] = {}
        self._numbers: dict[int, int] = {}
        self.reads: list[tuple[Load[T], int, T]] = []
        self.waits: list[Wait[T]] = []
        self.new_slots: list[SlotWait[T]] = []
        self.slot_waits: list[SlotWait[T]] = []
        self.new_children: list[NewChild[T]] = []
        self.conflicts: list[tuple[Load[T], Conflict[T]]] = []

    def bound(self, load: Load[T], node_id: int) -> T | None:
        """Return the object of a node; None if it has none."""
        draft = self._drafts.get(load)
        found = None if draft is None else draft.bound.get(node_id)
        return load.bound.get(node_id) if found is None else found

    def number(self, found: T) -> int:
        """Return the number of the newest load that an object reads from."""
        known = self._numbers.get(id(found))
        return self._program.number(found) if known is None else known

    def enter(self, load: Load[T], node_id: int, found: T) -> None:
        """Match a node with an object, and all that follows from it.

        Args:
            load: the checkpoint.
            node_id: the node.
            found: the object.

        Raises:
            CkptError: the edges of an object cannot be listed.
        """
        draft = self._drafts.setdefault(load, _Draft())
        queue: list[tuple[int, T]] = []
        self._bind(load, draft, node_id, found, queue)
        for node_id, found in queue:
            self._note_read(load, node_id, found)
            # Also without any: a container that was changed fails in any case.
            edges = load.graph.columns.edges_of(node_id)
            self._match_children(load, draft, node_id, edges, found, queue)
            self._match_slots(load, draft, node_id, found, queue)

    def commit(self) -> None:
        """Change the loads; the program is for the caller to change."""
        for load, draft in self._drafts.items():
            load.bound.update(draft.bound)
            load.matched |= draft.matched
            for node_id in draft.met:
                load.coming.pop(node_id, None)
            for node_id in draft.owners_met:
                load.waiting.pop(node_id, None)
            for node_id, slots in draft.waiting.items():
                load.waiting.setdefault(node_id, []).extend(slots)

    def _bind(
        self,
        load: Load[T],
        draft: _Draft[T],
        node_id: int,
        found: T,
        queue: list[tuple[int, T]],
    ) -> None:
        """Bind a node to an object and queue both, if the node is not bound."""
        draft.matched.add(node_id)
        there = self.bound(load, node_id)
        if there is None:
            draft.bound[node_id] = found
            queue.append((node_id, found))
        elif there is not found:
            self.conflicts.append((load, Conflict(node_id, found, late=True)))

    def _note_read(self, load: Load[T], node_id: int, found: T) -> None:
        if load.number > self.number(found):
            self._numbers[id(found)] = load.number
            self.reads.append((load, node_id, found))

    def _match_children(
        self,
        load: Load[T],
        draft: _Draft[T],
        node_id: int,
        places: range,
        found: T,
        queue: list[tuple[int, T]],
    ) -> None:
        edges = self._program.edges(found, lambda: load.path(node_id))
        is_open = self._program.is_open(found)
        columns = load.graph.columns
        for at in places:
            name, target = columns.edge_names[at], columns.edge_targets[at]
            child = edges.get(name)
            there = self.bound(load, target)
            if child is None and is_open and not (node_id == 0 and name in load.reserved):
                child = self._program.new_object() if there is None else there
                self.new_children.append(NewChild(found, name, child))
            if there is not None:
                if child is not None and child is not there:
                    self.conflicts.append((load, Conflict(target, child, late=False)))
            elif child is not None:
                self._bind(load, draft, target, child, queue)
            elif load.has_values(target):
                self.waits.append(Wait(found, name, load, target))

    def _match_slots(
        self,
        load: Load[T],
        draft: _Draft[T],
        node_id: int,
        found: T,
        queue: list[tuple[int, T]],
    ) -> None:
        """Match the slots of which the node is the owner, and those of which it is the variable."""
        waiting = draft.waiting.pop(node_id, [])
        if node_id not in draft.owners_met:
            waiting += load.waiting.get(node_id, ())
            draft.owners_met.add(node_id)
        for link, variable in waiting:
            self._offer(load, draft, link, found, variable, queue, waited=True)
        if node_id in draft.met:
            return
        draft.met.add(node_id)
        for link in load.coming.get(node_id, ()):
            owner = self.bound(load, link.optimizer_id)
            if owner is None:
                draft.waiting.setdefault(link.optimizer_id, []).append((link, found))
            else:
                self._offer(load, draft, link, owner, found, queue, waited=False)

    def _offer(
        self,
        load: Load[T],
        draft: _Draft[T],
        link: SlotLink,
        owner: T,
        variable: T,
        queue: list[tuple[int, T]],
        *,
        waited: bool,
    ) -> None:
        if not self._program.takes_slots(owner, variable, waited=waited):
            return
        slot = self._program.slot(owner, variable, link.slot_name)
        if slot is not None:
            self._bind(load, draft, link.slot_id, slot, queue)
            return
        wait = SlotWait(owner, variable, load, link)
        if load.is_simple(link.slot_id) or self._program.is_open(owner):
            draft.matched.add(link.slot_id)
            self.new_slots.append(wait)
        else:
            self.slot_waits.append(wait)
