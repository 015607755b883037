"""A restore plan without some tensors, as if neither checkpoint nor program had them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from ckpttool.checkpoint.open import Checkpoint
from ckpttool.checkpoint.selection.select import Listed, SelectionRule, Selector
from ckpttool.query.diff.scopes import scopes_of
from ckpttool.query.match.plan import (
    MatchedTensor,
    MatchVerdict,
    RestorePlan,
    UnmatchedValue,
    UnresolvedTensor,
)

# How tensors find objects that the program has already.
_THERE = ("edge", "slot", "name")


class _Row(NamedTuple):
    key: str
    object_path: str | None
    kind: str


def ignore_in_plan(
    plan: RestorePlan, patterns: Iterable[str], ckpt: Checkpoint | None = None
) -> tuple[RestorePlan, int]:
    """Return a plan without the tensors, and the values of the program, that patterns select.

    Args:
        plan: the plan.
        patterns: of paths, keys and names.
        ckpt: the checkpoint, for further names of its tensors.

    Returns:
        The plan with its verdict and totals as they are without, and how many were left out.

    Raises:
        SelectionError: a pattern selects nothing on either side.
    """
    rules = [SelectionRule(text) for text in patterns]
    if not rules:
        return plan, 0
    by_path = plan.source.style == "object"
    tensors: list[MatchedTensor | UnresolvedTensor] = [*plan.matched, *plan.unresolved]
    ours = [_Row(each.key, each.path if by_path else None, each.kind) for each in tensors]
    theirs = [_Row(each.path, each.path, "other") for each in plan.unmatched]
    chosen = Selector(rules).choose([Listed(ours, ckpt), Listed(theirs)]).by_part
    keys = {row.key for row in chosen[0]}
    paths = {row.key for row in chosen[1]}
    gone = {each.path for each in tensors if each.key in keys}
    matched = [each for each in plan.matched if each.key not in keys]
    unresolved = [each for each in plan.unresolved if each.key not in keys]
    unmatched = [each for each in plan.unmatched if each.path not in paths | gone]
    mismatched = [each for each in plan.mismatched if each.key not in keys]
    unused = [each for each in plan.unused_attributes if each.rpartition(":")[0] not in gone]
    verdict = plan.verdict
    raises = verdict.raises
    if (raises == "mismatch" and not mismatched) or (
        raises == "missing" and all(each.dtype is not None for each in matched)
    ):
        raises = None
    if raises is None:
        filled = not unmatched
        verdict = MatchVerdict(
            consumed=filled and not unresolved and not unused,
            existing_objects_matched=filled,
            nontrivial_match=verdict.nontrivial_match or bool(matched),
        )
    left, lacking = _scopes(unresolved), _scopes(unmatched)
    left_out = len(keys) + len(plan.unmatched) - len(unmatched)
    totals = replace(
        plan.totals,
        tensors=plan.totals.tensors - len(keys),
        values=plan.totals.values
        - (len(plan.unmatched) - len(unmatched))
        - sum(each.key in keys and each.via in _THERE for each in plan.matched),
        matched=len(matched),
        unresolved=len(unresolved),
        unmatched=len(unmatched),
        mismatched=len(mismatched),
        unused_attributes=len(unused),
    )
    return (
        replace(
            plan,
            verdict=verdict,
            matched=matched,
            unresolved=unresolved,
            unmatched=unmatched,
            mismatched=mismatched,
            hollow=[each for each in plan.hollow if each not in gone],
            unused_attributes=unused,
            suggestions=[
                each for each in plan.suggestions if each.old in left and each.new in lacking
            ],
            totals=totals,
        ),
        left_out,
    )


def _scopes(rows: Iterable[UnresolvedTensor | UnmatchedValue]) -> set[str]:
    """Return the paths and all scopes that they are in."""
    return {scope for each in rows for scope in scopes_of(each.path)}
