"""Rules for names: what each says, and how they are read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpttool.errors import SelectionError
from ckpttool.printable import printable
from ckpttool.surgery.rules import (
    MoveRule,
    PrefixRule,
    RenameRule,
    StripPrefixRule,
    parse_move,
    parse_substitution,
)


@pytest.mark.parametrize(
    ("rule", "name", "new"),
    [
        (MoveRule("a", "b"), "a", "b"),
        (MoveRule("a", "b"), "a/w", "b/w"),
        (MoveRule("a", "b/c"), "a/a/a", "b/c/a/a"),
        (MoveRule("a", "b"), "ab", None),
        (MoveRule("a", "b"), "x/a", None),
        (MoveRule("a/w", "w"), "a", None),
        (MoveRule("a.b", "c"), "aXb", None),
        (PrefixRule("t/"), "a", "t/a"),
        (PrefixRule("t_"), "t_a", "t_t_a"),
        (StripPrefixRule("t/"), "t/a/w", "a/w"),
        (StripPrefixRule("t/"), "t/t/a", "t/a"),
        (StripPrefixRule("t"), "tower", "ower"),
        (StripPrefixRule("t/"), "t/", None),
        (StripPrefixRule("t/"), "t", None),
        (StripPrefixRule("t/"), "a/t/b", None),
        (parse_substitution("l", "m"), "all/l", "amm/m"),
        (parse_substitution(r"l(\d+)", r"layer_\1"), "net/l1/l22", "net/layer_1/layer_22"),
        (parse_substitution(r"(?P<x>a)(b)?", r"\g<x>\2!"), "ab-a", "ab!-a!"),
        (parse_substitution("^a$", "b"), "a/w", None),
        (parse_substitution("a", "a"), "a", "a"),
        (parse_substitution("a", ""), "a", ""),
        (parse_substitution("", "x"), "ab", "xaxbx"),
        (parse_substitution(r"\.", r"\\"), "a.b", "a\\b"),
    ],
)
def test_rules(rule: RenameRule, name: str, new: str | None) -> None:
    assert rule.rename(name) == new


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (MoveRule("a", "b"), "a=b"),
        (PrefixRule("t/"), "--prefix t/"),
        (StripPrefixRule("t/"), "--strip-prefix t/"),
        (parse_substitution("a+", r"\g<0>b"), r"--sub a+ \g<0>b"),
    ],
)
def test_texts(rule: RenameRule, text: str) -> None:
    assert rule.text == text


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("a=b", "a", "b"),
        ("a/b=c/d/e", "a/b", "c/d/e"),
        ("a=b=c", "a", "b=c"),
        (r"a\x3db=c", "a=b", "c"),
        (r"a\x1b[31m=b\n", "a\x1b[31m", "b\n"),
        (r"a\\=b", "a\\", "b"),
        ("größe=日本 語", "größe", "日本 語"),
        ("a = b", "a ", " b"),
    ],
)
def test_moves_as_they_are_typed(text: str, old: str, new: str) -> None:
    assert parse_move(text) == MoveRule(old, new)


@pytest.mark.parametrize("text", ["", "=", "a", "a=", "=b", "a/b", "\x1b[31m"])
def test_no_move(text: str) -> None:
    with pytest.raises(SelectionError, match="is not a rule of the form OLD=NEW") as caught:
        parse_move(text)
    assert "\x1b" not in str(caught.value)


@given(st.text(min_size=1), st.text(min_size=1))
def test_names_may_be_typed_as_they_are_printed(old: str, new: str) -> None:
    typed = printable(old).replace("=", r"\x3d") + "=" + printable(new)
    assert parse_move(typed) == MoveRule(old, new)


@pytest.mark.parametrize(
    ("regex", "replacement", "message"),
    [
        ("(", "x", "unterminated subpattern"),
        ("[", "x", "unterminated character set"),
        ("*", "x", "nothing to repeat"),
        ("a", r"\1", "invalid group reference"),
        ("(a)", r"\2", "invalid group reference"),
        ("a", r"\g<no>", "unknown group name"),
        ("a", r"\q", "bad escape"),
        ("a", "\\", "bad escape"),
        ("(" * 10_000 + ")" * 10_000, "x", "recursion"),
        ("a{99999999999999999999}", "x", "too large"),
        ("(?<=a+)b", "x", "look-behind"),
    ],
)
def test_malformed_substitutions(regex: str, replacement: str, message: str) -> None:
    with pytest.raises(SelectionError, match=message) as caught:
        parse_substitution(regex, replacement)
    assert "--sub" in str(caught.value)
