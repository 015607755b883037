from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, overload

import pytest

from ckpttool.checkpoint.kinds.rules import KINDS
from ckpttool.checkpoint.selection.select import Listed, SelectionRule, Selector
from ckpttool.errors import FileAccessError, MissingFileError, SelectionError
from ckpttool.printable import printable

VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"


class Name(NamedTuple):
    key: str
    object_path: str | None = None
    kind: str = "other"


def objects(*paths: str) -> list[Name]:
    """Return names as in an object-based checkpoint."""
    return [
        Name(f"{path}{VALUE}", path, "slot" if ".OPTIMIZER_SLOT" in path else "weight")
        for path in paths
    ]


NET = [
    *objects(
        "net/l1/bias",
        "net/l1/kernel",
        "net/l1/kernel/.OPTIMIZER_SLOT/optimizer/m",
        "net/l2/kernel",
        "network/x",
    ),
    Name("save_counter" + VALUE, "save_counter", "step"),
    Name("_CHECKPOINTABLE_OBJECT_GRAPH", None, "graph"),
]
PLAIN = [
    Name("dense/kernel"),
    Name("dense/kernel/Adam"),
    Name("dense/kernel/Adam_1"),
    Name("dense_1/bias"),
    Name("emb[0]"),
    Name("emb0"),
    Name("a*b"),
    Name("{odd"),
    Name("=equals"),
    Name("re:odd"),
    Name("@at"),
    Name("tab\there"),
    Name("back\\slash"),
    Name("bad\udcff"),
    Name("list[0]/w"),
    Name("trailing/"),
    Name(""),
]


def chosen(names: list[Name], *patterns: str, kinds: tuple[str, ...] = ()) -> list[str]:
    """Select by patterns, of which those that begin with a minus exclude."""
    rules = [SelectionRule(text.removeprefix("-"), include=text[:1] != "-") for text in patterns]
    found = Selector(rules, kinds=kinds).select(names)
    return [name.object_path or name.key for name in found]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("net/l1/kernel", ["net/l1/kernel"]),
        ("net/l1/kernel" + VALUE, ["net/l1/kernel"]),
        ("=net/l1/kernel", ["net/l1/kernel"]),
        ("net/l1", ["net/l1/bias", "net/l1/kernel", "net/l1/kernel/.OPTIMIZER_SLOT/optimizer/m"]),
        ("net/l1/", ["net/l1/bias", "net/l1/kernel", "net/l1/kernel/.OPTIMIZER_SLOT/optimizer/m"]),
        (
            "net/l1/kernel/",
            ["net/l1/kernel", "net/l1/kernel/.OPTIMIZER_SLOT/optimizer/m"],
        ),
        ("net/*/kernel", ["net/l1/kernel", "net/l2/kernel"]),
        ("**/kernel", ["net/l1/kernel", "net/l2/kernel"]),
        ("**/{m,x}", ["net/l1/kernel/.OPTIMIZER_SLOT/optimizer/m", "network/x"]),
        ("net/l?/bias", ["net/l1/bias"]),
        ("*_GRAPH", ["_CHECKPOINTABLE_OBJECT_GRAPH"]),
        ("re:^net/l2", ["net/l2/kernel"]),
        ("re:OPTIMIZER", ["net/l1/kernel/.OPTIMIZER_SLOT/optimizer/m"]),
        ("re:bias$", ["net/l1/bias"]),
        ("_CHECKPOINTABLE_OBJECT_GRAPH", ["_CHECKPOINTABLE_OBJECT_GRAPH"]),
    ],
)
def test_one_pattern_over_keys_and_object_paths(pattern: str, expected: list[str]) -> None:
    assert chosen(NET, pattern) == expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("dense/kernel", ["dense/kernel"]),
        ("dense/kernel{,/**}", ["dense/kernel", "dense/kernel/Adam", "dense/kernel/Adam_1"]),
        ("dense", ["dense/kernel", "dense/kernel/Adam", "dense/kernel/Adam_1"]),
        ("emb[0]", ["emb[0]"]),
        ("emb[0-9]", ["emb0"]),
        ("a*b", ["a*b"]),
        ("{odd", ["{odd"]),
        ("list[0]", ["list[0]/w"]),
        ("==equals", ["=equals"]),
        ("=re:odd", ["re:odd"]),
        ("=@at", ["@at"]),
        ("=", [""]),
        ("tab\there", ["tab\there"]),
        (r"tab\there", ["tab\there"]),
        (r"=tab\there", ["tab\there"]),
        (r"back\slash", [r"back\slash"]),
        (r"back\\slash", [r"back\slash"]),
        (r"bad\xff", ["bad\udcff"]),
        ("bad\udcff", ["bad\udcff"]),
        (r"bad[\xf0-\xff]", ["bad\udcff"]),
        ("trailing/", ["trailing/"]),
    ],
)
def test_names_that_look_like_patterns(pattern: str, expected: list[str]) -> None:
    assert chosen(PLAIN, pattern) == expected


