"""Loads of a live program: what is read, checked and assigned together.

Everything is checked before anything is read, and everything is read before anything changes. So a
damaged checkpoint, or one that does not fit, leaves the program as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from ckpttool.checkpoint.matching import GraphMatch, Load, SlotWait, Wait
from ckpttool.errors import ContainerChangedError
from ckpttool.objects.graph import ObjectGraph
from ckpttool.objects.keys import VARIABLE_VALUE
from ckpttool.train.carried import Carried
from ckpttool.train.reading import SoundValues
from ckpttool.train.takings import Taking, carrying, check_takings, taking_of, taking_of_slot
from ckpttool.train.trackable import Trackable, edges_at, makes_slots, tracking
from ckpttool.train.variable import Variable

if TYPE_CHECKING:
    from ckpttool.checkpoint.open import Checkpoint

_numbers = count()


class LiveProgram:
    """The objects of this process, as the matching sees them."""

    def edges(self, parent: Trackable, path: Callable[[], str]) -> Mapping[str, Trackable]:
        """Return the edges of an object."""
        try:
            return parent._trackable_edges()
        except ContainerChangedError:
            return edges_at(parent, path())  # raises it with the path

    def is_open(self, found: Trackable) -> bool:
        """Tell whether an object takes all edges and slots that the checkpoint has for it."""
        return isinstance(found, Carried)

    def new_object(self) -> Trackable:
        """Return a new object of that sort."""
        return Carried()

    def number(self, found: Trackable) -> int:
        """Return the number of the newest load that restored an object."""
        return tracking(found).update_number

    def takes_slots(self, owner: Trackable, variable: Trackable, *, waited: bool) -> bool:
        """Tell whether an object can have slot variables of another."""
        del waited
        return makes_slots(owner) and isinstance(variable, Variable | Carried)

    def slot(self, owner: Trackable, variable: Trackable, name: str) -> Trackable | None:
        """Return a slot variable if there is one."""
        slot: Trackable | None = owner.get_slot(variable, name)  # type: ignore[attr-defined]
        return slot


class GraphLoad(Load[Trackable]):
    """One reading of a checkpoint with an object graph.

    Args:
        source: the checkpoint.
        graph: its object graph.
        skip_slots: whether slot variables are left out.
        reserved: edges that a carried root does not take.

    Attributes:
        unused: node ids and names of attributes that the objects of the nodes do not take.
        seconds: objects that were restored under a node that has another object, by `id`.
        created: nodes of slot variables that were made for it.
    """

    def __init__(
        self,
        source: Checkpoint,
        graph: ObjectGraph,
        *,
        skip_slots: bool,
        reserved: Collection[str] = (),
    ) -> None:
        super().__init__(
            next(_numbers),
            graph,
            WeakValueDictionary(),
            skip_slots=skip_slots,
            reserved=reserved,
        )
        self.source = source
        self.unused: list[tuple[int, str]] = []
        self.seconds: WeakValueDictionary[int, Trackable] = WeakValueDictionary()
        self.created: set[int] = set()

    @cached_property
    def owned(self) -> dict[int, dict[str, list[str]]]:
        """The keys of all tensors, by node and attribute, in the order of their bytes."""
        found: dict[int, dict[str, list[str]]] = {}
        entries = self.source.bundle.entries
        owners = self.graph.claims(entries.keys()).owners
        placed = {key: (entries[key].shard_id, entries[key].offset) for key in owners}
        for key in sorted(owners, key=placed.__getitem__):
            node_id, attribute = owners[key]
            found.setdefault(node_id, {}).setdefault(attribute.name, []).append(key)
        return found


class NamedLoad:
    """One reading of a checkpoint by the full names of variables.

    It waits in every object that it reached for those that are tracked there later.

    Args:
        source: the checkpoint.

    Attributes:
        number: higher than that of all loads before.
        missing: objects with values that the checkpoint does not have, by `id`.
    """

    def __init__(self, source: Checkpoint) -> None:
        self.number = next(_numbers)
        self.source = source
        self.missing: WeakValueDictionary[int, Trackable] = WeakValueDictionary()

    def resume(self, child: Trackable, older: Sequence[Waiting | NamedLoad]) -> None:
        """Restore an object that was just tracked, but nothing that hangs below it."""
        _resume(child, (self, *older))

    def join(self, transaction: Transaction, child: Trackable) -> None:
        """Make the restore of an object part of a transaction."""
        transaction.enter_by_name(self, child)


class Waiting:
    """A restore that waits for an object to be tracked.

    Args:
        load: of which it is part.
        node_id: the node that the object will have.

    Attributes:
        number: of the load.
    """

    __slots__ = ("_load", "_node_id", "number")

    def __init__(self, load: GraphLoad, node_id: int) -> None:
        self.number = load.number
        self._load = load
        self._node_id = node_id

    def resume(self, child: Trackable, older: Sequence[Waiting | NamedLoad]) -> None:
        """Restore an object that was just tracked, and all that hangs below it."""
        _resume(child, (self, *older))

    def join(self, transaction: Transaction, child: Trackable) -> None:
        """Make the restore of an object part of a transaction."""
        transaction.enter(self._load, self._node_id, child)


def _resume(child: Trackable, restores: Sequence[Waiting | NamedLoad]) -> None:
    transaction = Transaction()
    for restore in restores:
        restore.join(transaction, child)
    transaction.finish()


class Transaction:
    """Restores that happen together or not at all."""

    def __init__(self) -> None:
        self._matching: GraphMatch[Trackable] = GraphMatch(LiveProgram())
        self._named: list[tuple[NamedLoad, Trackable]] = []

    def enter(self, load: GraphLoad, node_id: int, found: Trackable) -> None:
        """Match a node and what follows from it.

        Raises:
            ContainerChangedError: a container on the way cannot be listed.
        """
        self._matching.enter(load, node_id, found)

    def bound(self, load: GraphLoad, node_id: int) -> Trackable | None:
        """Return the object of a node; None if it has none."""
        return self._matching.bound(load, node_id)

    def enter_by_name(self, load: NamedLoad, found: Trackable) -> None:
        """Restore one object by the full name that it has."""
        self._named.append((load, found))

    def check(self) -> None:
        """Check and read as `finish` does, and change nothing.

        Raises:
            CkptError: as of `finish`.
        """
        takings, _ = self._takings()
        check_takings(takings)
        SoundValues(takings)

    def finish(self) -> None:
        """Check, read, and change loads and program.

        Raises:
            MismatchError: tensors do not fit.
            MissingKeyError: tensors are missing.
            CkptError: the checkpoint cannot be read.
        """
        takings, unused = self._takings()
        by_name, missing = self._takings_by_name()
        waits = self._matching.new_slots
        of_slots = [self._taking_of_slot(wait) for wait in waits]
        takings += by_name
        check_takings([*takings, *of_slots])
        values = SoundValues([*takings, *of_slots])
        slots = [
            self._make_slot(wait, taking) for wait, taking in zip(waits, of_slots, strict=True)
        ]
        self._change(unused, missing)
        for wait, taking, slot in zip(waits, of_slots, slots, strict=True):
            wait.load.bound[wait.link.slot_id] = slot
            if isinstance(wait.load, GraphLoad):
                wait.load.created.add(wait.link.slot_id)
            state = tracking(slot)
            if state.update_number < wait.load.number:
                state.update_number = wait.load.number
                takings.append(taking._replace(found=slot))
        values.assign(takings)

    def _takings(self) -> tuple[list[Taking], list[tuple[GraphLoad, int]]]:
        """Return what is taken, and the nodes whose objects do not take what they have."""
        takings: list[Taking] = []
        unused: list[tuple[GraphLoad, int]] = []
        for load, node_id, found in self._matching.reads:
            assert isinstance(load, GraphLoad)
            taking = taking_of(load, node_id, found)
            if taking is None:
                unused.append((load, node_id))
            elif taking.keys or isinstance(found, Carried):
                takings.append(taking)
        return takings, unused

    def _takings_by_name(self) -> tuple[list[Taking], list[tuple[NamedLoad, Trackable]]]:
        takings: list[Taking] = []
        missing: list[tuple[NamedLoad, Trackable]] = []
        newest: dict[int, int] = {}
        for load, found in self._named:
            number = newest.get(id(found), self._matching.number(found))
            if load.number <= number:
                continue
            newest[id(found)] = load.number
            values = found._trackable_values()
            name = found._trackable_full_name
            if isinstance(found, Variable) and name in load.source.entries:
                takings.append(Taking(load, -1, found, values, {VARIABLE_VALUE: name}))
            elif values:
                missing.append((load, found))
        return takings, missing

    def _taking_of_slot(self, wait: SlotWait[Trackable]) -> Taking:
        load = wait.load
        assert isinstance(load, GraphLoad)
        if isinstance(wait.owner, Carried):
            return carrying(load, wait.link.slot_id, None)
        return taking_of_slot(load, wait.link.slot_id)

    def _make_slot(self, wait: SlotWait[Trackable], taking: Taking) -> Trackable:
        owner, variable, link = wait.owner, wait.variable, wait.link
        slot = _PROGRAM.slot(owner, variable, link.slot_name)  # a load before may have made it
        if slot is None:
            spec = taking.values.get(VARIABLE_VALUE)
            described = (None, ()) if spec is None else (spec.dtype, spec.shape)
            slot = owner.create_slot(variable, link.slot_name, *described)  # type: ignore[attr-defined]
        assert isinstance(slot, Trackable)
        return slot

    def _change(
        self,
        unused: list[tuple[GraphLoad, int]],
        missing: list[tuple[NamedLoad, Trackable]],
    ) -> None:
        """Change the loads and the state of the objects, but no value."""
        matching = self._matching
        matching.commit()
        for load, _, found in matching.reads:
            state = tracking(found)
            state.update_number = max(state.update_number, load.number)
        for new in matching.new_children:
            tracking(new.parent).edges[new.name] = new.child
        for wait in matching.waits:
            if wait.parent._trackable_waits:
                _wait(wait)
        for late in matching.slot_waits:
            assert isinstance(late.load, GraphLoad)
            slots = tracking(late.owner).pending_slots.setdefault(late.variable, {})
            slots.setdefault(late.link.slot_name, []).append(Waiting(late.load, late.link.slot_id))
        for load, conflict in matching.conflicts:
            if conflict.late and isinstance(load, GraphLoad):
                load.seconds[id(conflict.found)] = conflict.found
        for load, node_id in unused:
            columns = load.graph.columns
            names = (columns.attribute_names[at] for at in columns.attributes_of(node_id))
            load.unused += [(node_id, name) for name in names]
        for named, found in self._named:
            tracking(found).inherited.append(named)
            tracking(found).update_number = max(tracking(found).update_number, named.number)
        for named, found in missing:
            named.missing[id(found)] = found


_PROGRAM = LiveProgram()


def _wait(wait: Wait[Trackable]) -> None:
    load = wait.load
    assert isinstance(load, GraphLoad)
    pending = tracking(wait.parent).pending
    pending.setdefault(wait.name, []).append(Waiting(load, wait.node_id))
