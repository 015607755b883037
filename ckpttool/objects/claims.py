"""Which tensors belong to which attributes of a graph."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import count

from ckpttool.objects.columns import GraphColumns
from ckpttool.objects.keys import ATTRIBUTES, GRAPH_KEY
from ckpttool.objects.nodes import Attribute


class Claims:
    """Which tensors belong to which attributes of the graph.

    An attribute owns the tensor with its checkpoint key or, if there is none, all tensors whose
    keys continue it, as "…/table-keys" continues "…/table".

    Args:
        columns: the graph.
        keys: of all tensors of the checkpoint; looking one up must be quick.

    Attributes:
        at: tensor key -> position of the attribute that owns it, in the columns of attributes.
        continued: position of an attribute -> the tensors that it owns as they continue its key.
        unclaimed: tensor keys that no attribute names, the graph's own left out.
        disputed: keys that several attributes name.
    """

    def __init__(self, columns: GraphColumns, keys: Collection[str]) -> None:
        self._columns = columns
        listed = columns.keys
        self.at: dict[str, int] = dict(zip(listed, count(), strict=False))
        self.disputed: tuple[str, ...] = ()
        if len(self.at) < len(listed):
            self.at = dict(zip(reversed(listed), range(len(listed) - 1, -1, -1), strict=True))
            self.disputed = tuple(key for at, key in enumerate(listed) if self.at[key] != at)
        absent = {key: self.at[key] for key in listed if key not in keys}
        for key in absent:
            del self.at[key]
        self.continued: dict[int, list[str]] = {}
        unclaimed, used = [], set()
        if len(self.at) + (GRAPH_KEY in keys and GRAPH_KEY not in self.at) < len(keys):
            for key in keys:
                if key not in self.at and key != GRAPH_KEY:
                    stem = _stem(key, absent) if absent else None
                    if stem is None:
                        unclaimed.append(key)
                    else:
                        used.add(stem)
                        self.at[key] = absent[stem]
                        self.continued.setdefault(absent[stem], []).append(key)
        self.unclaimed = tuple(sorted(unclaimed))
        self._missing = [at for stem, at in absent.items() if stem not in used]

    @property
    def owners(self) -> Mapping[str, tuple[int, Attribute]]:
        """Tensor key -> node id and attribute, which are made when they are looked at."""
        return _Owners(self._columns, self.at)

    @property
    def missing(self) -> tuple[tuple[int, Attribute], ...]:
        """Node id and attribute, for attributes without a tensor.

        TensorFlow writes these for uninitialised variables.
        """
        columns = self._columns
        return tuple((columns.holder(at), columns.attribute(at)) for at in self._missing)


class _Owners(Mapping[str, tuple[int, Attribute]]):
    def __init__(self, columns: GraphColumns, at: Mapping[str, int]) -> None:
        self._columns = columns
        self._at = at

    def __getitem__(self, key: str) -> tuple[int, Attribute]:
        at = self._at[key]
        return self._columns.holder(at), self._columns.attribute(at)

    def __iter__(self) -> Iterator[str]:
        return iter(self._at)

    def __len__(self) -> int:
        return len(self._at)

    def __contains__(self, key: object) -> bool:
        return key in self._at


def _stem(key: str, absent: Mapping[str, int]) -> str | None:
    """Return the longest of `absent` that `key` begins with and that has its whole path."""
    for end in range(len(key) - 1, key.find(ATTRIBUTES), -1):
        if key[:end] in absent:
            return key[:end]
    return None
