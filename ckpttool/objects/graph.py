"""The object graph of an object-based checkpoint, as an immutable value.

It tells which object of the program each tensor belongs to and how the objects refer to each other.
Node 0 is the root. Objects may be shared and form circles, so nothing here recurses.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass
from functools import cached_property

from ckpttool.errors import CorruptError
from ckpttool.objects.keys import (
    ATTRIBUTES,
    GRAPH_KEY,
    OPTIMIZER_SLOT,
    escape,
    join_path,
    room_for_paths,
    slot_path,
    split_path,
    unescape,
)
from ckpttool.objects.nodes import (
    Attribute,
    Edge,
    Node,
    RegisteredSaver,
    SlotVariable,
    decode_nodes,
    encode_nodes,
)

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


@dataclass(frozen=True, slots=True)
class SlotLink:
    """A slot variable with its optimizer and its variable, by node id."""

    optimizer_id: int
    variable_id: int
    slot_name: str
    slot_id: int


@dataclass(frozen=True, slots=True)
class Claims:
    """Which tensors belong to which attributes of the graph.

    Attributes:
        owners: tensor key -> node id and attribute.
        unclaimed: tensor keys that no attribute names, the graph's own left out.
        missing: node id and attribute, for attributes without a tensor. TensorFlow writes these for
            uninitialised variables.
        disputed: keys that several attributes name.
    """

    owners: dict[str, tuple[int, Attribute]]
    unclaimed: tuple[str, ...]
    missing: tuple[tuple[int, Attribute], ...]
    disputed: tuple[str, ...]


@dataclass(frozen=True)
class ObjectGraph:
    """The nodes of a checked graph.

    Attributes:
        nodes: by id; the root is the first.
        unknown: unknown fields of the graph message.
    """

    nodes: tuple[Node, ...]
    unknown: bytes = b""

    @classmethod
    def from_bytes(
        cls, data: bytes, *, path: str | None = None, key: str = GRAPH_KEY
    ) -> ObjectGraph:
        """Decode a serialized graph and check it.

        Args:
            data: the element of the string tensor.
            path: of the file, for errors.
            key: of the tensor, for errors.

        Raises:
            CorruptError: as `decode_nodes`.
        """
        try:
            return cls(*decode_nodes(data, path=path))
        except CorruptError as error:
            error.locate(path=path, key=key)
            raise

    def to_bytes(self) -> bytes:
        """Return the serialized graph; of an unchanged graph, the bytes that were read."""
        return encode_nodes(self.nodes, self.unknown)

    @cached_property
    def paths(self) -> tuple[str | None, ...]:
        """The path of each node by id, as TensorFlow names it; None for an unreachable node.

        It is the first of the shortest ways from the root; segments are escaped, the root's path is
        empty. Slot variables come last and are named by their variable and their optimizer.

        Raises:
            CorruptError: the paths are too long for those of a program's objects.
        """
        paths: list[str | None] = [None] * len(self.nodes)
        paths[0] = ""
        budget = self._name_below(paths, [0], room_for_paths(len(self.nodes)))
        slots = []
        for node in self.nodes:
            optimizer = paths[node.id]
            if optimizer is None:
                continue
            for slot in node.slots:
                base = paths[slot.variable_id]
                if paths[slot.slot_id] is None and base is not None:
                    path = slot_path(base, optimizer, slot.slot_name)
                    paths[slot.slot_id] = path
                    budget -= len(path)
                    slots.append(slot.slot_id)
                    if budget < 0:
                        raise _too_long()
        self._name_below(paths, slots, budget)
        return tuple(paths)

    def _name_below(self, paths: list[str | None], queue: list[int], budget: int) -> int:
        nodes = self.nodes
        for node_id in queue:
            base = paths[node_id]
            prefix = f"{base}/" if node_id else ""
            for edge in nodes[node_id].children:
                child = edge.node_id
                if paths[child] is None:
                    paths[child] = path = prefix + escape(edge.name)
                    budget -= len(path)
                    queue.append(child)
                    if budget < 0:
                        raise _too_long()
        return budget

    @cached_property
    def slots(self) -> tuple[SlotLink, ...]:
        """All slot variables, in the order of their optimizers."""
        return tuple(
            SlotLink(node.id, slot.variable_id, slot.slot_name, slot.slot_id)
            for node in self.nodes
            for slot in node.slots
        )

    @cached_property
    def parents(self) -> tuple[tuple[tuple[int, str], ...], ...]:
        """For each node the edges that lead to it: id of the parent and unescaped name."""
        found: list[list[tuple[int, str]]] = [[] for _ in self.nodes]
        for node in self.nodes:
            for edge in node.children:
                found[edge.node_id].append((node.id, edge.name))
        return tuple(map(tuple, found))

    @property
    def unreachable(self) -> tuple[int, ...]:
        """The nodes that no path leads to."""
        return tuple(node_id for node_id, path in enumerate(self.paths) if path is None)

    def paths_of(self, node_id: int, *, limit: int = 16) -> tuple[str, ...]:
        """Return at most `limit` paths of a node, TensorFlow's first, the others by length.

        A path passes no node twice. Of many, long ones may be missing.
        """
        first = self.paths[node_id]
        if first is None:
            return ()
        found = {first: None}
        steps = 0
        queue: list[_Way] = [(node_id, "", None)]
        for way in queue:
            for parent, name in self.parents[way[0]]:
                steps += 1
                if len(found) >= limit or steps > _MAX_STEPS:
                    return tuple(found)[:limit]
                if parent == 0:
                    found.setdefault(_spell((parent, name, way)))
                elif self.paths[parent] is not None and not _passes(way, parent):
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
            known = {edge.name: edge.node_id for edge in self.nodes[node_id].children}
            self._child_maps[node_id] = known
        return known

    @cached_property
    def _child_maps(self) -> dict[int, dict[str, int]]:
        return {}

    @cached_property
    def _slot_ids(self) -> dict[tuple[int, int, str], int]:
        return {
            (link.optimizer_id, link.variable_id, link.slot_name): link.slot_id
            for link in self.slots
        }

    def key_of_node(self, node_id: int, attribute: str | None = None) -> str | None:
        """Return the checkpoint key of a node's attribute; None if it has no such attribute.

        Without a name the node's only attribute is meant.
        """
        attributes = self.nodes[node_id].attributes
        if attribute is None:
            return attributes[0].checkpoint_key if len(attributes) == 1 else None
        keys = (one.checkpoint_key for one in attributes if one.name == attribute)
        return next(keys, None)

    def full_names(self) -> dict[str, str]:
        """Return the names that variables have in their program, by checkpoint key."""
        found: dict[str, str] = {}
        for node in self.nodes:
            for attribute in node.attributes:
                if attribute.full_name:
                    found.setdefault(attribute.checkpoint_key, attribute.full_name)
        return found

    def claims(self, keys: Set[str]) -> Claims:
        """Tell which of all tensors of the checkpoint belong to which attributes.

        An attribute owns the tensor with its checkpoint key or, if there is none, all tensors whose
        keys continue it, as "…/table-keys" continues "…/table".
        """
        owners: dict[str, tuple[int, Attribute]] = {}
        prefixes: dict[str, tuple[int, Attribute]] = {}
        disputed = []
        for node in self.nodes:
            for attribute in node.attributes:
                key = attribute.checkpoint_key
                known = owners if key in keys else prefixes
                owner = (node.id, attribute)
                if known.setdefault(key, owner) is not owner:
                    disputed.append(key)
        unclaimed = []
        used = set()
        for key in keys:
            if key not in owners and key != GRAPH_KEY:
                stem = _stem(key, prefixes) if prefixes else None
                if stem is None:
                    unclaimed.append(key)
                else:
                    used.add(stem)
                    owners[key] = prefixes[stem]
        missing = tuple(owner for stem, owner in prefixes.items() if stem not in used)
        return Claims(owners, tuple(sorted(unclaimed)), missing, tuple(disputed))


def _stem(key: str, prefixes: dict[str, tuple[int, Attribute]]) -> str | None:
    """Return the longest of `prefixes` that `key` begins with and that has its whole path."""
    for end in range(len(key) - 1, key.find(ATTRIBUTES), -1):
        if key[:end] in prefixes:
            return key[:end]
    return None


def _too_long() -> CorruptError:
    return CorruptError("the paths of the object graph are too long for those of real objects")


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


def with_values(nodes: tuple[Node, ...], *, before: tuple[Node, ...]) -> tuple[Node, ...]:
    """Return nodes with `has_values` brought up to date.

    Edges to objects that have lost all values are removed: TensorFlow would complain about them. If
    the writer stored no `has_values`, neither does the result.

    Args:
        nodes: the nodes after a change.
        before: the nodes before, with the same ids; there may be fewer.
    """
    now, then = _holders(nodes), _holders(before)
    emptied = then - now
    told = any(node.has_values is not None for node in before)
    out = []
    for node in nodes:
        children = tuple(edge for edge in node.children if edge.node_id not in emptied)
        if len(children) == len(node.children):
            children = node.children
        has_values = node.id in now if told else node.has_values
        if children is not node.children or has_values != node.has_values:
            node = node._replace(children=children, has_values=has_values)
        out.append(node)
    return tuple(out)


def _holders(nodes: tuple[Node, ...]) -> set[int]:
    """Return the ids of the nodes that hold values or lead to one that does."""
    parents: list[list[int]] = [[] for _ in nodes]
    for node in nodes:
        for edge in node.children:
            parents[edge.node_id].append(node.id)
    holders = {node.id for node in nodes if node.attributes or node.slots or node.saver}
    queue = list(holders)
    for node_id in queue:
        for parent in parents[node_id]:
            if parent not in holders:
                holders.add(parent)
                queue.append(parent)
    return holders


# An attribute, by the id of its node and its name there.
AttributeId = tuple[int, str]


def drop_attributes(graph: ObjectGraph, dropped: Set[AttributeId]) -> ObjectGraph:
    """Return the graph without some attributes.

    References to slot variables, and edges to objects, that have lost all their values are removed
    too, so that TensorFlow restores the rest without complaint. Nodes keep their ids.
    """
    bare = [
        node._replace(
            attributes=tuple(a for a in node.attributes if (node.id, a.name) not in dropped)
        )
        if node.attributes
        else node
        for node in graph.nodes
    ]
    emptied = {node.id for node in graph.nodes if node.attributes and not bare[node.id].attributes}
    nodes = tuple(
        node._replace(slots=tuple(slot for slot in node.slots if slot.slot_id not in emptied))
        if node.slots
        else node
        for node in bare
    )
    return ObjectGraph(with_values(nodes, before=graph.nodes), graph.unknown)
