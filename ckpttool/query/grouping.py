"""Many tensors in few rows: summed up by scope, or numbered layers folded into one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

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
    groups: dict[tuple[object, ...], list[tuple[list[str], TensorRow]]] = {}
    for row in rows:
        parts = _NUMBER.split(short_name(row))
        alike = (tuple(parts[::2]), row.dtype, row.shape, row.kind)
        groups.setdefault(alike, []).append((parts, row))
    out = []
    for members in groups.values():
        first, row = members[0]
        name = "".join(
            "#" if at % 2 and any(parts[at] != text for parts, _ in members) else text
            for at, text in enumerate(first)
        )
        size = sum(member.bytes or 0 for _, member in members)
        out.append(FoldedRow(name, len(members), row.dtype, row.shape, row.kind, size))
    return out
