"""Whether the slices of a partitioned tensor fill it, each element once."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ckpttool.errors import CorruptError, UnsupportedError
from ckpttool.tensor.shape import Shape, element_count
from ckpttool.tensor.slices import Bounds, TensorSlice, check_coverage

_MAX_OVERLAPS = 100
# Usually slices form a grid, and each is compared with few others.
_MAX_COMPARISONS = 1_000_000


def coverage_problems(shape: Shape, parts: Sequence[TensorSlice]) -> list[tuple[str, str]]:
    """Return code and message of the faults of slices within a shape.

    Raises:
        UnsupportedError: they are too many, and form no grid.
    """
    boxes = [part.bounds(shape) for part in parts]
    volume = sum(map(_volume, boxes))
    total = element_count(shape)
    overlaps = _overlaps(boxes)
    if overlaps is None:
        return _first_problem(shape, parts, has_gap=volume < total)
    problems = [
        ("slice-overlap", f"slices {parts[first]} and {parts[second]} overlap")
        for first, second in overlaps
    ]
    # Without an overlap the sizes tell.
    if overlaps or volume != total:
        problems += _gap(shape, boxes, None if overlaps else total - volume)
    return problems


def _gap(shape: Shape, boxes: list[Bounds], missing: int | None) -> list[tuple[str, str]]:
    """Return the problem of a gap, if any, of `missing` elements if that is known."""
    try:
        place = _first_gap(shape, boxes)
    except UnsupportedError:
        where = ""  # not worth the time
        if missing is None:
            return []
    else:
        if place is None:
            return []
        where = f", the first at {list(place)}"
    count = "some" if missing is None else str(missing)
    message = f"its slices leave a gap: {count} of {element_count(shape)} elements are missing"
    return [("slice-gap", message + where)]


def _volume(box: Bounds) -> int:
    return prod(stop - start for start, stop in box)


def _first_problem(
    shape: Shape, parts: Sequence[TensorSlice], *, has_gap: bool
) -> list[tuple[str, str]]:
    """Do the same at less cost: one problem at most."""
    try:
        check_coverage(shape, parts)
    except CorruptError as error:
        return [("slice-gap" if has_gap else "slice-overlap", error.message)]
    return []


def _overlaps(boxes: list[Bounds]) -> list[tuple[int, int]] | None:
    """Return at most `_MAX_OVERLAPS` pairs of overlapping boxes; None if that takes too long."""
    found: list[tuple[int, int]] = []
    if not boxes or not boxes[0]:
        return [(0, other) for other in range(1, len(boxes))][:_MAX_OVERLAPS]
    # Sweep along the axis with the fewest boxes side by side.
    axis = min(range(len(boxes[0])), key=lambda each: _depth(boxes, each))
    open_boxes: list[int] = []
    comparisons = 0
    for at in sorted(range(len(boxes)), key=lambda each: boxes[each][axis]):
        start = boxes[at][axis][0]
        open_boxes = [each for each in open_boxes if boxes[each][axis][1] > start]
        for other in open_boxes:
            if all(
                max(a, c) < min(b, d)
                for (a, b), (c, d) in zip(boxes[at], boxes[other], strict=True)
            ):
                found.append((min(at, other), max(at, other)))
                if len(found) == _MAX_OVERLAPS:
                    return found
        comparisons += len(open_boxes)
        if comparisons > _MAX_COMPARISONS:
            return None
        open_boxes.append(at)
    return sorted(found)


def _depth(boxes: list[Bounds], axis: int) -> float:
    """Return the mean number of boxes at a place of an axis."""
    edges = [box[axis] for box in boxes]
    reach = max(stop for _, stop in edges) - min(start for start, _ in edges)
    return sum(stop - start for start, stop in edges) / max(reach, 1)


def _first_gap(shape: Shape, boxes: list[Bounds]) -> tuple[int, ...] | None:
    """Return the first element, in C order, outside of all boxes; None if there is none."""
    if not element_count(shape):
        return None
    steps = 0

    def search(axis: int, candidates: list[int]) -> tuple[int, ...] | None:
        nonlocal steps
        if not candidates:
            return (0,) * (len(shape) - axis)
        if axis == len(shape):
            return None
        # The first gap begins at 0 or where a box ends.
        cuts = {0, *(boxes[at][axis][1] for at in candidates)} - {shape[axis]}
        for cut in sorted(cuts):
            steps += len(candidates)
            if steps > _MAX_COMPARISONS:
                raise UnsupportedError(f"{len(boxes)} slices that form no grid are too many")
            inside = [at for at in candidates if boxes[at][axis][0] <= cut < boxes[at][axis][1]]
            rest = search(axis + 1, inside)
            if rest is not None:
                return (cut, *rest)
        return None

    return search(0, list(range(len(boxes))))
