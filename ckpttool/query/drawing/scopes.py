"""The outline of a name-based checkpoint: its scopes, in natural order.

A slot variable or an average that is named by its variable and one more segment is drawn there.
"""

from __future__ import annotations

from collections.abc import Sequence

from ckpttool.coding.text import natural_key
from ckpttool.printable import shortened
from ckpttool.query.drawing.outline import Outline, Slot
from ckpttool.query.rows import TensorRow, keys_of
from ckpttool.query.tree.scopes import ScopeTree, segments_of


def outline_scopes(tensors: Sequence[TensorRow]) -> Outline:
    """Return the outline of a name-based checkpoint.

    Args:
        tensors: the tensors to draw.
    """
    return _Scopes(tensors).outline()


class _Scopes:
    """An outline in the making."""

    def __init__(self, tensors: Sequence[TensorRow]) -> None:
        self._tensors = tensors
        self._out = Outline.of(tensors)
        self._parents: list[int] = []
        self._variables: dict[int, int] = {}
        self._at = {key: at for at, key in enumerate(keys_of(tensors))}
        self._add(-1, "")

    def outline(self) -> Outline:
        out, places = self._out, [0]
        held: dict[int, int] = {}
        for row, known, _ in ScopeTree(self._tensors).branches():
            at = self._at[row.key]
            segments = segments_of(row.key)
            del places[known + 1 :]
            variable = self._variable_of(row)
            if variable in held and known >= len(segments) - 1:
                slots = out.slots.setdefault(held[variable], [])
                slots.append(Slot(segments[-1], at, -1))
                # A scope of the same name is drawn as one.
                places += [places[-1]] * (len(segments) - known)
                continue
            for name in segments[known:]:
                places.append(self._add(places[-1], name))
            out.rows[places[-1]] = (at,)
            held[at] = places[-1]
        for place, below in enumerate(out.children):
            if len(below) > 1:
                out.children[place] = sorted(below, key=lambda one: natural_key(out.names[one]))
        out.path = self._path
        return out

    def _add(self, parent: int, name: str) -> int:
        out, place = self._out, len(self._parents)
        self._parents.append(parent)
        out.names.append(name)
        # Most have no children, and a list for each would take a lot of memory.
        out.children.append(())
        if parent >= 0:
            siblings = out.children[parent]
            if isinstance(siblings, list):
                siblings.append(place)
            else:
                out.children[parent] = [place]
        return place

    def _variable_of(self, row: TensorRow) -> int:
        """Return the variable of a slot or an average; -1 without one."""
        if row.kind not in ("slot", "ema"):
            return -1
        at = self._at.get(row.key.rpartition("/")[0], -1)
        return at if at >= 0 and self._out.kinds[at] == "weight" else -1

    def _path(self, place: int) -> str:
        names = []
        while place > 0:
            names.append(self._out.names[place])
            place = self._parents[place]
        return shortened("/".join(reversed(names)))
