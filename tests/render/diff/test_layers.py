"""Layers side by side: a character for each, and numbers for programs."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from math import inf
from typing import Any

import pytest

from ckpttool.query.diff.results import Diff, TensorChange, TensorDiff, ValueDifference
from ckpttool.render.console import Terminal
from ckpttool.render.diff.layers import write_layers
from tests.render.diff.test_text import made, row


def tensor(path: str, change: TensorChange, ratio: float | None = None) -> TensorDiff:
    a, b = row(path), row(path)
    values = ValueDifference(1, 2, 1.0, 1.0, 1.0, ratio, None) if change == "value" else None
    if change in ("added", "removed"):
        return TensorDiff(
            change, None if change == "added" else a, b if change == "added" else None
        )
    return TensorDiff(change, a, b, values=values)


def layers() -> Diff:
    changes: list[tuple[TensorChange, float | None]] = [
        ("equal", None),
        ("value", 0.001),
        ("value", 0.1),
        ("value", inf),
        ("value", None),
        ("value", 0.0),
        ("shape", None),
        ("unreadable", None),
        ("removed", None),
        ("added", None),
        ("value", 0.01),
    ]
    numbered = [tensor(f"h{at}/w", *each) for at, each in enumerate(changes)]
    same = [tensor(f"h{at}/b", "equal") for at in range(3)]
    return made(*numbered, *same, tensor("step", "value", 0.001))


def text(diff: Diff, format: str = "table", *, unicode: bool = True, **more: Any) -> str:
    stream = io.StringIO()
    write_layers(
        diff, format, stream, Terminal(unicode=unicode, width=more.pop("width", None)), **more
    )
    return stream.getvalue()


def test_a_character_for_each_layer() -> None:
    assert text(layers()).splitlines() == [
        "name  tensors  changed  layers       largest  at",
        "h#/w       11       10  ·▁▇!MMTXDA▄      inf  3",
        "step        1        1  ▁              0.001",
        "",
        "15 tensors: 1 added, 1 removed, 1 other shape, 7 changed, 1 unreadable, 4 equal; "
        "▁ = 0.001, ▇ = 0.1",
    ]
    assert "h#/b        3        0  ···" in text(layers(), everything=True)


def test_without_unicode() -> None:
    shown = text(layers(), unicode=False)
    assert shown.isascii() and "  .17!MMTXDA4  " in shown and "1 = 0.001, 7 = 0.1" in shown


def test_rows_for_programs() -> None:
    assert text(layers(), "csv").splitlines() == [
        "name,tensors,changed,layers,largest,where",
        "h#/w,11,10,·▁▇!MMTXDA▄,inf,h3/w",
        "step,1,1,▁,0.001,step",
    ]
    keys = text(layers(), "plain", by_key=True).splitlines()[1].split("\t")
    assert keys[0] == "h#/w/.ATTRIBUTES/VARIABLE_VALUE" and keys[-1].startswith("h3/w/.A")


def test_json() -> None:
    found = json.loads(text(layers(), "json"))
    assert found["totals"]["equal"] == 4 and len(found["tensors"]) == 11
    first = found["layers"][0]
    assert first["numbers"] == [str(number) for number in range(11)]
    assert first["changes"][:2] == ["equal", "value"]
    assert first["ratios"] == [0, 0.001, 0.1, "Infinity", None, 0, *[None] * 4, 0.01]
    assert (first["largest"], first["largest_key"]) == (
        "Infinity",
        "h3/w/.ATTRIBUTES/VARIABLE_VALUE",
    )
    lines = [json.loads(line) for line in text(layers(), "jsonl").splitlines()]
    assert lines[:-1] == found["layers"] and lines[-1]["verdict"] == found["verdict"]
    whole = json.loads(text(layers(), "json", everything=True))
    assert len(whole["tensors"]) == 15 and len(whole["layers"]) == 3


def test_many_layers_show_the_strongest_of_several() -> None:
    tensors = [tensor(f"h{at}", "value" if at == 777 else "equal", 0.5) for at in range(1000)]
    line = text(made(*tensors)).splitlines()[1]
    assert line.split()[3] == "·" * 77 + "▄" + "·" * 22


def test_all_equal() -> None:
    diff = made(tensor("h1", "equal"), tensor("h2", "equal"))
    assert text(diff) == "equal: 2 tensors\n"
    renamed = replace(diff, tensors=(TensorDiff("renamed", row("h1"), row("h2")),))
    assert "h2          1        1  R" in text(renamed)


@pytest.mark.parametrize("width", [30, 50, 80])
def test_hostile_names_on_narrow_terminals(width: int) -> None:
    tensors = [tensor(f"a\x1b[31m\n{at}/#", "value", 0.5) for at in range(90)]
    shown = text(made(*tensors), width=width)
    assert "\x1b" not in shown and max(map(len, shown.splitlines())) <= width
