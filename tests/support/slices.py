"""Slices by the text that TensorFlow's operations take."""

from __future__ import annotations

from ckpttool.tensor.slices import FULL, TensorSlice


def parse_slice(text: str) -> TensorSlice:
    """Return the slice of a text such as `0,2:-`."""
    extents = []
    for part in text.split(":") if text else ():
        start, _, length = part.partition(",")
        extents.append(FULL if part == "-" else (int(start), int(length)))
    return TensorSlice(tuple(extents))
