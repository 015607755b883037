from __future__ import annotations

import io
import re
import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from ckpttool.render import humanize
from ckpttool.render.aligned import end_of_name
from ckpttool.render.cells import Column
from ckpttool.render.console import Terminal
from ckpttool.render.table import write_rows

COLUMNS = (
    Column("key", fold=True),
    Column("dtype"),
    Column("shape"),
    Column("kind", style="cyan"),
    Column("bytes", align="right", human=humanize.size),
)
ROWS = [
    ("model/encoder/layer_0/attention/kernel", "float32", (512, 512), "weight", 1 << 20),
    ("b", "int64", (), "step", 8),
]
STYLE = re.compile(r"\x1b\[[0-9;]*m")


def table(
    width: int | None,
    rows: Sequence[Sequence[Any]] = ROWS,
    columns: Sequence[Column] = COLUMNS,
    *,
    color: bool = False,
) -> list[str]:
    stream = io.StringIO()
    terminal = Terminal(interactive=True, color=color, width=width)
    write_rows(rows, columns, "table", stream, terminal=terminal)
    assert stream.getvalue().endswith("\n")
    return stream.getvalue().split("\n")[:-1]


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (38, "…/sequential_dense_1_kernel_momentum"),
        (35, "…_dense_1_kernel_momentum"),
        (18, "…_kernel_momentum"),
        (10, "…_momentum"),
        (5, "…ntum"),
    ],
)
def test_a_name_is_shortened_between_words(width: int, shown: str) -> None:
    name = "adam/sequential_dense_1_kernel_momentum"
    assert end_of_name(name, len(name)) == name
    assert end_of_name(name, width) == shown


NAMED = (Column("path"), Column("name", least=6), Column("dtype", spare=True), Column("bytes"))


@pytest.mark.parametrize(
    ("width", "lines", "left_out"),
    [
        (36, ["path  name              dtype  bytes", "a/b   net/dense/kernel  int8   8"], ()),
        (35, ["path  name            dtype  bytes", "a/b   …/dense/kernel  int8   8"], ()),
        (28, ["path  name      dtype  bytes", "a/b   …/kernel  int8   8"], ()),
        (25, ["path  name      bytes", "a/b   …/kernel  8"], ("dtype",)),
        (18, ["path  dtype  bytes", "a/b   int8   8"], ("name",)),
    ],
)
def test_columns_give_way(width: int, lines: list[str], left_out: tuple[str, ...]) -> None:
    stream = io.StringIO()
    terminal = Terminal(interactive=True, color=False, width=width)
    rows = [("a/b", "net/dense/kernel", "int8", 8)]
    found = write_rows(rows, NAMED, "table", stream, terminal=terminal)
    assert (stream.getvalue().splitlines(), found) == (lines, left_out)


@pytest.mark.parametrize("width", [None, 200, 82])
def test_side_by_side(width: int | None) -> None:
    assert table(width) == [
        "key                                     dtype    shape       kind      bytes",
        "model/encoder/layer_0/attention/kernel  float32  [512, 512]  weight  1.0 MiB",
        "b                                       int64    []          step        8 B",
    ]


def test_a_name_too_long_for_its_column_has_a_line_of_its_own() -> None:
    rows = [*ROWS, ("net/l1/bias", "float32", (5,), "weight", 20)]
    assert table(62, rows) == [
        "key          dtype    shape       kind      bytes",
        "model/encoder/layer_0/attention/kernel",
        "             float32  [512, 512]  weight  1.0 MiB",
        "b            int64    []          step        8 B",
        "net/l1/bias  float32  [5]         weight     20 B",
    ]


def test_stacked() -> None:
    assert table(40) == [
        "key",
        "  dtype    shape       kind      bytes",
        "model/encoder/layer_0/attention/kernel",
        "  float32  [512, 512]  weight  1.0 MiB",
        "b",
        "  int64    []          step        8 B",
    ]


def test_stacked_where_that_takes_no_more_lines() -> None:
    name = "net/l1/bias/.OPTIMIZER_SLOT/optimizer/m"
    rows = [(f"{name}{number}", "float32", (5,), "slot", 20) for number in range(3)]
    assert table(56, rows)[:4] == [
        "key",
        "  dtype    shape  kind  bytes",
        f"{name}0",
        "  float32  [5]    slot   20 B",
    ]
    (*_, last) = table(56, [*rows, ("b", "int64", (), "step", 8)])
    assert last == "b           int64    []     step    8 B"


def test_a_path_wider_than_the_terminal_is_broken_after_a_slash() -> None:
    key = "net/l1/bias/.OPTIMIZER_SLOT/optimizer/m/.ATTRIBUTES/VARIABLE_VALUE"
    assert table(48, [(key, "float32", (5,), "slot", 20)])[2:] == [
        "net/l1/bias/.OPTIMIZER_SLOT/optimizer/m/",
        "    .ATTRIBUTES/VARIABLE_VALUE",
        "  float32  [5]    slot   20 B",
    ]


