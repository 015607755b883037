"""The outline of an object graph.

An object is drawn below the edge that reaches it first: breadth first, edges in stored order, but
what optimizers hold after all else, and their general lists last. So a weight hangs below its model
and a slot below `_momentums`, where the shortest paths lead through lists of an optimizer.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from ckpttool.errors import CorruptError
from ckpttool.objects.columns import GraphColumns
from ckpttool.objects.graph import ObjectGraph
from ckpttool.objects.keys import GRAPH_KEY
from ckpttool.printable import shortened
from ckpttool.query.drawing.outline import Outline, Reference, Slot
from ckpttool.query.rows import TensorRow, keys_of

# Lists in which Keras optimizers hold everything once more.
_GENERAL = frozenset({"_variables", "_trainable_variables"})


def outline_objects(
    graph: ObjectGraph, tensors: Sequence[TensorRow], kinds: Mapping[str, str]
) -> Outline:
    """Return the outline of an object graph.

    Args:
        graph: the graph.
        tensors: the tensors to draw.
        kinds: the kind of each tensor of the checkpoint, by key.
    """
    return _Objects(graph, tensors, kinds).outline()


class _Objects:
    """An outline in the making. Nodes are those of the graph, places those of the outline."""

    def __init__(
        self, graph: ObjectGraph, tensors: Sequence[TensorRow], kinds: Mapping[str, str]
    ) -> None:
        self._graph = graph
        self._columns: GraphColumns = graph.columns
        self._out = Outline.of(tensors)
        self._keys = keys_of(tensors)
        self._rows: dict[int, tuple[int, ...]] = {}
        self._loose: list[int] = []
        self._take_tensors()
        self._optimizers = self._find_optimizers(kinds)
        total = len(self._columns)
        self._edges = array("i", [-1]) * total
        self._parents = array("i", [-1]) * total
        self._order = array("i", [0])
        self._place()

    def outline(self) -> Outline:
        columns, order = self._columns, self._order
        places = array("i", [-1]) * len(columns)
        for place, node in enumerate(order):
            places[node] = place
        children: list[list[int]] = [[] for _ in order]
        # Children in the order of their edges, whatever the order in which they were reached.
        for node in order:
            for edge in columns.edges_of(node):
                child = columns.edge_targets[edge]
                if self._edges[child] == edge:
                    children[places[node]].append(places[child])
        out = self._out
        names = columns.edge_names
        out.names = ["" if not node else names[self._edges[node]] for node in order]
        out.children = [*children]
        out.rows = {places[node]: rows for node, rows in self._rows.items() if places[node] >= 0}
        out.optimizers = {places[node] for node in self._optimizers if places[node] > 0}
        out.slots = self._slots(places)
        out.references = self._references(places)
        for row in self._loose:
            children[0].append(len(out.names))
            out.rows[len(out.names)] = (row,)
            out.names.append(self._keys[row])
            out.children.append(())
        out.path = self._path
        return out

    def _take_tensors(self) -> None:
        """Find the tensors of each node, and those of none."""
        keys = self._keys
        held: dict[int, list[int]] = {}
        for row, at in enumerate(map(self._graph.claims(set(keys)).at.get, keys)):
            if at is not None:
                held.setdefault(at, []).append(row)
            elif keys[row] != GRAPH_KEY:
                self._loose.append(row)
        for node in self._columns.nodes_with_attributes():
            rows = [row for at in self._columns.attributes_of(node) for row in held.get(at, ())]
            if rows:
                self._rows[node] = tuple(rows)

    def _find_optimizers(self, kinds: Mapping[str, str]) -> set[int]:
        """Return the nodes with slots, and those with hyper-parameters under names of their own."""
        columns, found = self._columns, set(self._columns.optimizers)
        numbers = {
            columns.holder(at)
            for at, key in enumerate(columns.keys)
            if kinds.get(key) == "optimizer"
        }
        for node in columns.parents_with_edges() if numbers else ():
            for edge in columns.edges_of(node):
                if columns.edge_targets[edge] in numbers and not columns.edge_names[edge].isdigit():
                    found.add(node)
                    break
        return found - {0}

    def _place(self) -> None:
        """Give every node that can be reached its place."""
        columns, general = self._columns, array("i")
        waiting: deque[int] = deque()
        self._parents[0] = 0
        done = 0

        def reach(node: int, edges: Iterator[int] | range) -> None:
            for edge in edges:
                child = columns.edge_targets[edge]
                if self._parents[child] < 0:
                    self._parents[child], self._edges[child] = node, edge
                    self._order.append(child)

        while done < len(self._order) or waiting or general:
            if done < len(self._order):
                node = self._order[done]
                done += 1
                if node in self._optimizers:
                    waiting.append(node)
                else:
                    reach(node, columns.edges_of(node))
            elif waiting:
                node = waiting.popleft()
                first = [e for e in columns.edges_of(node) if columns.edge_names[e] not in _GENERAL]
                reach(node, iter(first))
                general.append(node)
            else:
                for node in general:
                    reach(node, columns.edges_of(node))
                del general[:]

    def _slots(self, places: array[int]) -> dict[int, list[Slot]]:
        columns, found = self._columns, dict[int, list[Slot]]()
        for owner, slots in columns.optimizers.items():
            for at in slots:
                variable, node = places[columns.slot_variables[at]], columns.slot_nodes[at]
                # One that an edge reaches too is drawn there.
                if variable < 0 or places[node] >= 0:
                    continue
                row = self._rows.get(node, (-1,))[0]
                found.setdefault(variable, []).append(
                    Slot(columns.slot_names[at], row, places[owner])
                )
        taken = set(columns.slot_nodes)
        for node, rows in self._rows.items():
            if places[node] < 0 and node not in taken:
                self._loose += rows
        return found

    def _references(self, places: array[int]) -> dict[int, list[Reference]]:
        columns, found = self._columns, dict[int, list[Reference]]()
        for node in self._order:
            for edge in columns.edges_of(node):
                child = columns.edge_targets[edge]
                if self._edges[child] != edge:
                    reference = Reference(columns.edge_names[edge], places[child])
                    found.setdefault(places[node], []).append(reference)
        return found

    def _path(self, place: int) -> str:
        """Return TensorFlow's path of an object; of a tensor without one, its key."""
        if place < len(self._order):
            with suppress(CorruptError):
                return shortened(self._graph.path(self._order[place]) or "")
            return ""  # the paths are too long for those of real objects
        return shortened(self._keys[self._loose[place - len(self._order)]])
