"""State that is no variable: one piece of bytes, or a dict of tensors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ckpttool.checkpoint.fitting import ValueSpec
from ckpttool.errors import InvalidTensorError
from ckpttool.objects.keys import escape, unescape
from ckpttool.tensor.dtypes import STRING, DType
from ckpttool.tensor.values import object_array, string_bytes
from ckpttool.train.initial import initial_array
from ckpttool.train.module import Module
from ckpttool.train.trackable import Trackable

if TYPE_CHECKING:
    from ckpttool.tensor.values import Array

PYTHON_STATE = "py_state"


class PythonState(Trackable, ABC):
    """An object that saves itself as bytes; its attributes are not tracked."""

    _trackable_any_name = True

    @abstractmethod
    def serialize(self) -> bytes | str:
        """Return the state."""

    @abstractmethod
    def deserialize(self, string_value: bytes) -> None:
        """Take a state that `serialize` returned; text comes as UTF-8."""

    def _trackable_values(self) -> Mapping[str, ValueSpec]:
        return {PYTHON_STATE: ValueSpec(STRING, ())}

    def _trackable_read(self) -> Mapping[str, Array]:
        return {PYTHON_STATE: object_array([string_bytes(self.serialize())], ())}

    def _trackable_assign(self, values: Mapping[str, Array]) -> None:
        (value,) = values.values()
        self.deserialize(value.item())


class TensorState(Module, ABC):
    """An object that saves itself as tensors under names of its own, beside its attributes."""

    @abstractmethod
    def to_tensors(self) -> Mapping[str, Any]:
        """Return the state: a value for each name, in the order in which they are saved."""

    @abstractmethod
    def from_tensors(self, tensors: dict[str, Array]) -> None:
        """Take a state: an array for each of the names that `to_tensors` has now."""

    def _trackable_values(self) -> Mapping[str, ValueSpec]:
        return {name: ValueSpec(dtype, None) for name, (_, dtype) in self._tensors().items()}

    def _trackable_read(self) -> Mapping[str, Array]:
        return {name: array for name, (array, _) in self._tensors().items()}

    def _tensors(self) -> dict[str, tuple[Array, DType]]:
        found = {}
        for name, value in self.to_tensors().items():
            try:
                found[escape(name)] = initial_array(value, None)
            except (TypeError, ValueError) as error:
                raise InvalidTensorError(f"'{name}' of to_tensors: {error}") from error
        return found

    def _trackable_assign(self, values: Mapping[str, Array]) -> None:
        self.from_tensors({unescape(name): value for name, value in values.items()})


class experimental:  # noqa: N801 - a name of TensorFlow
    """The names of `tf.train.experimental`."""

    PythonState = PythonState
