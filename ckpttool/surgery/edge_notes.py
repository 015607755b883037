"""Notes on changes of the object graph by a rename that no tensor's key shows."""

from __future__ import annotations

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
    old, new = _edges(before), _edges(after)
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


def _edges(graph: ObjectGraph) -> dict[_Edge, str]:
    """Return the path of every reachable edge."""
    found = {}
    columns = graph.columns
    for node_id in columns.parents_with_edges():
        base = graph.path(node_id)
        if base is not None:
            for name, child in columns.children(node_id):
                path = f"{base}/{escape(name)}" if base else escape(name)
                found[node_id, name, child] = path
    return found
