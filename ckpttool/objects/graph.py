"""The object graph of an object-based checkpoint, as an immutable value.

It tells which object of the program each tensor belongs to and how the objects refer to each other.
Node 0 is the root. Objects may be shared and form circles, so nothing here recurses.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate

from ckpttool.errors import CorruptError
from ckpttool.objects.claims import Claims
from ckpttool.objects.columns import GraphColumns, view_nodes, view_slots
from ckpttool.objects.decoding import decode_graph
from ckpttool.objects.encoding import encode_graph
from ckpttool.objects.keys import (
    GRAPH_KEY,
    OPTIMIZER_SLOT,
    join_path,
    split_path,
    unescape,
)
from ckpttool.objects.nodes import (
    Attribute,
    Edge,
    Node,
    RegisteredSaver,
    SlotLink,
    SlotVariable,
)
from ckpttool.objects.places import NamedPlaces

__all__ = [
    "Attribute",
    "Claims",
    "Edge",
    "Node",
    "ObjectGraph",
    "RegisteredSaver",
    "SlotLink",
    "SlotVariable",
]

# Edges followed in search of further paths of one node.
_MAX_STEPS = 10_000
# A way to some node: its first node, the name of its first edge, the rest.
_Way = tuple[int, str, "_Way | None"]


class ObjectGraph:
    """The nodes of a checked graph.

    Args:
        nodes: by id; the root is the first.
        unknown: unknown fields of the graph message.

    Attributes:
        columns: the nodes, as they are held.
        nodes: the nodes, each made when it is looked at.
        slots: all slot variables, in the order of their optimizers.
        unknown: as given.
    """

    def __init__(self, nodes: Iterable[Node], unknown: bytes = b"") -> None:
        self._hold(GraphColumns.of(nodes), unknown)

    def _hold(self, columns: GraphColumns, unknown: bytes) -> None:
        self.columns = columns
        self.unknown = unknown
        self.nodes: Sequence[Node] = view_nodes(columns)
        self.slots: Sequence[SlotLink] = view_slots(columns)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle and copy what is held; the views are made again."""
        return type(self).of, (self.columns, self.unknown)

    @classmethod
    def of(cls, columns: GraphColumns, unknown: bytes = b"") -> ObjectGraph:
        """Return the graph with these nodes."""
        graph = cls.__new__(cls)
        graph._hold(columns, unknown)
        return graph

    @classmethod
    def from_bytes(
        cls,
        data: bytes,
        *,
        path: str | None = None,
        key: str = GRAPH_KEY,
        shared: Mapping[str, str] | None = None,
    ) -> ObjectGraph:
        """Decode a serialized graph and check it.

        Args:
            data: the element of the string tensor.
            path: of the file, for errors.
            key: of the tensor, for errors.
            shared: as for `decode_graph`.

        Raises:
            CorruptError: as `decode_graph`.
        """
        try:
            return cls.of(*decode_graph(data, path=path, shared=shared))
        except CorruptError as error:
            error.locate(path=path, key=key)
            raise

    def to_bytes(self) -> bytes:
        """Return the serialized graph; of an unchanged graph, the bytes that were read."""
        return encode_graph(self.columns, self.unknown)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ObjectGraph):
            return NotImplemented
        return (self.columns, self.unknown) == (other.columns, other.unknown)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<ObjectGraph of {len(self.columns)} nodes>"

    @cached_property
    def places(self) -> NamedPlaces:
        """Where each object has its path.

        Raises:
            CorruptError: the paths are too long for those of a program's objects.
        """
        return NamedPlaces(self.columns)

    def path(self, node_id: int) -> str | None:
        """Return the path of an object, as `paths` has it, without making all of them.

        Raises:
            CorruptError: as `places`.
        """
        return self.places.path(node_id)

    @cached_property
    def paths(self) -> tuple[str | None, ...]:
        """The path of each node by id, as TensorFlow names it; None for an unreachable node.

        It is the first of the shortest ways from the root; segments are escaped, the root's path is
        empty. Slot variables come last and are named by their variable and their optimizer.

        Raises:
            CorruptError: the paths are too long for those of a program's objects.
        """
        return tuple(self.places.paths())

    def parents(self, node_id: int) -> Iterator[tuple[int, str]]:
        """Yield the edges that lead to an object: id of the parent and unescaped name."""
        edges, starts = self._incoming
        for edge in edges[starts[node_id] : starts[node_id + 1]]:
            yield self.columns.source(edge), self.columns.edge_names[edge]

    @cached_property
    def _incoming(self) -> tuple[array[int], array[int]]:
        """All edges in the order of the nodes that they lead to, and where those of each begin."""
        targets = self.columns.edge_targets
        counts = array("i", bytes(4 * len(self.columns)))
        for target in targets:
            counts[target] += 1
        edges = array("i", sorted(range(len(targets)), key=targets.__getitem__))
        return edges, array("i", accumulate(counts, initial=0))

    @property
    def unreachable(self) -> tuple[int, ...]:
        """The nodes that no path leads to."""
        return tuple(node_id for node_id, owner in enumerate(self.places.owners) if owner < 0)

    def paths_of(self, node_id: int, *, limit: int = 16) -> tuple[str, ...]:
        """Return at most `limit` paths of a node, TensorFlow's first, the others by length.

        A path passes no node twice. Of many, long ones may be missing.
        """
        first = self.path(node_id)
        if first is None:
            return ()
        found = {first: None}
        steps = 0
        queue: list[_Way] = [(node_id, "", None)]
        for way in queue:
            for parent, name in self.parents(way[0]):
                steps += 1
                if len(found) >= limit or steps > _MAX_STEPS:
                    return tuple(found)[:limit]
                if parent == 0:
                    found.setdefault(_spell((parent, name, way)))
                elif self.places.owners[parent] >= 0 and not _passes(way, parent):
                    queue.append((parent, name, way))
        return tuple(found)[:limit]

    def node_at(self, path: str) -> int | None:
        """Return the node at a path along any edges; None if there is none.

        Args:
            path: escaped segments, such as "net/l1/kernel" or "w/.OPTIMIZER_SLOT/opt/m".
        """
        segments = split_path(path)
        if OPTIMIZER_SLOT not in segments:
            return self._follow(segments)
        mark = segments.index(OPTIMIZER_SLOT)
        variable = self._follow(segments[:mark])
        # The root's path is empty and leaves an empty segment after the mark.
        optimizer = self._follow(tuple(filter(None, segments[mark + 1 : -1])))
        if variable is None or optimizer is None:
            return None
        return self._slot_ids.get((optimizer, variable, unescape(segments[-1])))

    def _follow(self, segments: Iterable[str]) -> int | None:
        node_id = 0
        for segment in segments:
            child = self._children_of(node_id).get(unescape(segment))
            if child is None:
                return None
            node_id = child
        return node_id

    def _children_of(self, node_id: int) -> dict[str, int]:
        known = self._child_maps.get(node_id)
        if known is None:
            known = dict(self.columns.children(node_id))
            self._child_maps[node_id] = known
        return known

    @cached_property
    def _child_maps(self) -> dict[int, dict[str, int]]:
        return {}

    @cached_property
    def _slot_ids(self) -> dict[tuple[int, int, str], int]:
        columns = self.columns
        return {
            (optimizer, columns.slot_variables[at], columns.slot_names[at]): columns.slot_nodes[at]
            for optimizer, slots in columns.optimizers.items()
            for at in slots
        }

    def key_of_node(self, node_id: int, attribute: str | None = None) -> str | None:
        """Return the checkpoint key of a node's attribute; None if it has no such attribute.

        Without a name the node's only attribute is meant.
        """
        columns, listed = self.columns, self.columns.attributes_of(node_id)
        if attribute is None:
            return columns.keys[listed[0]] if len(listed) == 1 else None
        return next(
            (columns.keys[at] for at in listed if columns.attribute_names[at] == attribute), None
        )

    def full_names(self) -> dict[str, str]:
        """Return the names that variables have in their program, by checkpoint key."""
        columns = self.columns
        named = zip(reversed(columns.keys), reversed(columns.full_names), strict=True)
        return {key: name for key, name in named if name}  # of two of a key the first

    def claims(self, keys: Collection[str]) -> Claims:
        """Tell which of all tensors of the checkpoint belong to which attributes.

        Args:
            keys: of all tensors; looking one up must be quick.
        """
        return Claims(self.columns, keys)


def _spell(way: _Way) -> str:
    names = []
    _, name, rest = way
    while rest is not None:
        names.append(name)
        _, name, rest = rest
    return join_path(names)


def _passes(way: _Way | None, node_id: int) -> bool:
    while way is not None:
        if way[0] == node_id:
            return True
        way = way[2]
    return False
