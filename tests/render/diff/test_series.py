"""Series for people: a row for each tensor, with lines of bars."""

from __future__ import annotations

import io

import pytest

from ckpttool.query.diff.series import Series, StepChange, StepRow
from ckpttool.query.rows import TensorRow
from ckpttool.render.console import Terminal
from ckpttool.render.diff.series import write_series
from tests.render.diff.test_text import row

NAMES = ("ckpt-1", "ckpt-2", "ckpt-3")


def step(tensor: TensorRow, number: int, change: StepChange, *numbers: float | None) -> StepRow:
    return StepRow(NAMES[number - 1], number, tensor, change, *numbers)


def made() -> Series:
    w, s, late = row("w"), row("s", dtype="string"), row("x\x1b[1m")
    rows = (
        step(s, 1, "first"),
        step(s, 2, "changed"),
        step(s, 3, "same"),
        step(w, 1, "first", 1.0),
        step(w, 2, "changed", 2.0, 1.0, 1.0),
        step(w, 3, "changed", 3.0, 1.0, 0.5),
        step(late, 2, "first", 7.0),
        step(late, 3, "gone"),
    )
    return Series("run", NAMES, rows, ())


def text(series: Series, *, width: int | None = None, unicode: bool = True) -> str:
    stream = io.StringIO()
    write_series(series, "table", stream, Terminal(width=width, unicode=unicode))
    return stream.getvalue()


def test_a_row_for_each_tensor() -> None:
    assert text(made()) == (
        "path      first norm  norm  last norm  ratio  last ratio  note\n"
        "s                  -  -             -  -               -  changed 1 time\n"
        "w                  1  ▁▄▇           3  ·▇▁           0.5\n"
        "x\\x1b[1m           7  ·▄·           7  ···             -  new in ckpt-2; gone in ckpt-3\n"
        "\n"
        "3 tensors in 3 checkpoints, ckpt-1 to ckpt-3\n"
    )


def test_without_unicode_there_are_numbers_alone() -> None:
    shown = text(made(), unicode=False)
    assert shown.isascii() and "first norm  last norm  last ratio  note" in shown


@pytest.mark.parametrize("width", [30, 50, 80, 200])
def test_narrow_terminals(width: int) -> None:
    names = tuple(f"ckpt-{number}" for number in range(40))
    rows = tuple(StepRow(name, at, row("w"), "first", at + 1.0) for at, name in enumerate(names))
    shown = text(Series("run", names, rows, ()), width=width)
    assert max(map(len, shown.splitlines())) <= width
    assert "▇" in shown


def test_nothing_to_show() -> None:
    assert text(Series("run", ("ckpt-1",), (), ())).endswith("0 tensors in 1 checkpoint\n")
