"""NumPy indices as text, and the part of a tensor that they need."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from typing import Any

from ckpttool.errors import SelectionError
from ckpttool.tensor.shape import Shape
from ckpttool.tensor.slices import Bounds

Index = tuple[int | slice, ...]

_NUMBER = r"(-?\d{1,18})"
_PART = re.compile(rf"\s*(?:{_NUMBER}|{_NUMBER}?\s*:\s*{_NUMBER}?\s*(?::\s*{_NUMBER}?)?)\s*\Z")


def parse_index(text: str) -> tuple[int | slice | None, ...]:
    """Parse the text between the brackets of an index: `0:4, :, -1` or `..., 0`.

    Returns:
        Numbers and slices as NumPy takes them; None stands for an ellipsis.

    Raises:
        SelectionError: it is not such an index.
    """
    parts: list[int | slice | None] = []
    for part in text.split(","):
        if part.strip() == "...":
            parts.append(None)
            continue
        match = _PART.match(part)
        if match is None:
            raise SelectionError(f"'{part.strip()}' in [{text}] is not an index, slice or '...'")
        if match[1] is not None:
            parts.append(int(match[1]))
            continue
        start, stop, step = (int(match[i]) if match[i] else None for i in (2, 3, 4))
        if step == 0:
            raise SelectionError(f"the slice step in [{text}] is zero")
        parts.append(slice(start, stop, step))
    if parts.count(None) > 1:
        raise SelectionError(f"more than one '...' in [{text}]")
    return tuple(parts)


def as_index(index: object) -> tuple[int | slice | None, ...]:
    """Return what stands in the brackets of Python, as `parse_index` returns text.

    Raises:
        TypeError: it is no number, slice or `...`, or several of these.
        SelectionError: there is more than one `...`, or a step is zero.
    """
    parts: list[int | slice | None] = []
    for part in index if isinstance(index, tuple) else (index,):
        if part is Ellipsis:
            parts.append(None)
        elif isinstance(part, slice):
            ends: tuple[Any, ...] = (part.start, part.stop, part.step)
            bounds = (None if at is None else operator.index(at) for at in ends)
            start, stop, step = bounds
            if step == 0:
                raise SelectionError("the slice step is zero")
            parts.append(slice(start, stop, step))
        else:
            parts.append(_number(part))
    if parts.count(None) > 1:
        raise SelectionError("more than one '...' in an index")
    return tuple(parts)


def _number(part: Any) -> int:
    # Of what an array takes, masks and lists of numbers are left: they need more than a region.
    if not isinstance(part, bool):
        with suppress(TypeError):
            return operator.index(part)
    raise TypeError("an index of a tensor is made of numbers, slices and '...'")


def fit_index(parts: tuple[int | slice | None, ...], shape: Shape) -> Index:
    """Spell an index out: one number from 0, or one slice, for each dimension of `shape`.

    Raises:
        SelectionError: there are too many indices, or one is out of bounds.
    """
    given = len(parts) - parts.count(None)
    if given > len(shape):
        raise SelectionError(f"{given} indices for a tensor of shape {list(shape)}")
    fill = (slice(None),) * (len(shape) - given)
    at = parts.index(None) if None in parts else len(parts)
    spelled = (*parts[:at], *fill, *parts[at + 1 :])
    out: list[int | slice] = []
    for axis, (part, dim) in enumerate(zip(spelled, shape, strict=True)):
        if isinstance(part, int):
            if not -dim <= part < dim:
                raise SelectionError(f"index {part} is out of bounds for axis {axis} of size {dim}")
            out.append(part % dim)
        else:
            out.append(part or slice(None))
    return tuple(out)


def bounding_box(index: Index, shape: Shape) -> Bounds:
    """Return (start, stop) for each dimension: the smallest box that holds all elements wanted."""
    box = []
    for part, dim in zip(index, shape, strict=True):
        if isinstance(part, int):
            box.append((part, part + 1))
            continue
        steps = range(*part.indices(dim))
        box.append((min(steps[0], steps[-1]), max(steps[0], steps[-1]) + 1) if steps else (0, 0))
    return tuple(box)


def within_box(index: Index, shape: Shape, box: Bounds) -> Index:
    """Return the index that selects from the box what `index` selects from the tensor."""
    out: list[int | slice] = []
    for part, dim, (low, _) in zip(index, shape, box, strict=True):
        if isinstance(part, int):
            out.append(part - low)
            continue
        start, stop, step = part.indices(dim)
        if not range(start, stop, step):
            out.append(slice(0, 0))
        else:
            # Going down to the first element, the stop must be None: -1 would mean the last one.
            out.append(slice(start - low, None if stop < low else stop - low, step))
    return tuple(out)


def boxes(shape: Shape, limit: int) -> Iterator[Bounds]:
    """Cut a shape into boxes of at most `limit` elements that follow each other in C order."""
    axis, inner = len(shape), 1
    while axis and inner * shape[axis - 1] <= limit:
        axis -= 1
        inner *= shape[axis]
    whole = tuple((0, dim) for dim in shape[axis:])
    if not axis:
        yield whole
        return
    length = shape[axis - 1]
    step = max(1, limit // inner)
    for outer in product(*map(range, shape[: axis - 1])):
        for start in range(0, length, step):
            lead = tuple((at, at + 1) for at in outer)
            yield (*lead, (start, min(start + step, length)), *whole)
