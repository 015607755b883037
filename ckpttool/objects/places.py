"""The place of each object of a graph: what its path leads along."""

from __future__ import annotations

from array import array

from ckpttool.errors import CorruptError
from ckpttool.objects.columns import GraphColumns
from ckpttool.objects.keys import OPTIMIZER_SLOT, escape, room_for_paths, slot_path

_SLOT_MARK = f"/{OPTIMIZER_SLOT}/"


class EdgePlaces:
    """For each object the end of its path: an edge.

    It is the first of the shortest ways from the root, as TensorFlow names objects.

    Args:
        columns: the graph.

    Attributes:
        order: the objects with a place; each comes after the one that it is below.
        along_edges: how many of them are reached along edges alone; these come first.
        owners: by object, the one that it is below; the root's is the root, and that of an object
            without a place is -1.
        edges: by object, the edge from its owner, -1 without one.
        lengths: by object, that of its path in characters.
    """

    def __init__(self, columns: GraphColumns) -> None:
        total = len(columns)
        self._columns = columns
        self.owners = array("i", [-1]) * total
        self.edges = array("i", [-1]) * total
        self.lengths = array("q", [0]) * total
        self.order = array("i", [0])
        self._sizes = array("i", map(len, map(escape, columns.edge_names)))
        self.owners[0] = 0
        self._place_below(0)
        self.along_edges = len(self.order)

    def _place_below(self, first: int) -> None:
        """Place what is below the objects from some position in the order on."""
        owners, edges, lengths, order = self.owners, self.edges, self.lengths, self.order
        columns = self._columns
        starts, targets, sizes = columns.edge_starts, columns.edge_targets, self._sizes
        for at in range(first, len(columns)):
            if at >= len(order):
                break
            node_id = order[at]
            start, stop = starts[node_id], starts[node_id + 1]
            if start == stop:
                continue
            base = lengths[node_id] + 1 if node_id else 0
            for edge in range(start, stop):
                child = targets[edge]
                if owners[child] < 0:
                    owners[child] = node_id
                    edges[child] = edge
                    lengths[child] = base + sizes[edge]
                    order.append(child)


class NamedPlaces(EdgePlaces):
    """The places of all objects, those of slot variables included, with paths.

    Slot variables come last, with what is below them, and are named by their variable, which counts
    as their owner, and their optimizer.

    Attributes:
        slots: by object, where it is in the columns of slots if it has its place there, else -1.

    Raises:
        CorruptError: the paths are too long for those of a program's objects.
    """

    def __init__(self, columns: GraphColumns) -> None:
        super().__init__(columns)
        self.slots = array("i", [-1]) * len(columns)
        self._optimizers = array("i", [-1]) * len(columns.slot_names)
        for optimizer, slots in columns.optimizers.items():
            if self.owners[optimizer] >= 0:
                self._place_slots(optimizer, slots)
        self._place_below(self.along_edges)
        if sum(self.lengths) > room_for_paths(len(columns)):
            raise CorruptError(
                "the paths of the object graph are too long for those of real objects"
            )

    def _place_slots(self, optimizer: int, slots: range) -> None:
        columns, owners, lengths = self._columns, self.owners, self.lengths
        base = lengths[optimizer] + len(_SLOT_MARK) + 1
        for at in slots:
            self._optimizers[at] = optimizer
            variable, slot = columns.slot_variables[at], columns.slot_nodes[at]
            if owners[slot] < 0 <= owners[variable]:
                owners[slot] = variable
                self.slots[slot] = at
                lengths[slot] = base + lengths[variable] + len(escape(columns.slot_names[at]))
                self.order.append(slot)

    def path(self, node_id: int) -> str | None:
        """Return the path of an object; None if it has none."""
        if self.owners[node_id] < 0:
            return None
        columns = self._columns
        # From the end: texts, and objects whose paths come before these.
        parts: list[str] = []
        waiting: list[int | str] = [node_id]
        while waiting:
            one = waiting.pop()
            if isinstance(one, str):
                parts.append(one)
                continue
            if not one:
                continue
            slot, owner = self.slots[one], self.owners[one]
            if slot >= 0:
                name = "/" + escape(columns.slot_names[slot])
                waiting += (owner, _SLOT_MARK, self._optimizers[slot], name)
            else:
                name = escape(columns.edge_names[self.edges[one]])
                waiting += (owner, f"/{name}" if owner else name)
        return "".join(reversed(parts))

    def paths(self) -> list[str | None]:
        """Return the paths of all objects."""
        columns, owners, edges, slots = self._columns, self.owners, self.edges, self.slots
        paths: list[str | None] = [None] * len(columns)
        paths[0] = ""
        for node_id in self.order[1:]:
            owner, slot = owners[node_id], slots[node_id]
            base = paths[owner] or ""
            if slot >= 0:
                optimizer = paths[self._optimizers[slot]] or ""
                paths[node_id] = slot_path(base, optimizer, columns.slot_names[slot])
            else:
                name = escape(columns.edge_names[edges[node_id]])
                paths[node_id] = f"{base}/{name}" if owner else name
        return paths
