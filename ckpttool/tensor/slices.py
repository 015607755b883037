"""Slices: the parts in which a partitioned tensor is stored.

    TensorSliceProto    extent=1 repeated { start=1 int64, length=2 int64 with presence }

A slice has an extent for each dimension. The full extent is an empty message, here length -1. It
and an extent that spells out the whole length mean the same but give different keys.

The key under which the entry of a slice lies in the index:

    num(0)  str(name)  num(rank)  per dimension: snum(start) snum(length)

    "p", slice 0,2:-   00 | 70 00 01 | 01 02 | 80 82 | 80 7f

The codes are those of `coding.ordered`. The leading 00 sorts all slices before ordinary names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from ckpttool.coding import ordered, wire
from ckpttool.errors import CorruptError, UnsupportedError
from ckpttool.tensor.shape import Shape, element_count

FULL = (0, -1)
# With more cells a map of them could take more memory than the slices themselves.
_CELLS_PER_SLICE = 1024
_MAX_PAIRED = 20_000
# The dimensions that an array may have in every version of NumPy.
_MAX_MAP_RANK = 32
Bounds = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class TensorSlice:
    """A box in a tensor.

    Attributes:
        extents: (start, length) for each dimension; (0, -1) is the full extent.
    """

    extents: tuple[tuple[int, int], ...]

    @property
    def is_full(self) -> bool:
        """Whether every dimension has the full extent."""
        return all(extent == FULL for extent in self.extents)

    def bounds(self, shape: Shape) -> Bounds:
        """Return (start, stop) for each dimension of a tensor of this shape.

        Raises:
            CorruptError: the slice has another rank or does not lie within the shape.
        """
        if len(self.extents) != len(shape):
            raise CorruptError(f"slice {self} has another rank than shape {list(shape)}")
        bounds = tuple(
            (0, dim) if extent == FULL else (extent[0], extent[0] + extent[1])
            for extent, dim in zip(self.extents, shape, strict=True)
        )
        for (start, stop), (_, length), dim in zip(bounds, self.extents, shape, strict=True):
            if start < 0 or stop > dim or (length <= 0 and (start, length) != FULL):
                raise CorruptError(f"slice {self} does not fit shape {list(shape)}")
        return bounds

    def shape(self, full: Shape) -> Shape:
        """Return the shape of this part of a tensor of shape `full`."""
        return tuple(stop - start for start, stop in self.bounds(full))

    def covers(self, shape: Shape) -> bool:
        """Whether the slice is the whole tensor."""
        return all(bound == (0, dim) for bound, dim in zip(self.bounds(shape), shape, strict=True))

    def __str__(self) -> str:
        """Spell the slice as TensorFlow's ops do: `0,2:-`."""
        return ":".join(
            "-" if extent == FULL else f"{extent[0]},{extent[1]}" for extent in self.extents
        )


def decode_slice(data: bytes) -> TensorSlice:
    """Decode a TensorSliceProto."""
    extents = []
    for number, kind, value, _ in wire.decode_fields(data):
        if number == 1 and kind == wire.BYTES:
            extents.append(_decode_extent(bytes(value)))
    return TensorSlice(tuple(extents))


def encode_slice(part: TensorSlice) -> bytes:
    """Encode a slice as TensorFlow does."""
    out = []
    for start, length in part.extents:
        extent = b""
        if (start, length) != FULL:
            extent = wire.varint_field(1, start) + wire.varint_field(2, length)
        out.append(wire.bytes_field(1, extent))
    return b"".join(out)


def encode_slice_key(name: bytes, part: TensorSlice) -> bytes:
    """Return the key of a slice of the tensor called `name`."""
    out = [b"\0", ordered.encode_str(name), ordered.encode_num(len(part.extents))]
    for start, length in part.extents:
        out += (ordered.encode_signed(start), ordered.encode_signed(length))
    return b"".join(out)


