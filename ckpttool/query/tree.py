"""A checkpoint as a tree: the object graph, or the scopes of a name-based one.

The tree is a flat list in the order it is drawn, each node with its depth, since a graph from a
file may be deeper than a program may recurse. An object that several edges lead to stands where
TensorFlow names it; elsewhere a reference to that place stands. Slot variables are folded into the
variable that they belong to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ckpttool.checkpoint.open import Checkpoint
from ckpttool.objects.graph import Edge, ObjectGraph
from ckpttool.query.listing import TensorRow


@dataclass(frozen=True, slots=True)
class SlotNode:
    """A slot variable: its name, and its tensor if that is in the checkpoint."""

    name: str
    tensor: TensorRow | None


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A node of the tree.

    Attributes:
        depth: 0 for the root.
        name: of the edge that leads to it, or the last segment of a scope; empty for the root.
        path: from the root, escaped; empty for the root.
        last: whether no sibling follows.
        tensors: what is stored for the object itself; several for a table.
        slots: slot variables of a variable.
        same_as: path of the place where the object stands, if that is another; it is drawn there.
        hidden: nodes below that a depth limit cut off.
    """

    depth: int
    name: str
    path: str
    last: bool
    tensors: tuple[TensorRow, ...] = ()
    slots: tuple[SlotNode, ...] = ()
    same_as: str | None = None
    hidden: int = 0


def build_tree(
    ckpt: Checkpoint, rows: Sequence[TensorRow], *, depth: int | None = None
) -> list[TreeNode]:
    """Return the tree that holds these tensors.

    Args:
        ckpt: the checkpoint; of an object-based one the object graph is read.
        rows: the tensors to show, as `list_tensors` gives them. If they are all there are,
            objects without tensors are shown too.
        depth: how many levels below the root.

    Raises:
        CkptError: the object graph is missing or damaged.
    """
    graph = ckpt.object_graph
    everything = len(rows) == len(ckpt)
    if graph is None:
        return _draw(*_scopes(rows), everything=everything, limit=depth)
    return _draw(*_objects(graph, rows), everything=everything, limit=depth)


@dataclass(slots=True)
class _Item:
    """A node before it has a place: an object, a scope, or a reference to an object."""

    name: str
    path: str
    tensors: tuple[TensorRow, ...] = ()
    slots: tuple[SlotNode, ...] = ()
    same_as: str | None = None


_Children = dict[int, list[int]]
# A key of a stranger may have a million slashes; what lies deeper than this is one segment.
_MAX_SEGMENTS = 128


def _objects(graph: ObjectGraph, rows: Sequence[TensorRow]) -> tuple[list[_Item], _Children]:
    by_key = {row.key: row for row in rows}
    owned: dict[int, list[TensorRow]] = {}
    claims = graph.claims(by_key.keys())
    for key, (node_id, _) in claims.owners.items():
        owned.setdefault(node_id, []).append(by_key[key])
    slots: dict[int, list[SlotNode]] = {}
    for link in graph.slots:
        tensor = next(iter(owned.get(link.slot_id, ())), None)
        slots.setdefault(link.variable_id, []).append(SlotNode(link.slot_name, tensor))
    paths = graph.paths
    items = [
        _Item(
            "", paths[node.id] or "", tuple(owned.get(node.id, ())), tuple(slots.get(node.id, ()))
        )
        for node in graph.nodes
    ]
    children: _Children = {}
    placed = {0}
    # Breadth first, as TensorFlow names objects: the first edge to an object is its place.
    queue = [0]
    for node_id in queue:
        below = children.setdefault(node_id, [])
        for edge in graph.nodes[node_id].children:
            if edge.node_id not in placed:
                placed.add(edge.node_id)
                queue.append(edge.node_id)
                items[edge.node_id].name = edge.name
                below.append(edge.node_id)
            else:
                below.append(len(items))
                items.append(_reference(edge, items, items[node_id].path))
    # What a saver of the program's own wrote belongs to no object by its key.
    for key in claims.unclaimed:
        children.setdefault(0, []).append(len(items))
        items.append(_Item(key, key, (by_key[key],)))
    return items, children


def _reference(edge: Edge, items: list[_Item], parent: str) -> _Item:
    path = f"{parent}/{edge.name}" if parent else edge.name
    return _Item(edge.name, path, same_as=items[edge.node_id].path)


def _scopes(rows: Sequence[TensorRow]) -> tuple[list[_Item], _Children]:
    items = [_Item("", "")]
    ids = {"": 0}
    children: _Children = {}
    for row in rows:
        parent = 0
        segments = row.key.split("/", _MAX_SEGMENTS)
        for at, name in enumerate(segments):
            path = "/".join(segments[: at + 1])
            if path not in ids:
                ids[path] = len(items)
                items.append(_Item(name, path))
                children.setdefault(parent, []).append(ids[path])
            parent = ids[path]
        items[parent].tensors = (row,)
    return items, children


def _draw(
    items: list[_Item], children: _Children, *, everything: bool, limit: int | None
) -> list[TreeNode]:
    wanted = _wanted(items, children, everything=everything)
    sizes = _sizes(children, wanted)
    out: list[TreeNode] = []
    stack = [(0, 0, True)]
    while stack:
        at, depth, last = stack.pop()
        item = items[at]
        below = [child for child in children.get(at, ()) if child in wanted]
        cut = limit is not None and depth >= limit
        hidden = sizes[at] - 1 if cut else 0
        out.append(
            TreeNode(
                depth, item.name, item.path, last, item.tensors, item.slots, item.same_as, hidden
            )
        )
        if not cut:
            stack += [(child, depth + 1, child == below[-1]) for child in reversed(below)]
    return out


def _wanted(items: list[_Item], children: _Children, *, everything: bool) -> set[int]:
    """Return the nodes to show: all, or those with a tensor and what leads to them."""
    if everything:
        return set(range(len(items)))
    wanted = {0}
    for at in reversed(_top_down(children)):
        slots = any(slot.tensor is not None for slot in items[at].slots)
        if items[at].tensors or slots or any(child in wanted for child in children.get(at, ())):
            wanted.add(at)
    return wanted


def _sizes(children: _Children, wanted: set[int]) -> dict[int, int]:
    """Return for each node how many it and those below it are."""
    sizes: dict[int, int] = {}
    for at in reversed(_top_down(children)):
        below = sum(sizes[child] for child in children.get(at, ()) if child in wanted)
        sizes[at] = 1 + below
    return sizes


def _top_down(children: _Children) -> list[int]:
    order = [0]
    for at in order:
        order += children.get(at, ())
    return order
