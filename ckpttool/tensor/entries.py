"""The tensors of a file by name, the damaged ones included."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol, TypeVar

from ckpttool.coding.text import encode_text
from ckpttool.errors import CkptError
from ckpttool.tensor.dtypes import DType
from ckpttool.tensor.shape import Shape


class AnyEntry(Protocol):
    """What is known of a tensor without its values."""

    @property
    def dtype(self) -> DType:
        """Of the elements."""

    @property
    def shape(self) -> Shape:
        """Of the whole tensor."""


E = TypeVar("E", bound=AnyEntry)


class EntriesByName(Mapping[str, E]):
    """Entries by name, in the order of the bytes of the names.

    Looking up a damaged one raises its error.

    Args:
        sound: the entries.
        damaged: the errors of the other tensors, by name.
        unknown: stands for the entry of a damaged one: an unknown dtype and no shape.
    """

    def __init__(
        self, sound: Mapping[str, E], damaged: Mapping[str, CkptError], unknown: E
    ) -> None:
        self._damaged = damaged
        self._entries = {
            key: unknown if key in damaged else sound[key]
            for key in sorted({**sound, **damaged}, key=encode_text)
        }

    def __getitem__(self, key: str) -> E:
        if key in self._damaged:
            raise self._damaged[key]
        return self._entries[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def sound(self) -> Iterable[tuple[str, E]]:
        """Return name and entry of each tensor that is not damaged."""
        every = self._entries.items()
        return (each for each in every if each[0] not in self._damaged) if self._damaged else every

    def described(self) -> Mapping[str, E]:
        """Return all entries; that of a damaged tensor has an unknown dtype and no shape."""
        return self._entries

    def dtype_and_shape(self, key: str) -> tuple[DType, Shape]:
        """Return dtype and shape of a tensor."""
        entry = self[key]
        return entry.dtype, entry.shape
