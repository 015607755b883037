"""Functions of two graphs, paired in spite of numbers in their names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ckpttool import pb

_NUMBER = re.compile(r"_(\d{1,18})\Z")


def function_pairs(a: pb.FunctionDefLibrary, b: pb.FunctionDefLibrary) -> dict[str, str]:
    """Return name in A -> name in B for the functions in both.

    Functions of the same name are pairs. Of the others, those whose names differ only in the number
    at the end are paired in the order of these numbers.
    """
    names_a = {each.signature.name for each in a.function}
    names_b = {each.signature.name for each in b.function}
    pairs = {name: name for name in names_a & names_b}
    left_a, left_b = _by_stem(names_a - names_b), _by_stem(names_b - names_a)
    for stem, names in left_a.items():
        pairs.update(zip(names, left_b.get(stem, ()), strict=False))
    return pairs


def _by_stem(names: set[str]) -> dict[str, list[str]]:
    """Return stem without the number -> names in the order of their numbers."""
    found: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        number = _NUMBER.search(name)
        if number is not None:
            found.setdefault(name[: number.start()], []).append((int(number[1]), name))
    return {stem: [name for _, name in sorted(pairs)] for stem, pairs in found.items()}
