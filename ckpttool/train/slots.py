"""What an optimizer is to a checkpoint: variables that belong to other variables."""

from __future__ import annotations

from typing import Any

import numpy as np

from ckpttool.tensor.dtypes import STRING
from ckpttool.train.initial import as_dtype
from ckpttool.train.module import Module
from ckpttool.train.trackable import resume_slot
from ckpttool.train.variable import Variable

_SLOTS = "_ckpttool_slots"


class SlotOwner(Module):
    """An object that keeps slot variables, such as the moments of an optimizer.

    A slot is saved with the variable that it belongs to, if that is saved, not as an attribute.
    """

    def add_slot(
        self,
        variable: Variable,
        slot_name: str,
        initial_value: Any = None,
        name: str | None = None,
    ) -> Variable:
        """Return a slot variable, made if need be; a restore that waits for it fills it.

        Args:
            variable: the variable that it belongs to.
            slot_name: which of its slots.
            initial_value: of a new one; zeros like the variable if None.
            name: full name of a new one; if None, that of the variable and the slot's.
        """
        there = self.get_slot(variable, slot_name)
        if there is not None:
            return there
        if initial_value is None:
            initial_value = _zeros(variable.dtype, variable.array.shape)
        slot = Variable(initial_value, name=name or f"{variable.full_name}/{slot_name}")
        resume_slot(self, variable, slot_name, slot)
        self._slots().setdefault(slot_name, {})[variable] = slot
        return slot

    def create_slot(
        self, variable: Variable, slot_name: str, dtype: Any, shape: tuple[int, ...]
    ) -> Variable:
        """Make a slot variable for a value that is being restored.

        Args:
            variable: the variable that it belongs to.
            slot_name: which of its slots.
            dtype: of the value.
            shape: of the value.
        """
        return self.add_slot(variable, slot_name, _zeros(as_dtype(dtype), shape))

    def get_slot(self, variable: Variable, slot_name: str) -> Variable | None:
        """Return a slot variable; None if there is none.

        Args:
            variable: the variable that it belongs to.
            slot_name: which of its slots.
        """
        return self._slots().get(slot_name, {}).get(variable)

    def get_slot_names(self) -> list[str]:
        """Return the names of slots in the order of their first use."""
        return list(self._slots())

    def _slots(self) -> dict[str, dict[Variable, Variable]]:
        slots: dict[str, dict[Variable, Variable]] = self.__dict__.setdefault(_SLOTS, {})
        return slots


def _zeros(dtype: Any, shape: tuple[int, ...]) -> Any:
    if dtype == STRING:
        return np.full(shape, b"", dtype=object)
    return np.zeros(shape, dtype.numpy_dtype)