def decode_slice_key(key: bytes) -> tuple[bytes, TensorSlice]:
    """Return the name and the slice that a key stands for.

    Raises:
        CorruptError: it is not the key of a slice.
    """
    zero, pos = ordered.decode_num(key, 0)
    if zero:
        raise CorruptError("a slice key starts with another number than 0")
    name, pos = ordered.decode_str(key, pos)
    rank, pos = ordered.decode_num(key, pos)
    extents = []
    for _ in range(min(rank, len(key))):
        start, pos = ordered.decode_signed(key, pos)
        length, pos = ordered.decode_signed(key, pos)
        extents.append((start, -1 if length < 0 else length))
    if pos != len(key) or rank != len(extents):
        raise CorruptError("a slice key has bytes after its end", offset=pos)
    return name, TensorSlice(tuple(extents))


def offset_slices(common: Sequence[tuple[int, int]], box: Bounds) -> tuple[slice, ...]:
    """Return the slices that select the bounds `common` from an array that holds `box`."""
    return tuple(slice(a - c, b - c) for (a, b), (c, _) in zip(common, box, strict=True))


def check_coverage(shape: Shape, parts: Sequence[TensorSlice]) -> None:
    """Check that slices fill a tensor of this shape and none overlaps another.

    Raises:
        CorruptError: there is a gap or an overlap; the message names a place.
    """
    import numpy as np

    boxes = [part.bounds(shape) for part in parts]
    volume = sum(element_count(tuple(b - a for a, b in box)) for box in boxes)
    total = element_count(shape)
    if volume < total:
        raise CorruptError(f"its slices leave a gap: {volume} of {total} elements are stored")
    # One cell for each stretch between two neighbouring cuts of an axis. Usually there are about as
    # many cells as slices.
    cuts = [
        sorted({0, dim, *(edge for box in boxes for edge in box[axis])})
        for axis, dim in enumerate(shape)
    ]
    if len(shape) > _MAX_MAP_RANK or prod(
        len(axis_cuts) - 1 for axis_cuts in cuts
    ) > _CELLS_PER_SLICE * (len(parts) + 1024):
        _check_pairs(parts, boxes)
        return
    cell = [{edge: at for at, edge in enumerate(axis_cuts)} for axis_cuts in cuts]
    taken = np.zeros([len(axis_cuts) - 1 for axis_cuts in cuts], dtype=bool)
    for part, box in zip(parts, boxes, strict=True):
        where = tuple(slice(cell[i][a], cell[i][b]) for i, (a, b) in enumerate(box))
        if taken[where].any():
            raise CorruptError(f"slice {part} overlaps another")
        taken[where] = True


def _check_pairs(parts: Sequence[TensorSlice], boxes: list[Bounds]) -> None:
    """Check pair by pair that no slice overlaps another, for slices that form no grid."""
    import numpy as np

    if len(parts) > _MAX_PAIRED:
        raise UnsupportedError(f"{len(parts)} slices that form no grid are too many")
    edges = np.array(boxes, dtype=np.int64).reshape(len(parts), -1, 2)
    for at in range(len(parts) - 1):
        low = np.maximum(edges[at + 1 :, :, 0], edges[at, :, 0])
        high = np.minimum(edges[at + 1 :, :, 1], edges[at, :, 1])
        if (low < high).all(axis=1).any():
            raise CorruptError(f"slice {parts[at]} overlaps another")


def _decode_extent(data: bytes) -> tuple[int, int]:
    start, length, has_length = 0, -1, False
    for number, kind, value, _ in wire.decode_fields(data):
        if kind == wire.VARINT and isinstance(value, int):
            if number == 1:
                start = wire.signed64(value)
            elif number == 2:
                length, has_length = wire.signed64(value), True
    if not has_length and start:
        raise CorruptError("an extent of a slice has a start but no length")
    if has_length and length < 0:
        raise CorruptError(f"an extent of a slice has length {length}")
    return start, length
