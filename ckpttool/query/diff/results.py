"""The results of comparing two checkpoints, as data."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal, get_args

from ckpttool.display import Displayed
from ckpttool.errors import CkptError, SelectionError, in_arguments
from ckpttool.query.listing import DamagedRow
from ckpttool.query.rows import TensorRow
from ckpttool.query.source import Source

# In the order in which they are shown.
TensorChange = Literal[
    "added",
    "removed",
    "renamed",
    "dtype",
    "shape",
    "value",
    "incomparable",
    "unreadable",
    "equal",
]
CHANGES: tuple[TensorChange, ...] = get_args(TensorChange)
# The letters of `git diff --name-status`.
LETTERS: dict[TensorChange, str] = {
    "equal": "=",
    "added": "A",
    "removed": "D",
    "renamed": "R",
    "dtype": "T",
    "shape": "T",
    "value": "M",
    "incomparable": "M",
    "unreadable": "X",
}
MatchedBy = Literal["key", "full_name", "object_path", "content", "map"]
DiffVerdict = Literal["equal", "different", "unknown"]


EXACT_ALONE = "{exact} cannot be combined with {rtol}, {atol} or {equal_nan}"


@dataclass(frozen=True, slots=True)
class Tolerance:
    """When two elements are taken for equal.

    They are if `|a - b| <= atol + rtol * |b|`, as in `numpy.isclose`; infinities only if they are
    the same.

    Attributes:
        rtol: relative tolerance.
        atol: absolute tolerance.
        equal_nan: whether NaN equals NaN.
        exact: elements must be equal byte for byte, and tensors of equal crc32c are read too.
    """

    rtol: float = 0.0
    atol: float = 0.0
    equal_nan: bool = False
    exact: bool = False

    def __post_init__(self) -> None:
        if not (self.rtol >= 0 and self.atol >= 0):  # NaN neither
            raise SelectionError(f"rtol {self.rtol} and atol {self.atol} must be 0 or more")
        if self.exact and (self.rtol or self.atol or self.equal_nan):
            raise SelectionError(in_arguments(EXACT_ALONE))


@dataclass(frozen=True, slots=True)
class Element:
    """An element that is not the same in A and in B.

    Attributes:
        index: where it is in the whole tensor.
        a: its value in A: a number, text as bytes, a bool.
        b: its value in B.
        a_text: the same as text, exactly.
        b_text: likewise.
    """

    index: tuple[int, ...]
    a: object
    b: object
    a_text: str
    b_text: str


@dataclass(frozen=True, slots=True)
class ValueDifference:
    """How the values of a tensor differ.

    A distance is `|a - b|`; it is infinite where one of the two is NaN, and zero where both are.
    Bools and strings have none.

    Attributes:
        differing: how many elements differ by more than the tolerance.
        elements: how many there are.
        max_abs: the largest distance of those that differ; an integer for integers.
        max_rel: the largest distance of those, divided by `|b|`; elements whose `b` is zero are
            left out. None if there are no others.
        mean_abs: mean of the distances of all elements.
        rel_norm: the norm of the distances of all elements, divided by the norm of A. None where
            that is zero or, unless a distance is infinite, not finite.
        worst: the first of those with the largest distance.
    """

    differing: int
    elements: int
    max_abs: int | float | None
    max_rel: float | None
    mean_abs: float | None
    rel_norm: float | None
    worst: Element | None


@dataclass(frozen=True, slots=True)
class TensorDiff:
    """A tensor of A, of B, or of both.

    Attributes:
        change: the result.
        a: the tensor in A; None if it was added.
        b: the tensor in B; None if it was removed.
        matched: how the two were matched.
        values: the difference, if `change` is "value".
        candidates: for a rename, the keys in B with the same content.
        guessed: whether the rename is a guess: several tensors have this content.
        reason: why they cannot be compared or read.
    """

    change: TensorChange
    a: TensorRow | None
    b: TensorRow | None
    matched: MatchedBy = "key"
    values: ValueDifference | None = None
    candidates: tuple[str, ...] = ()
    guessed: bool = False
    reason: str | None = None

    @property
    def row(self) -> TensorRow:
        """The tensor in B if it is there, else in A."""
        row = self.b if self.b is not None else self.a
        assert isinstance(row, TensorRow)
        return row


@dataclass(frozen=True, slots=True)
class ScopeMove:
    """A scope, or a single name, with another name in B.

    Attributes:
        old: its name in A: a path in an object-based checkpoint, else a key.
        new: its name in B.
        tensors: how many tensors this renames.
        guessed: how many of these are guesses.
    """

    old: str
    new: str
    tensors: int
    guessed: int


@dataclass(frozen=True, slots=True)
class GraphChange:
    """A difference between two object graphs.

    Attributes:
        part: an edge, the sharing of an object by edges, an attribute of an object, a slot
            variable, or the function that saved an object.
        change: how it differs.
        path: of the object, or the edge; of a slot variable that of the variable. In A, unless it
            was added.
        new_path: in B, if different.
        name: of the attribute or of the slot.
        optimizer: path of the optimizer of a slot variable.
        a: the value in A.
        b: the value in B.
        objects: how many objects were added or removed with an edge.
    """

    part: Literal["edge", "sharing", "attribute", "slot", "saver"]
    change: Literal["added", "removed", "renamed", "changed"]
    path: str
    new_path: str | None = None
    name: str | None = None
    optimizer: str | None = None
    a: str | None = None
    b: str | None = None
    objects: int = 0


@dataclass(frozen=True, slots=True)
class GraphDiff:
    """The object graphs of both sides, compared object by object.

    Attributes:
        objects: how many A and B have; None on a side without an object graph.
        slots: how many of them are slot variables.
        changes: what differs.
    """

    objects: tuple[int | None, int | None]
    slots: tuple[int | None, int | None]
    changes: tuple[GraphChange, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether both sides have one and nothing differs."""
        return None not in self.objects and not self.changes


@dataclass(frozen=True, slots=True)
class Diff(Displayed):
    """What differs between two checkpoints.

    Attributes:
        a: the one.
        b: the other.
        tolerance: when elements were taken for equal.
        tensors: those that differ, or all, by key; renamed and added ones by their new key.
        moves: renames, each by the widest scope possible.
        graph: the object graphs; None if they are the same or were not selected.
        problems: what could not be read.
        counts: number of tensors by result.
        rename_map: rules (old name -> new name) by which `ckpt rename` gives A the names of B; the
            first match decides. None if A is object-based and B is not.
        damaged: tensors of A, and of B, with damaged entries. Each is a problem too; the tensor of
            the same key on the other side is "unreadable".
    """

    a: Source
    b: Source
    tolerance: Tolerance
    tensors: tuple[TensorDiff, ...]
    moves: tuple[ScopeMove, ...]
    graph: GraphDiff | None
    problems: tuple[CkptError, ...]
    counts: Counter[TensorChange]
    rename_map: dict[str, str] | None
    damaged: tuple[tuple[DamagedRow, ...], tuple[DamagedRow, ...]] = ((), ())

    @property
    def verdict(self) -> DiffVerdict:
        """The answer: what could not be read makes it "unknown"."""
        if self.problems:
            return "unknown"
        changed = self.counts.total() != self.counts["equal"]
        graph = self.graph is not None and not self.graph.equal
        return "different" if changed or graph else "equal"
