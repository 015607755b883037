"""The entry of a tensor in a file of another program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ckpttool.coding.text import encode_text
from ckpttool.errors import CkptError
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


class ArrayEntries(Mapping[str, ArrayEntry]):
    """The tensors of a file by name, in the order of the bytes of the names.

    Looking up a damaged one raises its error.

    Args:
        sound: the entries.
        damaged: the errors of the other tensors, by name.
    """

    def __init__(self, sound: Mapping[str, ArrayEntry], damaged: Mapping[str, CkptError]) -> None:
        self._damaged = damaged
        unknown = ArrayEntry(dtype_of_number(0), (), 0, None, 0)
        self._entries = {
            key: unknown if key in damaged else sound[key]
            for key in sorted({**sound, **damaged}, key=encode_text)
        }

    def __getitem__(self, key: str) -> ArrayEntry:
        if key in self._damaged:
            raise self._damaged[key]
        return self._entries[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def sound(self) -> Iterator[tuple[str, ArrayEntry]]:
        """Yield key and entry of each tensor that is not damaged."""
        return (each for each in self._entries.items() if each[0] not in self._damaged)

    def described(self) -> Mapping[str, ArrayEntry]:
        """Return all entries; that of a damaged tensor has an unknown dtype and no shape."""
        return self._entries

    def dtype_and_shape(self, key: str) -> tuple[DType, Shape]:
        """Return dtype and shape of a tensor."""
        return self[key][:2]
