"""Many values on few lines, by their scopes.

net/dense/{kernel [1, 5], bias [5]}
encoder/layer_#/attention: 96 values
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ckpttool.objects.keys import OPTIMIZER_SLOT
from ckpttool.printable import printable
from ckpttool.query.grouping import fold_scopes
from ckpttool.query.match.plan import TargetShape
from ckpttool.render import humanize

# A path, and what is said of it.
Leaf = tuple[str, str]
# Of more scopes, or of more values in a scope, the rest is counted.
_MOST_SCOPES = 8
_MOST_LEAVES = 6
_SLOT = f"/{OPTIMIZER_SLOT}/"


def scope_lines(leaves: Sequence[Leaf], *, everything: bool) -> tuple[list[list[str]], bool]:
    """Return lines of words that name values, and whether some are only counted.

    Args:
        leaves: the values.
        everything: name all.
    """
    scopes: dict[str, list[Leaf]] = {}
    for path, about in leaves:
        scope, slash, leaf = path.rpartition("/")
        scopes.setdefault(scope + slash, []).append((leaf, about))
    if not everything and len(scopes) > _MOST_SCOPES:
        groups = fold_scopes([path for path, _ in leaves], _MOST_SCOPES)
        lines = [
            [_named(*leaves[group.members[0]])]
            if len(group.members) == 1
            else [printable(f"{group.name}:"), humanize.counted(len(group.members), "value")]
            for group in groups
        ]
        return lines, True
    folded = False
    out = []
    for scope, held in scopes.items():
        words = [_named(*each) for each in held]
        if not everything and len(words) > _MOST_LEAVES:
            words[_MOST_LEAVES:] = [f"… {humanize.number(len(held) - _MOST_LEAVES)} more"]
            folded = True
        if len(held) > 1 and scope:
            words = [f"{word}," for word in words[:-1]] + [f"{words[-1]}}}"]
            words[0] = f"{printable(scope)}{{{words[0]}"
        else:
            words = [f"{printable(scope)}{word}," for word in words]
            words[-1] = words[-1][:-1]
        out.append(words)
    return out, folded


def split_slots(paths: Iterable[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """Return paths of objects, and for those of slot variables the variable and the rest."""
    objects, slots = [], []
    for path in paths:
        variable, found, rest = path.partition(_SLOT)
        if found:
            slots.append((variable, rest))
        else:
            objects.append(path)
    return objects, slots


def value_text(dtype: str | None, shape: TargetShape | None, *, dtypes: bool) -> str:
    """Return the shape of a value, after its dtype if that is wanted."""
    text = open_shape(shape)
    return f"{dtype or '?'} {text}" if dtypes else text


def open_shape(shape: TargetShape | None) -> str:
    """Return a shape in which lengths, or all of it, may be open: `[?, 2]`, `any`."""
    return humanize.partial_shape(
        None if shape is None else [-1 if dim is None else dim for dim in shape]
    )


def _named(path: str, about: str) -> str:
    return f"{printable(path)} {about}".rstrip()
