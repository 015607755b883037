"""Names of many tensors in columns, to be searched: keys, and the object paths that keys tell."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import islice
from operator import le

from ckpttool.objects.keys import key_of_path


class NameColumn:
    """Names of one sort, each with the position of its tensor."""

    def __init__(self, names: Sequence[str], numbers: Sequence[int]) -> None:
        self._names = names
        self._numbers = numbers

    def names(self, start: int, number: int) -> Sequence[str]:
        """Return some of the names."""
        return self._names[start : start + number]

    def numbered(self) -> dict[int, str]:
        """Return the name at each position that has one."""
        return dict(zip(self._numbers, self._names, strict=True))

    def exactly(self, name: str) -> Iterable[int]:
        """Find the tensors of this name."""
        number = self.by_name.get(name)
        if number is None:
            return ()
        if len(self.by_name) == len(self._names):
            return (number,)
        return [at for at, other in zip(self._numbers, self._names, strict=True) if other == name]

    def below(self, scope: str) -> Iterable[int]:
        """Find the tensors whose names begin with `scope` and a slash."""
        if not scope:
            return ()
        names, numbers = self._ordered
        low = bisect_left(names, scope + "/")
        return numbers[low : bisect_left(names, scope + "0", low)]  # "0" follows "/"

    def matching(self, matches: Callable[[str], object]) -> Iterable[int]:
        """Find the tensors whose names a function accepts."""
        return [at for at, hit in zip(self._numbers, map(matches, self._names), strict=True) if hit]

    @cached_property
    def by_name(self) -> dict[str, int]:
        """The position of each name; of several tensors of one the last."""
        return dict(zip(self._names, self._numbers, strict=True))

    @cached_property
    def _ordered(self) -> tuple[Sequence[str], Sequence[int]]:
        if all(map(le, self._names, islice(self._names, 1, None))):
            return self._names, self._numbers
        order = sorted(range(len(self._names)), key=self._names.__getitem__)
        return [self._names[at] for at in order], [self._numbers[at] for at in order]


class PathsOfKeys:
    """The object paths of tensors that are held by columns, by their keys.

    A million of them would take as much room as the keys.
    """

    def __init__(self, paths: Callable[[], Iterable[str | None]], keys: NameColumn) -> None:
        self._paths = paths
        self._keys = keys

    @cached_property
    def _any(self) -> bool:
        return any(path is not None for path in self._paths())

    def numbered(self) -> dict[int, str]:
        """Return the name at each position that has one."""
        return {at: path for at, path in enumerate(self._paths()) if path is not None}

    def exactly(self, name: str) -> Iterable[int]:
        """Find the tensor of this path."""
        key = key_of_path(name) if self._any else None
        return () if key is None else self._keys.exactly(key)

    def below(self, scope: str) -> Iterable[int]:
        """Find the tensors whose keys begin with the key of `scope` and a slash.

        Where a path begins with `scope` and a slash so does its key, but for an attribute with a
        slash in its name.
        """
        key = key_of_path(scope) if self._any else None
        return () if key is None else self._keys.below(key)

    def matching(self, matches: Callable[[str], object]) -> Iterable[int]:
        """Find the tensors whose paths a function accepts."""
        paths = enumerate(self._paths())
        return (at for at, path in paths if path is not None and matches(path))


Names = NameColumn | PathsOfKeys


def exactly(names: Names, name: str) -> Iterable[int]:
    """Find the tensors of this name."""
    return names.exactly(name)


def below(names: Names, scope: str) -> Iterable[int]:
    """Find the tensors whose names begin with a scope and a slash."""
    return names.below(scope)


def matching(names: Names, matches: Callable[[str], object]) -> Iterable[int]:
    """Find the tensors whose names a function accepts."""
    return names.matching(matches)
