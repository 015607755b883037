"""Changes of the object graph that no tensor's key shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ckpttool.checkpoint.nearest import listed
from ckpttool.objects.graph import ObjectGraph
from ckpttool.objects.keys import escape, object_path, split_key
from ckpttool.surgery.plan import Plan

_SHOWN = 5
# An edge: parent node, name, child node.
_Edge = tuple[int, str, int]


def with_edge_notes(plan: Plan, before: ObjectGraph) -> Plan:
    """Return a renamed plan with notes on edges renamed without any key, and on new objects."""
    after = plan.graph
    if after is None or after is before:
        return plan
    notes = []
    silent = _renamed(plan, before, after)
    if silent:
        shown = ", ".join(f"'{old}' to '{new}'" for old, new in silent[:_SHOWN])
        more = f" and {len(silent) - _SHOWN} more" if len(silent) > _SHOWN else ""
        notes.append(f"renamed in the object graph alone, no key is spelled so: {shown}{more}")
    new = range(len(before.nodes), len(after.nodes))
    made = [path for path in map(after.path, new) if path is not None]
    if made:
        notes.append(f"there was no object of this name, so it was made: {listed(made)}")
    return plan.with_notes(*notes)


def silent_edges(plan: Plan) -> list[tuple[str, str | None]]:
    """Return the edges of a plan's source that change although no key shows it.

    A plan that follows a reference has none.

    Returns:
        The path of each in the source, and its new path; None if it is removed. Of removed edges
        those below another are left out.
    """
    before, after = plan.source.object_graph, plan.graph
    if before is None or after is None or not plan.graph_changed or plan.placement is not None:
        return []  # the graph of a reference is another one, not a changed one
    told = _told(plan)
    found = [(old, new) for old, new in _moved(before, after) if old not in told]
    gone = {old for old, new in found if new is None}
    return [(old, new) for old, new in found if new or old.rpartition("/")[0] not in gone]


def _told(plan: Plan) -> set[str]:
    """Return the paths of all objects above tensors that are renamed or dropped."""
    told: set[str] = set()
    for change in plan.changes:
        parts = split_key(change.key)
        paths = ["/".join(parts.path)] if parts is not None else [change.key]
        if parts is not None and parts.slot is not None:
            paths.append("/".join(parts.slot.optimizer))
        for path in paths:
            while path and path not in told:
                told.add(path)
                path = path.rpartition("/")[0]
    return told


def _renamed(plan: Plan, before: ObjectGraph, after: ObjectGraph) -> list[tuple[str, str]]:
    """Return the old and new paths of renamed edges that no key shows."""
    told = set()
    for tensor in plan.tensors:
        if tensor.key != tensor.source_key:
            path = object_path(tensor.source_key) or tensor.source_key
            while path and path not in told:
                told.add(path)
                path = path.rpartition("/")[0]
    return [(old, new) for old, new in _moved(before, after) if new and old not in told]


def _moved(before: ObjectGraph, after: ObjectGraph) -> Iterator[tuple[str, str | None]]:
    """Yield the old path of each edge that is no more, and the new one of its object if any."""
    changed = _changed(before, after)
    old, new = _edges(before, changed), _edges(after, changed)
    added: dict[int, list[_Edge]] = {}
    for edge in new.keys() - old.keys():
        added.setdefault(edge[2], []).append(edge)
    for edges in added.values():
        edges.sort(key=lambda edge: new[edge], reverse=True)
    for edge in sorted(old.keys() - new.keys(), key=lambda edge: old[edge]):
        others = added.get(edge[2])
        yield old[edge], new[others.pop()] if others else None


def _changed(before: ObjectGraph, after: ObjectGraph) -> list[int]:
    """Return the nodes that have other edges than before, or can be reached at one time only."""
    found = [*range(len(before.nodes), len(after.nodes))]
    parents = {*before.columns.parents_with_edges(), *after.columns.parents_with_edges()}
    for node_id in parents.difference(found):
        reached = [graph.places.owners[node_id] >= 0 for graph in (before, after)]
        old, new = (graph.columns.children(node_id) for graph in (before, after))
        if reached[0] != reached[1] or [*old] != [*new]:
            found.append(node_id)
    return found


def _edges(graph: ObjectGraph, nodes: Iterable[int]) -> dict[_Edge, str]:
    """Return the paths of the reachable edges of some nodes."""
    found = {}
    columns = graph.columns
    for node_id in nodes:
        base = graph.path(node_id) if node_id < len(graph.nodes) else None
        if base is not None:
            for name, child in columns.children(node_id):
                path = f"{base}/{escape(name)}" if base else escape(name)
                found[node_id, name, child] = path
    return found
