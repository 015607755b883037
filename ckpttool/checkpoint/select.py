"""Choose tensors by patterns over their keys and object paths, and by what they are."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeVar

from ckpttool.checkpoint.globs import shortened
from ckpttool.checkpoint.kinds_rules import KINDS
from ckpttool.checkpoint.nearest import nearest, nearest_names, quoted
from ckpttool.checkpoint.patterns import Pattern, expand_files
from ckpttool.errors import SelectionError
from ckpttool.printable import unprintable


class Named(Protocol):
    """Anything that can be selected: the row of a tensor."""

    @property
    def key(self) -> str:
        """The name in the file."""

    @property
    def object_path(self) -> str | None:
        """The short name in an object-based checkpoint."""

    @property
    def kind(self) -> str:
        """What the tensor is, one of `KINDS`."""


N = TypeVar("N", bound=Named)
_Argument = TypeVar("_Argument")
_WITHOUT_MARKS = dict.fromkeys(map(ord, "*?[]{}()^$\\+|!"))


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern and whether it takes tensors in or leaves them out.

    Attributes:
        text: the pattern as typed; `@FILE` stands for all patterns in the file.
        include: False for `--exclude`.
    """

    text: str
    include: bool = True


class Selector:
    """Rules that are applied from left to right, the later ones winning.

    Without rules, or where the first one excludes, everything is selected to begin with;
    otherwise nothing is.

    Args:
        rules: the rules in order.
        kinds: words of `KINDS`; where there are any, only tensors of these kinds are left
            in the end. A kind that no tensor is of is no error.

    Raises:
        SelectionError: a pattern is malformed or a kind unknown.
        MissingFileError, FileAccessError: a pattern file cannot be read.
    """

    def __init__(self, rules: Iterable[Rule] = (), *, kinds: Iterable[str] = ()) -> None:
        self.kinds = frozenset(kinds)
        for kind in sorted(self.kinds.difference(KINDS)):
            meant = nearest(kind, KINDS, limit=1) or KINDS
            raise SelectionError(f"no kind is called '{kind}'; nearest: {quoted(meant)}")
        self._steps: list[tuple[Pattern, bool]] = []
        self._from_all = True
        for number, rule in enumerate(rules):
            self._from_all = self._from_all if number else not rule.include
            for text in expand_files(rule.text):
                self._steps.append((Pattern.parse(text), rule.include))

    @property
    def selects_all(self) -> bool:
        """True where there is nothing to choose by."""
        return self._from_all and not self._steps and not self.kinds

    def select(self, names: Sequence[N], *, strict: bool = True) -> list[N]:
        """Return the selected ones of `names` in their order.

        Args:
            names: what there is.
            strict: whether a pattern that selects nothing is an error.

        Raises:
            SelectionError: a pattern selects nothing by itself; the message names near misses.
                Or a glob is malformed.
        """
        if self.selects_all:
            return list(names)
        index = _NameIndex(names)
        chosen = bytearray([self._from_all]) * len(names)
        for pattern, include in self._steps:
            hits = index.find(pattern)
            if strict and not hits:
                raise SelectionError(index.complaint(pattern))
            for hit in hits:
                chosen[hit] = include
        if self.kinds:
            return [
                name
                for name, taken in zip(names, chosen, strict=True)
                if taken and name.kind in self.kinds
            ]
        return [name for name, taken in zip(names, chosen, strict=True) if taken]


class _NameIndex:
    """Keys and object paths of one selection, with what makes finding them quick."""

    def __init__(self, names: Sequence[Named]) -> None:
        self._keys = _Column([name.key for name in names], range(len(names)))
        paths = [
            (path, number)
            for number, name in enumerate(names)
            if (path := name.object_path) is not None
        ]
        self._paths = _Column([path for path, _ in paths], [number for _, number in paths])
        self._columns = (self._keys, self._paths)

    def find(self, pattern: Pattern) -> set[int]:
        """Return the positions of what one pattern selects by itself."""
        if pattern.form == "regex":
            return self._collect(_Column.matching, pattern.regex.search)
        hits = self._collect_name(_Column.exactly, pattern.body)
        if not hits and pattern.form == "glob":
            hits = self._collect(_Column.matching, pattern.regex.fullmatch)
        if not hits and pattern.form != "exact":
            hits = self._collect_name(_Column.below, pattern.body.rstrip("/"))
        return hits

    def complaint(self, pattern: Pattern) -> str:
        """Say that a pattern selects nothing, and what may have been meant."""
        start = f"pattern '{shortened(pattern.text)}' selects nothing"
        short = {**self._keys.numbered(), **self._paths.numbered()}
        if not short:
            return f"{start}: there are no tensors"
        word = unprintable(pattern.body)
        if pattern.form == "glob":
            deeper = pattern.body.rstrip("/") + "/**"
            if self.find(Pattern.parse(deeper)):
                return f"{start}; '{shortened(deeper)}' selects what is below"
        if pattern.form in ("glob", "regex"):
            word = word.translate(_WITHOUT_MARKS)
        spelled_out = "/.ATTRIBUTES/" in word  # a key is meant, not an object path
        meant = nearest_names(word, (self._keys.numbered() if spelled_out else short).values())
        if meant:
            return f"{start}; nearest: {quoted(meant)}"
        return f"{start}; there are {len(short)} tensors, such as '{min(short.values())}'"

    def _collect(
        self, find: Callable[[_Column, _Argument], Iterable[int]], argument: _Argument
    ) -> set[int]:
        return {number for column in self._columns for number in find(column, argument)}

    def _collect_name(self, find: Callable[[_Column, str], Iterable[int]], name: str) -> set[int]:
        return self._collect(find, name) or self._collect(find, unprintable(name))


class _Column:
    """Names of one sort, each with the position of the tensor it belongs to."""

    def __init__(self, names: list[str], numbers: Sequence[int]) -> None:
        self._names = names
        self._numbers = numbers

    def numbered(self) -> dict[int, str]:
        """Return the name at each position that has one."""
        return dict(zip(self._numbers, self._names, strict=True))

    def exactly(self, name: str) -> Iterable[int]:
        """Find the tensors of this name."""
        number = self._by_name.get(name)
        if number is None:
            return ()
        if len(self._by_name) == len(self._names):
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
    def _by_name(self) -> dict[str, int]:
        return dict(zip(self._names, self._numbers, strict=True))

    @cached_property
    def _ordered(self) -> tuple[list[str], list[int]]:
        order = sorted(range(len(self._names)), key=self._names.__getitem__)
        return [self._names[at] for at in order], [self._numbers[at] for at in order]