def test_stacked_on_less_than_a_line() -> None:
    assert table(20) == [
        "key",
        "  dtype  shape  kind",
        "  bytes",
        "model/encoder/",
        "    layer_0/",
        "    attention/kernel",
        "  float32",
        "  [512, 512]  weight",
        "  1.0 MiB",
        "b",
        "  int64  []  step",
        "  8 B",
    ]


def test_two_columns_that_fold() -> None:
    columns = [Column("key", fold=True), Column("n"), Column("message", fold=True)]
    rows = [("k" * 30, 1, "the shard ends 12 KiB early, here"), ("k", 2, "m"), ("l", 3, "n")]
    assert table(40, rows, columns) == [
        "key         n  message",
        "k" * 30,
        "            1  the shard ends 12 KiB",
        "               early, here",
        "k           2  m",
        "l           3  n",
    ]


def test_columns_that_do_not_fold_are_stacked_and_left_whole() -> None:
    columns = [Column("key"), Column("text")]
    lines = ["key", "  text", "a" * 15, "  " + "b" * 25]
    assert table(20, [("a" * 15, "b" * 25)], columns) == lines


def test_wide_and_combining_characters() -> None:
    rows = [("日本語", 1), ("e\u0301", 2), ("ключ", 3)]
    assert table(None, rows, [Column("key"), Column("n")]) == [
        "key     n",
        "日本語  1",
        "e\u0301       2",
        "ключ    3",
    ]


def test_right_alignment_of_wide_characters() -> None:
    columns = [Column("key", align="right"), Column("n", align="right")]
    assert table(None, [("日", 10), ("abcd", 2)], columns) == [" key   n", "  日  10", "abcd   2"]


def test_colour_changes_no_text() -> None:
    for width in (None, 62, 40, 20):
        coloured = table(width, color=True)
        assert [STYLE.sub("", line).rstrip() for line in coloured] == table(width)
        assert any("\x1b[36m" in line for line in coloured)
        assert "\x1b[1m" in coloured[0]


def test_headings_alone() -> None:
    assert table(80, []) == ["key  dtype  shape  kind  bytes"]


def test_control_characters_do_not_reach_the_terminal() -> None:
    (_, line) = table(None, [("a\x1b[2J\u202eb\n",)], [Column("key")])
    assert line == "a\\x1b[2J\\u202eb\\n"


def test_brackets_are_no_markup() -> None:
    (_, line) = table(None, [("[bold]x[/bold]:smile:",)], [Column("key")])
    assert line == "[bold]x[/bold]:smile:"


@given(
    st.lists(
        st.tuples(
            st.text("ab/é日", min_size=1, max_size=60),
            st.integers(0, 10**9),
            st.text("xy日 ", max_size=30),
        ),
        min_size=1,
        max_size=5,
    ),
    st.integers(1, 120),
)
def test_nothing_is_lost_and_no_word_cut_at_any_width(
    rows: list[tuple[str, int, str]], width: int
) -> None:
    columns = [Column("key", fold=True), Column("n", align="right"), Column("more", fold=True)]
    lines = table(width, rows, columns)
    letters = "".join(lines).replace(" ", "")
    expected = "".join(c for row in rows for cell in row for c in str(cell)).replace(" ", "")
    assert sorted(letters) == sorted("key" + "n" + "more" + expected)
    words = {word for line in lines for word in line.split()}
    for key, number, text in rows:
        assert str(number) in words
        assert words.issuperset(text.split())
        assert key in words or cell_len(key) > width - 2
    for line in lines:
        # Too long is only what has no place to break it, and it stands alone.
        assert cell_len(line) <= max(width, 10) or len(line.split()) == 1


@pytest.mark.parametrize("odd", [None, 0, 1500, 2999])
def test_columns_are_as_wide_from_the_first_row_to_the_last(odd: int | None) -> None:
    """Rows are padded in batches; a cell that is not ASCII changes its own batch alone."""
    names = [f"layer_{number}/kernel" for number in range(3000)]
    if odd is not None:
        names[odd] = "重み"
    rows = [(name, "int64", (), "step", 1 << 10) for name in names]
    head, *lines = table(None, rows)
    wide = max(map(cell_len, names))
    assert head == "key".ljust(wide) + "  dtype  shape  kind    bytes"
    for name, line in zip(names, lines, strict=True):
        padded = name + " " * (wide - cell_len(name))
        assert line == padded + "  int64  []     step  1.0 KiB"


def test_a_table_takes_little_more_room_than_the_names_in_it() -> None:
    names = [f"layer_{number:06}/" + "x" * 80 for number in range(30_000)]
    rows = ((name, "int64", (number % 7,), "step", number) for number, name in enumerate(names))
    tracemalloc.start()
    try:
        write_rows(rows, COLUMNS, "table", Sink())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Five texts to a row, of which only the size is a new one; padded ones would take 300 more.
    assert peak / len(names) < 200


class Sink(io.StringIO):
    """Where what is written is forgotten."""

    def write(self, text: str) -> int:
        return len(text)
