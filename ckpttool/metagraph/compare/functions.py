"""Functions of two graphs brought together in spite of numbers in their names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ckpttool import pb

_NUMBER = re.compile(r"_(\d{1,18})\Z")


def function_pairs(a: pb.FunctionDefLibrary, b: pb.FunctionDefLibrary) -> dict[str, str]:
    """Return what the functions of A are called in B; those that are not in B are left out.

    Functions of one name belong together. Of the others those do whose names are the same but for
    the number at the end, in the order of these numbers.
    """
    names_a = {each.signature.name for each in a.function}
    names_b = {each.signature.name for each in b.function}
    pairs = {name: name for name in names_a & names_b}
    left_a, left_b = _by_stem(names_a - names_b), _by_stem(names_b - names_a)
    for stem, names in left_a.items():
        pairs.update(zip(names, left_b.get(stem, ()), strict=False))
    return pairs


def _by_stem(names: set[str]) -> dict[str, list[str]]:
    """Return names by what is left of them without the number, in the order of the numbers."""
    found: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        number = _NUMBER.search(name)
        if number is not None:
            found.setdefault(name[: number.start()], []).append((int(number[1]), name))
    return {stem: [name for _, name in sorted(pairs)] for stem, pairs in found.items()}
