"""Matching the tensors of two checkpoints, and comparing their index entries.

The crc32c in an index is that of the stored bytes. Equal ones mean equal values only if both sides
store them alike: same format, byte order, dtype, shape, size and slices.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from ckpttool.checkpoint.open import Checkpoint
from ckpttool.checkpoint.selection.select import Listed, SelectionRule, Selector
from ckpttool.objects.keys import GRAPH_KEY, object_path
from ckpttool.query.diff.results import MatchedBy
from ckpttool.query.listing import DamagedRow, damaged_rows, tensor_rows
from ckpttool.query.rows import BundleRows, TensorRow, keys_of
from ckpttool.query.source import Source

# Equal for tensors of the same content.
Fingerprint = tuple[object, ...]


@dataclass(slots=True)
class Side:
    """One of the two checkpoints.

    Attributes:
        ckpt: the checkpoint.
        source: its facts.
        rows: its tensors, without ignored ones.
        graph_row: the object graph, if any and not ignored.
        damaged: the tensors with damaged entries, by key, without ignored ones.
        wanted: the selected keys; None for all.
    """

    ckpt: Checkpoint
    source: Source
    rows: Sequence[TensorRow]
    graph_row: TensorRow | None
    damaged: dict[str, DamagedRow]
    wanted: Set[str] | None = None

    def wants(self, row: TensorRow | DamagedRow | None) -> bool:
        """Tell whether a tensor of this side, if it is one, is selected."""
        return row is not None and (self.wanted is None or row.key in self.wanted)


@dataclass(slots=True)
class TensorPairs:
    """Tensors matched by name, without the object graph.

    Attributes:
        a: the tensors of A.
        b: the tensors of B.
        places: position in A and position in B of those with the same key.
        named: pairs with the same name of another kind, and which.
        mapped: pairs by a map.
        only_a: tensors of A without a match.
        only_b: likewise.
    """

    a: Sequence[TensorRow]
    b: Sequence[TensorRow]
    places: tuple[Sequence[int], Sequence[int]]
    named: list[tuple[TensorRow, TensorRow, MatchedBy]] = field(default_factory=list)
    mapped: list[tuple[TensorRow, TensorRow]] = field(default_factory=list)
    only_a: list[TensorRow] = field(default_factory=list)
    only_b: list[TensorRow] = field(default_factory=list)

    def staying(self) -> Iterator[TensorRow]:
        """Return the tensors of A that have the same key in B."""
        return map(self.a.__getitem__, self.places[0])


def both_sides(
    a: Checkpoint, b: Checkpoint, selector: Selector | None, ignore: Iterable[str]
) -> tuple[Side, Side]:
    """Return both sides to compare; the arguments are those of `diff_checkpoints`.

    Raises:
        SelectionError: a pattern selects nothing on either side.
    """
    sides = []
    for ckpt in (a, b):
        rows = tensor_rows(ckpt)
        damaged = {row.key: row for row in damaged_rows(ckpt)}
        sides.append(Side(ckpt, Source.of(ckpt, rows), rows, None, damaged))
    rules = [SelectionRule(pattern, include=False) for pattern in ignore]
    if rules:
        for side, (rows, broken) in zip(sides, _selected(Selector(rules), sides), strict=True):
            side.rows = rows
            side.damaged = {row.key: row for row in broken}
    for side in sides:
        keys = keys_of(side.rows)
        if side.source.style == "object" and GRAPH_KEY in keys:
            side.graph_row = side.rows[keys.index(GRAPH_KEY)]
    if selector is not None and not selector.selects_all:
        for side, (rows, broken) in zip(sides, _selected(selector, sides), strict=True):
            side.wanted = {*keys_of(rows), *keys_of(broken)}
    return sides[0], sides[1]


def _selected(
    selector: Selector, sides: Sequence[Side]
) -> list[tuple[Sequence[TensorRow], list[DamagedRow]]]:
    """Return the selection on each side; a pattern may match on either."""
    return choose_with_damaged(
        selector, [(side.ckpt, side.rows, side.damaged.values()) for side in sides]
    )


def choose_with_damaged(
    selector: Selector,
    listed: Iterable[tuple[Checkpoint, Sequence[TensorRow], Collection[DamagedRow]]],
) -> list[tuple[Sequence[TensorRow], list[DamagedRow]]]:
    """Return the selected tensors of several checkpoints, sound and damaged.

    Raises:
        SelectionError: a pattern selects nothing in any of them.
    """
    parts: list[Listed[TensorRow | DamagedRow]] = [
        Listed([*rows, *damaged] if damaged else rows, ckpt) for ckpt, rows, damaged in listed
    ]
    return [
        (
            rows
            if isinstance(rows, BundleRows)
            else [row for row in rows if isinstance(row, TensorRow)],
            [] if isinstance(rows, BundleRows) else [r for r in rows if isinstance(r, DamagedRow)],
        )
        for rows in selector.choose(parts).by_part
    ]


def match_keys(a: Side, b: Side, names: Mapping[str, str]) -> TensorPairs:
    """Match tensors by key.

    Args:
        a: the one side.
        b: the other.
        names: by key, the names that tensors of A have in B.
    """
    keys_a, keys_b = keys_of(a.rows), keys_of(b.rows)
    if keys_a == keys_b and not names:
        places = [at for at, key in enumerate(keys_a) if key != GRAPH_KEY]
        return TensorPairs(a.rows, b.rows, (array("q", places), array("q", places)))
    rest = {key: at for at, key in enumerate(keys_b) if key != GRAPH_KEY}
    matching = TensorPairs(a.rows, b.rows, (array("q"), array("q")))
    aimed = {
        key: rest.pop(b.ckpt.resolve(name), None) if name in b.ckpt else None
        for key, name in names.items()
    }
    at_a, at_b = array("q"), array("q")
    for at, key in enumerate(keys_a):
        if key in aimed:
            goal = aimed[key]
            if goal is None:
                matching.only_a.append(a.rows[at])
            else:
                matching.mapped.append((a.rows[at], b.rows[goal]))
            continue
        other = rest.pop(key, None)
        if other is not None:
            at_a.append(at)
            at_b.append(other)
        elif key != GRAPH_KEY:
            matching.only_a.append(a.rows[at])
    matching.places = at_a, at_b
    matching.only_b = [b.rows[at] for at in rest.values()]
    return matching


def match_other_names(a: Side, b: Side, matching: TensorPairs) -> None:
    """Match the rest by other names than the key, if only one side is object-based.

    In a checkpoint of TensorFlow a tensor is called by its full name, in a file of another library
    more likely by its object path; then by the other of the two.

    Raises:
        CkptError: the object graph, which has the full names, cannot be read.
    """
    if a.source.style == b.source.style or not (matching.only_a and matching.only_b):
        return
    objects, names = (a, b) if a.source.style == "object" else (b, a)
    foreign = names.source.generation not in ("V1", "V2")
    for by in ("object_path", "full_name") if foreign else ("full_name", "object_path"):
        if by == "full_name":
            _match_by(_full_names(objects), matching, "full_name")
        else:
            paths = {key: object_path(key) or "" for key in keys_of(objects.rows)}
            _match_by(paths, matching, "object_path")


def _match_by(names: Mapping[str, str], matching: TensorPairs, by: MatchedBy) -> None:
    """Match the rest by names; tensors that have none go by their keys."""

    def by_name(rows: Sequence[TensorRow]) -> dict[str, TensorRow]:
        found = [names.get(row.key, row.key) for row in rows]
        # A name that several variables have, such as "Variable", says nothing.
        once = Counter(found)
        return {
            name: row for name, row in zip(found, rows, strict=True) if name and once[name] == 1
        }

    of_a, of_b = by_name(matching.only_a), by_name(matching.only_b)
    pairs = [(row, of_b[name], by) for name, row in of_a.items() if name in of_b]
    gone = {id(each) for row, other, _ in pairs for each in (row, other)}
    matching.named += pairs
    matching.only_a = [row for row in matching.only_a if id(row) not in gone]
    matching.only_b = [row for row in matching.only_b if id(row) not in gone]


def _full_names(side: Side) -> dict[str, str]:
    """Return the full name that the object graph has for a key."""
    graph = side.ckpt.object_graph
    if graph is None:
        return {}
    full_names = graph.columns.full_names
    return {key: full_names[at] for key, at in graph.claims(set(keys_of(side.rows))).at.items()}


def trusted(a: Source, b: Source) -> bool:
    """Tell whether equal checksums of two checkpoints mean equal bytes."""
    return a.generation == b.generation == "V2" and a.byte_order == b.byte_order


def same_bytes(a: TensorRow, b: TensorRow) -> bool:
    """Tell by their entries whether two tensors are equal, on sides that are `trusted`."""
    if a.crc32c != b.crc32c or a.bytes != b.bytes or a.dtype != b.dtype or a.shape != b.shape:
        return False
    return (not a.slices and not b.slices) or _layout(a) == _layout(b)


def unlike(matching: TensorPairs, places: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the places of tensors that may differ: a fast filter before `same_bytes`."""
    a, b = matching.a, matching.b
    if not isinstance(a, BundleRows) or not isinstance(b, BundleRows):
        yield from places
        return
    alike = a.comparer(b)
    for at, other in places:
        if not alike(at, other):
            yield at, other


def fingerprint(row: TensorRow) -> Fingerprint:
    """Return a value that only tensors of the same bytes share, on sides that are `trusted`."""
    return row.dtype, row.shape, row.bytes, row.crc32c, _layout(row)


def _layout(row: TensorRow) -> Fingerprint:
    return tuple(sorted((part.spec, part.bytes, part.crc32c) for part in row.slices))
