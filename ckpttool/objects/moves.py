"""Renaming and moving edges of an object graph, with its checkpoint keys.

Nodes keep their ids. Missing objects on a new path are appended without attributes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ckpttool.errors import KeyCollisionError, SurgeryError
from ckpttool.objects.columns import GraphColumns
from ckpttool.objects.drops import with_values
from ckpttool.objects.graph import ObjectGraph
from ckpttool.objects.keys import ATTRIBUTES, escape, split_path, unescape
from ckpttool.objects.nodes import Edge

# An edge, by the id of its parent and its unescaped name there.
EdgeId = tuple[int, str]


class _Move(NamedTuple):
    """An edge of a node, and its new path."""

    parent: int
    edge: Edge
    path: str


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
    columns = with_values(_with_edges(graph, _real_moves(graph, moves)), before=graph.columns)
    moved = ObjectGraph.of(columns, graph.unknown)
    there, here = graph.places.owners, moved.places.owners
    for node_id in graph.columns.nodes_with_attributes():
        if here[node_id] < 0 <= there[node_id]:
            path = graph.path(node_id)
            raise SurgeryError(f"nothing would lead to the object '{path}' any more")
    return spell_keys(graph, moved)


def spell_keys(before: ObjectGraph, after: ObjectGraph) -> ObjectGraph:
    """Return `after` with the keys that TensorFlow would give its attributes.

    A key changes only if the path of its object does, and only in the path: the part after
    `.ATTRIBUTES` stays, however it is escaped.
    """
    columns = after.columns
    keys = columns.keys[:]
    for node_id in columns.nodes_with_attributes():
        old, new = before.paths[node_id], after.paths[node_id]
        if old is not None and new is not None and old != new:
            for at in columns.attributes_of(node_id):
                if keys[at].startswith(old + ATTRIBUTES):  # else spelled by unknown rules
                    keys[at] = new + keys[at][len(old) :]
    return ObjectGraph.of(columns.with_keys(keys), after.unknown)


def _real_moves(graph: ObjectGraph, moves: Mapping[EdgeId, str]) -> list[_Move]:
    """Return the moves of edges that do not come along with what they are below."""
    columns, places = graph.columns, graph.places
    paths = {0: ""}
    found = []
    for node_id in places.order[: places.along_edges]:
        if node_id not in paths:
            continue  # it has no edges
        base = f"{paths[node_id]}/" if node_id else ""
        for at in columns.edges_of(node_id):
            name, child = columns.edge_names[at], columns.edge_targets[at]
            given = moves.get((node_id, name))
            # The first edge that leads to an object gives it its path.
            needed = places.edges[child] == at and columns.edges_of(child)
            if given is None and not needed:
                continue
            natural = base + escape(name)
            if given is not None and given != natural:
                found.append(_Move(node_id, columns.edge(at), given))
            if needed:
                paths[child] = natural if given is None else given
    return found


def _with_edges(graph: ObjectGraph, moves: list[_Move]) -> GraphColumns:
    """Return the nodes with some edges moved; new nodes come last."""
    columns = graph.columns
    edges = _Edges(columns, moves)
    # A path leads through edges with shorter paths, so those are placed first.
    names = {
        (move.parent, move.edge.name): edges.add(move)
        for move in sorted(moves, key=lambda move: move.path.count("/"))
    }
    changed = {}
    for node_id in edges.known.keys() & range(len(columns)):
        # Edges that stay with their object keep their order, even if renamed.
        listed = [names.get((node_id, name), name) for name, _ in columns.children(node_id)]
        staying = dict.fromkeys(name for name in listed if name is not None)
        here = edges.known[node_id]
        changed[node_id] = [here[name] for name in staying | dict.fromkeys(here)]
    added = [[*edges.known[at].values()] for at in range(len(columns), edges.total)]
    return columns.with_children(changed, added)


class _Edges:
    """The edges of nodes by their names while some are moved.

    Attributes:
        known: those of the nodes looked at so far.
        total: the number of nodes.
    """

    def __init__(self, columns: GraphColumns, moves: list[_Move]) -> None:
        self._columns = columns
        self._moving = {(move.parent, move.edge.name) for move in moves}
        self.known: dict[int, dict[str, Edge]] = {}
        self.total = len(columns)
        for move in moves:
            self._of(move.parent)

    def _of(self, node_id: int) -> dict[str, Edge]:
        found = self.known.get(node_id)
        if found is None:
            listed = map(self._columns.edge, self._columns.edges_of(node_id))
            found = {edge.name: edge for edge in listed if (node_id, edge.name) not in self._moving}
            self.known[node_id] = found
        return found

    def add(self, move: _Move) -> str | None:
        """Place an edge at its path; return its name if its parent is the same as before.

        Missing objects on the way are made. An existing edge to the same object is kept.
        """
        segments = split_path(move.path)
        if not segments or not all(segments):
            raise SurgeryError(f"'{move.path}' is not a path: a name in it is empty")
        *above, name = map(unescape, segments)
        parent = 0
        for each in above:
            here = self._of(parent)
            if each not in here:
                here[each] = Edge(each, self.total)
                self.known[self.total] = {}
                self.total += 1
            parent = here[each].node_id
        edge = move.edge if name == move.edge.name else move.edge._replace(name=name)
        if self._of(parent).setdefault(name, edge).node_id != edge.node_id:
            raise KeyCollisionError(f"two objects would be called '{move.path}'")
        return name if parent == move.parent else None
