"""How the tensors of a checkpoint took the places of a reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ckpttool.coding.text import encode_text
from ckpttool.objects.keys import object_path
from ckpttool.query.source import Source
from ckpttool.render import humanize
from ckpttool.render.cells import Column
from ckpttool.surgery.plan import Change, Plan

PLACED_BY = Column("reason", "by", style="cyan")


def all_tensors(plan: Plan) -> Sequence[Change]:
    """Return the changes of a plan and, if it follows a reference, also the tensors that stay."""
    changes = plan.changes
    if plan.placement is None:
        return changes
    staying = [each for each in plan.tensors if each.key == each.source_key and each.value is None]
    kept = [
        Change("keep", each.key, each.key, plan.kinds[each.source_key], each.bytes, each)
        for each in staying
    ]
    return sorted((*changes, *kept), key=lambda change: encode_text(change.key))


def reason_of(plan: Plan, key: str) -> str | None:
    """Return what told the place of a tensor of the source; None of one that has none."""
    return None if plan.placement is None else plan.placement.reasons.get(key)


def placed_parts(plan: Plan) -> list[str]:
    """Return in words how many tensors were placed by what."""
    if plan.placement is None or not plan.placement.reasons:
        return []
    counts = Counter(plan.placement.reasons.values())
    told = ", ".join(f"{reason} {humanize.number(counts[reason])}" for reason in sorted(counts))
    return [f"placed by {told}"]


def placement_document(plan: Plan, source: Source) -> dict[str, object] | None:
    """Return as one object where tensors went, and why; None without a reference."""
    placement = plan.placement
    if placement is None:
        return None
    return {
        "reference": placement.reference,
        "filled": placement.filled,
        "pairs": [
            {
                "key": tensor.source_key,
                **source.names.members(tensor.source_key),
                "new_key": tensor.key,
                "new_object_path": object_path(tensor.key),
                "new_name": placement.full_names.get(tensor.key) or None,
                "kind": plan.kinds[tensor.source_key],
                "dtype": tensor.dtype.name,
                "shape": list(tensor.shape),
                "reason": placement.reasons[tensor.source_key],
            }
            for tensor in plan.tensors
        ],
        "empty": [
            {
                "key": place.key,
                "object_path": object_path(place.key),
                "name": place.full_name or None,
                "kind": place.kind,
                "dtype": place.dtype.name,
                "shape": list(place.shape),
            }
            for place in placement.empty
        ],
    }
