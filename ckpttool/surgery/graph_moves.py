"""An object graph with edges renamed and moved, and its checkpoint keys spelled anew.

Nodes keep their ids, which are their places in the graph. Objects that a new path needs and that
do not exist are appended without attributes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ckpttool.errors import KeyCollisionError, SurgeryError
from ckpttool.meta.object_graph import Attribute, Edge, Node, ObjectGraph
from ckpttool.meta.object_keys import ATTRIBUTES, escape, split_path, unescape
from ckpttool.surgery.graph_values import with_values

# An edge, by the id of the node it leaves and its name there, not escaped.
EdgeId = tuple[int, str]


@dataclass(frozen=True, slots=True)
class _Placed:
    """An edge, and the path it shall have."""

    parent: int
    edge: Edge
    path: str
    moved: bool


def move_edges(graph: ObjectGraph, moves: Mapping[EdgeId, str]) -> ObjectGraph:
    """Return the graph with edges at other paths.

    All moves are made at once. An object that is moved takes along what is below it. Other edges
    to it stay. Objects that lose all they held are let go of.

    Args:
        graph: the graph; it is not changed.
        moves: for edges, the path they shall have, escaped. It may lead into another object, which
            is named by where it will be after all moves.

    Raises:
        KeyCollisionError: two edges would have the same path.
        SurgeryError: something could not be reached any more.
    """
    placed, paths = _place(graph, moves)
    children = _Children(graph, placed, paths)
    # Edges that stay with their object, whatever they are called, keep their order there.
    staying: list[_Placed] = []
    leaving: list[_Placed] = []
    for place in placed:
        (leaving if children.leaves(place) else staying).append(place)
    for place in staying:
        children.add(place.parent, place)
    for place in leaving:
        children.add(children.object_above(place), place)
    nodes = with_values(children.nodes(), before=graph.nodes)
    moved = ObjectGraph(nodes, graph.unknown)
    lost = set(moved.unreachable).difference(graph.unreachable)
    for node_id in sorted(lost):
        if nodes[node_id].attributes:
            path = graph.paths[node_id]
            raise SurgeryError(f"nothing would lead to the object '{path}' any more")
    return spell_keys(graph, moved)


def spell_keys(before: ObjectGraph, after: ObjectGraph) -> ObjectGraph:
    """Return `after` with the keys that TensorFlow would give its attributes.

    Only where the path of an object is another than in `before` is its key changed, and only as far
    as the path goes: what follows `.ATTRIBUTES` stays, whichever way it is escaped.
    """
    nodes = list(after.nodes)
    for node in before.nodes:
        old, new = before.paths[node.id], after.paths[node.id]
        attributes = nodes[node.id].attributes
        if attributes and old is not None and new is not None and old != new:
            spelled = tuple(_spelled(attribute, old, new) for attribute in attributes)
            nodes[node.id] = replace(nodes[node.id], attributes=spelled)
    return ObjectGraph(tuple(nodes), after.unknown)


def _spelled(attribute: Attribute, old: str, new: str) -> Attribute:
    key = attribute.checkpoint_key
    if not key.startswith(old + ATTRIBUTES):
        return attribute  # spelled by rules that are not known here
    return replace(attribute, checkpoint_key=new + key[len(old) :])


def _place(graph: ObjectGraph, moves: Mapping[EdgeId, str]) -> tuple[list[_Placed], dict[int, str]]:
    """Return every edge with its path to be, and the path to be of every object."""
    paths = {0: ""}
    placed = []
    # Breadth first: the first edge that leads to an object gives it its path.
    queue = [0]
    for node_id in queue:
        base = f"{paths[node_id]}/" if node_id else ""
        for edge in graph.nodes[node_id].children:
            natural = base + escape(edge.name)
            path = moves.get((node_id, edge.name), natural)
            placed.append(_Placed(node_id, edge, path, path != natural))
            if edge.node_id not in paths:
                paths[edge.node_id] = path
                queue.append(edge.node_id)
    return placed, paths


class _Children:
    """The edges of every object, as they are put together."""

    def __init__(self, graph: ObjectGraph, placed: list[_Placed], paths: dict[int, str]) -> None:
        self._graph = graph
        self._paths = paths
        self._edges: list[dict[str, Edge]] = [{} for _ in graph.nodes]
        self._at = {path: node_id for node_id, path in paths.items()}
        # Where edges lead that stay with their object, by that object and their name to be.
        self._staying = {
            (place.parent, unescape(place.path.rpartition("/")[2])): place.edge.node_id
            for place in placed
            if place.path.rpartition("/")[0] == paths[place.parent]
        }

    def leaves(self, place: _Placed) -> bool:
        """Tell whether an edge goes to another object than the one it starts from."""
        return place.moved and self._find(split_path(place.path)[:-1]) != place.parent

    def add(self, parent: int, place: _Placed) -> None:
        """Give an object an edge."""
        edges = self._edges[parent]
        name = unescape(place.path.rpartition("/")[2]) if place.moved else place.edge.name
        if place.moved and not all(split_path(place.path) or ("",)):
            raise SurgeryError(f"'{place.path}' is no path: a name in it is empty")
        if name in edges:
            raise KeyCollisionError(f"two objects would be called '{place.path}'")
        edges[name] = place.edge if name == place.edge.name else replace(place.edge, name=name)

    def object_above(self, place: _Placed) -> int:
        """Return the object that an edge shall start from, which is made if need be."""
        segments = split_path(place.path)
        if not all(segments) or not segments:
            raise SurgeryError(f"'{place.path}' is no path: a name in it is empty")
        parent = 0
        for depth, segment in enumerate(segments[:-1], 1):
            found = self._find(segments[:depth])
            if found is None:
                found = len(self._edges)
                name = unescape(segment)
                if name in self._edges[parent]:
                    raise KeyCollisionError(f"two objects would be called '{place.path}'")
                self._edges.append({})
                self._edges[parent][name] = Edge(name, found)
                self._at["/".join(segments[:depth])] = found
            parent = found
        return parent

    def nodes(self) -> tuple[Node, ...]:
        """Return the objects with their edges; what no path leads to is left as it is."""
        known = self._graph.nodes
        out = []
        for node_id, edges in enumerate(self._edges):
            if node_id >= len(known):
                out.append(Node(node_id, tuple(edges.values())))
            elif node_id in self._paths:
                out.append(replace(known[node_id], children=tuple(edges.values())))
            else:
                out.append(known[node_id])
        return tuple(out)

    def _find(self, segments: tuple[str, ...]) -> int | None:
        """Return the object that a path will lead to, by any edges; None if there will be none."""
        node_id: int | None = 0
        for depth, segment in enumerate(segments, 1):
            further = self._staying.get((node_id or 0, unescape(segment)))
            if further is None:
                further = self._at.get("/".join(segments[:depth]))
            if further is None:
                return None
            node_id = further
        return node_id
