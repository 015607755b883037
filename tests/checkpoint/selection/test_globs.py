from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpttool.checkpoint.selection.globs import compile_glob, is_glob
from ckpttool.errors import SelectionError


def matches(glob: str, name: str) -> bool:
    return compile_glob(glob).fullmatch(name) is not None


@pytest.mark.parametrize(
    ("glob", "yes", "no"),
    [
        ("*", ["a", "abc", ""], ["a/b"]),
        ("a*", ["a", "ab"], ["a/b", "b"]),
        ("*/kernel", ["l1/kernel"], ["net/l1/kernel", "kernel"]),
        ("net/*/kernel", ["net/l1/kernel", "net//kernel"], ["net/a/b/kernel", "net/kernel"]),
        ("**", ["a", "a/b/c", ""], []),
        ("**/kernel", ["kernel", "a/kernel", "a/b/kernel"], ["a/mykernel", "kernel/a"]),
        ("net/**", ["net/a", "net/a/b"], ["net", "network/a"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["ab", "a/xb", "xa/b"]),
        ("a**b", ["ab", "axb", "a/x/b"], ["a/x/c"]),
        ("**/a*b/**", ["ab/x", "q/axxb/y/z"], ["q/axxb", "a/b/x"]),
        ("**/**/x", ["x", "a/x", "a/b/x"], ["ax"]),
        ("?", ["a", "é"], ["/", "", "ab"]),
        ("l[0-2]/k", ["l0/k", "l2/k"], ["l3/k", "l/k"]),
        ("l[!0-2]", ["l3", "lx"], ["l0", "l/"]),
        ("l[^0]", ["l1"], ["l0"]),
        ("a[/]b", [], ["a/b"]),
        ("[]x]", ["]", "x"], ["a"]),
        ("[!]x]", ["a"], ["]", "x"]),
        ("[a-]", ["a", "-"], ["b"]),
        ("[*?{]", ["*", "?", "{"], ["a"]),
        ("{m,v}", ["m", "v"], ["mv", "{m,v}"]),
        ("dense/kernel{,/**}", ["dense/kernel", "dense/kernel/Adam"], ["dense/kernels"]),
        ("{a,b{c,d{e,f}}}", ["a", "bc", "bde", "bdf"], ["b", "bd", "be"]),
        ("{a*,*b}/x", ["a1/x", "1b/x"], ["c/x", "a/b/x"]),
        ("{[,],x}", [",", "x"], ["[", "]"]),
        ("{one}", ["one"], ["{one}"]),
        (r"a\*", ["a*"], ["ab", r"a\*"]),
        (r"\{a\,b\}*", ["{a,b}", "{a,b}c"], ["a"]),
        (r"*\x1b", ["a\x1b"], [r"a\x1b"]),
        (r"*\xff\\", ["\udcff\\"], [r"\xff"]),
        ("*.a", ["x.a"], ["xya"]),
        ("*\n*", ["a\nb"], ["ab"]),
        ("**b", ["a\nb"], ["a\n"]),
    ],
)
def test_what_a_glob_matches(glob: str, yes: list[str], no: list[str]) -> None:
    assert [name for name in yes if not matches(glob, name)] == []
    assert [name for name in no if matches(glob, name)] == []


@pytest.mark.parametrize("text", ["*", "a?", "[", "]", "{", "a}"])
def test_marks_of_globs(text: str) -> None:
    assert is_glob(text)
    assert not is_glob("net/l1/.ATTRIBUTES/VARIABLE_VALUE:0+(x)|$^\\")


@pytest.mark.parametrize(
    ("glob", "problem"),
    [
        ("a[bc", "'[' is never closed"),
        ("[]", "'[' is never closed"),
        ("a{b,c", "'{' is never closed"),
        ("a]b", "']' closes nothing"),
        ("a}b", "'}' closes nothing"),
        ("[z-a]", "the range 'z-a' is reversed"),
        ("{" * 33 + "}" * 33, "nest deeper than 32"),
        ("{a,b}" * 10, "more than 1000 globs"),
        ("{" + "," * 1000 + "}", "more than 1000 globs"),
        ("{" * 5000, "nest deeper than 32"),
    ],
)
def test_malformed_globs(glob: str, problem: str) -> None:
    with pytest.raises(SelectionError, match=re.escape(problem)):
        compile_glob(glob)


def test_as_many_alternatives_as_allowed() -> None:
    regex = compile_glob("{" + ",".join(f"w{n}" for n in range(1000)) + "}")
    assert regex.fullmatch("w999")
    assert not regex.fullmatch("w1000")


def naive(glob: str) -> str:
    """Translate a glob of the characters a b / * ? word for word."""
    out = ""
    at = 0
    while at < len(glob):
        if glob.startswith("**/", at) and (at == 0 or glob[at - 1] == "/"):
            out, at = out + "(?:.*/)?", at + 3
        elif glob.startswith("**", at):
            out, at = out + ".*", at + 2
        elif glob[at] == "*":
            out, at = out + "[^/]*", at + 1
        elif glob[at] == "?":
            out, at = out + "[^/]", at + 1
        else:
            out, at = out + glob[at], at + 1
    return out


@given(
    st.lists(st.sampled_from(["a", "b", "/", "*", "**", "**/", "?"]), max_size=8),
    st.lists(st.text("ab/", max_size=9), min_size=1, max_size=20),
)
def test_agrees_with_a_word_for_word_translation(parts: list[str], names: list[str]) -> None:
    glob = re.sub(r"\*{3,}", "**", "".join(parts))
    expected = re.compile(naive(glob))
    for name in names:
        assert matches(glob, name) == bool(expected.fullmatch(name)), (glob, name)


@pytest.mark.parametrize(
    "glob", ["*a" * 20 + "b", "**a" * 20 + "b", "**/*a" * 20 + "b", "{*a,*b}" * 6 + "c"]
)
def test_a_hostile_name_does_not_hang(glob: str) -> None:
    compiled = compile_glob(glob)
    assert not compiled.fullmatch("a" * 1000)
