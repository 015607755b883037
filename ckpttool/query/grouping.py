"""Many tensors in few rows: summed up by scope, or numbered layers folded into one.

`fold_scopes` does so for names of which a list should fit on a screen, `fold_layers` for those of
which each should be seen beside its like.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from ckpttool.coding.text import natural_key, number_key
from ckpttool.query.rows import TensorRow, short_name

_NUMBER = re.compile(r"(\d+)")


class ScopeRow(NamedTuple):
    """The tensors of one kind below a scope.

    Attributes:
        scope: the first segments of their names, or a whole shorter name.
        kind: of the tensors.
        tensors: how many there are.
        elements: of all of them.
        bytes: of all of them.
    """

    scope: str
    kind: str
    tensors: int
    elements: int
    bytes: int


class FoldedRow(NamedTuple):
    """Tensors that differ only in numbers in their names.

    Attributes:
        name: with `#` for each number that differs among them.
        tensors: how many there are.
        dtype: of each.
        shape: of each.
        kind: of each.
        bytes: of all together.
    """

    name: str
    tensors: int
    dtype: str
    shape: tuple[int, ...]
    kind: str
    bytes: int


G = TypeVar("G", ScopeRow, FoldedRow)


def by_scope(rows: Sequence[TensorRow], depth: int) -> list[ScopeRow]:
    """Sum tensors up by the first `depth` segments of their short names and by kind."""
    sums: dict[tuple[str, str], list[int]] = {}
    for row in rows:
        scope = "/".join(short_name(row).split("/", depth)[:depth])
        total = sums.setdefault((scope, row.kind), [0, 0, 0])
        total[0] += 1
        total[1] += row.elements
        total[2] += row.bytes or 0
    return [ScopeRow(*group, *total) for group, total in sums.items()]


def sorted_sums(rows: list[G], sort: str) -> list[G]:
    """Return sums, given in the order of their first tensors, sorted as by `list_tensors`."""
    return sorted(rows, key=lambda row: -row.bytes) if sort == "bytes" else rows


def fold_numbers(rows: Sequence[TensorRow]) -> list[FoldedRow]:
    """Fold tensors that differ only in numbers within their names, and in nothing else.

    A number that is the same in all of them stays: twelve `block_#/conv2d/kernel` keep their 2.
    """
    # For each group the parts of its name, with None for a number that differs; tensors and bytes.
    groups: dict[tuple[object, ...], tuple[TensorRow, list[str | None], list[int]]] = {}
    for row in rows:
        parts = _NUMBER.split(short_name(row))
        alike = (tuple(parts[::2]), row.dtype, row.shape, row.kind)
        found = groups.get(alike)
        if found is None:
            groups[alike] = row, [*parts], [1, row.bytes or 0]
            continue
        _, common, sums = found
        sums[0] += 1
        sums[1] += row.bytes or 0
        for at in range(1, len(parts), 2):
            if common[at] != parts[at]:
                common[at] = None
    return [
        FoldedRow(
            "".join("#" if part is None else part for part in common),
            count,
            row.dtype,
            row.shape,
            row.kind,
            size,
        )
        for row, common, (count, size) in groups.values()
    ]


class LayerGroup(NamedTuple):
    """Names that differ in one number only, or a single name.

    Attributes:
        name: with `#` for the number; a single name as it is.
        members: which names, by their places in the list, in the order of the numbers.
        numbers: the number of each member; empty for a single name.
    """

    name: str
    members: list[int]
    numbers: list[str]


def fold_layers(names: Sequence[str]) -> list[LayerGroup]:
    """Fold names that differ in one number; return the groups in natural order.

    Of several numbers in a name, the one that varies most is folded.
    """
    split = [_NUMBER.split(name) for name in names]
    stems = [tuple(parts[::2]) for parts in split]
    seen: dict[tuple[str, ...], list[set[str]]] = {}
    for stem, parts in zip(stems, split, strict=True):
        known = seen.setdefault(stem, [set() for _ in parts[1::2]])
        for values, number in zip(known, parts[1::2], strict=True):
            values.add(number)
    varies = {
        stem: max(range(len(known)), key=lambda at: len(known[at]), default=-1)
        for stem, known in seen.items()
    }
    groups: dict[tuple[int, tuple[str, ...]], list[int]] = {}
    for at, (stem, parts) in enumerate(zip(stems, split, strict=True)):
        place = 2 * varies[stem] + 1
        rest = [*parts[:place], "#", *parts[place + 1 :]] if place > 0 else parts
        groups.setdefault((place, tuple(rest)), []).append(at)
    found = []
    for (place, name), members in groups.items():
        if len(members) == 1:
            found.append(LayerGroup(names[members[0]], members, []))
            continue
        members.sort(key=lambda at: number_key(split[at][place]))
        numbers = [split[at][place] for at in members]
        found.append(LayerGroup("".join(name), members, numbers))
    return sorted(found, key=lambda group: natural_key(group.name))


class NameGroup(NamedTuple):
    """Names in one scope.

    Attributes:
        name: the scope, with `#` for numbers that differ; of a single name the name itself.
        members: which names, by their places in the list.
    """

    name: str
    members: list[int]


def fold_scopes(names: Sequence[str], limit: int) -> list[NameGroup]:
    """Put names into at most `limit` groups by scope, as fine as that allows.

    The largest group is split first, by the next segment of its names. If there are too many
    segments, those that differ only in numbers count as one. All names may end up in one group,
    called `**`.
    """
    done: list[NameGroup] = []
    # Size, the first member and the depth order the heap; the first member is in no other group.
    heap: list[tuple[int, int, int, str, list[int]]] = []
    if names:
        heap.append((-len(names), 0, 0, "", list(range(len(names)))))
    while heap:
        _, first, depth, scope, members = heapq.heappop(heap)
        if len(members) == 1:
            done.append(NameGroup(names[first], members))
            continue
        room = limit - len(done) - len(heap)
        parts = _split(names, members, depth, room)
        if parts is None:
            done.append(NameGroup(scope or "**", members))
            continue
        for segment, part in parts.items():
            below = f"{scope}/{segment}" if depth else segment
            heapq.heappush(heap, (-len(part), part[0], depth + 1, below, part))
    return sorted(done, key=lambda group: group.members[0])


def _split(
    names: Sequence[str], members: Sequence[int], depth: int, room: int
) -> dict[str, list[int]] | None:
    """Return members by the segment of their names at a depth; None if they do not fit."""
    exact: dict[str, list[int]] = {}
    for at in members:
        segments = names[at].split("/", depth + 1)
        if len(segments) <= depth:
            return None  # the scope is a name too, or all segments are used up
        exact.setdefault(segments[depth], []).append(at)
    if len(exact) <= room:
        return exact
    alike: dict[str, list[int]] = {}
    for segment, part in exact.items():
        alike.setdefault(_NUMBER.sub("#", segment), []).extend(part)
    return alike if len(alike) <= room and len(alike) < len(exact) else None
