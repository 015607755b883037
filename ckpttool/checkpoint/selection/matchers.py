r"""Patterns matched against names piece by piece, during a walk along the edges of a graph.

A matcher's state stands for the beginning of a name. The states of several beginnings that lead to
one object are joined, so that a graph with very many paths is walked once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from ckpttool.checkpoint.selection.globs import GLOBSTAR, STAR

S = TypeVar("S")
# Beginnings of names kept for one object, if each must be checked by itself.
MAX_TEXTS = 64
# A name below a scope that no pattern has literally.
_ANYTHING = "\0"
_DIRECTORIES = "**/"
_INSIDE = "**/ within a segment"


class Matcher(Protocol[S]):
    """A pattern that is matched against names piece by piece."""

    @property
    def start(self) -> S:
        """The state of the empty name."""

    def step(self, state: S, text: str) -> S:
        """Return the state when `text` has been added to a name."""

    def accepts(self, state: S) -> bool:
        """Tell whether the pattern matches a whole name in this state."""

    def joined(self, known: S | None, state: S) -> tuple[S, S] | None:
        """Return both states together, and what the second adds; None if nothing."""


def takes_all_below(matcher: Matcher[S], state: S, separator: str = "/") -> bool:
    """Tell whether the pattern matches every name directly in a scope."""
    return matcher.accepts(matcher.step(state, separator + _ANYTHING))


class GlobMatcher:
    """A glob as a finite automaton: its states are sets of positions in the glob, as bits.

    Args:
        alternatives: token lists as `globs.parse_glob` gives them.
    """

    def __init__(self, alternatives: Iterable[Sequence[str]]) -> None:
        self._places: list[str | None] = []
        self.start = 0
        for tokens in alternatives:
            self.start |= 1 << len(self._places)
            self._places += _with_directories(tokens)
            self._places.append(None)
        self._end = self._mask(None)
        self._stars = self._mask(STAR)
        self._globstars = self._mask(GLOBSTAR)
        self._directories = self._mask(_DIRECTORIES)
        self._inside = self._mask(_INSIDE)
        self._taking: dict[str, int] = {}
        self._steps: dict[tuple[int, str], int] = {}
        self.start = self._skipped(self.start)

    def step(self, state: int, text: str) -> int:
        """Return the state when `text` has been added to a name."""
        if not state:
            return 0
        known = self._steps.get((state, text))
        if known is None:
            known = state
            for char in text:
                known = self._taken(known, char)
            self._steps[state, text] = known
        return known

    def accepts(self, state: int) -> bool:
        """Tell whether a whole name is matched."""
        return bool(state & self._end)

    def joined(self, known: int | None, state: int) -> tuple[int, int] | None:
        """Return both states together, and what the second adds; None if nothing."""
        more = state & ~(known or 0)
        return ((known or 0) | more, more) if more else None

    def _taken(self, state: int, char: str) -> int:
        taking = self._taking.get(char)
        if taking is None:
            taking = self._taking[char] = self._takers(char)
        found = (state & taking) << 1 | (state & self._globstars)
        if char == "/":
            found |= (state & self._directories) | (state & self._inside) >> 1
        else:
            found |= (state & (self._stars | self._inside)) | (state & self._directories) << 1
        return self._skipped(found)

    def _skipped(self, state: int) -> int:
        """Add the positions after tokens that may match nothing."""
        while True:
            more = (state & (self._stars | self._globstars)) << 1
            more |= (state & self._directories) << 2
            if not more & ~state:
                return state
            state |= more

    def _takers(self, char: str) -> int:
        found = 0
        for at, place in enumerate(self._places):
            special = place in (None, STAR, GLOBSTAR, _DIRECTORIES, _INSIDE)
            if not special and re.fullmatch(place or "", char, re.DOTALL):
                found |= 1 << at
        return found

    def _mask(self, token: str | None) -> int:
        return sum(1 << at for at, place in enumerate(self._places) if place == token)


def _with_directories(tokens: Sequence[str]) -> list[str]:
    """Return tokens in which `**/` for whole segments takes two positions."""
    out: list[str] = []
    at = 0
    while at < len(tokens):
        whole = tokens[at] == GLOBSTAR and (at == 0 or tokens[at - 1] == "/")
        if whole and tokens[at + 1 : at + 2] == ["/"]:
            out += [_DIRECTORIES, _INSIDE]
            at += 2
        else:
            out.append(tokens[at])
            at += 1
    return out


class TextMatcher:
    """A function of whole names: its states are the names, a few for each object.

    Args:
        matches: tells whether a name is matched.
        budget: how many names are tried in all; after that one for each object.
    """

    start = frozenset({""})

    def __init__(self, matches: Callable[[str], object], budget: int) -> None:
        self._matches = matches
        self._budget = budget

    def step(self, state: frozenset[str], text: str) -> frozenset[str]:
        """Return the names with `text` behind them."""
        return frozenset(name + text for name in state)

    def accepts(self, state: frozenset[str]) -> bool:
        """Tell whether one of the names is matched."""
        return any(map(self._matches, state))

    def joined(
        self, known: frozenset[str] | None, state: frozenset[str]
    ) -> tuple[frozenset[str], frozenset[str]] | None:
        """Return as many of the names as are kept, and which of them are new."""
        if known is None:
            known, room = frozenset(), max(1, min(MAX_TEXTS, self._budget))
        else:
            room = min(MAX_TEXTS - len(known), self._budget)
        more = frozenset(sorted(state - known, key=lambda name: (len(name), name))[: max(room, 0)])
        self._budget -= len(more)
        return (known | more, more) if more else None
