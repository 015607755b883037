"""Choosing tensors by patterns over their names, and by kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate, chain, compress, count
from operator import and_
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar, cast, runtime_checkable

from ckpttool.checkpoint.kinds.rules import KINDS
from ckpttool.checkpoint.nearest import listed, nearest, nearest_names, path_hint, quoted
from ckpttool.checkpoint.selection.columns import (
    NameColumn,
    Names,
    PathsOfKeys,
    below,
    exactly,
    matching,
)
from ckpttool.checkpoint.selection.patterns import Pattern, expand_files
from ckpttool.checkpoint.selection.time_limit import TimeLimit
from ckpttool.errors import SelectionError
from ckpttool.printable import shortened, unprintable

if TYPE_CHECKING:
    from ckpttool.checkpoint.open import Checkpoint
    from ckpttool.checkpoint.selection.graph_names import Found, GraphNames


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
        """One of `KINDS`."""


N = TypeVar("N", bound=Named)


@runtime_checkable
class Columns(Protocol):
    """Rows that are held by columns, and made only when they are looked at."""

    @property
    def keys(self) -> Sequence[str]:
        """The name of each in the file."""

    def paths(self) -> Iterable[str | None]:
        """Return the object path of each."""

    def every_kind(self) -> Iterable[str]:
        """Return the kind of each."""

    def only(self, flags: Sequence[int]) -> Sequence[Named]:
        """Return some of the rows: those with a flag that is not zero."""


_Argument = TypeVar("_Argument")
_WITHOUT_MARKS = dict.fromkeys(map(ord, "*?[]{}()^$\\+|!"))


@dataclass(frozen=True, slots=True)
class SelectionRule:
    """A pattern that includes or excludes tensors.

    Attributes:
        text: the pattern as typed; `@FILE` stands for all patterns in the file.
        include: False for `--exclude`.
    """

    text: str
    include: bool = True


@dataclass(frozen=True, slots=True)
class Step:
    """A rule with its parsed patterns; `@FILE` has any number of them."""

    patterns: tuple[Pattern, ...]
    include: bool


class Selector:
    """Rules applied from left to right; later ones win.

    Without rules, or if the first one excludes, everything is selected at first; otherwise nothing.

    Args:
        rules: in order.
        kinds: words of `KINDS`; if given, only tensors of these kinds stay in the end. A kind
            without tensors is no error.

    Attributes:
        steps: the parsed rules.
        kinds: as given.

    Raises:
        SelectionError: a pattern is malformed or a kind unknown.
        MissingFileError, FileAccessError: a pattern file cannot be read.
    """

    def __init__(self, rules: Iterable[SelectionRule] = (), *, kinds: Iterable[str] = ()) -> None:
        self.kinds = frozenset(kinds)
        for kind in sorted(self.kinds.difference(KINDS)):
            meant = nearest(kind, KINDS, limit=1) or KINDS
            raise SelectionError(f"unknown kind '{kind}'; nearest: {quoted(meant)}")
        self.steps = tuple(map(_parsed, rules))

    @classmethod
    def from_patterns(
        cls,
        patterns: str | Iterable[str] | Selector = (),
        *,
        exclude: str | Iterable[str] = (),
        kinds: str | Iterable[str] = (),
    ) -> Selector:
        """Return a selector for patterns as programs give them.

        Args:
            patterns: a pattern or several, which take tensors in; all are selected without any. A
                selector is returned as it is.
            exclude: a pattern or several, which leave out what they select.
            kinds: a word of `KINDS` or several.

        Raises:
            SelectionError: a pattern is malformed or a kind unknown.
        """
        if isinstance(patterns, Selector):
            return patterns
        rules = [SelectionRule(each) for each in _listed(patterns)]
        rules += [SelectionRule(each, include=False) for each in _listed(exclude)]
        return cls(rules, kinds=_listed(kinds))

    @property
    def selects_all(self) -> bool:
        """True without rules and kinds."""
        return self.from_all and not any(step.patterns for step in self.steps) and not self.kinds

    @property
    def from_all(self) -> bool:
        """True if everything is selected before the first rule."""
        return not self.steps or not self.steps[0].include

    def with_rules(
        self, first: Iterable[SelectionRule] = (), last: Iterable[SelectionRule] = ()
    ) -> Selector:
        """Return a selector with more rules, before and after its own.

        Raises:
            SelectionError, MissingFileError, FileAccessError: as the constructor.
        """
        return Selector.of(
            (*map(_parsed, first), *self.steps, *map(_parsed, last)), kinds=self.kinds
        )

    @classmethod
    def of(cls, steps: Iterable[Step], *, kinds: Iterable[str] = ()) -> Selector:
        """Return a selector of parsed rules."""
        selector = cls(kinds=kinds)
        selector.steps = tuple(steps)
        return selector

    def select(self, names: Sequence[N], *, strict: bool = True) -> list[N]:
        """Return the selected ones of `names`, in order, without an object graph.

        Args:
            names: all of them.
            strict: whether a pattern that selects nothing is an error.

        Raises:
            SelectionError: a pattern selects nothing by itself (the message names near misses), or
                a glob is malformed.
        """
        return [*self.choose([Listed(names)], strict=strict).chosen]

    def choose(self, parts: Sequence[Listed[N]], *, strict: bool = True) -> Choice[N]:
        """Choose from the tensors of one or more checkpoints.

        Excluding a scope keeps a tensor in it that also has a path outside of all excluded scopes.

        Args:
            parts: the tensors, by checkpoint.
            strict: as in `select`.

        Raises:
            SelectionError: as in `select`.
        """
        if self.selects_all:
            rows = [part.rows for part in parts]
            return Choice([each if isinstance(each, Columns) else [*each] for each in rows], [])
        index = _NameIndex(parts)
        chosen = bytearray([self.from_all]) * sum(len(part.rows) for part in parts)
        leaving = _Leaving(index)
        for pattern, include in self._patterns():
            hits = index.find(pattern)
            if strict and not hits.all:
                raise SelectionError(index.complaint(pattern))
            if include:
                leaving.take_back(hits.all)
            for hit in hits.all if include else leaving.add(hits):
                chosen[hit] = include
        stops = accumulate(len(part.rows) for part in parts)
        rows = [
            self._kept(part.rows, chosen[stop - len(part.rows) : stop])
            for part, stop in zip(parts, stops, strict=True)
        ]
        return Choice(rows, leaving.result())

    def _kept(self, rows: Sequence[N], chosen: bytearray) -> Sequence[N]:
        """Return the chosen rows of the wanted kinds."""
        if isinstance(rows, Columns):
            if self.kinds:
                wanted = map(self.kinds.__contains__, rows.every_kind())
                chosen = bytearray(map(and_, chosen, wanted))
            return cast(Sequence[N], rows.only(chosen))
        return [
            name for name in compress(rows, chosen) if not self.kinds or name.kind in self.kinds
        ]

    def _patterns(self) -> Iterator[tuple[Pattern, bool]]:
        for step in self.steps:
            for pattern in step.patterns:
                yield pattern, step.include


def _parsed(rule: SelectionRule) -> Step:
    return Step(tuple(map(Pattern.parse, expand_files(rule.text))), rule.include)


@dataclass(frozen=True, slots=True)
class Listed(Generic[N]):
    """The tensors of one checkpoint.

    Attributes:
        rows: the tensors.
        ckpt: the checkpoint, for further names by its object graph; None if there are none.
    """

    rows: Sequence[N]
    ckpt: Checkpoint | None = None


def _all_names(parts: Iterable[Listed[N]]) -> Iterator[tuple[str, str | None]]:
    """Yield the key and the object path of each row."""
    for part in parts:
        rows = part.rows
        if isinstance(rows, Columns):
            yield from zip(rows.keys, rows.paths(), strict=True)
        else:
            yield from ((name.key, name.object_path) for name in rows)


@dataclass(frozen=True, slots=True)
class LeftIn(Generic[N]):
    """The effect of excluded scopes on the tensors of one checkpoint.

    Attributes:
        rows: those in such a scope that stay, because another path leads to them.
        scopes: the excluded objects.
    """

    rows: list[N]
    scopes: frozenset[int]


@dataclass(frozen=True, slots=True)
class Choice(Generic[N]):
    """The answer of `Selector.choose`.

    Attributes:
        by_part: the selected tensors, by checkpoint.
        left_in: by checkpoint; empty if nothing was excluded.
    """

    by_part: list[Sequence[N]]
    left_in: list[LeftIn[N]]

    @property
    def chosen(self) -> Sequence[N]:
        """The selected tensors of all checkpoints."""
        return self.by_part[0] if len(self.by_part) == 1 else [*chain.from_iterable(self.by_part)]


class _Hits(NamedTuple):
    """The positions that a pattern selects.

    Attributes:
        all: all of them.
        named: those that it selects by more than a scope.
        scopes: objects, by part.
    """

    all: set[int]
    named: set[int]
    scopes: dict[int, frozenset[int]]


class _Leaving(Generic[N]):
    """Collects what patterns exclude."""

    def __init__(self, index: _NameIndex[N]) -> None:
        self._index = index
        self._within: set[int] = set()
        self._scopes: dict[int, set[int]] = {}

    def add(self, hits: _Hits) -> set[int]:
        """Return the positions that these hits exclude."""
        self._within |= hits.all - hits.named
        for part, scopes in hits.scopes.items():
            self._scopes.setdefault(part, set()).update(scopes)
        staying = self._index.outside(self._within, self._scopes)
        gone = self._within - staying
        self._within = staying - hits.named
        return gone | hits.named

    def take_back(self, taken: set[int]) -> None:
        """Forget what a later pattern includes again."""
        self._within -= taken

    def result(self) -> list[LeftIn[N]]:
        """Return what stayed, by part."""
        if not self._scopes:
            return []
        return self._index.left_in(self._within, self._scopes)


class _NameIndex(Generic[N]):
    """All names that can be selected, indexed for quick search."""

    def __init__(self, parts: Sequence[Listed[N]]) -> None:
        self._parts = parts
        rows = parts[0].rows if len(parts) == 1 else None
        self._keys: NameColumn
        self._paths: Names
        if isinstance(rows, Columns):
            # As a list, whose numbers the sets and dicts of a million tensors share.
            self._keys = NameColumn(rows.keys, [*range(len(rows.keys))])
            self._paths = PathsOfKeys(rows.paths, self._keys)
        else:
            names = [*_all_names(parts)]
            self._keys = NameColumn([key for key, _ in names], range(len(names)))
            paths = {at: path for at, (_, path) in enumerate(names) if path is not None}
            self._paths = NameColumn([*paths.values()], [*paths])

    def find(self, pattern: Pattern) -> _Hits:
        """Return what one pattern selects by itself.

        Names that variables had in the program count where no key and no path is matched. A
        scope of such names is none that objects are in.

        Raises:
            SelectionError: it is the name of several variables of one checkpoint.
        """
        found = self._find_by_path(pattern)
        if found.all:
            return found
        hits = self._variables(pattern)
        return _Hits(hits, hits, {})

    def _variables(self, pattern: Pattern) -> set[int]:
        """Return the positions of the variables whose names a pattern selects."""
        hits: set[int] = set()
        for graph, numbers in self._graphs.values():
            if pattern.form == "regex":
                with TimeLimit(pattern.text) as limit:
                    keys = graph.variables_taken_by(limit.renewing(pattern.regex.search))
            else:
                keys = set(graph.variables_called(pattern.body))
                if len(keys) > 1:
                    raise SelectionError(
                        f"'{shortened(pattern.body)}' is the name of several variables; say which"
                        f" is meant by its key: {listed(sorted(keys))}"
                    )
                if not keys and pattern.form != "exact":
                    keys = graph.variables_matching(pattern)
            hits |= {numbers[key] for key in keys if key in numbers}
        return hits

    def _find_by_path(self, pattern: Pattern) -> _Hits:
        if pattern.form == "regex":
            with TimeLimit(pattern.text) as limit:
                search = limit.renewing(pattern.regex.search)
                hits = self._collect(matching, search)
                return self._with_graphs(hits, partial(_search, search))
        hits = self._named(pattern.body)
        if hits:
            return _Hits(hits, hits, {})
        if pattern.form == "glob":
            hits = self._collect(matching, pattern.regex.fullmatch)
            found = self._with_graphs(hits, partial(_find, pattern))
            if found.all:
                return found
        if pattern.form == "exact":
            return _Hits(hits, hits, {})
        for body in dict.fromkeys((pattern.body, unprintable(pattern.body))):
            scope = Pattern(body, "word", body)
            hits = self._collect(below, body.rstrip("/"))
            found = self._with_graphs(hits, partial(_find, scope))
            if found.all:
                break
        return found

    def outside(self, hits: set[int], scopes: dict[int, set[int]]) -> set[int]:
        """Return the positions that have a path outside of all these scopes."""
        found: set[int] = set()
        for part, (graph, numbers) in self._graphs.items():
            within = {key for key, number in numbers.items() if number in hits}
            if within and part in scopes:
                held = graph.held_outside(within, scopes[part])
                found.update(numbers[key] for key in held)
        return found

    def left_in(self, hits: set[int], scopes: dict[int, set[int]]) -> list[LeftIn[N]]:
        """Return the rows at some positions and the scopes, by part."""
        found = []
        for part, (_, numbers) in self._graphs.items():
            places = enumerate(numbers.values())
            rows = [self._parts[part].rows[at] for at, number in places if number in hits]
            found.append(LeftIn(rows, frozenset(scopes.get(part, ()))))
        return found

    def complaint(self, pattern: Pattern) -> str:
        """Return the message for a pattern that selects nothing, with near misses."""
        start = f"pattern '{shortened(pattern.text)}' selects nothing"
        short = {**self._keys.numbered(), **self._paths.numbered()}
        if not short:
            return f"{start}: there are no tensors"
        variables = [
            name for graph, _ in self._graphs.values() for name in graph.variable_names.values()
        ]
        word = unprintable(pattern.body)
        if pattern.form == "glob":
            deeper = pattern.body.rstrip("/") + "/**"
            if self.find(Pattern.parse(deeper)).all:
                return f"{start}; '{shortened(deeper)}' selects what is below"
        if pattern.form in ("glob", "regex"):
            word = word.translate(_WITHOUT_MARKS)
        if too_many := path_hint(pattern.body):
            return start + too_many
        spelled_out = "/.ATTRIBUTES/" in word  # a key is meant, not an object path
        names = self._keys.numbered() if spelled_out else short
        meant = nearest_names(word, [*names.values(), *variables])
        if meant:
            return f"{start}; nearest: {quoted(meant)}"
        return f"{start}; there are {len(short)} tensors, such as '{min(short.values())}'"

    def _collect(
        self,
        find: Callable[[NameColumn | PathsOfKeys, _Argument], Iterable[int]],
        argument: _Argument,
    ) -> set[int]:
        return {*find(self._keys, argument), *find(self._paths, argument)}

    def _named(self, name: str) -> set[int]:
        """Return the positions of the tensors with exactly this name, of any sort."""
        for spelling in dict.fromkeys((name, unprintable(name))):
            hits = self._collect(exactly, spelling)
            for graph, numbers in self._graphs.values():
                key = graph.exactly(spelling)
                if key in numbers:
                    hits.add(numbers[key])
            if hits:
                return hits
        return set()

    def _with_graphs(self, hits: set[int], find: Callable[[GraphNames], Found]) -> _Hits:
        """Add the hits by graphs to those by keys and object paths."""
        # There may be millions: a set of them is made only where it is needed.
        every, by_scope = hits, bytearray(sum(len(part.rows) for part in self._parts))
        scopes = {}
        for part, (graph, numbers) in self._graphs.items():
            found = find(graph)
            scopes[part] = found.scopes
            for key in found.keys:
                at = numbers.get(key)
                if at is not None:
                    every.add(at)
                    by_scope[at] = found.named is not found.keys and key not in found.named
        named = {at for at in every if not by_scope[at]} if any(by_scope) else every
        return _Hits(every, named, scopes)

    @cached_property
    def _graphs(self) -> dict[int, tuple[GraphNames, dict[str, int]]]:
        """For each part with a graph, its names by the graph and the positions of its keys."""
        found = {}
        start = 0
        for number, part in enumerate(self._parts):
            graph = part.ckpt.graph_names if part.ckpt is not None else None
            if graph is not None and len(self._parts) == 1:
                found[number] = (graph, self._keys.by_name)
            elif graph is not None:
                places = dict(zip(self._keys.names(start, len(part.rows)), count(start)))
                found[number] = (graph, places)
            start += len(part.rows)
        return found


def _listed(words: str | Iterable[str]) -> Iterable[str]:
    return (words,) if isinstance(words, str) else words


def _find(pattern: Pattern, graph: GraphNames) -> Found:
    return graph.find(pattern)


def _search(matches: Callable[[str], object], graph: GraphNames) -> Found:
    return graph.search(matches)
