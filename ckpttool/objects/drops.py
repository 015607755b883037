"""An object graph without some of its attributes."""

from __future__ import annotations

from collections.abc import Set

from ckpttool.objects.graph import ObjectGraph, with_values

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
