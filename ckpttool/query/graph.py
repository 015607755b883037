"""The object graph, node by node, with every object under its path."""

from __future__ import annotations

from dataclasses import dataclass

from ckpttool.checkpoint.open import Checkpoint
from ckpttool.errors import UnsupportedError


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """A reference to another object: its name, not escaped, and the node it leads to."""

    name: str
    node_id: int


@dataclass(frozen=True, slots=True)
class GraphAttribute:
    """Something an object saves.

    Attributes:
        name: what the object calls it.
        full_name: a variable's name in its program; empty for other objects.
        key: key of the tensor, or what the keys of several begin with.
        optional: whether a program may do without it.
    """

    name: str
    full_name: str
    key: str
    optional: bool


@dataclass(frozen=True, slots=True)
class GraphSlot:
    """A slot variable that an optimizer keeps.

    Attributes:
        name: of the slot.
        variable_id: the variable that it belongs to.
        variable: path of that; None where it has none.
        node_id: the slot variable itself.
    """

    name: str
    variable_id: int
    variable: str | None
    node_id: int


@dataclass(frozen=True, slots=True)
class GraphNode:
    """An object.

    Attributes:
        id: its number in the graph.
        path: how TensorFlow names it; empty for the root, None where no path leads to it.
        children: the objects that it refers to.
        attributes: what it saves.
        slots: the slot variables that it keeps, if it is an optimizer.
        saver: the registered function that saved it; None for most objects.
    """

    id: int
    path: str | None
    children: tuple[GraphEdge, ...]
    attributes: tuple[GraphAttribute, ...]
    slots: tuple[GraphSlot, ...]
    saver: str | None


@dataclass(frozen=True, slots=True)
class GraphDetail:
    """The object graph.

    Attributes:
        nodes: the objects by id, as many as were asked for.
        total: how many there are.
        slots: how many slot variables there are in all.
    """

    nodes: tuple[GraphNode, ...]
    total: int
    slots: int

    @property
    def complete(self) -> bool:
        """Whether nothing is left out."""
        return len(self.nodes) == self.total


def describe_graph(ckpt: Checkpoint, *, limit: int | None = None) -> GraphDetail:
    """Return the object graph of a checkpoint.

    Args:
        ckpt: an object-based checkpoint.
        limit: how many nodes at most.

    Raises:
        CorruptError: it is damaged.
        UnsupportedError: the checkpoint is name-based.
    """
    graph = ckpt.object_graph
    if graph is None:
        raise UnsupportedError("a name-based checkpoint has no object graph", path=ckpt.prefix)
    paths = graph.paths
    nodes = tuple(
        GraphNode(
            node.id,
            paths[node.id],
            tuple(GraphEdge(edge.name, edge.node_id) for edge in node.children),
            tuple(
                GraphAttribute(one.name, one.full_name, one.checkpoint_key, one.optional_restore)
                for one in node.attributes
            ),
            tuple(
                GraphSlot(slot.slot_name, slot.variable_id, paths[slot.variable_id], slot.slot_id)
                for slot in node.slots
            ),
            node.saver.name if node.saver is not None else None,
        )
        for node in graph.nodes[:limit]
    )
    return GraphDetail(nodes, len(graph.nodes), len(graph.slots))
