"""What is known of the tensors of a V1 checkpoint without their values."""

from __future__ import annotations

from typing import NamedTuple

from ckpttool.tensor.dtypes import DType
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


class LegacyEntries(dict[str, LegacyEntry]):
    """The tensors of a checkpoint by key, in the order of the key bytes."""

    def dtype_and_shape(self, key: str) -> tuple[DType, Shape]:
        """Return dtype and shape of a tensor."""
        return self[key][:2]
