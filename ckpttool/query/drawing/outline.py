"""The objects of a checkpoint, each at one place below another.

Object-based and name-based checkpoints are drawn by the same rules, from this. Objects are numbers,
because a graph may have a million of them and few are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from ckpttool.query.rows import TensorRow, descriptions_of

# What is drawn differently. A hyper-parameter is a tensor of an optimizer.
Look = Literal[
    "root", "object", "weight", "slot", "optimizer", "hyper-parameter", "step", "ema", "other"
]
_LOOKS: dict[str, Look] = {
    "weight": "weight",
    "slot": "slot",
    "optimizer": "hyper-parameter",
    "step": "step",
    "ema": "ema",
}


class Slot(NamedTuple):
    """A slot variable, or an average, drawn at its variable.

    Attributes:
        name: such as `m`.
        row: the position of its tensor; -1 if it is not in the checkpoint.
        owner: the optimizer; -1 if not known.
    """

    name: str
    row: int
    owner: int


class Reference(NamedTuple):
    """An edge to an object that has its place elsewhere."""

    name: str
    target: int


@dataclass(slots=True)
class Outline:
    """The objects of a checkpoint; number 0 is the root, and each comes after its parent.

    Attributes:
        tensors: the tensors to draw.
        dtypes: of the tensors; so are the next two.
        shapes: of the tensors.
        kinds: of the tensors.
        names: of each object below its parent; of the root, empty.
        children: of each object, in drawing order.
        rows: of each object with tensors, their positions.
        slots: of each variable that has any.
        references: of each object that has any.
        optimizers: which objects are optimizers.
        path: the name of an object in full.
    """

    tensors: Sequence[TensorRow]
    dtypes: Sequence[str]
    shapes: Sequence[tuple[int, ...]]
    kinds: Sequence[str]
    names: list[str] = field(default_factory=list)
    children: list[Sequence[int]] = field(default_factory=list)
    rows: dict[int, tuple[int, ...]] = field(default_factory=dict)
    slots: dict[int, list[Slot]] = field(default_factory=dict)
    references: dict[int, list[Reference]] = field(default_factory=dict)
    optimizers: set[int] = field(default_factory=set)
    path: Callable[[int], str] = str

    @classmethod
    def of(cls, tensors: Sequence[TensorRow]) -> Outline:
        """Return an outline without objects."""
        # Rows are made when they are asked for, and there may be a million.
        return cls(tensors, *descriptions_of(tensors)[:3])

    def __len__(self) -> int:
        return len(self.names)

    def look(self, at: int) -> Look:
        """Return what an object is drawn as."""
        if not at:
            return "root"
        if at in self.optimizers:
            return "optimizer"
        rows = self.rows.get(at)
        return "object" if rows is None else look_of(self.kinds[rows[0]])


def look_of(kind: str) -> Look:
    """Return what a tensor of some kind is drawn as."""
    return _LOOKS.get(kind, "other")
