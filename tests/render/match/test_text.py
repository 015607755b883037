"""A plan as text: words beside colours, many values on few lines, narrow screens."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from ckpttool.query.match.advice import advise
from ckpttool.query.match.plan import (
    MatchAssumption,
    MatchConflict,
    RenameSuggestion,
    RestorePlan,
)
from ckpttool.render.console import Terminal
from ckpttool.render.match.text import write_match
from tests.support.plans import matched, mismatched, plan, unmatched, unresolved


def text(made: RestorePlan, *, width: int | None = 200, color: bool = False, **how: bool) -> str:
    stream = io.StringIO()
    terminal = Terminal(width=width, color=color)
    write_match(made, advise(made), 0, "table", stream, terminal, **how)
    return stream.getvalue()


def verdict(made: RestorePlan) -> str:
    return text(made).split("\n")[0].removeprefix("tf_ckpts/ckpt-10 ")


@pytest.mark.parametrize(
    ("told", "made"),
    [
        ("loads whole: all 2 values are taken", plan(matched=matched("a", "b"))),
        ("loads whole: the one value is taken", plan(matched=matched("a"))),
        ("loads whole: there is nothing to take", plan()),
        (
            "loads in part: 1 of 2 values is taken, 1 waits for an object",
            plan(matched=matched("a"), unresolved=unresolved("b")),
        ),
        (
            "does not load whole: the one value is taken, 2 objects get nothing",
            plan(matched=matched("a"), unmatched=unmatched("b", "c")),
        ),
        (
            "does not load: 0 of 1 value is taken, 1 waits for an object, 1 object gets nothing",
            plan(unresolved=unresolved("a"), unmatched=unmatched("b")),
        ),
        (
            "loads in part: 1 of 2 values is taken, 1 is not taken by its object",
            plan(matched=matched("a", "b"), unused_attributes=["b:VARIABLE_VALUE"]),
        ),
        (
            "loads whole: the one value is taken, 1 object keeps its value",
            plan(matched=matched("a"), hollow=["b"]),
        ),
        (
            "cannot be restored: 1 tensor has another dtype or shape than the program has",
            plan(matched=matched("a"), mismatched=mismatched("a"), raises="mismatch"),
        ),
    ],
)
def test_verdicts(told: str, made: RestorePlan) -> None:
    assert verdict(made) == told


def test_tensors_that_are_left_by_name() -> None:
    made = plan(matched=matched("a"), unresolved=unresolved("b"))
    passed = replace(made, verdict=replace(made.verdict, consumed=True))
    assert verdict(passed) == "loads: 1 of 2 values is taken, 1 waits for an object"


@pytest.mark.parametrize("raises", ["mismatch", "missing", "optimizer", "container"])
def test_what_raises_has_a_way_out(raises: str) -> None:
    made = plan(matched=matched("a"), mismatched=mismatched("a"), raises=raises)
    assert verdict(made).startswith("cannot be restored: ")
    assert advise(made)


def test_other_sections() -> None:
    made = plan(
        matched=matched("x"),
        unused_attributes=["x:VARIABLE_VALUE", "y:table"],
        hollow=["h/kernel", "h/bias"],
        conflicts=[MatchConflict("a", "a", "b")],
        assumptions=[
            MatchAssumption(None, "the program is odd"),
            MatchAssumption("o", "is odd"),
        ],
    )
    lines = [line.rstrip() for line in text(made).splitlines()]
    assert lines[1:7] == [
        "not taken by its object    x, y (table)",
        "no value there for         h/{kernel, bias}",
        "one object there, two here a: b gets nothing, a gets it",
        "assumed                    the program is odd",
        "                           o is odd",
        "",
    ]


def test_many_values_are_folded() -> None:
    names = [f"enc/layer_{at}/att/{name}" for at in range(24) for name in "qkvo"]
    made = plan(unresolved=unresolved(*names), unmatched=unmatched("w"))
    assert "enc/layer_#/att/q: 24 values\n" in text(made)
    assert "-v names every value" in text(made)
    full = text(made, named=True)
    assert full.count("enc/layer_") == 24 and "-v names" not in full
    wide = plan(unresolved=unresolved(*(f"net/v{at}" for at in range(9))))
    assert "net/{v0 [2], v1 [2], v2 [2], v3 [2], v4 [2], v5 [2], … 3 more}" in text(wide)


def test_many_renames_are_folded() -> None:
    rules = [RenameSuggestion(f"enc/l{at}", f"dec/m{at}", 4) for at in range(30)]
    made = plan(unresolved=unresolved("a"), unmatched=unmatched("b"), suggestions=rules)
    assert "maybe renamed              enc/l# → dec/m#: 120 tensors\n" in text(made)
    assert text(made, named=True).count("→") == 30


def test_dtypes_are_shown_where_they_differ() -> None:
    made = plan(unresolved=unresolved("a"), unmatched=unmatched("b", dtype="half", shape=(None,)))
    assert "a float32 [2]" in text(made) and "b half [?]" in text(made)
    made = plan(unresolved=unresolved("a", dtype=None, shape=None))
    assert "a (not stored)" in text(made)


def test_state_of_optimizers_is_counted() -> None:
    slots = [f"{name}/.OPTIMIZER_SLOT/opt/{slot}" for name in ("w", "x") for slot in "mv"]
    made = plan(
        matched=matched("x"),
        unresolved=[
            *unresolved("w"),
            *unresolved(*slots, kind="slot"),
            *unresolved("opt/iter", "opt/decay", kind="optimizer"),
        ],
    )
    assert text(made).split("\n")[1:6] == [
        "waiting in the checkpoint  w [2]",
        "                           and 2 slots of them",
        "                           2 slots of other variables",
        "                           2 other values of opt",
        "-v names every value",
    ]
    named = text(made, named=True)
    assert "opt/{iter [2], decay [2]}" in named and "w/.OPTIMIZER_SLOT/opt/{m [2], v [2]}" in named


@pytest.mark.parametrize("width", [20, 40, 69, 70, 100])
def test_nothing_is_lost_where_it_is_narrow(width: int) -> None:
    made = plan(
        matched=matched("a"),
        unresolved=unresolved("net/dense/kernel", "net/dense/bias"),
        unmatched=unmatched("model/l1/kernel", "model/l1/bias"),
        suggestions=[RenameSuggestion("net/dense", "model/l1", 2)],
    )
    narrow = text(made, width=width)
    assert "".join(narrow.split()) == "".join(text(made).split())
    # Commands are for copying, in one piece.
    assert "\n  ckpt rename tf_ckpts net/dense=model/l1 -o NEW\n" in narrow
    bright = text(made, width=width, color=True)
    assert "\x1b[1mckpt rename" in bright and "\x1b[33m" in bright


def test_names_are_made_printable() -> None:
    made = plan(
        unresolved=unresolved("a\x1b[2J/\nb"),
        unmatched=unmatched("c\x07"),
        suggestions=[RenameSuggestion("a\x1b[2J", "c\x07", 1)],
        hollow=["\x1b"],
        conflicts=[MatchConflict("\x1b", "\x1b", "\x1b")],
        path="p\x1b[31m",
    )
    printed = text(made)
    assert "\x1b" not in printed and "\x07" not in printed
    assert "ckpt rename $'p\\x1b[31m' 'a\\x1b[2J=c\\x07' -o NEW" in printed
