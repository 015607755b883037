"""Notes on changes of the object graph by a rename that no tensor's key shows."""

from __future__ import annotations

from collections.abc import Iterable

from ckpttool.checkpoint.nearest import listed
from ckpttool.objects.graph import ObjectGraph
from ckpttool.objects.keys import escape, object_path
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
    silent = _silent(plan, before, after)
    if silent:
        shown = ", ".join(f"'{old}' to '{new}'" for old, new in silent[:_SHOWN])
        more = f" and {len(silent) - _SHOWN} more" if len(silent) > _SHOWN else ""
        notes.append(f"renamed in the object graph alone, no key is spelled so: {shown}{more}")
    new = range(len(before.nodes), len(after.nodes))
    made = [path for path in map(after.path, new) if path is not None]
    if made:
        notes.append(f"there was no object of this name, so it was made: {listed(made)}")
    return plan.with_notes(*notes)


def _silent(plan: Plan, before: ObjectGraph, after: ObjectGraph) -> list[tuple[str, str]]:
    """Return the old and new paths of changed edges that no key shows."""
    told = set()
    for tensor in plan.tensors:
        if tensor.key != tensor.source_key:
            path = object_path(tensor.source_key) or tensor.source_key
            while path and path not in told:
                told.add(path)
                path = path.rpartition("/")[0]
    changed = _changed(before, after)
    old, new = _edges(before, changed), _edges(after, changed)
    added: dict[int, list[_Edge]] = {}
    for edge in new.keys() - old.keys():
        added.setdefault(edge[2], []).append(edge)
    for edges in added.values():
        edges.sort(key=lambda edge: new[edge], reverse=True)
    found = []
    for edge in sorted(old.keys() - new.keys(), key=lambda edge: old[edge]):
        others = added.get(edge[2])
        if others:
            path = new[others.pop()]
            if old[edge] not in told:
                found.append((old[edge], path))
    return found


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
