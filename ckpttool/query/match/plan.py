"""Restore plans: what restoring a checkpoint into a program would do, as data.

All paths are object paths: those of the checkpoint under `path`, those of the program under
`target_path`. In a name-based checkpoint, or program, names take their place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from ckpttool.query.source import Source

SCHEMA = "ckpt.match/1"

MatchMode = Literal["restore", "read"]
# Why TensorFlow would raise instead of restoring: a dtype or shape differs; a tensor is not there;
# an optimizer of Keras refuses slot variables of an older one; the elements of a container of the
# program cannot be told any more.
RaisedBy = Literal["mismatch", "missing", "optimizer", "container"]
# How a value finds its object: along edges; as a slot variable that is there; as one that the
# optimizer makes for it; by the full name of a variable; along edges too, but the object has got
# another value before, which it keeps.
Via = Literal["edge", "slot", "created", "name", "shared"]
Shape = tuple[int, ...]
# None for a length, or for the whole, that the program leaves open.
TargetShape = tuple["int | None", ...]


@dataclass(frozen=True, slots=True)
class MatchVerdict:
    """What the assertions of TensorFlow's restore status would say.

    Attributes:
        consumed: `assert_consumed()` passes.
        existing_objects_matched: `assert_existing_objects_matched()` passes.
        nontrivial_match: `assert_nontrivial_match()` passes.
        raises: why the restore itself raises; then the others are False.
    """

    consumed: bool
    existing_objects_matched: bool
    nontrivial_match: bool
    raises: RaisedBy | None = None


@dataclass(frozen=True, slots=True)
class MatchedTensor:
    """A tensor whose object the program has.

    Attributes:
        path: of its object in the checkpoint.
        target_path: of the object in the program; "?" where no path leads to it any more.
        key: of the tensor.
        dtype: name; None if the checkpoint lacks the tensor that its graph names.
        shape: as dtype.
        kind: what the tensor is, as in `ckpt ls`.
        via: how it finds the object.
    """

    path: str
    target_path: str
    key: str
    dtype: str | None
    shape: Shape | None
    kind: str
    via: Via


@dataclass(frozen=True, slots=True)
class UnresolvedTensor:
    """A tensor that nothing in the program takes; attributes as of `MatchedTensor`."""

    path: str
    key: str
    dtype: str | None
    shape: Shape | None
    kind: str


@dataclass(frozen=True, slots=True)
class UnmatchedValue:
    """A value of the program that gets nothing.

    Attributes:
        path: of its object in the program.
        dtype: name.
        shape: None in it stands for an open length, None in its place for any shape.
    """

    path: str
    dtype: str
    shape: TargetShape | None


@dataclass(frozen=True, slots=True)
class MismatchedTensor:
    """A tensor that its object cannot take; attributes as of the classes above."""

    path: str
    target_path: str
    key: str
    dtype: str
    shape: Shape
    target_dtype: str
    target_shape: TargetShape | None


@dataclass(frozen=True, slots=True)
class MatchConflict:
    """One object of the checkpoint that is two in the program: only the first is filled.

    Attributes:
        path: in the checkpoint.
        target_path: the object that is filled.
        other_path: the other one.
    """

    path: str
    target_path: str
    other_path: str


@dataclass(frozen=True, slots=True)
class WaitingObject:
    """An object of the checkpoint for which the program may still track one.

    All below it waits too.

    Attributes:
        path: in the checkpoint.
    """

    path: str


@dataclass(frozen=True, slots=True)
class RenameSuggestion:
    """A rule of `ckpt rename` by which more would be matched.

    Attributes:
        old: a scope, or an object, of the checkpoint; `from` in JSON.
        new: its path in the program; `to` in JSON.
        tensors: how many unresolved tensors it moves to unmatched objects.
    """

    old: str
    new: str
    tensors: int

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON."""
        return {"from": self.old, "to": self.new, "tensors": self.tensors}


