"""What to do: for each plan that is not whole, something; commands that a shell takes."""

from __future__ import annotations

import shlex
from dataclasses import replace
from itertools import product

import pytest

from ckpttool.query.match.advice import advise
from ckpttool.query.match.plan import MatchTarget, RenameSuggestion, RestorePlan
from tests.support.plans import SOURCE, TARGET, matched, mismatched, plan, unmatched, unresolved

PROGRAM = MatchTarget("program", None, None, None, "object")


def told(made: RestorePlan) -> str:
    return "\n".join(each.text for each in advise(made))


def commands(made: RestorePlan) -> list[list[str]]:
    return [shlex.split(line) for each in advise(made) for line in each.commands]


CASES = product(
    ((), ("a",), ("a/.OPTIMIZER_SLOT/o/m",)),
    ((), ("b",), ("b/.OPTIMIZER_SLOT/o/m",)),
    ((), ("x",)),
    (None, "mismatch", "missing", "optimizer", "container"),
    (TARGET, PROGRAM, replace(TARGET, style="name"), replace(TARGET, kind="lock")),
)


def test_there_is_always_something_to_do() -> None:
    for waiting, lacking, taken, raises, target in CASES:
        made = plan(
            matched=matched(*taken),
            unresolved=unresolved(*waiting),
            unmatched=unmatched(*lacking),
            mismatched=mismatched(*taken),
            raises=raises,
            target=target,
        )
        assert bool(advise(made)) is not made.verdict.consumed
        for line in commands(made):
            assert line[0] == "ckpt"
            assert line[1] in ("match", "rename", "prune", "ls", "convert-legacy")


def test_no_advice_for_what_is_whole() -> None:
    assert advise(plan(matched=matched("a"))) == ()


def test_a_few_rules_are_on_the_command_line() -> None:
    rules = [RenameSuggestion(f"a b{at}", f"c{at}", 1) for at in range(8)]
    made = plan(unresolved=unresolved("a"), unmatched=unmatched("b"), suggestions=rules)
    rename, match = commands(made)
    assert rename == [
        *["ckpt", "rename", "tf_ckpts"],
        *(f"a b{n}=c{n}" for n in range(8)),
        *["-o", "NEW"],
    ]
    assert match == ["ckpt", "match", "NEW", "fresh/ckpt"]
    more = replace(made, suggestions=[*rules, rules[0]], mode="read", skip_slots=True)
    assert commands(more)[0] == (
        [
            "ckpt",
            "match",
            "tf_ckpts",
            "fresh/ckpt",
            "--read",
            "--skip-slots",
            "--rename-map",
            "renames.json",
        ]
    )


def test_names_with_marks_of_rules_and_patterns() -> None:
    rules = [RenameSuggestion("a=b", "c=d", 1)]
    made = plan(unresolved=unresolved("a=b"), unmatched=unmatched("c=d"), suggestions=rules)
    assert commands(made)[0][3] == "a\\x3db=c=d"
    rules = [RenameSuggestion("-a", "-b", 1)]
    made = plan(unresolved=unresolved("-a"), unmatched=unmatched("-b"), suggestions=rules)
    assert commands(made)[0][3] == "\\x2da=-b"
    paths = ["a*", "re:x", "plain", "-v", "=e", "@f", "it's"]
    made = plan(matched=matched(*paths), mismatched=mismatched(*paths), raises="mismatch")
    drops = commands(made)[0][4:-2:2]
    assert drops == ["=a*", "=re:x", "plain", "=-v", "==e", "=@f", "it's"]
    assert commands(replace(made, source=replace(SOURCE, path="-x")))[0][2] == "./-x"


@pytest.mark.parametrize("scope", ["model", "a/b"])
def test_one_scope_more(scope: str) -> None:
    inner = ["l1/kernel", "l1/bias", "l2/kernel"]
    outer = [f"{scope}/{each}" for each in inner]
    first = told(plan(unresolved=unresolved(*outer), unmatched=unmatched(*inner)))
    assert f"below '{scope}' what the program has at its root" in first
    second = told(plan(unresolved=unresolved(*inner), unmatched=unmatched(*outer)))
    assert f"at its root what the program has below '{scope}'" in second
    other = told(plan(unresolved=unresolved(*outer), unmatched=unmatched(*inner, shape=(9,))))
    assert "at its root" not in other


def test_the_save_counter() -> None:
    made = plan(matched=matched("a"), unmatched=unmatched("save_counter"))
    assert "Checkpoint.write leaves none" in told(made)
    assert commands(made) == [["ckpt", "match", "tf_ckpts", "fresh/ckpt", "--read"]]
    assert "goes on counting" in told(replace(made, mode="read"))
    made = plan(matched=matched("a"), unresolved=unresolved("save_counter", kind="step"))
    assert commands(replace(made, mode="read"))[0] == ["ckpt", "match", "tf_ckpts", "fresh/ckpt"]
    assert "Checkpoint.restore" not in told(made)


def test_a_program_without_values() -> None:
    for made in (
        plan(unresolved=unresolved("net/w", "net/b")),
        plan(unresolved=unresolved("net/w"), matched=matched("save_counter")),
        plan(unresolved=unresolved("net/w"), unmatched=unmatched("save_counter")),
    ):
        (one,) = advise(made)
        assert "call the model" in one.text


def test_files_of_other_libraries() -> None:
    made = plan(unresolved=unresolved("a"), unmatched=unmatched("b"))
    made = replace(made, source=replace(SOURCE, path="m.npz", generation="npz", style="name"))
    first, second = commands(made)
    assert first == ["ckpt", "import", "m.npz", "--like", "fresh/ckpt", "-o", "NEW"]
    assert second == ["ckpt", "match", "NEW", "fresh/ckpt"]
    names = replace(made, target=replace(TARGET, style="name"))
    assert commands(names)[0] == ["ckpt", "import", "m.npz", "-o", "NEW"]


def test_a_saver_restores_all_or_nothing() -> None:
    made = plan(raises="missing", unmatched=unmatched("a"), target=replace(TARGET, style="name"))
    assert "--to name-based" in " ".join(commands(made)[0])
    made = replace(made, source=replace(SOURCE, style="name"))
    assert "all of its variables or none" in told(made)
