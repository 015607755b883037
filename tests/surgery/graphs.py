"""Object graphs written down as trees or drawn at random, and read back as outlines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from ckpttool.objects.graph import Attribute, Edge, Node, ObjectGraph, SlotVariable
from ckpttool.objects.keys import ATTRIBUTES, attribute_key, escape, unescape

# What a tree has in the place of a variable.
VARIABLE = "a variable"
# A tree has objects as mappings from edge name to what is there; "@a/b" is the object of that path.
Tree = Mapping[str, Any]
# Path of the optimizer, path of the variable, name of the slot.
Slot = tuple[str, str, str]


def graph_of(tree: Tree, slots: Sequence[Slot] = (), *, told: bool = True) -> ObjectGraph:
    """Return the graph of a tree, numbered breadth first, as TensorFlow would.

    Args:
        tree: the root's edges.
        slots: nodes for these follow all others.
        told: whether the nodes say if they hold values, as those of TensorFlow 1.15 do not.
    """
    things: list[Any] = [tree]
    at = {"": 0}
    for node_id, thing in enumerate(things):
        base = next(path for path, known in at.items() if known == node_id)
        if thing is VARIABLE:
            continue
        for name, child in thing.items():
            if not (isinstance(child, str) and child.startswith("@")):
                at[f"{base}/{name}".lstrip("/")] = len(things)
                things.append(child)
    nodes = []
    for node_id, thing in enumerate(things):
        base = next(path for path, known in at.items() if known == node_id)
        edges = () if thing is VARIABLE else tuple(thing.items())
        children = tuple(
            Edge(name, at[child[1:]] if str(child)[:1] == "@" else at[f"{base}/{name}".lstrip("/")])
            for name, child in edges
        )
        nodes.append(Node(node_id, children))
    variables = {node_id for node_id, thing in enumerate(things) if thing is VARIABLE}
    for optimizer, variable, name in slots:
        slot_id = len(nodes)
        nodes.append(Node(slot_id))
        variables.add(slot_id)
        owner = nodes[at[optimizer]]
        links = (*owner.slots, SlotVariable(at[variable], name, slot_id))
        nodes[owner.id] = Node(owner.id, owner.children, slots=links)
    paths = ObjectGraph(tuple(nodes)).paths
    full = []
    for node in nodes:
        key = attribute_key(paths[node.id] or "")
        attributes = (Attribute("VARIABLE_VALUE", f"name_{node.id}", key),)
        full.append(
            Node(
                node.id,
                node.children,
                attributes if node.id in variables else (),
                node.slots,
                has_values=True if told else None,
            )
        )
    graph = ObjectGraph(tuple(full))
    holders = holding(graph)
    return ObjectGraph(
        tuple(
            Node(
                node.id,
                node.children,
                node.attributes,
                node.slots,
                has_values=node.id in holders if told else None,
            )
            for node in full
        )
    )


def holding(graph: ObjectGraph) -> set[int]:
    """Return the ids of the nodes that hold values, or lead to one that does."""
    found = {node.id for node in graph.nodes if node.attributes or node.slots or node.saver}
    while True:
        more = {
            node.id
            for node in graph.nodes
            if node.id not in found and any(edge.node_id in found for edge in node.children)
        }
        if not more:
            return found
        found |= more


def edge_at(graph: ObjectGraph, path: str) -> tuple[int, str]:
    """Return the edge that a path ends with."""
    above, _, name = path.rpartition("/")
    parent = graph.node_at(above)
    assert parent is not None
    assert name in map_names(graph, parent)
    return parent, unescape(name)


def map_names(graph: ObjectGraph, node_id: int) -> list[str]:
    """Return the names of a node's edges, escaped, in order."""
    return [escape(edge.name) for edge in graph.nodes[node_id].children]


def outline(graph: ObjectGraph) -> dict[str, list[tuple[str, str | None]]]:
    """Return for each object that can be reached its edges in order, each with its target."""
    return {
        path: [(edge.name, graph.paths[edge.node_id]) for edge in graph.nodes[at].children]
        for at, path in enumerate(graph.paths)
        if path is not None
    }


def keys_of(graph: ObjectGraph) -> set[str]:
    """Return the checkpoint keys of all attributes of objects that can be reached."""
    return {
        attribute.checkpoint_key
        for node in graph.nodes
        if graph.paths[node.id] is not None
        for attribute in node.attributes
    }


def links_of(graph: ObjectGraph) -> set[tuple[str | None, ...]]:
    """Return all slots: path of the optimizer, of the variable, slot name, path of the slot."""
    paths = graph.paths
    return {
        (paths[one.optimizer_id], paths[one.variable_id], one.slot_name, paths[one.slot_id])
        for one in graph.slots
    }


NAMES = st.sampled_from(["a", "b", "c", "x.y", "p/q", ".S", "ü", "0"])


@st.composite
def graphs(draw: Any) -> ObjectGraph:
    """Draw a graph with shared and circular edges, and slots."""
    count = draw(st.integers(2, 9))
    nodes: list[dict[str, int]] = [{} for _ in range(count)]
    for child in range(1, count):  # every object can be reached
        parent = draw(st.integers(0, child - 1))
        name = draw(NAMES)
        nodes[parent][name if name not in nodes[parent] else f"{name}{child}"] = child
    for _ in range(draw(st.integers(0, 4))):
        parent, child = draw(st.integers(0, count - 1)), draw(st.integers(0, count - 1))
        nodes[parent].setdefault(draw(NAMES), child)
    holding_values = draw(st.sets(st.integers(1, count - 1), min_size=1))
    bare = ObjectGraph(
        tuple(
            Node(at, tuple(Edge(name, to) for name, to in edges.items()))
            for at, edges in enumerate(nodes)
        )
    )
    full = [
        node._replace(
            attributes=(
                Attribute("VARIABLE_VALUE", "", f"{bare.paths[node.id]}{ATTRIBUTES}VARIABLE_VALUE"),
            )
            if node.id in holding_values
            else (),
        )
        for node in bare.nodes
    ]
    graph = ObjectGraph(tuple(full))
    found = holding(graph)
    told = draw(st.booleans())
    return ObjectGraph(
        tuple(node._replace(has_values=node.id in found if told else None) for node in full)
    )
