from __future__ import annotations

import pytest

from ckpttool.render.cells import mark_numbers, number_style
from ckpttool.render.console import Terminal


@pytest.mark.parametrize(
    "text",
    [
        "nan",
        "-inf",
        "[1]: nan → 2.",
        "[0.  inf 1. ]",
        "nan+1.j",
        "1.+infj",
        "3 NaN among 12",
        "1 Inf",
    ],
)
def test_what_is_not_finite_stands_out(text: str) -> None:
    assert number_style(text) == "bold red"


@pytest.mark.parametrize(
    "text",
    ["0.5", "'nan'", "b'inf'", "net/nan/w", "info", "finance", "infinite", "1e+30", "nan_count"],
)
def test_what_only_looks_like_it_does_not(text: str) -> None:
    assert number_style(text) == ""


def test_only_the_numbers_are_marked() -> None:
    marked = mark_numbers("[ 0.  nan -inf  1.]", Terminal(color=True))
    assert marked == "[ 0.  \x1b[1;31mnan\x1b[0m \x1b[1;31m-inf\x1b[0m  1.]"
    assert mark_numbers("[nan]", Terminal()) == "[nan]"
