"""Loads of a live program: what is read, checked and assigned together.

Everything is checked before anything is read, and everything is read before anything changes. So a
damaged checkpoint, or one that does not fit, leaves the program as it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from ckpttool.checkpoint.matching import GraphMatch, Load, SlotWait, Wait
from ckpttool.errors import MismatchError, MissingKeyError
from ckpttool.objects.graph import Node, ObjectGraph
from ckpttool.objects.keys import ATTRIBUTES, VARIABLE_VALUE, escape
from ckpttool.train.carried import Carried
from ckpttool.train.reading import SoundValues, Taking
from ckpttool.train.trackable import Trackable, ValueSpec, edges_at, makes_slots, tracking
from ckpttool.train.variable import Variable

if TYPE_CHECKING:
    from ckpttool.checkpoint.open import Checkpoint
    from ckpttool.tensor.dtypes import DType
    from ckpttool.tensor.shape import Shape
    from ckpttool.tensor.values import Array

_SHOWN = 5
_numbers = count()


class _LiveProgram:
    """The objects of this process."""

    def edges(self, parent: Trackable, path: str) -> Mapping[str, Trackable]:
        return edges_at(parent, path)

    def is_open(self, found: Trackable) -> bool:
        return isinstance(found, Carried)

    def new_object(self) -> Trackable:
        return Carried()

    def number(self, found: Trackable) -> int:
        return tracking(found).update_number

    def takes_slots(self, owner: Trackable, variable: Trackable) -> bool:
        return makes_slots(owner) and isinstance(variable, Variable | Carried)

    def slot(self, owner: Trackable, variable: Trackable, name: str) -> Trackable | None:
        slot: Trackable | None = owner.get_slot(variable, name)  # type: ignore[attr-defined]
        return slot


class GraphLoad(Load[Trackable]):
    """One reading of a checkpoint with an object graph.

    Args:
        source: the checkpoint.
        graph: its object graph.
        skip_slots: whether slot variables are left out.

    Attributes:
        unused: node ids and names of attributes that the objects of the nodes do not take.
        seconds: objects that were restored under a node that has another object, by `id`.
    """

    def __init__(self, source: Checkpoint, graph: ObjectGraph, *, skip_slots: bool) -> None:
        super().__init__(next(_numbers), graph, WeakValueDictionary(), skip_slots=skip_slots)
        self.source = source
        self.unused: list[tuple[int, str]] = []
        self.seconds: WeakValueDictionary[int, Trackable] = WeakValueDictionary()

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
        self._matching: GraphMatch[Trackable] = GraphMatch(_LiveProgram())
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

    def finish(self) -> None:
        """Check, read, and change loads and program.

        Raises:
            MismatchError: tensors do not fit.
            MissingKeyError: tensors are missing.
            CkptError: the checkpoint cannot be read.
        """
        takings, unused = self._takings()
        by_name, missing = self._takings_by_name()
        made = [self._taking_of_slot(wait) for wait in self._matching.new_slots]
        takings += by_name
        _check([*takings, *made])
        values = SoundValues([*takings, *made])
        new = [self._make_slot(wait) for wait in self._matching.new_slots]
        self._change(unused, missing)
        for wait, slot in zip(self._matching.new_slots, new, strict=True):
            wait.load.bound[wait.link.slot_id] = slot
        owned = zip(made, new, strict=True)
        takings += [
            taking._replace(found=slot)
            for taking, slot in owned
            if tracking(slot).update_number < taking.number
        ]
        values.assign(takings)

    def _takings(self) -> tuple[list[Taking], list[tuple[GraphLoad, int, str]]]:
        takings: list[Taking] = []
        unused: list[tuple[GraphLoad, int, str]] = []
        for load, node_id, found in self._matching.reads:
            assert isinstance(load, GraphLoad)
            node = load.graph.nodes[node_id]
            if isinstance(found, Carried):
                takings.append(_carrying(load, node_id, found))
                continue
            if not node.attributes:
                continue
            values = found._trackable_values()
            if values:
                keys = _keys(load, node, values, any_name=found._trackable_any_name)
                takings.append(
                    Taking(load.source, load.number, found, load.path(node_id), values, keys)
                )
            else:
                unused += [(load, node_id, one.name) for one in node.attributes]
        return takings, unused

    def _takings_by_name(self) -> tuple[list[Taking], list[tuple[NamedLoad, Trackable]]]:
        takings: list[Taking] = []
        missing: list[tuple[NamedLoad, Trackable]] = []
        newest: dict[int, int] = {}
        for load, found in self._named:
            number = newest.get(id(found), tracking(found).update_number)
            if load.number <= number:
                continue
            newest[id(found)] = load.number
            values = found._trackable_values()
            name = found._trackable_full_name
            if isinstance(found, Variable) and name in load.source.entries:
                takings.append(
                    Taking(load.source, load.number, found, name, values, {VARIABLE_VALUE: name})
                )
            elif values:
                missing.append((load, found))
        return takings, missing

    def _taking_of_slot(self, wait: SlotWait[Trackable]) -> Taking:
        load, node_id = wait.load, wait.link.slot_id
        assert isinstance(load, GraphLoad)
        if isinstance(wait.owner, Carried):
            return _carrying(load, node_id, None)
        key = load.graph.nodes[node_id].attributes[0].checkpoint_key
        if key not in load.source.entries:
            raise _missing(load, node_id, key)
        dtype, shape = load.source.reader.dtype_and_shape(key)
        values = {VARIABLE_VALUE: ValueSpec(dtype, shape)}
        return Taking(
            load.source, load.number, None, load.path(node_id), values, {VARIABLE_VALUE: key}
        )

    def _make_slot(self, wait: SlotWait[Trackable]) -> Trackable:
        owner, variable, load, link = wait
        slot = _PROGRAM.slot(owner, variable, link.slot_name)  # a load before may have made it
        if slot is None:
            assert isinstance(load, GraphLoad)
            dtype: DType | None = None
            shape: Shape = ()
            if not isinstance(owner, Carried):
                key = load.graph.nodes[link.slot_id].attributes[0].checkpoint_key
                dtype, shape = load.source.reader.dtype_and_shape(key)
            create = owner.create_slot  # type: ignore[attr-defined]
            slot = create(variable, link.slot_name, dtype, shape)
        assert isinstance(slot, Trackable)
        return slot

    def _change(
        self,
        unused: list[tuple[GraphLoad, int, str]],
        missing: list[tuple[NamedLoad, Trackable]],
    ) -> None:
        """Change the loads and the state of the objects, but no value."""
        matching = self._matching
        matching.commit()
        for load, _, found in matching.reads:
            tracking(found).update_number = max(tracking(found).update_number, load.number)
        for parent, name, child in matching.new_children:
            tracking(parent).edges[name] = child
        for wait in matching.waits:
            if wait.parent._trackable_waits:
                _wait(wait)
        for owner, variable, load, link in matching.slot_waits:
            assert isinstance(load, GraphLoad)
            slots = tracking(owner).pending_slots.setdefault(variable, {})
            slots.setdefault(link.slot_name, []).append(Waiting(load, link.slot_id))
        for load, conflict in matching.conflicts:
            if conflict.late and isinstance(load, GraphLoad):
                load.seconds[id(conflict.found)] = conflict.found
        for load, node_id, attribute in unused:
            load.unused.append((node_id, attribute))
        for named, found in self._named:
            tracking(found).inherited.append(named)
            tracking(found).update_number = max(tracking(found).update_number, named.number)
        for named, found in missing:
            named.missing[id(found)] = found


_PROGRAM = _LiveProgram()


def _wait(wait: Wait[Trackable]) -> None:
    load = wait.load
    assert isinstance(load, GraphLoad)
    pending = tracking(wait.parent).pending
    pending.setdefault(wait.name, []).append(Waiting(load, wait.node_id))


def _carrying(load: GraphLoad, node_id: int, found: Carried | None) -> Taking:
    node, path = load.graph.nodes[node_id], load.path(node_id)
    owned = load.owned.get(node_id, {})

    def give(found: Trackable, values: Mapping[str, Array]) -> None:
        assert isinstance(found, Carried)
        tensors = {
            one.name: [
                (key.removeprefix(one.checkpoint_key), values[key])
                for key in owned.get(one.name, ())
            ]
            for one in node.attributes
        }
        found.carry(node, path, tensors)

    keys = {key: key for named in owned.values() for key in named}
    return Taking(load.source, load.number, found, path, {}, keys, give)


def _keys(
    load: GraphLoad, node: Node, values: Mapping[str, ValueSpec], *, any_name: bool
) -> dict[str, str]:
    """Return the keys of an object's values.

    Raises:
        MissingKeyError: one is not in the checkpoint.
    """
    entries = load.source.entries
    first = node.attributes[0].checkpoint_key
    if any_name:
        if first not in entries:
            raise _missing(load, node.id, first)
        return dict.fromkeys(values, first)
    base = first.partition(ATTRIBUTES)[0] + ATTRIBUTES
    stored = {one.name: one.checkpoint_key for one in node.attributes}
    keys = {}
    for name in values:
        # TensorFlow escapes the names of tensor dicts once more in keys, and cannot find them.
        spellings = (stored.get(name, ""), base + escape(name), base + name)
        key = next((key for key in spellings if key in entries), None)
        if key is None:
            raise _missing(load, node.id, base + escape(name))
        keys[name] = key
    return keys


def _missing(load: GraphLoad, node_id: int, key: str) -> MissingKeyError:
    return MissingKeyError(
        f"the program's object '{load.path(node_id)}' takes this tensor, and it is not in the "
        "checkpoint; 'ckpt show' shows what the object saved; nothing was restored",
        path=load.source.prefix,
        key=key,
    )


def _check(takings: Sequence[Taking]) -> None:
    """Compare dtypes and shapes.

    Raises:
        MismatchError: some are not those of the program.
    """
    mismatches: list[dict[str, object]] = []
    place = ""
    for taking in takings:
        describe = taking.source.reader.dtype_and_shape
        for name, key in taking.keys.items():
            dtype, shape = describe(key)
            spec = taking.values.get(name)
            if spec is not None and not spec.fits(dtype, shape):
                place = taking.source.prefix
                mismatches.append(_mismatch(taking.path, key, dtype, shape, spec))
    if mismatches:
        told = "; ".join(
            f"'{one['path']}' is {one['dtype']} {one['shape']} in the checkpoint, "
            f"{one['target_dtype']} {one['target_shape']} in the program"
            for one in mismatches[:_SHOWN]
        )
        more = f"; and {len(mismatches) - _SHOWN} more" if len(mismatches) > _SHOWN else ""
        error = MismatchError(
            f"{told}{more}; change the program, or rename or drop these tensors with "
            "'ckpt rename' or 'ckpt prune'; nothing was restored",
            path=place,
            key=str(mismatches[0]["key"]) if len(mismatches) == 1 else None,
        )
        error.mismatches = mismatches
        raise error


def _mismatch(
    path: str, key: str, dtype: DType, shape: Shape, spec: ValueSpec
) -> dict[str, object]:
    return {
        "path": path,
        "key": key,
        "dtype": dtype.name,
        "shape": list(shape),
        "target_dtype": spec.dtype.name,
        "target_shape": None if spec.shape is None else list(spec.shape),
    }
