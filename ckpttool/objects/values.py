"""Which objects of a graph hold values, directly or below."""

from __future__ import annotations

from dataclasses import replace

from ckpttool.objects.graph import Node


def with_values(nodes: tuple[Node, ...], *, before: tuple[Node, ...]) -> tuple[Node, ...]:
    """Return nodes that say rightly whether they hold values.

    An edge to an object that held values and holds none any more is taken away: no program should
    be asked for what is not there. Where the writer did not say who holds values, that stays so.

    Args:
        nodes: the nodes after a change.
        before: those before it, with the same ids; there may be fewer.
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
            node = replace(node, children=children, has_values=has_values)
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