@pytest.mark.parametrize("name", [name for name in PLAIN if name.key[:1] not in ("", "@", "=")])
def test_what_is_printed_selects_the_tensor(name: Name) -> None:
    text = printable(name.key)
    assert chosen(PLAIN, "=" + text) == [name.key]
    if not text.startswith("re:"):
        assert chosen(PLAIN, text) == [name.key]


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ([], [name.object_path or name.key for name in NET]),
        (
            ["net", "-**/bias"],
            ["net/l1/kernel", "net/l1/kernel/.OPTIMIZER_SLOT/optimizer/m", "net/l2/kernel"],
        ),
        (["net", "-net/l1", "net/l1/bias"], ["net/l1/bias", "net/l2/kernel"]),
        (["net/l1/bias", "-net"], []),
        (
            ["-net"],
            ["network/x", "save_counter", "_CHECKPOINTABLE_OBJECT_GRAPH"],
        ),
        (
            ["-**", "net/l2"],
            ["net/l2/kernel"],
        ),
        (["save_counter", "net/l2"], ["net/l2/kernel", "save_counter"]),
    ],
)
def test_later_rules_win(patterns: list[str], expected: list[str]) -> None:
    assert chosen(NET, *patterns) == expected


@pytest.mark.parametrize(
    ("kinds", "patterns", "expected"),
    [
        (("slot",), [], ["net/l1/kernel/.OPTIMIZER_SLOT/optimizer/m"]),
        (("step", "graph"), [], ["save_counter", "_CHECKPOINTABLE_OBJECT_GRAPH"]),
        (("weight",), ["net/l1"], ["net/l1/bias", "net/l1/kernel"]),
        (("ema",), [], []),
        (("ema",), ["net/l1"], []),
    ],
)
def test_kinds_narrow_down(
    kinds: tuple[str, ...], patterns: list[str], expected: list[str]
) -> None:
    assert chosen(NET, *patterns, kinds=kinds) == expected


def test_an_unknown_kind_is_an_error_that_names_the_nearest() -> None:
    with pytest.raises(SelectionError, match="unknown kind 'slots'; nearest: 'slot'"):
        Selector(kinds=["slots"])
    with pytest.raises(SelectionError, match=r"'weight'.*'other'"):
        Selector(kinds=["zzzzzz"])
    assert not Selector(kinds=KINDS).selects_all


def test_nothing_to_choose_by() -> None:
    assert Selector().selects_all
    assert not Selector([SelectionRule("a", include=False)]).selects_all
    assert Selector().select([]) == []


class _MadeOnDemand(Sequence[Name]):
    """Rows of which none is kept, as those of a large checkpoint."""

    def __len__(self) -> int:
        return len(NET)

    @overload
    def __getitem__(self, at: int) -> Name: ...
    @overload
    def __getitem__(self, at: slice) -> list[Name]: ...
    def __getitem__(self, at: int | slice) -> Name | list[Name]:
        return [Name(*name) for name in NET[at]] if isinstance(at, slice) else Name(*NET[at])


@pytest.mark.parametrize("kinds", [(), ("weight",)])
@pytest.mark.parametrize("patterns", [[], ["net"], ["network/x", "net/l1/**"]])
def test_rows_that_are_made_on_demand(patterns: list[str], kinds: tuple[str, ...]) -> None:
    selector = Selector(map(SelectionRule, patterns), kinds=kinds)
    choice = selector.choose([Listed(_MadeOnDemand()), Listed(NET)])
    assert choice.by_part == [selector.select(NET)] * 2
    assert choice.chosen == selector.select(NET) * 2


def test_names_that_occur_twice_are_all_selected() -> None:
    names = [Name("x/a", "x"), Name("x/b", "x"), Name("y")]
    assert Selector([SelectionRule("x")]).select(names) == names[:2]


@pytest.mark.parametrize(
    ("pattern", "near"),
    [
        ("net/l1/kernl", "nearest: 'net/l1/kernel'"),
        ("Net/L1/Bias", "nearest: 'net/l1/bias'"),
        ("l2/kernel", "nearest: 'net/l2/kernel'"),
        ("nett/l2/kernel", "nearest: 'net/l2/kernel'"),
        ("net/l1/kernal" + VALUE, f"nearest: 'net/l1/kernel{VALUE}'"),
        ("net/l9", "nearest: 'net/l1'"),
        ("net/l?", r"'net/l\?/\*\*' selects what is below"),
        ("network/y*", "nearest: 'network/x'"),
        ("re:save_cuonter", "nearest: 'save_counter'"),
        ("=net/l1", "nearest: 'net/l1"),
        ("qqqqqqqqq", "there are 7 tensors, such as '_CHECK"),
    ],
)
def test_a_pattern_that_selects_nothing_names_near_misses(pattern: str, near: str) -> None:
    with pytest.raises(SelectionError, match=near) as caught:
        chosen(NET, pattern)
    assert str(caught.value).startswith(f"pattern '{pattern}' selects nothing; ")


