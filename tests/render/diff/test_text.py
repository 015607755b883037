"""What differs, as text: marks beside colours, long lists cut, nothing lost where it is narrow."""

from __future__ import annotations

import io
from collections import Counter
from typing import Any

import pytest

from ckpttool.errors import ChecksumError
from ckpttool.query.diff.results import (
    Diff,
    Element,
    GraphChange,
    GraphDiff,
    ScopeMove,
    TensorChange,
    TensorDiff,
    Tolerance,
    ValueDifference,
)
from ckpttool.query.rows import TensorRow
from ckpttool.query.source import Source
from ckpttool.render.console import Terminal
from ckpttool.render.diff.text import write_diff


def source(name: str) -> Source:
    return Source(name, name, "V2", "object", 1, "little", 9, 9, ())


def row(path: str, *, shape: tuple[int, ...] = (2,), dtype: str = "float32") -> TensorRow:
    key = f"{path}/.ATTRIBUTES/VARIABLE_VALUE"
    return TensorRow(key, path, dtype, shape, "weight", 2, 8, 0, 0, 0)


def made(*tensors: TensorDiff, **more: Any) -> Diff:
    counts: Counter[TensorChange] = Counter(each.change for each in tensors)
    fields = {"moves": (), "graph": None, "problems": (), "rename_map": {}} | more
    return Diff(
        a=source("one"),
        b=source("two"),
        tolerance=Tolerance(),
        tensors=tensors,
        counts=counts,
        **fields,
    )


def text(diff: Diff, *, width: int | None = None, color: bool = False, **more: Any) -> str:
    stream = io.StringIO()
    write_diff(diff, "table", stream, Terminal(width=width, color=color), **more)
    return stream.getvalue()


def test_equal() -> None:
    assert text(made()).splitlines() == [
        "--- one  V2, object-based",
        "+++ two  V2, object-based",
        "equal: 0 tensors",
    ]


def test_marks_say_what_colours_say() -> None:
    diff = made(
        TensorDiff("added", None, row("a")),
        TensorDiff("removed", row("b"), None),
        TensorDiff("incomparable", row("c"), row("c"), reason="for a reason"),
        TensorDiff("unreadable", row("d"), row("d"), reason="it is damaged"),
        TensorDiff("equal", row("e"), row("e")),
        TensorDiff("dtype", row("f"), row("f", dtype="int8")),
        problems=(ChecksumError("bad", stored=1, computed=2),),
    )
    lines = text(diff).splitlines()
    names = [
        line.split("  ")[0] for line in lines if line[:2] in ("+ ", "- ", "? ", "! ", "= ", "~ ")
    ]
    assert names == ["+ a", "- b", "~ f", "? c", "! d", "= e"]
    assert any("float32 → int8" in line for line in lines)
    assert lines[-1].endswith("1 equal; 1 problem")
    coloured = text(diff, color=True)
    for code, name in (("32", "+ a"), ("31", "- b"), ("1;31", "! d"), ("33", "? c")):
        assert f"\x1b[{code}m{name}" in coloured


def test_worst_elements_and_scalars() -> None:
    worst = Element((1,), 1.0, 2.0, "1.", "2.")
    scalar = Element((), 8, 10, "8", "10")
    diff = made(
        TensorDiff(
            "value", row("w"), row("w"), values=ValueDifference(1, 2, 1.0, 0.5, 0.5, 0.25, worst)
        ),
        TensorDiff(
            "value",
            row("n", shape=()),
            row("n", shape=()),
            values=ValueDifference(1, 1, 2, 0.2, 2.0, 0.25, scalar),
        ),
    )
    shown = text(diff)
    assert "~ n      float32  8 → 10" in shown
    assert "~ w      float32  [2]    1 of 2        1      0.5      0.25  [1]: 1. → 2." in shown


def test_long_strings_are_cut_and_escapes_are_spelled_once() -> None:
    worst = Element((0,), b"\xff", b"x" * 500, "b'\\xff'", f"'{'x' * 500}'")
    diff = made(
        TensorDiff(
            "value", row("s"), row("s"), values=ValueDifference(1, 2, None, None, None, None, worst)
        )
    )
    line = next(line for line in text(diff).splitlines() if line.startswith("~ s"))
    assert "[0]: b'\\xff' → 'xxx" in line and line.endswith("x…") and len(line) < 120


def test_renames_by_scope() -> None:
    move = TensorDiff("renamed", row("a/x"), row("b/x"), "content")
    shown = text(made(move, moves=(ScopeMove("a", "b", 1200, 0),)))
    assert "a → b      1,200" in shown and "guess" not in shown
    shown = text(made(move, moves=(ScopeMove("a", "b", 5, 2),)))
    assert "a → b          5  2 guesses" in shown


def test_the_same_by_full_name() -> None:
    shown = text(made(TensorDiff("shape", row("a"), row("b", shape=(3,)), "full_name")))
    assert "~ a → b (the same by its full name)" in shown and "[2] → [3]" in shown


CHANGES = tuple(
    GraphChange("attribute", "changed", f"v{at}", name="VALUE", a=f"x{at}", b=f"y{at}")
    for at in range(5)
)


@pytest.mark.parametrize("everything", [False, True])
def test_what_is_alike_in_graphs_is_summed_up(everything: bool) -> None:
    slots = tuple(
        GraphChange("slot", "removed", f"v{at}", name=name, optimizer="opt")
        for name in "mv"
        for at in (1, 2)
    )
    graph = GraphDiff((9, 8), (4, 0), (*CHANGES, *slots))
    shown = text(made(graph=graph), everything=everything)
    assert ("… 4 more like this" in shown) != everything
    assert ("4 slot variables removed: m, v" in shown) != everything
    assert shown.count("attribute VALUE changed") == (5 if everything else 1)
    assert shown.count("slot m of opt removed") == (2 if everything else 0)


def test_edges_that_renames_tell_of_are_not_told_twice() -> None:
    graph = GraphDiff((3, 3), (0, 0), (GraphChange("edge", "renamed", "a", "b"),))
    move = ScopeMove("a", "b", 1, 0)
    assert "object graph" not in text(made(graph=graph, moves=(move,)))
    assert "~ a → b" in text(made(graph=graph))


def test_a_graph_on_one_side_alone() -> None:
    assert "only B has one  7 objects" in text(made(graph=GraphDiff((None, 7), (None, 0))))


@pytest.mark.parametrize("width", [20, 40])
def test_narrow_terminals(width: int) -> None:
    path = "/".join(["network"] * 8)
    diff = made(
        TensorDiff("added", None, row(path)),
        TensorDiff("incomparable", row(path), row(path), reason="for a long reason " * 5),
        moves=(ScopeMove(path, path[:-1], 3, 1),),
        graph=GraphDiff((1, 2), (0, 0), CHANGES),
    )
    lines = text(diff, width=width).splitlines()
    assert all(len(line) <= width for line in lines[2:])
    assert path in "".join(line.strip() for line in lines)