@dataclass(frozen=True, slots=True)
class MatchAssumption:
    """What the target does not tell, and what was assumed.

    Attributes:
        path: of the object in the program that it is about; None for all of it.
        text: what was assumed.
    """

    path: str | None
    text: str


@dataclass(frozen=True, slots=True)
class MatchTarget:
    """What stands for the program.

    Attributes:
        kind: a checkpoint, a lock, or the objects of this process.
        path: what was typed; None for objects.
        prefix: of the checkpoint.
        generation: its format.
        style: "object" where objects are matched along edges, "name" where it has names alone.
    """

    kind: Literal["checkpoint", "lock", "program"]
    path: str | None
    prefix: str | None
    generation: str | None
    style: Literal["object", "name"]


@dataclass(frozen=True, slots=True)
class MatchTotals:
    """How much there is.

    Attributes:
        tensors: of the checkpoint that belong to objects, or are named.
        values: of the program.
        matched: tensors whose objects the program has.
        unresolved: tensors that wait for objects.
        unmatched: values of the program that get nothing.
        mismatched: tensors that do not fit.
        hollow: objects of the program that are matched and get nothing.
        unused_attributes: tensors whose objects do not take them.
        conflicts: objects of the checkpoint that are two in the program.
        waiting: objects that may still be tracked.
        matched_elements: numbers in all matched tensors.
        unresolved_elements: numbers in all unresolved tensors.
    """

    tensors: int
    values: int
    matched: int
    unresolved: int
    unmatched: int
    mismatched: int
    hollow: int
    unused_attributes: int
    conflicts: int
    waiting: int
    matched_elements: int
    unresolved_elements: int


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """What restoring a checkpoint into a program would do, or did so far.

    Lists are sorted by path, that is by the order of text.

    Attributes:
        source: the checkpoint.
        target: the program.
        mode: what is done: "restore" makes a save counter too.
        skip_slots: whether slot variables are left out.
        verdict: what TensorFlow would say.
        matched: tensors whose objects the program has, also if they do not fit.
        unresolved: tensors that nothing takes.
        unmatched: values of the program that get nothing.
        mismatched: tensors of other dtype or shape than their objects have.
        hollow: paths of objects with values for which the checkpoint has an object without.
        unused_attributes: tensors that their objects do not take, as `path:attribute`.
        conflicts: objects of the checkpoint that are two in the program.
        waiting: objects of the checkpoint that the program may still track.
        suggestions: rules for `ckpt rename`; the first that fits a name decides.
        assumptions: what was assumed of the target.
        totals: how much there is.
    """

    source: Source
    target: MatchTarget
    mode: MatchMode
    skip_slots: bool
    verdict: MatchVerdict
    matched: Sequence[MatchedTensor]
    unresolved: Sequence[UnresolvedTensor]
    unmatched: Sequence[UnmatchedValue]
    mismatched: Sequence[MismatchedTensor]
    hollow: Sequence[str]
    unused_attributes: Sequence[str]
    conflicts: Sequence[MatchConflict]
    waiting: Sequence[WaitingObject]
    suggestions: Sequence[RenameSuggestion]
    assumptions: Sequence[MatchAssumption]
    totals: MatchTotals

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON, `ckpt.match/1`."""
        return {
            "schema": SCHEMA,
            "source": self.source.to_dict(),
            **{
                each.name: _document(getattr(self, each.name))
                for each in fields(self)
                if each.name != "source"
            },
        }

    def __repr__(self) -> str:
        told = self.totals
        return (
            f"<RestorePlan of {self.source.prefix!r}: {told.matched:,} matched, "
            f"{told.unresolved:,} unresolved, {told.unmatched:,} unmatched>"
        )


def _document(value: object) -> object:
    if isinstance(value, RenameSuggestion):
        return value.to_dict()
    names = getattr(type(value), "__slots__", None)
    if names is not None:
        return {name: getattr(value, name) for name in names}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_document(each) for each in value]
    return value
