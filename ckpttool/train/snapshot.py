"""What a program is at one moment, as a checkpoint holds it: its object graph and its tensors.

Nodes are numbered breadth first along the edges, slot variables last, and each object has the path
on which it was found first. Nothing here recurses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ckpttool.errors import CkptError, UntrackableError
from ckpttool.objects.columns import GraphColumns
from ckpttool.objects.drops import with_values
from ckpttool.objects.graph import Attribute, Edge, Node, ObjectGraph, SlotVariable
from ckpttool.objects.keys import GRAPH_KEY, attribute_key, escape, room_for_paths, slot_path
from ckpttool.tensor.values import object_array
from ckpttool.train.carried import Carried
from ckpttool.train.states import PYTHON_STATE
from ckpttool.train.trackable import Trackable, edges_at, owns_slots

if TYPE_CHECKING:
    from ckpttool.tensor.values import Array

# Edges from the root that are not its own.
Attached = Iterable[tuple[str, Trackable]]
# Returns the root of a program and those edges.
ProgramRoot = Callable[[], "tuple[Trackable, Sequence[tuple[str, Trackable]]]"]


@dataclass(frozen=True, slots=True)
class Reached:
    """The objects of a program that can be reached along edges, by node id.

    Attributes:
        nodes: the objects; the root is the first.
        paths: of each, as escaped segments.
        edges: of each, to the ids of others.
        ids: id(object) -> node id.
    """

    nodes: list[Trackable]
    paths: list[str]
    edges: list[tuple[Edge, ...]]
    ids: dict[int, int]

    def slots(self) -> Iterator[tuple[int, int, str, Trackable]]:
        """Yield the slot variables of all objects that own some, in the order of their nodes.

        Yields:
            Ids of the owner and of the variable, the slot's name, and the slot variable.
        """
        variables = [
            (node_id, node)
            for node_id, node in enumerate(self.nodes)
            if type(node).__hash__ is not None
        ]
        for owner_id, owner in enumerate(self.nodes):
            if owns_slots(owner):
                for name in owner.get_slot_names():  # type: ignore[attr-defined]
                    for node_id, node in variables:
                        slot = owner.get_slot(node, name)  # type: ignore[attr-defined]
                        if slot is not None:
                            yield owner_id, node_id, name, slot


def reached_from(root: Trackable, attached: Attached = ()) -> Reached:
    """Walk the edges from an object.

    Args:
        root: the object.
        attached: further edges of it.

    Raises:
        ContainerChangedError: a container on the way cannot be listed.
    """
    nodes, paths, ids = [root], [""], {id(root): 0}
    edges: list[tuple[Edge, ...]] = []
    length = 0
    for node in nodes:
        path = paths[len(edges)]
        length += len(path)
        if length > room_for_paths(len(nodes)):
            raise UntrackableError("the objects form a chain so long that their paths have no room")
        prefix = f"{path}/" if edges else ""
        own = edges_at(node, path)
        listed = list(own.items())
        if not edges:
            listed += _not_there(attached, own)
        found = []
        for name, child in listed:
            child_id = ids.setdefault(id(child), len(nodes))
            if child_id == len(nodes):
                nodes.append(child)
                paths.append(prefix + escape(name))
            found.append(Edge(name, child_id))
        edges.append(tuple(found))
    return Reached(nodes, paths, edges, ids)


def _not_there(attached: Attached, own: Mapping[str, Trackable]) -> Attached:
    """Yield the attached edges of a root that it has not got itself meanwhile."""
    for name, child in attached:
        there = own.get(name)
        if there is None:
            yield name, child
        elif there is not child:
            raise UntrackableError(f"the root has got another child '{name}' meanwhile")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A program as a checkpoint holds it.

    Attributes:
        graph: its objects.
        tensors: key and value, in the order in which they are stored.
    """

    graph: ObjectGraph
    tensors: list[tuple[str, Array]]


def snapshot_of(root: Trackable, attached: Attached = (), *, copy: bool = False) -> Snapshot:
    """Return what a program would save now.

    Args:
        root: the first object.
        attached: further edges of it.
        copy: copy the values; else they are those of the program, which must not change them
            before they are written.

    Raises:
        ContainerChangedError: a container on the way cannot be saved.
        UntrackableError: a slot variable can be reached along edges too.
    """
    reached = reached_from(root, attached)
    nodes, paths = list(reached.nodes), list(reached.paths)
    slots: dict[int, list[SlotVariable]] = {}
    for owner_id, variable_id, name, slot in reached.slots():
        path = slot_path(paths[variable_id], paths[owner_id], name)
        there = reached.ids.get(id(slot))
        if there is not None:
            raise UntrackableError(
                f"the slot variable '{path}' is also the object '{paths[there]}'; "
                "make it one or the other"
            )
        slots.setdefault(owner_id, []).append(SlotVariable(variable_id, name, len(nodes)))
        nodes.append(slot)
        paths.append(path)
    tensors: list[tuple[str, Array]] = []
    states: list[tuple[str, Array]] = []
    out = []
    for node_id, (node, path) in enumerate(zip(nodes, paths, strict=True)):
        try:
            attributes, values = _stored(node, path)
        except CkptError as error:
            error.locate(key=path)
            raise
        if copy:
            values = [(key, value.copy()) for key, value in values]
        (states if _is_state(node, attributes) else tensors).extend(values)
        children = reached.edges[node_id] if node_id < len(reached.edges) else ()
        out.append(
            Node(
                node_id,
                children,
                tuple(attributes),
                tuple(slots.get(node_id, ())),
                node._carried_saver if isinstance(node, Carried) else None,
                has_values=False,
                unknown=node._carried_unknown if isinstance(node, Carried) else b"",
            )
        )
    try:
        columns = GraphColumns.of(out)
        graph = ObjectGraph.of(with_values(columns, before=columns))
        stored = graph.to_bytes()
    except UnicodeEncodeError as error:
        raise UntrackableError(f"a name that is not Unicode: '{error.object}'") from error
    return Snapshot(graph, [*tensors, *states, (GRAPH_KEY, object_array([stored], ()))])


def _stored(node: Trackable, path: str) -> tuple[list[Attribute], list[tuple[str, Array]]]:
    """Return the attributes of an object and its tensors."""
    if isinstance(node, Carried):
        return node._stored(path)
    attributes, values = [], []
    for name, value in node._trackable_read().items():
        key = attribute_key(path, name)
        attributes.append(Attribute(name, node._trackable_full_name, key))
        values.append((key, value))
    return attributes, values


def _is_state(node: Trackable, attributes: list[Attribute]) -> bool:
    """Tell whether the values of an object come after those of all variables."""
    if isinstance(node, Carried):
        return [one.name for one in attributes] == [PYTHON_STATE]
    return node._trackable_any_name
