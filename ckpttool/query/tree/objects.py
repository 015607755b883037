"""An object graph as a tree.

An object with several edges is drawn at TensorFlow's path; the others refer to it. Slot variables
are folded into their variable.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import NamedTuple

from ckpttool.errors import CorruptError
from ckpttool.objects.graph import ObjectGraph
from ckpttool.objects.keys import GRAPH_KEY, MAX_PATHS, MEAN_PATH, VARIABLE_VALUE, escape
from ckpttool.objects.places import EdgePlaces
from ckpttool.query.rows import TensorRow, keys_of
from ckpttool.query.tree.nodes import MAX_DEPTH, SlotNode, TreeNode, new_node


class Branch(NamedTuple):
    """What is drawn at a place of the tree.

    Attributes:
        depth: 0 for the root.
        name: of its edge; of a tensor without an object, its key.
        last: whether no sibling follows.
        node_id: the object; -1 for a tensor without one.
        row: the position of the tensor there if it is the only one and of the usual attribute; of
            a tensor without an object, -1 less its position; else -1.
        stands: whether the object is drawn here; else its place is referred to.
        opens: whether what is below is drawn next.
    """

    depth: int
    name: str
    last: bool
    node_id: int
    row: int
    stands: bool
    opens: bool


# Faster than the constructor.
_new_branch: Callable[[tuple[object, ...]], Branch] = partial(tuple.__new__, Branch)


class ObjectTree:
    """The tree of an object graph: its nodes, when iterated.

    Args:
        graph: the graph.
        rows: the tensors to draw.
        limit: how many levels below the root; `MAX_DEPTH` without one.
        everything: whether to draw objects without tensors too.

    Attributes:
        rows: as given.

    Raises:
        CorruptError: the paths to draw are too long for those of real objects.
    """

    def __init__(
        self,
        graph: ObjectGraph,
        rows: Sequence[TensorRow],
        limit: int | None,
        *,
        everything: bool,
    ) -> None:
        self.rows = rows
        self._columns = graph.columns
        self._places = EdgePlaces(graph.columns)
        self._limit = MAX_DEPTH if limit is None else limit
        self._everything = everything
        self._sort_slots()
        self._take_tensors(graph)
        self._wanted = self._find_wanted()
        self._refuse_long_paths()

    def _sort_slots(self) -> None:
        """Find the slots of each variable: where they begin among all, sorted by variable."""
        variables = self._columns.slot_variables
        self._by_variable = array("i", sorted(range(len(variables)), key=variables.__getitem__))
        self._first_slot = array("i", [-1]) * len(self._columns)
        for at in range(len(variables) - 1, -1, -1):
            self._first_slot[variables[self._by_variable[at]]] = at

    def _take_tensors(self, graph: ObjectGraph) -> None:
        """Find the tensors of each attribute, and those of no object that is drawn."""
        columns, owners = self._columns, self._places.owners
        keys = keys_of(self.rows)
        # By attribute, the position of its tensor; a table has two.
        self._row_of = array("i", [-1]) * len(columns.keys)
        self._more: dict[int, list[int]] = {}
        # The keys of registered savers belong to no object.
        self._loose: list[int] = []
        for row, at in enumerate(map(graph.claims(set(keys)).at.get, keys)):
            if at is None:
                if keys[row] != GRAPH_KEY:
                    self._loose.append(row)
            elif self._row_of[at] < 0:
                self._row_of[at] = row
            else:
                self._more.setdefault(at, []).append(row)
        folded = bytearray(len(columns))
        for variable, slot in zip(columns.slot_variables, columns.slot_nodes, strict=True):
            if owners[variable] >= 0:
                folded[slot] = 1
        for node_id in columns.nodes_with_attributes():
            if owners[node_id] < 0 and not folded[node_id]:
                self._loose += self.rows_of(node_id)

    def rows_of(self, node_id: int) -> list[int]:
        """Return the positions of the tensors of an object."""
        found = []
        for at in self._columns.attributes_of(node_id):
            if self._row_of[at] >= 0:
                found += [self._row_of[at], *self._more.get(at, ())]
        return found

    def slots_of(self, node_id: int) -> list[tuple[str, int]]:
        """Return name and tensor of the slots of a variable; -1 for one without a tensor."""
        columns, found = self._columns, []
        first = self._first_slot[node_id]
        while 0 <= first < len(self._by_variable):
            at = self._by_variable[first]
            if columns.slot_variables[at] != node_id:
                break
            rows = self.rows_of(columns.slot_nodes[at])
            found.append((columns.slot_names[at], rows[0] if rows else -1))
            first += 1
        return found

    def _find_wanted(self) -> bytearray:
        """Tell which objects to draw."""
        total = len(self._columns)
        if self._everything:
            return bytearray(b"\1") * total
        wanted = bytearray(total)
        wanted[0] = 1
        owners = self._places.owners
        for node_id in self._places.order:
            held = self.rows_of(node_id) or any(row >= 0 for _, row in self.slots_of(node_id))
            while held and not wanted[node_id]:
                wanted[node_id] = 1
                node_id = owners[node_id]
        return wanted

    @cached_property
    def _sizes(self) -> array[int]:
        """For each object, how many nodes it is with those below it."""
        places, everything = self._places, self._everything
        sizes = array("q", bytes(8 * len(self._columns)))
        for node_id in reversed(places.order):
            if self._wanted[node_id]:
                # Each edge to another place is a node too.
                sizes[node_id] += 1
                if everything:
                    sizes[node_id] += len(self._columns.edges_of(node_id))
                if node_id:
                    sizes[places.owners[node_id]] += sizes[node_id] - everything
        sizes[0] += len(self._loose)
        return sizes

    def _refuse_long_paths(self) -> None:
        places, columns = self._places, self._columns
        longest = max(places.lengths)
        if 2 * longest + max(map(len, columns.edge_names), default=0) < MEAN_PATH:
            return  # all together stay within the mean
        budget = MAX_PATHS
        depths = array("i", bytes(4 * len(columns)))
        for node_id in places.order:
            if node_id:
                depths[node_id] = depths[places.owners[node_id]] + 1
            if depths[node_id] > self._limit:
                break
            budget += MEAN_PATH - places.lengths[node_id]
            if self._everything and depths[node_id] < self._limit:
                for at in columns.edges_of(node_id):
                    child = columns.edge_targets[at]
                    if places.edges[child] != at:
                        budget += MEAN_PATH - places.lengths[child]
                        budget -= places.lengths[node_id] + len(columns.edge_names[at])
            if budget < 0:
                raise CorruptError(
                    "the paths of the object graph are too long for those of real objects"
                )

    def __iter__(self) -> Iterator[TreeNode]:
        # By depth, the paths of the nodes that are open.
        above = [""]
        for depth, name, last, node_id, row, stands, opens in self.walk():
            path = name
            if depth and node_id >= 0:
                base = above[depth - 1]
                path = f"{base}/{escape(name)}" if base else escape(name)
                above[depth:] = [path]
            if not stands:
                yield TreeNode(depth, name, path, last, same_as=self.path(node_id))
                continue
            held = self.rows_of(node_id) if node_id >= 0 else [-1 - row]
            slots = self.slots_of(node_id) if node_id >= 0 else ()
            nodes = tuple(SlotNode(each, self.rows[at] if at >= 0 else None) for each, at in slots)
            tensors = tuple(map(self.rows.__getitem__, held))
            hidden = 0 if opens else self.hidden(depth, node_id)
            yield new_node((depth, name, path, last, tensors, nodes, None, hidden))

    def hidden(self, depth: int, node_id: int) -> int:
        """Return how many nodes below an object the depth limit cuts off."""
        return self._sizes[node_id] - 1 if depth >= self._limit and node_id >= 0 else 0

    def has_slots(self, node_id: int) -> bool:
        """Tell whether an object is a variable with slots."""
        return node_id >= 0 and self._first_slot[node_id] >= 0

    def walk(self) -> Iterator[Branch]:
        """Yield what is to be drawn, in order."""
        limit = self._limit
        opens = bool(limit and len(self._columns.edges_of(0)))
        yield Branch(0, "", True, 0, self._only_row(0), True, opens)
        open_levels = [self._below(0, 1)] if opens else []
        while open_levels:
            for branch in open_levels[-1]:
                yield branch
                if branch.opens:
                    open_levels.append(self._below(branch.node_id, branch.depth + 1))
                    break
            else:
                open_levels.pop()
        for row in self._loose if limit else ():
            key = keys_of(self.rows)[row]
            yield Branch(1, key, row == self._loose[-1], -1, -1 - row, True, False)

    def _below(self, node_id: int, depth: int) -> Iterator[Branch]:
        """Yield what is directly below an object."""
        columns, edges, wanted = self._columns, self._places.edges, self._wanted
        targets, names, starts = columns.edge_targets, columns.edge_names, columns.edge_starts
        drawn: Sequence[int] = columns.edges_of(node_id)
        if not self._everything:
            drawn = [at for at in drawn if edges[targets[at]] == at and wanted[targets[at]]]
        last = drawn[-1] if drawn and (node_id or not self._loose) else -1
        deeper = depth < self._limit
        for at in drawn:
            child = targets[at]
            stands = edges[child] == at
            opens = stands and deeper and starts[child] < starts[child + 1]
            row = self._only_row(child) if stands else -1
            yield _new_branch((depth, names[at], at == last, child, row, stands, opens))

    def _only_row(self, node_id: int) -> int:
        starts = self._columns.attribute_starts
        first = starts[node_id]
        if starts[node_id + 1] - first != 1 or first in self._more:
            return -1
        usual = self._columns.attribute_names[first] == VARIABLE_VALUE
        return self._row_of[first] if usual else -1

    def path(self, node_id: int) -> str:
        """Return the path of an object that is drawn."""
        names = []
        while node_id:
            names.append(escape(self._columns.edge_names[self._places.edges[node_id]]))
            node_id = self._places.owners[node_id]
        return "/".join(reversed(names))
