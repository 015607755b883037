"""Several edits of one checkpoint at once, each of the original."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ckpttool.errors import SurgeryError
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.values import NewValue


def edit_together(plan: Plan, edited: Iterable[Plan]) -> Plan:
    """Return the plan with the new values of other plans made from it.

    Args:
        plan: the original.
        edited: what single edits make of it.

    Raises:
        SurgeryError: two of them give a tensor a value.
    """
    values: dict[str, NewValue] = {}
    for each in edited:
        for tensor in each.tensors:
            if tensor.value is None:
                continue
            other = values.setdefault(tensor.source_key, tensor.value)
            if other is not tensor.value:
                both = f"{other.action} and {tensor.value.action}"
                what = f"it gets two new values ({both})"
                raise SurgeryError(what, path=plan.source.prefix, key=tensor.source_key)
        plan = replace(plan, notes=tuple(dict.fromkeys((*plan.notes, *each.notes))))
    return plan.with_values(values)
