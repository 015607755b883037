from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from ckpttool.render.console import Terminal
from ckpttool.render.wrap import flow, fold, longest_word, prose

STYLE = re.compile(r"\x1b\[[0-9;]*m")


@given(st.text("a/日é ", max_size=60), st.integers(2, 30))
def test_folding_keeps_all_words(text: str, width: int) -> None:
    pieces = fold(text, width, indent="  ")
    assert "".join(pieces).replace(" ", "") == text.replace(" ", "")
    for piece in pieces:
        assert cell_len(piece) <= width or re.fullmatch(r" *(\S )?[^/ ]*/*", piece)
    for word in text.split():
        assert any(word in piece for piece in pieces) or cell_len(word) > width - 2


def test_a_path_is_broken_after_a_slash_and_only_if_it_is_wider_than_the_line() -> None:
    assert fold("model/encoder/layer_0/kernel", 28) == ["model/encoder/layer_0/kernel"]
    assert fold("model/encoder/layer_0/kernel", 20) == ["model/encoder/", "layer_0/kernel"]
    assert fold("in model/encoder/layer_0/kernel", 29) == ["in", "model/encoder/layer_0/kernel"]
    assert fold("a/bbbbbbbbbbbbbbbbbbbb", 10) == ["a/", "bbbbbbbbbbbbbbbbbbbb"]
    assert fold("日本", 1) == ["日本"]
    assert fold("", 10) == [""]


def test_a_number_keeps_its_unit_and_a_mark_its_name() -> None:
    assert fold("it has 12.0 MiB too much", 10) == ["it has", "12.0 MiB", "too much"]
    assert fold("+ model/net and more", 11) == ["+ model/net", "and more"]
    assert longest_word("+ net of 12.0 MiB") == 8


def test_continuation_lines_are_indented() -> None:
    narrow = Terminal(width=16)
    assert list(prose("  signature serving_default takes x", narrow)) == [
        "  signature",
        "    serving_default",
        "    takes x",
    ]
    pieces = [("mean 0.25", ""), ("std 0.0625", ""), ("zeros 1,000", "")]
    assert list(flow(pieces, Terminal(width=24), gap="  ")) == [
        "mean 0.25  std 0.0625",
        "  zeros 1,000",
    ]
    assert list(flow(pieces, Terminal(), gap="  ")) == ["mean 0.25  std 0.0625  zeros 1,000"]
    assert list(flow([("model/encoder/kernel", ""), ("8 B", "")], narrow)) == [
        "model/encoder/",
        "  kernel 8 B",
    ]


@given(
    st.lists(st.tuples(st.text("ab/ ", min_size=1, max_size=20), st.sampled_from(["", "bold"]))),
    st.integers(4, 40),
)
def test_colour_changes_nothing_else(pieces: list[tuple[str, str]], width: int) -> None:
    plain = list(flow(pieces, Terminal(width=width)))
    coloured = list(flow(pieces, Terminal(width=width, color=True)))
    assert [STYLE.sub("", line) for line in coloured] == plain
