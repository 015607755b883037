"""The first of many rules, held against trying one after another."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from ckpttool.surgery.rules import (
    FirstOf,
    MoveRule,
    PrefixRule,
    RenameRule,
    StripPrefixRule,
    SubstituteRule,
)
from tests.support.limits import time_limit

_NAMES = st.lists(st.sampled_from(["a", "b", "ab", ""]), min_size=1, max_size=4).map("/".join)
_RULES = st.lists(
    st.one_of(
        st.builds(MoveRule, _NAMES, _NAMES),
        st.builds(SubstituteRule, st.sampled_from([re.compile("b/a"), re.compile("^a$")]), _NAMES),
        st.builds(StripPrefixRule, st.sampled_from(["a/", "b"])),
    ),
    max_size=6,
)


@given(_RULES, _NAMES)
def test_it_is_the_first_that_has_something_to_say(rules: list[RenameRule], name: str) -> None:
    expected = [
        (at, new) for at, rule in enumerate(rules) if (new := rule.rename(name)) is not None
    ]
    assert FirstOf(rules).rename(name) == (expected[0] if expected else None)


def test_rules_may_be_left_out() -> None:
    rules: list[RenameRule] = [PrefixRule("x/"), MoveRule("a", "b")]
    assert FirstOf(rules).rename("a/w") == (0, "x/a/w")
    assert FirstOf(rules, (PrefixRule,)).rename("a/w") == (1, "b/w")


def test_as_many_rules_as_names() -> None:
    names = [f"layer_{at}/kernel" for at in range(20_000)]
    with time_limit(10):
        first = FirstOf([MoveRule(name, f"l{at}") for at, name in enumerate(names)])
        assert [first.rename(name) for name in names] == [
            (at, f"l{at}") for at in range(len(names))
        ]
        assert first.rename("a/" * 200_000) is None
