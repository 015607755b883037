"""Finding tensors of the same content under different names.

Content that one tensor of A and one of B have is a rename. If several have it, such as zero biases,
the best guess counts: first the name by the certain moves, then the name with the most last
segments in common, then the most first ones, then the order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from ckpttool.coding.text import natural_key
from ckpttool.query.diff.index import Fingerprint
from ckpttool.query.rows import TensorRow, short_name
from ckpttool.storage.staging import StagedFiles

# Names from a file may have any number of segments.
_MAX_DEPTH = 64
_SHOWN = 8


class Rename(NamedTuple):
    """A tensor of A, its counterpart in B, and all keys in B that it could be."""

    a: TensorRow
    b: TensorRow
    candidates: tuple[str, ...]
    guessed: bool


def find_renames(
    only_a: Sequence[TensorRow],
    only_b: Sequence[TensorRow],
    content: Callable[[TensorRow], Fingerprint | None],
) -> list[Rename]:
    """Return the renames between tensors without a counterpart of the same name.

    Args:
        only_a: tensors of A.
        only_b: tensors of B.
        content: returns a value that only equal tensors share; None if unknown.
    """
    groups: dict[Fingerprint, tuple[list[TensorRow], list[TensorRow]]] = {}
    for rows, side in ((only_a, 0), (only_b, 1)):
        for row in rows:
            # An empty tensor has no content.
            found = content(row) if row.elements else None
            if found is not None:
                groups.setdefault(found, ([], []))[side].append(row)
    certain: list[Rename] = []
    open_groups = []
    for of_a, of_b in groups.values():
        if len(of_a) == len(of_b) == 1:
            certain.append(Rename(of_a[0], of_b[0], (of_b[0].key,), guessed=False))
        elif of_a and of_b:
            open_groups.append((of_a, of_b))
    heads = _heads(certain)
    guesses = []
    for of_a, of_b in open_groups:
        keys = tuple(row.key for row in of_b[:_SHOWN])
        guesses += [Rename(a, b, keys, guessed=True) for a, b in _guess(of_a, of_b, heads)]
    return sorted([*certain, *guesses], key=lambda rename: rename.a.key)


def _guess(
    of_a: list[TensorRow], of_b: list[TensorRow], heads: dict[str, str]
) -> Iterator[tuple[TensorRow, TensorRow]]:
    """Yield the likely pairs among tensors of the same content."""
    rest_a = {short_name(row): row for row in sorted(of_a, key=_natural)}
    rest_b = {short_name(row): row for row in sorted(of_b, key=_natural)}
    for name in list(rest_a):
        new = _moved(name, heads)
        if new in rest_b:
            yield rest_a.pop(name), rest_b.pop(new)
    for from_end in (True, False):
        depth = max((name.count("/") for name in (*rest_a, *rest_b)), default=0) + 1
        for count in range(min(depth, _MAX_DEPTH), 0, -1):
            if not rest_a or not rest_b:
                return
            waiting: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
            for name in reversed(rest_b):
                waiting[_part(name, count, from_end=from_end)].append(name)
            for name in list(rest_a):
                likely = waiting.get(_part(name, count, from_end=from_end))
                if likely:
                    yield rest_a.pop(name), rest_b.pop(likely.pop())
    yield from zip(rest_a.values(), rest_b.values(), strict=False)


def _heads(certain: Iterable[Rename]) -> dict[str, str]:
    """Return beginning of a name -> new one, by majority of the certain renames."""
    votes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for rename in certain:
        old, new = short_name(rename.a).split("/"), short_name(rename.b).split("/")
        while len(old) > 1 and len(new) > 1 and old[-1] == new[-1]:
            del old[-1], new[-1]
        votes["/".join(old)]["/".join(new)] += 1
    return {old: counter.most_common(1)[0][0] for old, counter in votes.items()}


def _moved(name: str, heads: dict[str, str]) -> str | None:
    """Return the new name by the longest beginning that moved."""
    end = len(name)
    for _ in range(_MAX_DEPTH):
        new = heads.get(name[:end])
        if new is not None:
            return new + name[end:]
        end = name.rfind("/", 0, end)
        if end <= 0:
            break
    return None


def _part(name: str, count: int, *, from_end: bool) -> tuple[str, ...]:
    segments = name.split("/")
    return tuple(segments[-count:] if from_end else segments[:count])


def _natural(row: TensorRow) -> list[tuple[int, str]]:
    return natural_key(short_name(row))


def save_map(text: str, path: str, *, force: bool = False) -> None:
    """Write a map of renames to a file, which appears when it is complete.

    Args:
        text: the map, in ASCII.
        path: of the file.
        force: replace a file that exists.

    Raises:
        DestinationError: the file exists.
        FileAccessError: it cannot be written.
    """
    with StagedFiles() as files:
        files.create(path).write(text.encode("ascii"))
        files.commit(replace_last=force)
