"""Attributes taken out of a graph, and what that empties."""

from __future__ import annotations

from collections.abc import Set

from ckpttool.objects.columns import STATES, GraphColumns
from ckpttool.objects.graph import ObjectGraph

# An attribute, by the id of its node and its name there.
AttributeId = tuple[int, str]


def drop_attributes(graph: ObjectGraph, dropped: Set[AttributeId]) -> ObjectGraph:
    """Return the graph without some attributes.

    References to slot variables, and edges to objects, that have lost all their values are removed
    too, so that TensorFlow restores the rest without complaint. Nodes keep their ids.
    """
    before = graph.columns
    left = bytearray(b"\1") * len(before.keys)
    emptied = set()
    for node_id in {node_id for node_id, _ in dropped}:
        for at in before.attributes_of(node_id):
            left[at] = (node_id, before.attribute_names[at]) not in dropped
        if not any(left[at] for at in before.attributes_of(node_id)):
            emptied.add(node_id)
    after = before.with_some_attributes(left)
    if not emptied.isdisjoint(before.slot_nodes):
        after = after.with_some_slots(bytes(slot not in emptied for slot in before.slot_nodes))
    return ObjectGraph.of(with_values(after, before=before), graph.unknown)


def with_values(columns: GraphColumns, *, before: GraphColumns) -> GraphColumns:
    """Return nodes with their words about values brought up to date.

    Edges to objects that have lost all values are removed: TensorFlow would complain about them. If
    the writer stored no such words, neither does the result.

    Args:
        columns: the nodes after a change.
        before: the nodes before, with the same ids; there may be fewer.
    """
    now = _holders(columns)
    then = _holders(before)
    emptied = {node_id for node_id, held in enumerate(then) if held and not now[node_id]}
    if not emptied.isdisjoint(columns.edge_targets):
        flags = bytes(target not in emptied for target in columns.edge_targets)
        columns = columns.with_some_edges(flags)
    if any(before.states):
        stated = STATES.index(False), STATES.index(True)
        columns = columns.with_states(bytearray(stated[held] for held in now))
    return columns


def _holders(columns: GraphColumns) -> bytearray:
    """Return for each node whether it holds values or leads to one that does."""
    holds = bytearray(len(columns))
    for node_id in (*columns.nodes_with_attributes(), *columns.optimizers, *columns.savers):
        holds[node_id] = 1
    # Most edges lead to a node with a larger number; upwards those are done in one go.
    starts, targets = columns.edge_starts, columns.edge_targets
    waiting: dict[int, list[int]] = {}
    for node_id in reversed([*columns.parents_with_edges()]):
        if not holds[node_id]:
            below = targets[starts[node_id] : starts[node_id + 1]]
            if any(map(holds.__getitem__, below)):
                holds[node_id] = 1
            else:
                for child in below:
                    waiting.setdefault(child, []).append(node_id)
    queue = [child for child in waiting if holds[child]]
    for child in queue:
        for node_id in waiting.get(child, ()):
            if not holds[node_id]:
                holds[node_id] = 1
                queue.append(node_id)
    return holds
