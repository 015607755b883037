"""Layouts: what they make of arrays, whole and in boxes."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from ckpttool.errors import SelectionError
from ckpttool.tensor import layout as layouts
from ckpttool.tensor.layout import TensorLayout
from ckpttool.tensor.slices import Bounds
from ckpttool.tensor.values import Array

ORDERS = list(permutations(range(3)))


def streamed(layout: TensorLayout, array: Array) -> tuple[Array, int]:
    """Return the elements that the blocks give, and the size of the largest block."""

    def box(bounds: Bounds) -> Array:
        part: Array = array[tuple(slice(start, stop) for start, stop in bounds)]
        return part

    blocks = [block.copy() for block in layout.blocks(array.itemsize, lambda: array, box)]
    assert all(block.ndim == 1 for block in blocks)
    return np.concatenate(blocks), max(block.nbytes for block in blocks)


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_permutations_are_those_of_numpy(order: tuple[int, ...]) -> None:
    array = np.arange(24).reshape(2, 3, 4)
    layout = TensorLayout.of(array.shape, order)
    assert layout.result == array.transpose(order).shape
    assert (layout.apply(array) == array.transpose(order)).all()
    assert (layout.inverse().apply(layout.apply(array)) == array).all()
    assert layout.moves == (order != (0, 1, 2))
    whole = TensorLayout.of(array.shape, order, (4, 6))
    assert (whole.apply(array) == array.transpose(order).reshape(4, 6)).all()
    assert whole.moves
    assert (whole.inverse().apply(whole.apply(array)) == array).all()
    assert whole.inverse().inverse() == whole


@pytest.mark.parametrize("small", [1, 24, 64, 1000])
@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_blocks_are_bounded(
    order: tuple[int, ...], small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layouts, "_SMALL", small)
    array = np.arange(5 * 6 * 7, dtype=np.int32).reshape(5, 6, 7)
    for layout in (
        TensorLayout.of(array.shape, order),
        TensorLayout.of(array.shape, order, (6, 35)),
    ):
        found, largest = streamed(layout, array)
        assert (found == layout.apply(array).reshape(-1)).all()
        assert largest <= max(small, 4)
        back, _ = streamed(layout.inverse(), layout.apply(array))
        assert (back == array.reshape(-1)).all()


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1, 1)], ids=str)
def test_odd_shapes(shape: tuple[int, ...]) -> None:
    order = tuple(reversed(range(len(shape))))
    array = np.ones(shape)
    layout = TensorLayout.of(shape, order)
    found, _ = streamed(layout, array)
    assert found.size == array.size
    assert layout.apply(array).shape == layout.result == shape[::-1]


def test_words() -> None:
    layout = TensorLayout.of((2, 3), (1, 0), (6,))
    assert layout.text == "permute [1, 0], reshape [6]"
    assert layout.inverse().text == "reshape [3, 2], permute [1, 0]"
    assert TensorLayout.of((2, 3)).text == ""


def test_another_shape_is_refused() -> None:
    TensorLayout.of((2, 3)).require((2, 3))
    with pytest.raises(SelectionError, match=r"states the shape \[2, 3\], the tensor has \[3, 2\]"):
        TensorLayout.of((2, 3)).require((3, 2))
