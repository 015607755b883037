"""The entry of a tensor in a file of another program."""

from __future__ import annotations

from typing import NamedTuple

from ckpttool.tensor.dtypes import DType, dtype_of_number
from ckpttool.tensor.shape import Shape, element_count
from ckpttool.tensor.slices import TensorSlice


class Packing(NamedTuple):
    """Where a member of an archive lies.

    Attributes:
        offset: where its bytes begin.
        stored: how many there are.
        size: how many they become when unpacked.
        crc: CRC-32 of those.
        deflated: whether they are compressed.
    """

    offset: int
    stored: int
    size: int
    crc: int
    deflated: bool


class ArrayLayout(NamedTuple):
    """How the elements of an array of NumPy lie.

    Attributes:
        start: where they begin, behind the array's header: in the unpacked member, or in the file.
        fortran: whether the first index runs fastest.
        big_endian: their byte order.
        width: bytes of an element.
        characters: bytes of a character of text, else 0.
    """

    start: int
    fortran: bool
    big_endian: bool
    width: int
    characters: int


class ArrayEntry(NamedTuple):
    """A tensor; a named tuple, not a dataclass, because a file may have very many.

    Attributes:
        dtype: TensorFlow's; `unknown(…)` where it has none.
        shape: its shape.
        shard_id: number of its file.
        offset: where its elements begin in that; None if they are compressed.
        size: bytes of its elements, unpacked.
        layout: None if they lie as in a bundle: little-endian, in C order.
        packing: its member of an archive, if it is one.
        unreadable: why its elements cannot be read; "" if they can.
    """

    dtype: DType
    shape: Shape
    shard_id: int
    offset: int | None
    size: int
    layout: ArrayLayout | None = None
    packing: Packing | None = None
    unreadable: str = ""

    @property
    def elements(self) -> int:
        """Number of elements."""
        return element_count(self.shape)

    @property
    def slices(self) -> tuple[TensorSlice, ...]:
        """None: nothing is partitioned."""
        return ()


# Stands for the entry of a damaged tensor.
UNKNOWN = ArrayEntry(dtype_of_number(0), (), 0, None, 0)
