"""Near misses: existing names close to a typed one.

Comparing texts is slow, so a name is compared with a bounded number of others.
"""

from __future__ import annotations

import heapq
import os
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from ckpttool.errors import SelectionError

_MAX_LENGTH = 120
_MAX_COMPARED = 1000
_MAX_CHILDREN = 150
_MAX_DEPTH = 12
_BEAMS = 3
_SEGMENT_CUTOFF = 0.4  # the whole names are compared once more
_NAMES = 3  # that `nearest_names` returns
_SHOWN = 5  # names, or problems, in a message


def nearest(word: str, candidates: Iterable[str], *, limit: int, cutoff: float = 0.6) -> list[str]:
    """Return the candidates most similar to `word`, best first.

    Args:
        word: what was typed.
        candidates: the existing names; of more than a thousand only those that begin or end like
            `word` are compared.
        limit: how many at most.
        cutoff: the least similarity, from 0 to 1.
    """
    from difflib import SequenceMatcher

    pool = list(dict.fromkeys(candidates))
    if len(pool) > _MAX_COMPARED:
        start, end = word[:3].lower(), word[-3:].lower()
        alike = [name for name in pool if name[:3].lower() == start or name[-3:].lower() == end]
        pool = alike[:_MAX_COMPARED] or pool[:_MAX_COMPARED]
    matcher: SequenceMatcher[str] = SequenceMatcher(autojunk=False)
    matcher.set_seq2(word[-_MAX_LENGTH:].lower())
    scored: list[tuple[float, str]] = []
    for name in pool:
        matcher.set_seq1(name[-_MAX_LENGTH:].lower())
        if matcher.real_quick_ratio() >= cutoff and matcher.quick_ratio() >= cutoff:
            ratio = matcher.ratio()
            if ratio >= cutoff:
                scored.append((ratio, name))
    best = heapq.nsmallest(limit, scored, key=lambda pair: (-pair[0], pair[1]))
    return [name for _, name in best]


def nearest_names(word: str, names: Iterable[str]) -> list[str]:
    """Return tensor names or scopes close to `word`, best first.

    Tried are names that differ in case only, names that end in `word`, names with the same last
    segment, and a walk through the scopes that takes the most similar ones at each level.
    """
    ordered = sorted(names)
    word = word.strip("/")
    if not word or not ordered:
        return []
    found = _walk(word.split("/"), ordered)
    tail = "/" + word.rpartition("/")[2]
    tails = [name for name in ordered if name.endswith(tail)]
    suffixes = [name for name in tails if name.endswith("/" + word)]
    folded = word.lower()
    same = [name for name in ordered if len(name) == len(word) and name.lower() == folded]
    sure = [*same, *suffixes][:_NAMES]
    if len(sure) < _NAMES:
        at = bisect_left(ordered, word)
        around = ordered[max(0, at - 20) : at + 20]
        likely = nearest(word, [*found, *around, *tails[:200]], limit=_NAMES + len(sure))
        sure += [name for name in likely if name not in sure]
    return sure[:_NAMES]


def require_one_of(name: str, value: str, choices: Sequence[str]) -> None:
    """Refuse an argument that is none of a few words.

    Raises:
        SelectionError: it is none of them.
    """
    if value not in choices:
        raise SelectionError(f"{name} is {value!r}; it may be {quoted(choices)}")


def quoted(names: Iterable[str]) -> str:
    """Return the names in quotes, separated by commas."""
    return ", ".join(f"'{name}'" for name in names)


def listed(names: Iterable[str]) -> str:
    """Return the first names in quotes, and the number of the others."""
    found = list(names)
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return quoted(found[:_SHOWN]) + more


def joined(problems: Sequence[str]) -> str:
    """Return the first of several problems, and the number of the others."""
    more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
    return "; ".join(problems[:_SHOWN]) + more


def _walk(typed: Sequence[str], ordered: Sequence[str]) -> list[str]:
    """Follow the typed segments from scope to scope; return the names and scopes reached."""
    beams = [""]
    for segment in typed[:_MAX_DEPTH]:
        reached: list[str] = []
        for scope in beams:
            if _exists(scope + segment, ordered):
                best = [segment]
            else:
                children = _children(scope, segment, ordered)
                best = nearest(segment, children, limit=_BEAMS, cutoff=_SEGMENT_CUTOFF)
            reached += [f"{scope}{child}/" for child in best]
        if not reached:
            break
        beams = reached[:_BEAMS]
    return [scope[:-1] for scope in beams if scope]


def _exists(name: str, ordered: Sequence[str]) -> bool:
    """Tell whether a name or a scope `name` exists."""
    at = bisect_left(ordered, name)
    if at < len(ordered) and ordered[at] == name:
        return True
    at = bisect_left(ordered, name + "/", at)
    return at < len(ordered) and ordered[at].startswith(name + "/")


def _children(scope: str, segment: str, ordered: Sequence[str]) -> list[str]:
    """Return distinct segments below `scope`: the first ones and those that follow `segment`."""
    children: list[str] = []
    for start in (scope, scope + segment[:-1]):
        at = bisect_left(ordered, start)
        for _ in range(_MAX_CHILDREN):
            if at >= len(ordered) or not ordered[at].startswith(scope):
                break
            child = ordered[at][len(scope) :].partition("/")[0]
            children.append(child)
            if ordered[at] == scope + child:
                at += 1
            else:
                at = bisect_left(ordered, f"{scope}{child}0", at)  # "0" follows "/" at once
    return children


def path_hint(word: str) -> str:
    """Return what to add to an error about a word that is a path, where no further path is meant.

    A shell makes several paths of an unquoted glob.
    """
    is_prefix = os.path.lexists(f"{word}.index")
    if not (is_prefix or os.path.isfile(word) or (os.sep in word and os.path.lexists(word))):
        return ""
    return "; it is a path, and one checkpoint is meant: did the shell expand a pattern?"
