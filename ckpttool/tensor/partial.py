"""Part of a tensor without the rest: only the elements wanted are made, and near them read."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import numpy as np

from ckpttool.coding.walk import Bytes
from ckpttool.tensor.dtypes import DType
from ckpttool.tensor.region import Index
from ckpttool.tensor.shape import Shape
from ckpttool.tensor.strings import Strings
from ckpttool.tensor.values import Array, decode_array, plain_bytes

# Smaller gaps between wanted elements are read too: a second call would cost as much.
_GAP = 1 << 17
_PIECE = 1 << 20
# Strings turned into objects at once; a longer list would take memory beside the array.
_STRINGS = 1 << 14


def read_part(
    dtype: DType, shape: Shape, index: Index, source: Bytes, start: int, *, big_endian: bool
) -> Array:
    """Read part of a tensor, using memory for that part only.

    Args:
        dtype: a dtype with a size.
        shape: of the whole tensor.
        index: a number or a slice for each dimension.
        source: the bytes that hold the elements.
        start: where the first element begins.
        big_endian: byte order of the writer.

    Returns:
        A new array, also for a single element.
    """
    axes = [
        range(part, part + 1) if isinstance(part, int) else range(*part.indices(dim))
        for part, dim in zip(index, shape, strict=True)
    ]
    if not axes:
        axes, shape = [range(1)], (1,)
    out = np.empty(tuple(map(len, axes)), f"V{dtype.size}")
    if out.size:
        # Read in rising order, whichever way the index goes.
        target = out[tuple(slice(None, None, -1 if axis.step < 0 else 1) for axis in axes)]
        rising = [axis if axis.step > 0 else axis[::-1] for axis in axes]
        _fill(target, rising, shape, source, start)
    kept = tuple(
        len(axis) for axis, part in zip(axes, index, strict=False) if isinstance(part, slice)
    )
    return decode_array(dtype, kept, plain_bytes(out), big_endian=big_endian)


def string_part(strings: Strings, shape: Shape, index: Index) -> Array:
    """Return part of a string tensor; only its elements become objects.

    Args:
        strings: all elements.
        shape: of the whole tensor.
        index: a number or a slice for each dimension.
    """
    kept = tuple(
        len(range(*part.indices(dim)))
        for part, dim in zip(index, shape, strict=True)
        if isinstance(part, slice)
    )
    out = np.empty(kept, object)
    if not out.size:  # beside an axis of length 0 the others may be huge
        return out
    places: Array = np.zeros((), np.int64)
    for axis, (part, dim) in enumerate(zip(index, shape, strict=True)):
        stride = prod(shape[axis + 1 :])
        if isinstance(part, int):
            places = places + part * stride
        else:
            places = np.add.outer(places, np.arange(*part.indices(dim)) * stride)
    target, wanted = out.reshape(-1), places.reshape(-1)
    for at in range(0, len(wanted), _STRINGS):
        target[at : at + _STRINGS] = list(strings.take(wanted[at : at + _STRINGS].tolist()))
    return out


def _fill(target: Array, axes: Sequence[range], shape: Shape, source: Bytes, start: int) -> None:
    """Read the elements at these places along each axis; there is at least one axis."""
    item = target.dtype
    strides = [item.itemsize * prod(shape[axis + 1 :]) for axis in range(len(shape))]
    # Rows of this axis are read whole and many at a time, those of the axes before it singly.
    at = next((axis for axis, stride in enumerate(strides) if stride <= _GAP), len(shape) - 1)
    rows, stride, inner = axes[at], strides[at], shape[at + 1 :]
    wanted: tuple[slice, ...] = (
        slice(None, None, rows.step),
        *(slice(axis.start, axis.stop, axis.step) for axis in axes[at + 1 :]),
    )
    apart = stride * rows.step
    together = _PIECE // apart if apart <= _GAP else 1
    for outer in product(*(range(len(axis)) for axis in axes[:at])):
        base = start + sum(
            axis[place] * step
            for axis, place, step in zip(axes[:at], outer, strides[:at], strict=True)
        )
        for first in range(0, len(rows), together):
            some = rows[first : first + together]
            length = (some[-1] - some[0] + 1) * stride
            data = np.frombuffer(source.read_at(base + some[0] * stride, length), item)
            place: tuple[int | slice, ...] = (*outer, slice(first, first + len(some)))
            target[place] = data.reshape(-1, *inner)[wanted]
