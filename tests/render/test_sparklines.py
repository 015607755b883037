"""Lines of small bars: the levels, the scales, and what has no number."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nan

import pytest

from ckpttool.render.sparklines import WIDEST, Scale, sparkline


def drawn(values: Sequence[float | None], *, logarithmic: bool = False, width: int = WIDEST) -> str:
    return sparkline(values, Scale.of(values, logarithmic=logarithmic), width)


def test_levels() -> None:
    assert drawn([0, 1, 2, 3, 4, 5, 6]) == "▁▂▃▄▅▆▇"
    assert drawn([1, 10, 100, 1000], logarithmic=True) == "▁▃▅▇"
    assert drawn([1, 10, 100, 1000]) == "▁▁▁▇"
    assert drawn([]) == "" and drawn([None]) == "·" and drawn([0.0]) == "▁"


def test_no_number_and_no_change_are_dots() -> None:
    assert drawn([None, 1, 2, nan, inf]) == "·▁▇!!"
    assert drawn([0.0, 1e-3, 1.0], logarithmic=True) == "·▁▇"
    assert drawn([0.0, 1.0]) == "▁▇"


def test_noise_stays_low() -> None:
    assert set(drawn([100.0, 100.01, 99.99])) <= set("▃▄▅")
    assert set(drawn([1.0, 1.1], logarithmic=True)) <= set("▃▄▅")
    assert drawn([5.0, 5.0]) == "▄▄"


def test_each_column_is_the_largest_of_its_share() -> None:
    values: list[float | None] = [0.0] * 100
    values[37] = 1.0
    line = drawn(values)
    assert len(line) == WIDEST and line.replace("▁", "") == line[9] == "▇"
    values[90] = nan
    assert drawn(values, width=10) == "▁▁▁▇▁▁▁▁▁!"
    assert drawn([None, None, None, 1.0, None, 3.0], width=2) == "·▇"


@pytest.mark.parametrize("largest", [1.7e308, 5e-324])
def test_the_ends_of_float64(largest: float) -> None:
    for logarithmic in (False, True):
        assert len(drawn([0.0, largest / 2, largest], logarithmic=logarithmic)) == 3
