"""Arrays are laid out as NumPy does it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpttool.render.layout import lay_out


def lines(array: np.ndarray[Any, Any], width: int = 75, gaps: Sequence[int | None] = ()) -> str:
    texts = map(str, array.reshape(-1).tolist())
    chosen = gaps or (None,) * array.ndim
    return "\n".join(lay_out(texts, array.shape, chosen, width=width))


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5))
def test_as_numpy(shape: list[int]) -> None:
    array = np.arange(np.prod(shape)).reshape(shape) % 10
    assert lines(array) == np.array2string(array, threshold=10**6)


@pytest.mark.parametrize("shape", [(30,), (9, 9), (8, 8, 8), (2, 7, 9), (7, 2, 7, 2)])
def test_gaps_as_numpy(shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape)).reshape(shape) % 10
    places = [[0, 1, 2, -3, -2, -1] if dim > 6 else list(range(dim)) for dim in shape]
    gaps = [3 if dim > 6 else None for dim in shape]
    assert lines(array[np.ix_(*places)], gaps=gaps) == np.array2string(array, threshold=0)


def test_gaps_at_the_end() -> None:
    assert lines(np.array([0]), gaps=[1]) == "[0 ...]"
    assert lines(np.array([[0]]), gaps=[1, 1]) == "[[0 ...]\n ...]"
    assert lines(np.array([[[0]]]), gaps=[1, None, 1]) == "[[[0 ...]]\n ...]"


def test_scalars_and_empty_arrays() -> None:
    assert "\n".join(lay_out(iter([" 1.5 "]), (), (), width=80)) == "1.5"
    for shape in ((0,), (0, 3), (3, 0), (2, 0, 2)):
        assert lines(np.empty(shape)) == "[]"


@given(st.integers(1, 40), st.integers(10, 60))
def test_lines_keep_to_the_width(count: int, width: int) -> None:
    array = np.arange(2 * count).reshape(2, count) + 100
    text = lines(array, width)
    assert all(len(line) <= width for line in text.split("\n"))
    assert [int(word) for word in text.replace("[", " ").replace("]", " ").split()] == [
        *range(100, 100 + 2 * count)
    ]


def test_what_does_not_fit_stands_by_itself() -> None:
    assert "\n".join(lay_out(iter(["a" * 30, "b" * 30]), (2,), (None,), width=20)) == (
        f"[{'a' * 30}\n {'b' * 30}]"
    )


def test_lines_come_before_the_last_element_is_asked_for() -> None:
    asked = []

    def texts() -> Any:
        for number in range(10):
            asked.append(number)
            yield str(number)

    first = next(lay_out(texts(), (5, 2), (None, None), width=80))
    assert (first, asked) == ("[[0 1]", [0, 1])
