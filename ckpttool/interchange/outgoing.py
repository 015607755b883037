"""Tensors on their way into a file of another format."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ckpttool.tensor.dtypes import DType
from ckpttool.tensor.shape import Shape, element_count

# Appends bytes to a file.
Write = Callable[[bytes | memoryview], object]


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A tensor for a file of another format.

    Attributes:
        name: in that file.
        dtype: of its elements.
        shape: of the tensor.
        chunks: returns its bytes piece by piece, in C order and little-endian; a piece is valid
            until the next one is asked for. Damage raises before the last piece is taken.
        width: bytes of each element of a string tensor: all as wide as the longest, filled up
            with NULs. None for other tensors, and for strings that stay as they are.
    """

    name: str
    dtype: DType
    shape: Shape
    chunks: Callable[[], Iterable[bytes | memoryview]]
    width: int | None = None

    @property
    def item_size(self) -> int:
        """Bytes of each element."""
        return self.dtype.size or self.width or 0

    @property
    def size(self) -> int:
        """Bytes of all elements."""
        return self.item_size * element_count(self.shape)
