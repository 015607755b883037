"""Choosing tensors of a plan by patterns, by their names in the source."""

from __future__ import annotations

from typing import NamedTuple

from ckpttool.checkpoint.selection.select import Listed, SelectionRule, Selector
from ckpttool.objects.keys import GRAPH_KEY
from ckpttool.surgery.plan import Plan


class PlannedName(NamedTuple):
    """The names and the kind by which a tensor is selected."""

    key: str
    object_path: str | None
    kind: str


def planned_names(plan: Plan) -> list[PlannedName]:
    """Return the tensors of the source, except the object graph."""
    return [
        PlannedName(key, plan.source.object_path(key), kind)
        for key, kind in plan.kinds.items()
        if key != GRAPH_KEY
    ]


def chosen_keys(
    plan: Plan, patterns: tuple[str, ...], rows: list[PlannedName] | None = None
) -> set[str]:
    """Return the source keys of the tensors that patterns select; of no pattern, none.

    Args:
        plan: the plan.
        patterns: the patterns.
        rows: what to choose from, if not all tensors.

    Raises:
        SelectionError: a pattern selects nothing.
    """
    if not patterns:
        return set()
    among = planned_names(plan) if rows is None else rows
    selector = Selector(map(SelectionRule, patterns))
    return {row.key for row in selector.choose([Listed(among, plan.source)]).chosen}
