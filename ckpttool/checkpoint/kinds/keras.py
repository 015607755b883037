"""Slots of Keras optimizers in name-based checkpoints, and their variables.

Each generation of Keras has its own names for the slots of `dense/kernel`:

    training/Adam/Variable_3                    on TensorFlow 1, by number alone
    training/Adam/m_3                           the same, later
    Adam/m/dense/kernel                         tf_keras
    m/dense/kernel                              the same under a LossScaleOptimizer
    adam/dense_kernel_momentum                  Keras 3

All but the first two name the variable. It must be in the checkpoint, with a fitting shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

from ckpttool.checkpoint.kinds.optimizers import (
    COUNTERS,
    KERAS_NUMBERED,
    KERAS_SLOTS,
    KERAS_TRAINING,
    endings,
    names_keras_optimizer,
    names_optimizer,
    without_number,
)
from ckpttool.checkpoint.kinds.rules import FLOATS, INTEGERS, Described, is_scalar

_WORDS = 3  # in the longest name of a slot, accumulated_delta_var


class Kept(NamedTuple):
    """A slot: its name, the key of its variable, and the optimizer's scope."""

    slot: str
    variable: str
    scope: str


class KerasNames:
    """The names of a checkpoint that Keras optimizers gave, found among all tensors."""

    def __init__(self, entries: Mapping[str, Described]) -> None:
        self._entries = entries

    def find(self, name: str) -> Kept | None:
        """Return the slot that a name stands for; None if it is not an optimizer's."""
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
        """Tell whether a tensor is a slot with a number for a name.

        Its scope is an optimizer's within Keras' training scope, and it has the shape of a tensor
        outside of that, or a single element if the slot is not in use.
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
        """Tell by its counters whether a scope is an optimizer's, whatever its name."""
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
        # Adafactor keeps a number for each row and column, and nothing for vectors.
        factored = [(*found.shape[:at], *found.shape[at + 1 :]) for at in range(len(found.shape))]
        return slot in ("r", "c") and (entry.shape in factored or not entry.shape)

    @cached_property
    def _bare_slots(self) -> frozenset[str]:
        """The slots of an optimizer without a scope: every name below them must fit."""
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
        """The names by their spelling with underscores, as in the slot names of Keras 3."""
        found: dict[str, list[str]] = {}
        for name in self._entries:
            found.setdefault(name.replace("/", "_"), []).append(name)
        return found

    @cached_property
    def _shapes_outside(self) -> frozenset[tuple[int, ...]]:
        """The shapes of the tensors outside of Keras' training scope."""
        return frozenset(
            tuple(entry.shape)
            for name, entry in self._entries.items()
            if entry.shape and not any(map(KERAS_TRAINING.fullmatch, name.split("/")[:-1]))
        )
