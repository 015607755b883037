"""Averaging checkpoints of one program: the mean of the weights, everything else from the last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from math import isfinite

from ckpttool.bundle.entry import BundleEntry
from ckpttool.checkpoint.nearest import joined, listed
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.coding.checksum import crc32c
from ckpttool.errors import SelectionError, SurgeryError
from ckpttool.surgery.plan import Plan, PlannedTensor, refuse_damage
from ckpttool.surgery.values import NewValue, StoredValue, ValueAction, ValueSource
from ckpttool.tensor.casting import sort_of
from ckpttool.tensor.dtypes import DType
from ckpttool.tensor.mean import Mean
from ckpttool.tensor.shape import Shape

# What is averaged; a mean of what an optimizer keeps fits no set of weights.
_KINDS = frozenset({"weight", "ema"})


@dataclass(frozen=True, slots=True, eq=False)
class MeanValue:
    """The mean of values of one dtype and shape.

    Attributes:
        values: the values.
        weights: one for each; None for equal ones.
    """

    values: tuple[NewValue, ...]
    weights: tuple[float, ...] | None
    action: ValueAction = "average"

    @property
    def dtype(self) -> DType:
        """That of all values."""
        return self.values[0].dtype

    @property
    def shape(self) -> Shape:
        """That of all values."""
        return self.values[0].shape

    @property
    def sources(self) -> tuple[ValueSource, ...]:
        """Those of all values."""
        return tuple(source for value in self.values for source in value.sources)

    def chunks(self) -> Iterator[memoryview | bytes]:
        """Yield the bytes of the mean, in memory for a piece of each value.

        Raises:
            CkptError: a value is damaged or cannot be read.
        """
        mean = Mean(self.dtype, self.weights)
        for pieces in _side_by_side([value.chunks() for value in self.values]):
            yield mean.piece(pieces)


def average(plan: Plan, others: Sequence[Checkpoint], *, weights: Sequence[float] = ()) -> Plan:
    """Return the plan of the last checkpoint, with the mean of its weights and those of others.

    Floating-point and complex tensors that are weights, or moving averages of such, are averaged:
    summed in float64, in order, and rounded once to their dtype, to nearest even. Elements that
    are the same in all checkpoints stay as they are. Everything else is that of the last: step,
    optimizer and its slots, object graph, and weights of other dtypes.

    Args:
        plan: of the last checkpoint.
        others: the checkpoints before it, open until the plan is written.
        weights: how much each counts, the last one last; all the same if there are none.

    Raises:
        SelectionError: there is nothing to average, or the weights do not fit.
        SurgeryError: the weights of the checkpoints differ in name, dtype or shape.
    """
    counted = _checked_weights(weights, len(others) + 1)
    if not others:
        raise SelectionError("a mean needs at least two checkpoints", path=plan.source.prefix)
    prefixes = [each.prefix for each in (*others, plan.source)]
    for prefix, count in Counter(prefixes).items():
        if count > 1:
            raise SelectionError(f"given {count} times; weights make one count more", path=prefix)
    refuse_damage(plan)
    mine = {each.source_key: each for each in plan.tensors if plan.kinds[each.source_key] in _KINDS}
    theirs = [_weights_of(other) for other in others]
    _refuse_unlike(plan, mine, others, theirs)
    values: dict[str, NewValue] = {}
    kept: list[str] = []
    for key, tensor in mine.items():
        stored = [
            StoredValue(checkpoint, found[key])
            for checkpoint, found in zip(others, theirs, strict=True)
        ]
        stored.append(StoredValue(plan.source, tensor))
        if sort_of(tensor.entry.dtype) in ("float", "complex"):
            values[key] = MeanValue(tuple(stored), counted)
        elif not _all_equal(stored):
            kept.append(plan.short_name(tensor.key))
    if not values:
        raise SelectionError("no weights of floating-point numbers", path=plan.source.prefix)
    return plan.with_values(values).with_notes(*_notes(plan, values.keys(), kept))


def _checked_weights(weights: Sequence[float], count: int) -> tuple[float, ...] | None:
    if not weights:
        return None
    if len(weights) != count:
        raise SelectionError(f"{len(weights)} weights for {count} checkpoints")
    for weight in weights:
        if not (isfinite(weight) and weight > 0):
            raise SelectionError(f"the weight {weight} is not a positive number")
    return None if len(set(weights)) == 1 else tuple(weights)


def _weights_of(checkpoint: Checkpoint) -> dict[str, PlannedTensor]:
    plan = Plan.of(checkpoint)
    refuse_damage(plan)
    return {each.key: each for each in plan.tensors if plan.kinds[each.key] in _KINDS}


def _refuse_unlike(
    plan: Plan,
    mine: dict[str, PlannedTensor],
    others: Sequence[Checkpoint],
    theirs: Sequence[dict[str, PlannedTensor]],
) -> None:
    """Raise `SurgeryError` if the weights of the checkpoints do not agree."""
    found = []
    for other, tensors in zip(others, theirs, strict=True):
        for key in sorted(mine.keys() | tensors.keys()):
            ours, their = mine.get(key), tensors.get(key)
            name = plan.short_name(key)
            if their is None:
                found.append(f"'{other.prefix}' has no weight '{name}'")
            elif ours is None:
                found.append(f"only '{other.prefix}' has the weight '{name}'")
            elif (ours.dtype, ours.shape) != (their.dtype, their.shape):
                found.append(
                    f"'{name}' is {their.dtype} {list(their.shape)} in '{other.prefix}', and "
                    f"{ours.dtype} {list(ours.shape)} in the last"
                )
    if found:
        raise SurgeryError(joined(found), path=plan.source.prefix)


def _all_equal(values: Sequence[StoredValue]) -> bool:
    """Tell whether stored values are the same, by their checksums."""
    entries = [value.tensor.entry for value in values]
    if all(isinstance(each, BundleEntry) and not each.slices for each in entries):
        found = {(each.size, each.crc32c) for each in entries if isinstance(each, BundleEntry)}
        return len(found) == 1
    crcs = set()
    for value in values:
        crc = 0
        for chunk in value.chunks():
            crc = crc32c(chunk, crc)
        crcs.add(crc)
    return len(crcs) == 1


def _notes(plan: Plan, averaged: Set[str], kept: list[str]) -> list[str]:
    """Return what the user should know of an average."""
    others = Counter(
        plan.kinds[each.source_key] for each in plan.tensors if each.source_key not in averaged
    )
    notes = []
    if others:
        counted = ", ".join(f"{count} {kind}" for kind, count in others.items())
        notes.append(f"as in the last, '{plan.source.prefix}': {counted}")
    if kept:
        notes.append(f"no floating-point numbers and not the same in all: {listed(kept)}")
    return notes


def _side_by_side(
    streams: Sequence[Iterator[memoryview | bytes]],
) -> Iterator[list[memoryview]]:
    """Yield pieces of the same size from streams of bytes; all are read to their end."""
    pieces = [memoryview(b"")] * len(streams)
    while True:
        for at, stream in enumerate(streams):
            while not pieces[at]:
                following = next(stream, None)
                if following is None:
                    break
                pieces[at] = memoryview(following)
        size = min(map(len, pieces))
        if not size:
            return
        yield [piece[:size] for piece in pieces]
        pieces = [piece[size:] for piece in pieces]
