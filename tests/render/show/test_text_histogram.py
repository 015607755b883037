from __future__ import annotations

import pytest

from ckpttool.query.values.statistics import Histogram
from ckpttool.render.show.text import draw_histogram


@pytest.mark.parametrize(
    ("counts", "wanted"),
    [
        ((1, 2, 3, 4, 5, 6, 7, 8), "▁▂▃▄▅▆▇█"),
        ((0, 1, 1000, 0), " ▁█ "),
        ((3, 3), "██"),
        ((0, 0, 10**18, 1), "  █▁"),
    ],
)
def test_bars(counts: tuple[int, ...], wanted: str) -> None:
    assert draw_histogram(Histogram(-0.5, 1, counts), 80) == f"-0.5 |{wanted}| 1"


def test_ends_are_rounded() -> None:
    drawn = draw_histogram(Histogram(-0.123456, 123456789, (1, 1)), 80)
    assert drawn == "-0.1235 |██| 1.235e+08"


@pytest.mark.parametrize("width", [10, 20, 30, 40])
def test_narrow_lines_have_wider_bins(width: int) -> None:
    drawn = draw_histogram(Histogram(0, 1, tuple(range(32))), width)
    assert len(drawn) <= max(width, 10)
    assert drawn.startswith("0 |") and drawn.endswith("█| 1")
