"""Cutting a tensor into a grid of slices."""

from __future__ import annotations

from itertools import pairwise, product

from ckpttool.tensor.slices import FULL, TensorSlice

Shape = tuple[int, ...]


def grid(shape: Shape, cuts: dict[int, list[int]], *, dashes: bool = False) -> list[TensorSlice]:
    """Return the cells of a grid in row-major order.

    Args:
        shape: of the whole tensor.
        cuts: for an axis, where it is cut, rising, between 0 and its length.
        dashes: spell the extent of an axis that is not cut as full, not by its length.
    """
    extents: list[list[tuple[int, int]]] = []
    for axis, dim in enumerate(shape):
        edges = [0, *cuts.get(axis, []), dim]
        pieces = [(start, stop - start) for start, stop in pairwise(edges)]
        extents.append([FULL] if dashes and len(pieces) == 1 else pieces)
    return [TensorSlice(cell) for cell in product(*extents)]


def numpy_index(part: TensorSlice, shape: Shape) -> tuple[slice, ...]:
    """Return the NumPy index of a slice."""
    return tuple(slice(start, stop) for start, stop in part.bounds(shape))


def spec(shape: Shape, part: TensorSlice) -> str:
    """Return a slice in the form that TensorFlow's ops take: `3 2 0,2:-`."""
    return " ".join(map(str, shape)) + f" {part}"
