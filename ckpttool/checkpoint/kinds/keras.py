"""Variables of Keras' optimizers in name-based checkpoints: which belong to what.

Each generation of Keras has names of its own for what its optimizers keep for `dense/kernel`:

    training/Adam/Variable_3                    on TensorFlow 1, by number alone
    training/Adam/m_3                           the same, later
    Adam/m/dense/kernel                         tf_keras
    m/dense/kernel                              the same under a LossScaleOptimizer
    adam/dense_kernel_momentum                  Keras 3

All but the first two name the variable. It must be in the checkpoint, and of a shape that fits.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

from ckpttool.checkpoint.kinds.rules import FLOATS, INTEGERS, Described, is_scalar
from ckpttool.checkpoint.kinds.words import (
    COUNTERS,
    KERAS_NUMBERED,
    KERAS_SLOTS,
    KERAS_TRAINING,
    endings,
    names_keras_optimizer,
    names_optimizer,
    without_number,
)

_WORDS = 3  # so many the longest name of a slot has, accumulated_delta_var


class Kept(NamedTuple):
    """What an optimizer keeps for a variable.

    Attributes:
        slot: what it is called.
        variable: the key of the variable.
        scope: of the optimizer.
    """

    slot: str
    variable: str
    scope: str


class KerasNames:
    """The names of a checkpoint, as far as Keras' optimizers gave them.

    Args:
        entries: all tensors, by name.
    """

    def __init__(self, entries: Mapping[str, Described]) -> None:
        self._entries = entries

    def find(self, name: str) -> Kept | None:
        """Return what a name says of its tensor; None if it is not an optimizer's."""
        entry = self._entries[name]
        scope, _, leaf = name.rpartition("/")
        for outer, inner in endings(name):
            optimizer = outer.rpartition("/")[2]
            slot, _, variable = inner.partition("/")
            if slot not in KERAS_SLOTS or not self._fits(entry, variable, slot):
                continue
            if names_optimizer(optimizer):
                return Kept(slot, variable, outer)
            if not outer and slot in self._bare_slots:
                return Kept(slot, variable, "")
        counted = bool(scope) and self.has_counter(scope)
        if not counted and not names_keras_optimizer(scope.rpartition("/")[2]):
            return None
        cut = len(leaf)
        for _ in range(_WORDS):
            cut = leaf.rfind("_", 0, cut)
            if cut <= 0:
                break
            slot = leaf[cut + 1 :]
            if counted or slot in KERAS_SLOTS:
                fitting = [
                    each for each in self._flat.get(leaf[:cut], ()) if self._fits(entry, each, slot)
                ]
                if len(fitting) == 1:
                    return Kept(slot, fitting[0], scope)
        return None

    def is_numbered(self, name: str) -> bool:
        """Tell whether a tensor is a slot that has a number for a name.

        Its scope is an optimizer's within the one that Keras trains in, and it has the shape of
        something outside of it, or a single element where the slot is not in use.
        """
        scope, _, leaf = name.rpartition("/")
        outer, _, optimizer = scope.rpartition("/")
        shape = self._entries[name].shape
        return (
            without_number(leaf) in KERAS_NUMBERED
            and names_keras_optimizer(optimizer)
            and KERAS_TRAINING.fullmatch(outer.rpartition("/")[2]) is not None
            and (shape in self._shapes_outside or shape == (1,))
        )

    def has_counter(self, scope: str) -> bool:
        """Tell whether a scope is an optimizer's by what it counts, whatever its name."""
        prefix = f"{scope}/" if scope else ""
        counts = (self._entries.get(f"{prefix}{name}") for name in COUNTERS)
        rate = self._entries.get(f"{prefix}learning_rate")
        return is_scalar(rate, FLOATS) and any(is_scalar(each, INTEGERS) for each in counts)

    def _fits(self, entry: Described, variable: str, slot: str) -> bool:
        found = self._entries.get(variable)
        if found is None:
            return False
        if found.shape == entry.shape:
            return True
        # Adafactor keeps a number for each row and column, and nothing of vectors.
        factored = [(*found.shape[:at], *found.shape[at + 1 :]) for at in range(len(found.shape))]
        return slot in ("r", "c") and (entry.shape in factored or not entry.shape)

    @cached_property
    def _bare_slots(self) -> frozenset[str]:
        """The slots of an optimizer without a scope: all that is below their names is theirs."""
        if not self.has_counter(""):
            return frozenset()
        fitting = dict.fromkeys(KERAS_SLOTS, True)
        for name, entry in self._entries.items():
            slot, _, variable = name.partition("/")
            if slot in KERAS_SLOTS:
                fitting[slot] &= self._fits(entry, variable, slot)
        return frozenset(slot for slot, fits in fitting.items() if fits)

    @cached_property
    def _flat(self) -> Mapping[str, list[str]]:
        """The names by their spelling with underscores, as Keras 3 puts them into others."""
        found: dict[str, list[str]] = {}
        for name in self._entries:
            found.setdefault(name.replace("/", "_"), []).append(name)
        return found

    @cached_property
    def _shapes_outside(self) -> frozenset[tuple[int, ...]]:
        """The shapes of what is not in the scope that Keras trains in."""
        return frozenset(
            tuple(entry.shape)
            for name, entry in self._entries.items()
            if entry.shape and not any(map(KERAS_TRAINING.fullmatch, name.split("/")[:-1]))
        )
