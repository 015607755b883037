"""Programs that are not running: the objects of an object graph, with the values that they save.

The graph is that of a checkpoint which the program wrote, or it is made of the keys in a lock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from ckpttool.checkpoint.fitting import ValueSpec
from ckpttool.checkpoint.kinds.rules import Described
from ckpttool.checkpoint.matching import Program
from ckpttool.errors import UnsupportedError
from ckpttool.objects.graph import Attribute, Edge, Node, ObjectGraph, SlotVariable
from ckpttool.objects.keys import VARIABLE_VALUE, split_key, unescape
from ckpttool.query.check.lock import Lock
from ckpttool.query.match.plan import MatchAssumption
from ckpttool.tensor.dtypes import INT64, DType, dtype_of_name
from ckpttool.tensor.shape import Shape

T = TypeVar("T")

SAVE_COUNTER = "save_counter"
_PYTHON_STATE = "py_state"
# By these a node is known as an optimizer that has slot variables.
_POWERS = {"beta1_power", "beta2_power"}
_HYPER_PARAMETERS = {
    *("learning_rate", "decay", "beta_1", "beta_2", "momentum", "rho", "epsilon"),
}
_KERAS = {"_variables", "_iterations"}
_KERAS_3 = "_trainable_variables"


class PlannedProgram(Program[T], Protocol[T]):
    """What a plan asks of a program, besides what the matching does."""

    def start(self) -> tuple[T, Collection[tuple[str, T]]]:
        """Return the root, and edges from it that are not its own."""

    def objects(self, *, slots: bool) -> Iterator[tuple[str, T]]:
        """Yield path and object of all that can be reached."""

    def path(self, found: T) -> str | None:
        """Return the path of an object; None if none leads to it."""

    def values(self, found: T) -> Mapping[str, ValueSpec]:
        """Return what an object takes, by attribute."""

    def takes_any_name(self, found: T) -> bool:
        """Tell whether an object takes the first attribute, whatever its name."""

    def keeps_waiting(self, found: T) -> bool:
        """Tell whether what an object lacks may still be tracked."""

    def variable_name(self, found: T) -> str | None:
        """Return the full name of a variable; None for other objects."""

    def is_reached(self, found: T) -> bool:
        """Tell whether a load by names comes to an object."""

    def refusing(self) -> Sequence[str]:
        """Return the paths of optimizers that raised when they were offered a slot variable."""

    def assumed(self) -> Sequence[MatchAssumption]:
        """Return what was assumed."""


class StoredObject:
    """An object of a program that is a node of a graph; compared by identity.

    Attributes:
        node_id: the node.
    """

    __slots__ = ("node_id",)

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id


class StoredProgram:
    """The objects of a graph as a program.

    Args:
        graph: of the program.
        described: dtype and shape of its tensors by key.
        counting: whether it has a save counter in any case, as when it is restored.

        assumed: what was assumed of all of it.
    """

    def __init__(
        self,
        graph: ObjectGraph,
        described: Mapping[str, Described],
        *,
        counting: bool,
        assumed: Sequence[MatchAssumption] = (),
    ) -> None:
        self._graph = graph
        self._described = described
        columns = self._columns = graph.columns
        self._objects = [*map(StoredObject, range(len(columns)))]
        self._slots = {
            (owner, columns.slot_variables[at], columns.slot_names[at]): columns.slot_nodes[at]
            for owner, places in columns.optimizers.items()
            for at in places
        }
        root = dict(columns.children(0))
        # `Checkpoint(root)` adds an edge from its root to itself.
        self._has_root = root.get("root") == 0
        self._counter: StoredObject | None = None
        if counting and SAVE_COUNTER not in root:
            self._counter = StoredObject(len(columns))
        self._claims = graph.claims(described.keys())
        self._edges: dict[int, dict[str, StoredObject]] = {}
        self._takers: dict[int, bool] = {}
        # Variables share a few dtypes and shapes.
        self._known: dict[tuple[str, DType, Shape | None], Mapping[str, ValueSpec]] = {}
        self._assumed = [*assumed]
        self._refusing: list[str] = []

    def start(self) -> tuple[StoredObject, Collection[tuple[str, StoredObject]]]:
        """Return the root, and edges from it that are not its own."""
        counter = self._counter
        return self._objects[0], () if counter is None else ((SAVE_COUNTER, counter),)

    def objects(self, *, slots: bool) -> Iterator[tuple[str, StoredObject]]:
        """Yield path and object of all that have values and can be reached."""
        paths = self._graph.paths
        left_out = set() if slots else {*self._columns.slot_nodes}
        for node_id in self._columns.nodes_with_attributes():
            path = paths[node_id]
            if path is not None and node_id not in left_out:
                yield path, self._objects[node_id]
        if self._counter is not None:
            yield SAVE_COUNTER, self._counter

    def path(self, found: StoredObject) -> str | None:
        """Return the path of an object; None if none leads to it."""
        return SAVE_COUNTER if found is self._counter else self._graph.paths[found.node_id]

    def values(self, found: StoredObject) -> Mapping[str, ValueSpec]:
        """Return what an object takes: what its attributes name."""
        if found is self._counter:
            return self._values_like(VARIABLE_VALUE, INT64, ())
        columns = self._columns
        places = columns.attributes_of(found.node_id)
        if len(places) == 1:
            one = self._described.get(columns.keys[places.start])
            if one is not None:
                name = columns.attribute_names[places.start]
                return self._values_like(name, one.dtype, one.shape)
        values: dict[str, ValueSpec] = {}
        for at in places:
            key, name = columns.keys[at], columns.attribute_names[at]
            for owned in [key] if key in self._described else self._claims.continued.get(at, ()):
                one = self._described[owned]
                values |= self._values_like(name + owned[len(key) :], one.dtype, one.shape)
        return values

    def _values_like(self, name: str, dtype: DType, shape: Shape) -> Mapping[str, ValueSpec]:
        # Of all objects only variables insist on a shape; a Python state is one string.
        wanted = shape if name in (VARIABLE_VALUE, _PYTHON_STATE) else None
        known = self._known.get((name, dtype, wanted))
        if known is None:
            known = self._known[name, dtype, wanted] = {name: ValueSpec(dtype, wanted)}
        return known

    def takes_any_name(self, found: StoredObject) -> bool:
        """Tell whether an object takes the first attribute, whatever its name."""
        return self._only_attribute(found) == _PYTHON_STATE

    def _only_attribute(self, found: StoredObject) -> str | None:
        if found is self._counter:
            return VARIABLE_VALUE
        places = self._columns.attributes_of(found.node_id)
        return self._columns.attribute_names[places.start] if len(places) == 1 else None

    def keeps_waiting(self, found: StoredObject) -> bool:
        """Tell whether what an object lacks may still be tracked."""
        del found
        return True

    def variable_name(self, found: StoredObject) -> str | None:
        """Return the full name of a variable; None for other objects."""
        if self._only_attribute(found) != VARIABLE_VALUE:
            return None
        if found is self._counter:
            return SAVE_COUNTER
        return self._columns.full_names[self._columns.attributes_of(found.node_id).start]

    def is_reached(self, found: StoredObject) -> bool:
        """Tell whether a load by names comes to an object.

        It does not come to a save counter that is made afterwards beside a root.
        """
        return found is not self._counter or not self._has_root

    def refusing(self) -> Sequence[str]:
        """Return the paths of optimizers that raised when they were offered a slot variable."""
        return self._refusing

    def assumed(self) -> Sequence[MatchAssumption]:
        """Return what was assumed."""
        return self._assumed

    def edges(self, parent: StoredObject, path: Callable[[], str]) -> Mapping[str, StoredObject]:
        """Return the edges of an object."""
        del path
        if parent is self._counter or not self._columns.edges_of(parent.node_id):
            return {}
        # Several nodes of a checkpoint may stand for one object with many edges.
        known = self._edges.get(parent.node_id)
        if known is None:
            children = self._columns.children(parent.node_id)
            known = {name: self._objects[child] for name, child in children}
            self._edges[parent.node_id] = known
        return known

    def is_open(self, found: StoredObject) -> bool:
        """Tell whether an object takes all edges and slots: none does."""
        del found
        return False

    def new_object(self) -> StoredObject:
        """Return a new object, which nothing asks for as none is open."""
        return StoredObject(len(self._objects) + 1)

    def number(self, found: StoredObject) -> int:
        """Return the number of the newest load that restored an object: there is none."""
        del found
        return -1

    def takes_slots(self, owner: StoredObject, variable: StoredObject, *, waited: bool) -> bool:
        """Tell whether an object can have slot variables of another."""
        del variable
        known = self._takers.get(owner.node_id)
        if known is None:
            known = self._takers[owner.node_id] = self._is_taker(owner)
        path = self._graph.paths[owner.node_id] or ""
        # What is no optimizer is asked first, but not where the variable had to wait for it.
        if waited and not known and path not in self._refusing:
            self._refusing.append(path)
        return known

    def _is_taker(self, owner: StoredObject) -> bool:
        if owner is self._counter:
            return False
        columns, node_id = self._columns, owner.node_id
        names = {name for name, _ in columns.children(node_id)}
        if node_id in columns.optimizers or names >= _POWERS:
            return True
        if "iter" in names and names & _HYPER_PARAMETERS:
            return True
        path = self._graph.paths[node_id] or ""
        if not names and not columns.attributes_of(node_id):
            text = "has neither edges nor values: taken for an optimizer that has not run yet"
            self._assumed.append(MatchAssumption(path, text))
            return True
        if names >= _KERAS and _KERAS_3 not in names:
            self._refusing.append(path)
        return False

    def slot(self, owner: StoredObject, variable: StoredObject, name: str) -> StoredObject | None:
        """Return a slot variable if there is one."""
        node_id = self._slots.get((owner.node_id, variable.node_id, name))
        return None if node_id is None else self._objects[node_id]


def graph_of_lock(lock: Lock) -> ObjectGraph | None:
    """Return the object graph that the keys of a lock tell: a tree.

    None if no key is that of an object.
    """
    nodes = _Tree()
    for key in lock.tensors:
        parts = split_key(key)
        if parts is None:
            continue
        node_id = nodes.at(parts.path)
        if parts.slot is not None:
            owner = nodes.at(parts.slot.optimizer)
            node_id = nodes.slot(owner, node_id, unescape(parts.slot.name))
        end = len(key) - len(parts.suffix) if parts.suffix else len(key)
        name = unescape(parts.attribute)
        full_name = lock.tensors.variable_name(key) or ""
        nodes.attributes[node_id].setdefault(name, Attribute(name, full_name, key[:end]))
    return nodes.graph()


class LockedTensor(NamedTuple):
    """What a lock says of a tensor."""

    dtype: DType
    shape: Shape


def described_in_lock(lock: Lock) -> dict[str, LockedTensor]:
    """Return dtype and shape of the tensors of a lock.

    Raises:
        UnsupportedError: it names a dtype that is not known.
    """
    try:
        return {
            key: LockedTensor(dtype_of_name(dtype), shape)
            for key, dtype, shape in lock.tensors.described()
        }
    except KeyError as error:
        raise UnsupportedError(f"a dtype that is not known: {error}", path=lock.path) from error


class _Tree:
    """Nodes by their paths.

    Attributes:
        attributes: of each node, by name.
    """

    def __init__(self) -> None:
        self._ids: dict[tuple[int, str], int] = {}
        self._children: list[list[Edge]] = [[]]
        self._slots: dict[int, dict[tuple[int, str], int]] = {}
        self.attributes: list[dict[str, Attribute]] = [{}]

    def at(self, path: tuple[str, ...]) -> int:
        """Return the node at a path of escaped segments."""
        node_id = 0
        for segment in path:
            child = self._ids.get((node_id, segment))
            if child is None:
                child = self._ids[node_id, segment] = self._new()
                self._children[node_id].append(Edge(unescape(segment), child))
            node_id = child
        return node_id

    def slot(self, owner: int, variable: int, name: str) -> int:
        """Return the node of a slot variable."""
        slots = self._slots.setdefault(owner, {})
        node_id = slots.get((variable, name))
        if node_id is None:
            node_id = slots[variable, name] = self._new()
        return node_id

    def _new(self) -> int:
        self._children.append([])
        self.attributes.append({})
        return len(self._children) - 1

    def graph(self) -> ObjectGraph | None:
        """Return the graph; None without attributes."""
        if not any(self.attributes):
            return None
        return ObjectGraph(
            Node(
                node_id,
                tuple(children),
                tuple(attributes.values()),
                tuple(
                    SlotVariable(variable, name, slot)
                    for (variable, name), slot in self._slots.get(node_id, {}).items()
                ),
            )
            for node_id, (children, attributes) in enumerate(
                zip(self._children, self.attributes, strict=True)
            )
        )
