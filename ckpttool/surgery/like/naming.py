"""Pairing variables by their full names, whose numbers differ from program to program.

Keras calls the first layer of a kind `dense` and the next ones `dense_1`, `dense_2` in the whole
program. So after another model the same layers are called otherwise, and worse, `dense_1` may be
another layer. Names that differ in such numbers alone are compared together. They mean the same
variables if they are the same on both sides, or on one side some of them with the first, in the
same order of places in the program; or if there are as many, in the same order by number and by
place; and all must fit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ckpttool.surgery.like.sides import MatchSide

_NUMBERED = re.compile(r"(.+?)_(\d{1,9})\Z", re.DOTALL)
# What TensorFlow and Keras call variables that the program gives no name.
_MADE_UP = (("Variable",), ("variable",))
# A file may hold names of any length: scopes before more segments than these are not looked for.
_DEEPEST = 32
_Stem = tuple[str, ...]


class NamePair(NamedTuple):
    """A pair that names told.

    Attributes:
        source: key of the one.
        reference: key of the other.
        exact: whether the names are equal.
    """

    source: str
    reference: str
    exact: bool


def name_stem(name: str) -> tuple[_Stem, tuple[int, ...]]:
    """Return the segments of a name without their numbers, and these; 0 where there is none."""
    segments, numbers = [], []
    for segment in name.split("/"):
        match = _NUMBERED.match(segment)
        segments.append(match[1] if match else segment)
        numbers.append(int(match[2]) if match else 0)
    return tuple(segments), tuple(numbers)


def alike_but_for_numbers(one: str, other: str) -> bool:
    """Tell whether two names are the same but for numbers, or for scopes before one of them.

    A name that the program did not give says nothing against it.
    """
    ours, theirs = name_stem(one)[0], name_stem(other)[0]
    if ours in _MADE_UP or theirs in _MADE_UP:
        return True
    return ours == theirs or _ends(ours, theirs) or _ends(theirs, ours)


def pairs_by_name(
    source: MatchSide, ours: Sequence[str], reference: MatchSide, theirs: Sequence[str]
) -> Iterator[NamePair]:
    """Yield the pairs that names tell without doubt.

    Args:
        source: the one side.
        ours: keys of its tensors that have no place.
        reference: the other side.
        theirs: keys of its places that are free.
    """
    groups, others = _by_stem(source, ours), _by_stem(reference, theirs)
    for stem, keys in groups.items():
        if stem in others:
            yield from _aligned(source, keys, reference, others[stem])
    left = {stem: keys for stem, keys in groups.items() if stem not in others}
    free = {stem: keys for stem, keys in others.items() if stem not in groups}
    for stem, other in _endings_alike(left, free):
        yield from _aligned(source, left[stem], reference, free[other])


def _by_stem(side: MatchSide, keys: Sequence[str]) -> dict[_Stem, list[str]]:
    found: dict[_Stem, list[str]] = {}
    for key in keys:
        held = side.held[key]
        stem = name_stem(held.full_name)[0]
        if held.full_name and stem not in _MADE_UP:
            found.setdefault((held.part, *stem), []).append(key)
    return found


def _endings_alike(
    ours: Mapping[_Stem, list[str]], theirs: Mapping[_Stem, list[str]]
) -> Iterator[tuple[_Stem, _Stem]]:
    """Yield the stems one of which is the other behind some scopes, where that is certain."""
    shorter: dict[_Stem, list[tuple[bool, _Stem]]] = {}
    for mine, stems in ((True, ours), (False, theirs)):
        for part, *segments in stems:
            for cut in range(max(len(segments) - _DEEPEST, 0), len(segments) - 1):
                shorter.setdefault((part, *segments[cut:]), []).append((mine, (part, *segments)))
    pairs: dict[_Stem, set[_Stem]] = {}
    back: dict[_Stem, set[_Stem]] = {}
    for stem, longer in shorter.items():
        for mine, other in longer:
            if stem in (theirs if mine else ours):
                one, two = (other, stem) if mine else (stem, other)
                pairs.setdefault(one, set()).add(two)
                back.setdefault(two, set()).add(one)
    for one, twos in pairs.items():
        if len(twos) == 1 and len(back[next(iter(twos))]) == 1:
            yield one, next(iter(twos))


def _aligned(
    source: MatchSide, ours: list[str], reference: MatchSide, theirs: list[str]
) -> Iterator[NamePair]:
    """Yield the pairs of two groups whose names differ in numbers alone; none in doubt."""
    named = {source.held[key].full_name: key for key in ours}
    others = {reference.held[key].full_name: key for key in theirs}
    if len(named) < len(ours) or len(others) < len(theirs):
        return  # several variables of one name
    same = [(key, others[name]) for name, key in named.items() if name in others]
    within = len(same) == min(len(named), len(others)) and _first(named) == _first(others)
    if named.keys() == others.keys() or (within and _in_step(source, reference, same)):
        if all(source.held[one].fits(reference.held[two]) for one, two in same):
            yield from (NamePair(one, two, True) for one, two in same)
        return
    if len(ours) != len(theirs):
        return
    ranked = zip(_by_number(source, ours), _by_number(reference, theirs), strict=True)
    pairs = list(ranked)
    fitting = all(source.held[one].fits(reference.held[two]) for one, two in pairs)
    if fitting and _in_step(source, reference, pairs):
        yield from (NamePair(one, two, False) for one, two in pairs)


def _first(names: Iterable[str]) -> tuple[int, ...]:
    return min(name_stem(name)[1] for name in names)


def _by_number(side: MatchSide, keys: list[str]) -> list[str]:
    return sorted(keys, key=lambda key: name_stem(side.held[key].full_name)[1])


def _in_step(source: MatchSide, reference: MatchSide, pairs: list[tuple[str, str]]) -> bool:
    """Tell whether pairs follow each other in the same order in both programs."""
    if len(pairs) < 2:
        return True
    ours = source.in_order([one for one, _ in pairs])
    theirs = reference.in_order([two for _, two in pairs])
    if ours is None or theirs is None:
        return False
    return _ranks(ours) == _ranks(theirs)


def _ranks(places: list[int]) -> list[int]:
    rank = {place: at for at, place in enumerate(sorted(places))}
    return [rank[place] for place in places]


def _ends(stem: _Stem, longer: _Stem) -> bool:
    return 1 < len(stem) < len(longer) and longer[-len(stem) :] == stem
