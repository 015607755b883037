"""What changed, layer by layer: tensors whose names differ in one number are one row."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan

from ckpttool.query.diff.results import Diff, TensorDiff
from ckpttool.query.grouping import fold_layers
from ckpttool.query.rows import short_name


@dataclass(frozen=True, slots=True)
class LayerChanges:
    """Tensors of the same name up to one number, or a single tensor.

    Attributes:
        name: with `#` for the number.
        numbers: those that `#` stands for, rising; none of a single tensor.
        tensors: in the order of the numbers.
    """

    name: str
    numbers: tuple[str, ...]
    tensors: tuple[TensorDiff, ...]

    @property
    def kind(self) -> str | None:
        """The kind of the tensors, if they have one in common."""
        kinds = {each.row.kind for each in self.tensors}
        return kinds.pop() if len(kinds) == 1 else None

    @property
    def changed(self) -> int:
        """How many of the tensors are not equal."""
        return sum(each.change != "equal" for each in self.tensors)

    @property
    def largest(self) -> int | None:
        """The place of the tensor with the largest relative norm of change; None without one."""
        ratios = [ratio_of(each) for each in self.tensors]
        places = [at for at, ratio in enumerate(ratios) if ratio]
        return max(places, key=lambda at: ratios[at] or 0, default=None)


def ratio_of(each: TensorDiff) -> float | None:
    """Return the relative norm of the change: zero if equal, None where there is none."""
    if each.change == "equal":
        return 0.0
    ratio = each.values.rel_norm if each.values is not None else None
    return None if ratio is None or isnan(ratio) else ratio


def layers_of(diff: Diff, *, everything: bool = False, by_key: bool = False) -> list[LayerChanges]:
    """Return the tensors layer by layer, in natural order.

    Args:
        diff: what differs, with the tensors that are equal.
        everything: return rows in which all is equal, too.
        by_key: by keys instead of object paths.
    """
    names = [each.row.key if by_key else short_name(each.row) for each in diff.tensors]
    rows = (
        LayerChanges(name, tuple(numbers), tuple(diff.tensors[at] for at in members))
        for name, members, numbers in fold_layers(names)
    )
    return [row for row in rows if everything or row.changed]
