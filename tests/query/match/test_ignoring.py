"""A plan without what is ignored, on both sides."""

from __future__ import annotations

import pytest

from ckpttool.errors import SelectionError
from ckpttool.query.match.ignoring import ignore_in_plan
from ckpttool.query.match.plan import RenameSuggestion
from tests.support.plans import matched, mismatched, plan, unmatched, unresolved


def test_nothing_is_ignored() -> None:
    made = plan(matched=matched("a"))
    assert ignore_in_plan(made, ()) == (made, 0)


def test_both_sides() -> None:
    made = plan(
        matched=matched("a", "opt/iter"),
        unresolved=unresolved("opt/x", "net/w"),
        unmatched=unmatched("opt/y", "model/w"),
        suggestions=[RenameSuggestion("net", "model", 1), RenameSuggestion("opt/x", "opt/y", 1)],
    )
    left, ignored = ignore_in_plan(made, ["opt"])
    assert ignored == 3
    assert [each.path for each in left.unresolved] == ["net/w"]
    assert [each.path for each in left.unmatched] == ["model/w"]
    assert [each.old for each in left.suggestions] == ["net"]
    assert (left.totals.tensors, left.totals.matched, left.totals.values) == (2, 1, 2)
    whole, _ = ignore_in_plan(made, ["opt", "*/w"])
    assert whole.verdict.consumed and not whole.suggestions


def test_what_raises() -> None:
    made = plan(matched=matched("a", "b"), mismatched=mismatched("b"), raises="mismatch")
    assert ignore_in_plan(made, ["a"])[0].verdict.raises == "mismatch"
    left, _ = ignore_in_plan(made, ["b"])
    assert left.verdict.consumed and left.verdict.nontrivial_match and not left.mismatched
    refused = plan(matched=matched("a", "b"), raises="optimizer")
    assert ignore_in_plan(refused, ["b"])[0].verdict.raises == "optimizer"


def test_hollow_and_unused() -> None:
    made = plan(matched=matched("a", "b"), unused_attributes=["b:VARIABLE_VALUE"], hollow=["b"])
    left, ignored = ignore_in_plan(made, ["b"])
    assert (ignored, left.unused_attributes, left.hollow) == (1, [], [])
    assert left.verdict.consumed


def test_a_pattern_that_selects_nothing() -> None:
    with pytest.raises(SelectionError, match="selects nothing"):
        ignore_in_plan(plan(matched=matched("a")), ["b"])
