"""TensorFlow's checkpoint system and ours under the same names: a program runs with either."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ckpttool import train


def ours() -> Any:
    return train


def theirs(tf: Any) -> Any:
    """What TensorFlow lacks of the names is made of what its objects do underneath."""
    from tensorflow.python.trackable.data_structures import NoDependency as Untracked

    class Slots(tf.Module):  # type: ignore[misc]
        def _of(self) -> dict[str, dict[int, Any]]:
            if "_kept" not in self.__dict__:
                self._kept = Untracked({})
            kept: dict[str, dict[int, Any]] = self._kept
            return kept

        def add_slot(
            self, variable: Any, slot_name: str, initial_value: Any = None, name: Any = None
        ) -> Any:
            there = self.get_slot(variable, slot_name)
            if there is not None:
                return there
            if initial_value is None:
                initial_value = tf.zeros_like(variable)
            full_name = name or f"{variable._shared_name}/{slot_name}"
            slot = tf.Variable(initial_value, name=full_name, trainable=False)
            self._restore_slot_variable(
                slot_name=slot_name, variable=variable, slot_variable=slot
            ) if hasattr(self, "_restore_slot_variable") else None
            self._of().setdefault(slot_name, {})[id(variable)] = slot
            return slot

        def get_slot(self, variable: Any, slot_name: str) -> Any:
            return self._of().get(slot_name, {}).get(id(variable))

        def get_slot_names(self) -> list[str]:
            return list(self._of())

        def _create_or_restore_slot_variable(
            self,
            slot_variable_position: Any,
            slot_name: str,
            variable: Any,
        ) -> Any:
            slot = self.get_slot(variable, slot_name)
            if slot is None:
                value = slot_variable_position.value_tensors()["VARIABLE_VALUE"]
                slot = self.add_slot(variable, slot_name, tf.zeros(value.shape, value.dtype))
            return slot

    class Tensors(tf.Module):  # type: ignore[misc]
        def _serialize_to_tensors(self) -> dict[str, Any]:
            return {name: tf.constant(value) for name, value in self.to_tensors().items()}

        def _restore_from_tensors(self, tensors: dict[str, Any]) -> None:
            self.from_tensors({name: value.numpy() for name, value in tensors.items()})

    return SimpleNamespace(
        Checkpoint=tf.train.Checkpoint,
        CheckpointOptions=tf.train.CheckpointOptions,
        Module=tf.Module,
        NoDependency=Untracked,
        PythonState=tf.train.experimental.PythonState,
        SlotOwner=Slots,
        TensorState=Tensors,
        Variable=tf.Variable,
    )
