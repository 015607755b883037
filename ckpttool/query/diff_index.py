"""Bringing the tensors of two checkpoints together, and what their indexes alone say of them.

The crc32c in an index is that of the stored bytes. It tells about values only where both sides
store them alike: same format, byte order, dtype, shape, size, and cut into the same slices.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ckpttool.bundle.naming import shard_path
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.errors import CkptError, MissingFileError, TruncatedError
from ckpttool.query.diff_results import MatchedBy
from ckpttool.query.listing import TensorRow
from ckpttool.query.source import Source

# What two tensors must have in common to hold the same.
Fingerprint = tuple[object, ...]


@dataclass(slots=True)
class Side:
    """One of the two checkpoints.

    Attributes:
        ckpt: the checkpoint.
        source: what is told of it.
        rows: its tensors, but for what is ignored and the object graph.
        graph_row: the object graph, if it has one that is not ignored.
    """

    ckpt: Checkpoint
    source: Source
    rows: list[TensorRow]
    graph_row: TensorRow | None


@dataclass(slots=True)
class Matching:
    """Tensors brought together by name.

    Attributes:
        pairs: a tensor of A, one of B, and what they have in common.
        only_a: tensors of A that B has under no such name.
        only_b: likewise.
    """

    pairs: list[tuple[TensorRow, TensorRow, MatchedBy]] = field(default_factory=list)
    only_a: list[TensorRow] = field(default_factory=list)
    only_b: list[TensorRow] = field(default_factory=list)


def match_keys(a: Side, b: Side) -> Matching:
    """Bring tensors together by key."""
    matching = Matching()
    rest = {row.key: row for row in b.rows}
    for row in a.rows:
        other = rest.pop(row.key, None)
        if other is None:
            matching.only_a.append(row)
        else:
            matching.pairs.append((row, other, "key"))
    matching.only_b = list(rest.values())
    return matching


def match_full_names(a: Side, b: Side, matching: Matching) -> None:
    """Bring together what is left by full name, where one side alone is object-based.

    Raises:
        CkptError: the object graph, which has the full names, cannot be read.
    """
    if a.source.style == b.source.style or not (matching.only_a and matching.only_b):
        return
    names = _full_names(a if a.source.style == "object" else b)

    def by_name(rows: Sequence[TensorRow]) -> dict[str, TensorRow]:
        found = [names.get(row.key, row.key) for row in rows]
        # A name that several variables have, such as "Variable", says nothing.
        once = Counter(found)
        return {
            name: row for name, row in zip(found, rows, strict=True) if name and once[name] == 1
        }

    of_a, of_b = by_name(matching.only_a), by_name(matching.only_b)
    pairs = [(row, of_b[name]) for name, row in of_a.items() if name in of_b]
    gone = {id(row) for pair in pairs for row in pair}
    matching.pairs += [(row, other, "full_name") for row, other in pairs]
    matching.only_a = [row for row in matching.only_a if id(row) not in gone]
    matching.only_b = [row for row in matching.only_b if id(row) not in gone]


def _full_names(side: Side) -> dict[str, str]:
    """Return the full name that the object graph has for a key."""
    graph = side.ckpt.object_graph
    if graph is None:
        return {}
    owners = graph.claims({row.key for row in side.rows}).owners
    return {key: attribute.full_name for key, (_, attribute) in owners.items()}


def trusted(a: Source, b: Source) -> bool:
    """Tell whether equal checksums of the two mean equal bytes."""
    return a.generation == b.generation == "V2" and a.byte_order == b.byte_order


def same_bytes(a: TensorRow, b: TensorRow) -> bool:
    """Tell whether two tensors hold the same by their entries, on sides that are `trusted`."""
    if a.crc32c != b.crc32c or a.bytes != b.bytes or a.dtype != b.dtype or a.shape != b.shape:
        return False
    return (not a.slices and not b.slices) or _layout(a) == _layout(b)


def fingerprint(row: TensorRow) -> Fingerprint:
    """Return what only tensors of the same bytes share, on sides that are `trusted`."""
    return row.dtype, row.shape, row.bytes, row.crc32c, _layout(row)


def _layout(row: TensorRow) -> Fingerprint:
    return tuple(sorted((part.spec, part.bytes, part.crc32c) for part in row.slices))


def missing_data(source: Source, rows: Iterable[TensorRow]) -> Iterator[CkptError]:
    """Yield an error for each data shard that is missing or too short for the tensors in it.

    Nothing is read; equal checksums in two indexes say nothing of bytes that are not there.
    """
    if source.generation == "V1":
        folder = os.path.dirname(source.prefix)
        for name in source.missing_shards:
            yield MissingFileError("a file of it is missing", path=os.path.join(folder, name))
        return
    needed: dict[int, int] = {}
    for row in rows:
        for part in row.slices or (row,):
            if part.shard is not None and part.offset is not None and part.bytes:
                stop = part.offset + part.bytes
                needed[part.shard] = max(needed.get(part.shard, 0), stop)
    for shard, stop in sorted(needed.items()):
        path = shard_path(source.prefix, shard, source.shards)
        try:
            size = os.stat(path).st_size
        except OSError:
            yield MissingFileError("the data shard is missing", path=path)
            continue
        if size < stop:
            yield TruncatedError(f"tensors lie up to byte {stop}, but it has {size}", path=path)
