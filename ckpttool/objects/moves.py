"""Renaming and moving edges of an object graph, with its checkpoint keys.

Nodes keep their ids. Missing objects on a new path are appended without attributes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ckpttool.errors import KeyCollisionError, SurgeryError
from ckpttool.objects.graph import Attribute, Edge, Node, ObjectGraph, with_values
from ckpttool.objects.keys import ATTRIBUTES, escape, split_path, unescape

# An edge, by the id of its parent and its unescaped name there.
EdgeId = tuple[int, str]


@dataclass(frozen=True, slots=True)
class _Placed:
    """An edge and its new path."""

    parent: int
    edge: Edge
    path: str
    moved: bool


def move_edges(graph: ObjectGraph, moves: Mapping[EdgeId, str]) -> ObjectGraph:
    """Return the graph with edges at other paths.

    All moves are made at once. An object moves with everything below it; other edges to it stay.
    Edges to objects that lose all values are removed.

    Args:
        graph: the graph.
        moves: edge -> its new path, escaped. The path may lead into another object, named by its
            place after all moves.

    Raises:
        KeyCollisionError: two edges would have the same path.
        SurgeryError: an object would be unreachable.
    """
    placed = _place(graph, moves)
    nodes = with_values(_with_edges(graph, placed), before=graph.nodes)
    moved = ObjectGraph(nodes, graph.unknown)
    lost = set(moved.unreachable).difference(graph.unreachable)
    for node_id in sorted(lost):
        if nodes[node_id].attributes:
            path = graph.paths[node_id]
            raise SurgeryError(f"nothing would lead to the object '{path}' any more")
    return spell_keys(graph, moved)


def spell_keys(before: ObjectGraph, after: ObjectGraph) -> ObjectGraph:
    """Return `after` with the keys that TensorFlow would give its attributes.

    A key changes only if the path of its object does, and only in the path: the part after
    `.ATTRIBUTES` stays, however it is escaped.
    """
    nodes = list(after.nodes)
    for node in before.nodes:
        old, new = before.paths[node.id], after.paths[node.id]
        attributes = nodes[node.id].attributes
        if attributes and old is not None and new is not None and old != new:
            spelled = tuple(_spelled(attribute, old, new) for attribute in attributes)
            nodes[node.id] = nodes[node.id]._replace(attributes=spelled)
    return ObjectGraph(tuple(nodes), after.unknown)


def _spelled(attribute: Attribute, old: str, new: str) -> Attribute:
    key = attribute.checkpoint_key
    if not key.startswith(old + ATTRIBUTES):
        return attribute  # spelled by unknown rules
    return attribute._replace(checkpoint_key=new + key[len(old) :])


def _place(graph: ObjectGraph, moves: Mapping[EdgeId, str]) -> list[_Placed]:
    """Return every reachable edge with its new path."""
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
    return placed


def _with_edges(graph: ObjectGraph, placed: list[_Placed]) -> tuple[Node, ...]:
    """Return the nodes with the placed edges; new nodes come last, unreachable ones stay."""
    edges: list[dict[str, Edge]] = [{} for _ in graph.nodes]
    for place in placed:
        if not place.moved:
            edges[place.parent][place.edge.name] = place.edge
    # A path leads through edges with shorter paths, so those are placed first.
    names = {
        (place.parent, place.edge.name): _add(edges, place)
        for place in sorted(placed, key=lambda place: place.path.count("/"))
        if place.moved
    }
    out = [Node(node_id, tuple(added.values())) for node_id, added in enumerate(edges)]
    out[: len(graph.nodes)] = graph.nodes
    # Edges that stay with their object keep their order, even if renamed.
    order: dict[int, dict[str, None]] = {0: {}}
    for place in placed:
        name = names.get((place.parent, place.edge.name), place.edge.name)
        order.setdefault(place.edge.node_id, {})
        if name is not None:
            order[place.parent][name] = None
    for node_id, staying in order.items():
        children = tuple(edges[node_id][name] for name in staying | dict.fromkeys(edges[node_id]))
        out[node_id] = out[node_id]._replace(children=children)
    return tuple(out)


def _add(edges: list[dict[str, Edge]], place: _Placed) -> str | None:
    """Place an edge at its path; return its name if its parent is the same as before.

    Missing objects on the way are made. An existing edge to the same object is kept.
    """
    segments = split_path(place.path)
    if not segments or not all(segments):
        raise SurgeryError(f"'{place.path}' is not a path: a name in it is empty")
    *above, name = map(unescape, segments)
    parent = 0
    for each in above:
        if each not in edges[parent]:
            edges[parent][each] = Edge(each, len(edges))
            edges.append({})
        parent = edges[parent][each].node_id
    edge = place.edge if name == place.edge.name else place.edge._replace(name=name)
    if edges[parent].setdefault(name, edge).node_id != edge.node_id:
        raise KeyCollisionError(f"two objects would be called '{place.path}'")
    return name if parent == place.parent else None
