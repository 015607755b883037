"""An object graph as a tree.

An object with several edges is drawn at TensorFlow's path; the others refer to it. Slot variables
are folded into their variable.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

from ckpttool.errors import CorruptError
from ckpttool.objects.graph import Edge, ObjectGraph
from ckpttool.objects.keys import MAX_PATHS, MEAN_PATH, escape
from ckpttool.query.rows import TensorRow, keys_of
from ckpttool.query.tree.nodes import MAX_DEPTH, SlotNode, TreeNode, new_node

# A node to be drawn: object, or position of a tensor without one; depth; name; path; whether no
# sibling follows; path of the object if the node only refers to it.
_Waiting = tuple[int, int, str, str, bool, str | None]


class ObjectTree:
    """The tree of an object graph.

    Args:
        graph: the graph.
        rows: the tensors to draw.
        limit: how many levels below the root; `MAX_DEPTH` without one.
        everything: whether to draw objects without tensors too.

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
        self._nodes = graph.nodes
        self._rows = rows
        self._limit = MAX_DEPTH if limit is None else limit
        self._everything = everything
        # By object: its parent in the tree, the edge there, its depth, the length of its path.
        self._owner = array("q", [-1]) * len(graph.nodes)
        self._name = [""] * len(graph.nodes)
        self._depth = array("q", bytes(8 * len(graph.nodes)))
        self._length = array("q", bytes(8 * len(graph.nodes)))
        placed = self._place()
        self._take_tensors(graph)
        self._wanted, self._sizes = self._measure(placed)
        self._refuse_long_paths(placed)

    def _place(self) -> array[int]:
        """Find the place of each object; return the reachable objects, by depth.

        Breadth first, as TensorFlow names objects: the first edge to an object is its place.
        """
        nodes, owner, name, depth = self._nodes, self._owner, self._name, self._depth
        length = self._length
        owner[0] = 0
        placed = array("q", [0])
        for node_id in placed:
            below, before = depth[node_id] + 1, length[node_id] + 1
            for edge in nodes[node_id].children:
                child = edge.node_id
                if owner[child] < 0:
                    owner[child] = node_id
                    name[child] = edge.name
                    depth[child] = below
                    length[child] = before + len(edge.name)
                    placed.append(child)
        return placed

    def _take_tensors(self, graph: ObjectGraph) -> None:
        rows = self._rows
        keys = keys_of(rows)
        position = {key: at for at, key in enumerate(keys)}
        claims = graph.claims(position.keys())
        # Positions of the tensors of each object; nearly all have one, or none.
        self._held: dict[int, tuple[int, ...]] = {}
        for key, (node_id, _) in claims.owners.items():
            self._held[node_id] = (*self._held.get(node_id, ()), position[key])
        self._slots: dict[int, list[tuple[str, int]]] = {}
        folded = set()
        for link in graph.slots:
            self._slots.setdefault(link.variable_id, []).append((link.slot_name, link.slot_id))
            if self._owner[link.variable_id] >= 0:
                folded.add(link.slot_id)
        # The keys of registered savers belong to no object.
        self._loose = [position[key] for key in claims.unclaimed]
        for node_id, held in self._held.items():
            if self._owner[node_id] < 0 and node_id not in folded:
                self._loose += held

    def _measure(self, placed: array[int]) -> tuple[bytearray, array[int]]:
        """Tell which objects to draw, and how many nodes each is with those below it."""
        everything, nodes = self._everything, self._nodes
        wanted = bytearray(len(nodes))
        sizes = array("q", bytes(8 * len(nodes)))
        for node_id in reversed(placed):
            # Each edge to another place is a node too.
            sizes[node_id] += 1 + (len(nodes[node_id].children) if everything else 0)
            if node_id == 0 or everything or self._holds(node_id) or wanted[node_id]:
                wanted[node_id] = 1
                if node_id:
                    owner = self._owner[node_id]
                    wanted[owner] = 1
                    sizes[owner] += sizes[node_id] - everything
        sizes[0] += len(self._loose)
        return wanted, sizes

    def _holds(self, node_id: int) -> bool:
        if node_id in self._held:
            return True
        return any(slot in self._held for _, slot in self._slots.get(node_id, ()))

    def _refuse_long_paths(self, placed: array[int]) -> None:
        budget = MAX_PATHS
        for node_id in placed:
            if self._depth[node_id] > self._limit:
                break
            budget += MEAN_PATH - self._length[node_id]
            if self._everything and self._depth[node_id] < self._limit:
                for edge, stands in self._edges(node_id):
                    if not stands:
                        budget += MEAN_PATH - self._length[edge.node_id]
                        budget -= self._length[node_id] + len(edge.name)
            if budget < 0:
                raise CorruptError(
                    "the paths of the object graph are too long for those of real objects"
                )

    def walk(self) -> Iterator[TreeNode]:
        """Yield the nodes in drawing order."""
        stack: list[_Waiting] = [(0, 0, "", "", True, None)]
        while stack:
            node_id, depth, name, path, last, same_as = stack.pop()
            if same_as is not None:
                yield TreeNode(depth, name, path, last, same_as=same_as)
                continue
            cut = depth >= self._limit
            hidden = self._sizes[node_id] - 1 if cut else 0
            tensors, slots = self._tensors(node_id), self._slot_nodes(node_id)
            yield new_node((depth, name, path, last, tensors, slots, None, hidden))
            if not cut:
                below = self._below(node_id, depth + 1, path)
                below.reverse()
                stack += below
        yield from self._unclaimed()

    def _below(self, node_id: int, depth: int, path: str) -> list[_Waiting]:
        """Return the nodes below an object."""
        if not self._nodes[node_id].children:
            return []
        found: list[_Waiting] = []
        prefix = f"{path}/" if node_id else ""
        for edge, stands in self._edges(node_id):
            child, name = edge.node_id, edge.name
            if not stands:
                if self._everything:
                    there = self._path(child)
                    found.append((child, depth, name, prefix + escape(name), False, there))
            elif self._wanted[child]:
                found.append((child, depth, name, prefix + escape(name), False, None))
        if found and (node_id or not self._loose):
            child, depth, name, path, _, same_as = found[-1]
            found[-1] = child, depth, name, path, True, same_as
        return found

    def _edges(self, node_id: int) -> Iterator[tuple[Edge, bool]]:
        """Yield the edges of an object, and whether its child is drawn there."""
        seen = {0}
        for edge in self._nodes[node_id].children:
            child = edge.node_id
            yield edge, self._owner[child] == node_id and child not in seen
            seen.add(child)

    def _path(self, node_id: int) -> str:
        names = []
        while node_id:
            names.append(escape(self._name[node_id]))
            node_id = self._owner[node_id]
        return "/".join(reversed(names))

    def _tensors(self, node_id: int) -> tuple[TensorRow, ...]:
        held = self._held.get(node_id)
        return tuple([self._rows[at] for at in held]) if held else ()

    def _slot_nodes(self, node_id: int) -> tuple[SlotNode, ...]:
        listed = self._slots.get(node_id)
        if listed is None:
            return ()
        return tuple(
            [SlotNode(name, next(iter(self._tensors(slot_id)), None)) for name, slot_id in listed]
        )

    def _unclaimed(self) -> Iterator[TreeNode]:
        if self._limit:
            for at in self._loose:
                row = self._rows[at]
                yield TreeNode(1, row.key, row.key, at == self._loose[-1], (row,))
