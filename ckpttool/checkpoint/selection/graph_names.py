"""The names that tensors have by the object graph: along any of its edges.

A tensor is called by every path that leads to its object, with its attribute behind it as in a
key or in an object path; a slot variable by every path of its variable with one of its optimizer.
There may be more such paths than can be written down, and circles make them endless. Names and
globs are held against the edges themselves, which takes all paths into account in time that grows
with the graph; a regular expression is tried on a number of paths of each object, short ones first.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Iterator, Set
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import product
from typing import TYPE_CHECKING, TypeVar

from ckpttool.checkpoint.selection.globs import GLOBSTAR, literal_tokens, parse_glob
from ckpttool.checkpoint.selection.matchers import (
    GlobMatcher,
    Matcher,
    TextMatcher,
    takes_all_below,
)
from ckpttool.checkpoint.selection.patterns import Pattern
from ckpttool.objects.keys import (
    ATTRIBUTES,
    OPTIMIZER_SLOT,
    VARIABLE_VALUE,
    escape,
    key_of_path,
    object_path,
    slot_path,
)

if TYPE_CHECKING:
    from ckpttool.objects.graph import ObjectGraph

S = TypeVar("S")
# Names of one tensor that are written down.
MAX_NAMES = 16
# Optimizers beyond these are known by one path each.
_MAX_OPTIMIZERS = 256
# A set of scopes is looked for anew until it stays the same.
_MAX_ROUNDS = 8


@dataclass(frozen=True, slots=True)
class Found:
    """What a pattern finds by the graph.

    Attributes:
        keys: the keys of all tensors that have a name it matches.
        named: those that it matches by something of their own, not by a scope that they are in.
        scopes: the objects of which it matches whatever is in them.
    """

    keys: set[str] | frozenset[str]
    named: set[str] | frozenset[str]
    scopes: frozenset[int]


NOTHING = Found(frozenset(), frozenset(), frozenset())


class GraphNames:
    """The names of all tensors of an object-based checkpoint.

    Args:
        graph: its object graph.
        keys: the keys of its tensors.
    """

    def __init__(self, graph: ObjectGraph, keys: Set[str]) -> None:
        self._graph = graph
        self._columns = graph.columns
        self._claims = graph.claims(keys)

    def _node_of(self, key: str) -> int | None:
        """Return the object that a tensor belongs to."""
        at = self._claims.at.get(key)
        return None if at is None else self._columns.holder(at)

    def _held(self, node_id: int) -> Iterator[str]:
        """Yield the keys of the tensors of an object; nearly all have one."""
        for at in self._columns.attributes_of(node_id):
            key = self._columns.keys[at]
            if self._claims.at.get(key) == at:
                yield key
            if self._claims.continued:
                yield from self._claims.continued.get(at, ())

    def names_of(self, key: str, *, limit: int = MAX_NAMES) -> tuple[str, ...]:
        """Return the names of a tensor: its key, its object path, then those along other edges.

        Args:
            key: its key.
            limit: how many at most; where there are many, long ones are left out.
        """
        return tuple(dict.fromkeys((key, *self.paths_of(key, limit=limit))))[:limit]

    def paths_of(self, key: str, *, limit: int = MAX_NAMES) -> tuple[str, ...]:
        """Return the object paths of a tensor: the one in its key, then those along other edges.

        Args:
            key: its key.
            limit: how many at most; where there are many, long ones are left out.
        """
        paths = dict.fromkeys(filter(None, (object_path(key),)))
        node_id = self._node_of(key)
        if node_id is not None:
            short = _endings(key)[-1]
            for path in filter(None, self._paths_of(node_id, limit)):
                paths[path + short] = None
        return tuple(paths)[:limit]

    def exactly(self, name: str) -> str | None:
        """Return the key of the tensor that a name along any edges leads to."""
        key = key_of_path(name)
        path, found, attribute = (name if key is None else key).partition(ATTRIBUTES)
        node_id = self._graph.node_at(path)
        ending = ATTRIBUTES + (attribute if found else VARIABLE_VALUE)
        held = self._held(node_id) if node_id is not None else ()
        return next((each for each in held if _endings(each)[0] == ending), None)

    @cached_property
    def variable_names(self) -> dict[str, str]:
        """By key, the full names of variables in their program, as far as the graph records them.

        Two variables may have the same.
        """
        names = self._graph.full_names()
        return {key: names[key] for key in self._claims.at if key in names}

    def variables_called(self, name: str) -> list[str]:
        """Return the keys of the variables of a name."""
        return self._by_variable_name.get(name, [])

    def variables_matching(self, pattern: Pattern) -> set[str]:
        """Return the keys of the variables whose names a word, as a scope, or a glob takes in."""
        if pattern.form == "glob":
            matches: Callable[[str], object] = pattern.regex.fullmatch
        else:
            scope = pattern.body.rstrip("/") + "/"
            matches = partial(_starts_with, scope)
        return self.variables_taken_by(matches)

    def variables_taken_by(self, matches: Callable[[str], object]) -> set[str]:
        """Return the keys of the variables of which a function takes the name."""
        return {key for key, name in self.variable_names.items() if matches(name)}

    @cached_property
    def _by_variable_name(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for key, name in self.variable_names.items():
            found.setdefault(name, []).append(key)
        return found

    def find(self, pattern: Pattern) -> Found:
        """Return what a word, as a scope, or a glob selects by names along any edges."""
        if pattern.form == "glob":
            matcher = GlobMatcher(parse_glob(pattern.body))
        else:
            scope = pattern.body.rstrip("/")
            if not scope:
                return NOTHING
            matcher = GlobMatcher([[*literal_tokens(scope), "/", GLOBSTAR]])
        return self._find(lambda: matcher)

    def search(self, matches: Callable[[str], object]) -> Found:
        """Return the tensors of which a function takes a name, of very many the short ones."""
        budget = 4 * len(self._graph.nodes) + 10_000
        return self._find(lambda: TextMatcher(matches, budget))

    def reachable(self, scopes: Set[int]) -> frozenset[int]:
        """Return the objects that are reached from the root without entering some others.

        A slot variable is reached with its variable and its optimizer.
        """
        seen = set() if 0 in scopes else {0}
        queue = list(seen)
        for node_id in queue:
            for _, child in self._graph.columns.children(node_id):
                if child not in seen and child not in scopes:
                    seen.add(child)
                    queue.append(child)
        columns = self._columns
        slots = {
            columns.slot_nodes[at]
            for optimizer, positions in columns.optimizers.items()
            if optimizer in seen
            for at in positions
            if columns.slot_variables[at] in seen
        }
        return frozenset(seen | (slots - scopes))

    def held_outside(self, keys: Iterable[str], scopes: Set[int]) -> set[str]:
        """Return which of some tensors a path leads to that enters none of the scopes."""
        outside = self.reachable(scopes)
        return {key for key in keys if self._node_of(key) in outside}

    def name_outside(self, key: str, scopes: Set[int]) -> str:
        """Return a name of a tensor along a path that enters none of the scopes, or its key."""
        names = self.names_of(key)
        return next((name for name in names[1:] if not self._enters(name, scopes)), key)

    def _enters(self, name: str, scopes: Set[int]) -> bool:
        at = name.find("/")
        ends = []
        while at >= 0:
            ends.append(name[:at])
            at = name.find("/", at + 1)
        return any(self._graph.node_at(end) in scopes for end in (*ends, name))

    def _paths_of(self, node_id: int, limit: int) -> Iterator[str]:
        yield from self._graph.paths_of(node_id, limit=limit)
        slot_nodes = self._columns.slot_nodes
        first = bisect_left(self._slots_by_node, node_id, key=slot_nodes.__getitem__)
        for at in self._slots_by_node[first:]:
            if slot_nodes[at] != node_id:
                break
            optimizer_id, variable_id, name, _ = self._graph.slots[at]
            variables = self._graph.paths_of(variable_id, limit=limit)
            optimizers = self._graph.paths_of(optimizer_id, limit=limit)
            for variable, optimizer in product(variables, optimizers):
                yield slot_path(variable, optimizer, name)

    @cached_property
    def _slots_by_node(self) -> array[int]:
        """The positions of all slots, in the order of the slot variables."""
        slot_nodes = self._columns.slot_nodes
        return array("i", sorted(range(len(slot_nodes)), key=slot_nodes.__getitem__))

    def _slots_of(self, variables: Container[int]) -> Iterator[tuple[int, int, list[str]]]:
        """Yield the slots of some variables: variable, slot, what its names have behind that's."""
        of, nodes, names = (
            self._columns.slot_variables,
            self._columns.slot_nodes,
            self._columns.slot_names,
        )
        for optimizer, positions in self._columns.optimizers.items():
            paths = self._optimizer_paths[optimizer]
            # Slots by the hundred thousand share a few names.
            known: dict[str, list[str]] = {}
            for at in positions:
                if of[at] in variables:
                    texts = known.get(names[at])
                    if texts is None:
                        name = escape(names[at])
                        texts = [f"/{OPTIMIZER_SLOT}/{path}/{name}" for path in paths]
                        known[names[at]] = texts
                    yield of[at], nodes[at], texts

    @cached_property
    def _optimizer_paths(self) -> dict[int, tuple[str, ...]]:
        return {
            node_id: self._graph.paths_of(node_id, limit=MAX_NAMES if at < _MAX_OPTIMIZERS else 1)
            for at, node_id in enumerate(self._columns.optimizers)
        }

    def _find(self, make: Callable[[], Matcher[S]]) -> Found:
        keys = self._matched(make(), frozenset())
        matcher = make()
        if takes_all_below(matcher, matcher.start, ""):
            return Found(keys, set(), frozenset({0}))
        scopes: frozenset[int] = frozenset()
        for _ in range(_MAX_ROUNDS):
            found = self._scopes(make(), scopes)
            if found == scopes:
                break
            scopes = found
        named = self._matched(make(), scopes) if scopes else keys
        return Found(keys, named, scopes)

    def _scopes(self, matcher: Matcher[S], scopes: Set[int]) -> frozenset[int]:
        """Return the objects of which all below is matched, as far as a walk meets them."""
        states = self._walk(matcher, scopes).items()
        # A path that leads back to the root makes no scope of all there is.
        return frozenset(at for at, state in states if at and takes_all_below(matcher, state))

    def _matched(self, matcher: Matcher[S], scopes: Set[int]) -> set[str]:
        """Return the tensors that are matched along paths that enter none of the scopes."""
        states = self._walk(matcher, scopes)
        found: set[str] = set()
        for node_id, state in states.items():
            if node_id not in scopes:
                found.update(self._accepted(matcher, node_id, state))
        for variable_id, slot_id, texts in self._slots_of(states):
            if variable_id not in scopes:
                for text in texts:
                    state = matcher.step(states[variable_id], text)
                    found.update(self._accepted(matcher, slot_id, state))
        return found

    def _accepted(self, matcher: Matcher[S], node_id: int, state: S) -> Iterator[str]:
        for key in self._held(node_id):
            if any(matcher.accepts(matcher.step(state, ending)) for ending in _endings(key)):
                yield key

    def _walk(self, matcher: Matcher[S], scopes: Set[int]) -> dict[int, S]:
        """Return the states at all objects that may become matches, going into no scope."""
        states: dict[int, S] = {}
        queue: list[tuple[int, S, str]] = [(0, matcher.start, "")]
        for node_id, state, separator in queue:
            base = matcher.step(state, separator)
            for name, child in self._columns.children(node_id):
                joined = matcher.joined(states.get(child), matcher.step(base, escape(name)))
                if joined is not None:
                    states[child], more = joined
                    # Nearly all objects are variables, with nothing below them.
                    if child not in scopes and self._columns.edges_of(child):
                        queue.append((child, more, "/"))
        return states


def _starts_with(scope: str, name: str) -> bool:
    return name.startswith(scope)


def _endings(key: str) -> tuple[str, ...]:
    """Return what the key has behind the path of its object, and what its object path has."""
    _, found, attribute = key.partition(ATTRIBUTES)
    return _endings_of(attribute) if found else (ATTRIBUTES + VARIABLE_VALUE, "")


@lru_cache(256)
def _endings_of(attribute: str) -> tuple[str, ...]:
    whole = ATTRIBUTES + attribute
    short = object_path("x" + whole)
    return (whole,) if short is None else (whole, short.removeprefix("x"))
