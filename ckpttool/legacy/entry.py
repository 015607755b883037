"""What is known of the tensors of a V1 checkpoint without their values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ckpttool.coding.text import encode_text
from ckpttool.errors import CkptError
from ckpttool.tensor.dtypes import DType, dtype_of_number
from ckpttool.tensor.shape import Shape, element_count
from ckpttool.tensor.slices import TensorSlice


class LegacyPart(NamedTuple):
    """A slice of a tensor, or all of it, and the number of the file that it is in."""

    part: TensorSlice
    shard_id: int


class LegacyEntry(NamedTuple):
    """A tensor.

    A named tuple, not a dataclass: a checkpoint can have very many of them.

    Attributes:
        dtype: what the elements are.
        shape: of the whole tensor.
        parts: what it is stored in.
    """

    dtype: DType
    shape: Shape
    parts: tuple[LegacyPart, ...]

    @property
    def elements(self) -> int:
        """Number of elements of the whole tensor."""
        return element_count(self.shape)

    @property
    def whole(self) -> LegacyPart | None:
        """The part that is the whole tensor; None for a partitioned one."""
        if len(self.parts) == 1 and self.parts[0].part.covers(self.shape):
            return self.parts[0]
        return None

    @property
    def slices(self) -> tuple[TensorSlice, ...]:
        """The slices of a partitioned tensor."""
        return () if self.whole else tuple(part for part, _ in self.parts)

    @property
    def size(self) -> int | None:
        """Bytes of the elements in memory, not in the file; None where they vary in size."""
        return None if self.dtype.size is None else self.dtype.size * self.elements


class LegacyEntries(Mapping[str, LegacyEntry]):
    """The tensors of a checkpoint by key, in the order of the key bytes.

    To ask for one that is damaged raises what is wrong with it.

    Args:
        sound: what is known of tensors.
        damaged: what is wrong with others, by key.
    """

    def __init__(self, sound: Mapping[str, LegacyEntry], damaged: Mapping[str, CkptError]) -> None:
        self._damaged = damaged
        self._entries = {
            key: sound[key] if key not in damaged else LegacyEntry(dtype_of_number(0), (), ())
            for key in sorted({**sound, **damaged}, key=encode_text)
        }

    def __getitem__(self, key: str) -> LegacyEntry:
        if key in self._damaged:
            raise self._damaged[key]
        return self._entries[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def sound(self) -> dict[str, LegacyEntry]:
        """Return the entries but for those of damaged tensors."""
        if not self._damaged:
            return self._entries
        return {key: entry for key, entry in self._entries.items() if key not in self._damaged}

    def described(self) -> dict[str, LegacyEntry]:
        """Return all entries; that of a damaged tensor has no known dtype and no shape."""
        return self._entries

    def dtype_and_shape(self, key: str) -> tuple[DType, Shape]:
        """Return dtype and shape of a tensor."""
        return self[key][:2]