@pytest.mark.parametrize(
    ("patterns", "otherwise"),
    [(["net", "nothing"], 4), (["net", "-nothing"], 4), (["-nothing"], len(NET))],
)
def test_each_pattern_has_to_select_something(patterns: list[str], otherwise: int) -> None:
    with pytest.raises(SelectionError, match="pattern 'nothing' selects nothing"):
        chosen(NET, *patterns)
    rules = [SelectionRule(text.removeprefix("-"), include=text[:1] != "-") for text in patterns]
    assert len(Selector(rules).select(NET, strict=False)) == otherwise


def test_a_pattern_counts_even_if_a_later_one_undoes_it() -> None:
    assert chosen(NET, "net/l1/bias", "-net") == []


def test_nothing_selects_nothing_where_there_is_nothing() -> None:
    with pytest.raises(SelectionError, match="there are no tensors"):
        Selector([SelectionRule("a")]).select([])


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("re:(", r"'re:\(' is not a regular expression"),
        ("re:a{99999999999}", "is not a regular expression"),
        ("a[", r"glob 'a\[': '\[' is never closed; '='"),
        ("", "an empty pattern"),
    ],
)
def test_malformed_patterns(pattern: str, problem: str) -> None:
    with pytest.raises(SelectionError, match=problem):
        chosen(NET, pattern)


def test_a_regular_expression_of_changing_meaning_warns_nobody() -> None:
    assert chosen([Name("x[y")], "re:[[x]") == ["x[y"]


def test_patterns_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "list").write_bytes(
        b"\xef\xbb\xbf# a comment\r\n\r\nnet/l2\r\n  \n=save_counter\n@more/rest\n"
    )
    (tmp_path / "more" / "rest").write_text("@tail\n")
    (tmp_path / "more" / "tail").write_text("**/bias")
    expected = ["net/l1/bias", "net/l2/kernel", "save_counter"]
    assert chosen(NET, f"@{tmp_path}/list") == expected
    assert chosen(NET, "**", f"-@{tmp_path}/list") == [
        name.object_path or name.key
        for name in NET
        if (name.object_path or name.key) not in expected
    ]


def test_a_file_with_names_that_are_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "list").write_bytes(b"bad\xff\n")
    assert chosen(PLAIN, f"@{tmp_path}/list") == ["bad\udcff"]


def test_a_pipe_as_pattern_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("net/l2\n",))
    writer.start()
    assert chosen(NET, f"@{pipe}") == ["net/l2/kernel"]
    writer.join()


def test_pattern_files_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("net\n@b\n")
    (tmp_path / "b").write_text("@a\n")
    with pytest.raises(SelectionError, match="include each other in a circle"):
        Selector([SelectionRule(f"@{tmp_path}/a")])
    for number in range(20):
        (tmp_path / str(number)).write_text(f"@{number + 1}\n")
    with pytest.raises(SelectionError, match="include each other in a circle"):
        Selector([SelectionRule(f"@{tmp_path}/0")])


def test_pattern_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match="no such file"):
        Selector([SelectionRule(f"@{tmp_path}/nothing")])
    with pytest.raises(FileAccessError, match="is a directory"):
        Selector([SelectionRule(f"@{tmp_path}")])
    with pytest.raises(SelectionError, match=r"null (byte|character)"):
        Selector([SelectionRule("@a\0b")])


@pytest.fixture(scope="module")
def many() -> list[Name]:
    """Return 200,000 names."""
    return [
        Name(f"model/layer_{layer:05d}/{name}{VALUE}", f"model/layer_{layer:05d}/{name}", "weight")
        for layer in range(50_000)
        for name in ("bias", "kernel", "kernel/.OPTIMIZER_SLOT/o/m", "kernel/.OPTIMIZER_SLOT/o/v")
    ]


@pytest.mark.large
@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    ("patterns", "count"),
    [
        (["model/layer_00007"], 4),
        (["**/kernel", "-model/layer_1*/**", "re:bias$"], 40_000 + 50_000),
        ([f"model/layer_{number:05d}/bias" for number in range(20_000)], 20_000),
    ],
    ids=["scope", "mixed", "list"],
)
def test_200_000_names(many: list[Name], patterns: list[str], count: int) -> None:
    assert len(chosen(many, *patterns)) == count


@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    ("pattern", "near"),
    [
        ("model/layer_00777/kernl", "'model/layer_00777/kernel'"),
        ("modle/layer_00077/kernel", "'model/layer_00077/kernel'"),
        ("layer_00077/kernel", "'model/layer_00077/kernel'"),
        ("x" * 5000, "there are 200000 tensors"),
        ("/".join(["layer"] * 3000), "selects nothing"),
    ],
)
def test_near_misses_among_200_000(many: list[Name], pattern: str, near: str) -> None:
    with pytest.raises(SelectionError) as caught:
        chosen(many, pattern)
    assert near in str(caught.value)
