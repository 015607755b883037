"""Setting tensors to given values; dtype and shape stay."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from ckpttool.errors import CkptError, SelectionError, SurgeryError
from ckpttool.objects.keys import GRAPH_KEY
from ckpttool.surgery.edits.npy_value import NpyValue, read_npy
from ckpttool.surgery.edits.value_text import parse_value
from ckpttool.surgery.plan import Plan, PlannedTensor
from ckpttool.surgery.values import NewValue, ValueAction, ValueSource
from ckpttool.tensor.dtypes import STRING, DType
from ckpttool.tensor.given import array_chunks, given_array
from ckpttool.tensor.shape import Shape

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ckpttool.tensor.values import Array


@dataclass(frozen=True, slots=True)
class TypedValue:
    """A value as it was typed, to be read when the dtype of its tensor is known."""

    text: str


# A path is that of an array in NumPy's format.
Given: TypeAlias = "ArrayLike | TypedValue | os.PathLike[str]"


@dataclass(frozen=True, slots=True, eq=False)
class ArrayValue:
    """A value in memory: an array of the shape, or a scalar that fills it."""

    dtype: DType
    shape: Shape
    array: Array
    action: ValueAction = "set"
    sources: tuple[ValueSource, ...] = ()

    def chunks(self) -> Iterator[memoryview | bytes]:
        """Yield the bytes."""
        yield from array_chunks(self.array, self.dtype, self.shape)


def set_values(plan: Plan, values: Mapping[str, Given]) -> Plan:
    """Return the plan with given values for some tensors.

    Dtype and shape stay: a value has the shape of its tensor, or is a scalar that fills it.
    Integers must be exact; other numbers are rounded to nearest, ties to even, and must be within
    range.

    Args:
        plan: what to start from.
        values: key, object path or variable name -> number, text, list of these, or array.

    Raises:
        MissingKeyError: there is no such tensor.
        SelectionError: a value cannot be read.
        SurgeryError: a value does not fit, or two are for one tensor.
    """
    tensors = {tensor.source_key: tensor for tensor in plan.tensors}
    new: dict[str, NewValue] = {}
    for name, given in values.items():
        key = plan.source.resolve(name)
        if key not in tensors:
            graph = key == GRAPH_KEY and plan.graph is not None
            what = "the object graph is no value to be set" if graph else "the tensor is dropped"
            raise SurgeryError(what, path=plan.source.prefix, key=key)
        refuse_second(plan, tensors[key], taken=key in new)
        try:
            new[key] = _value(tensors[key], given)
        except CkptError as error:
            error.locate(path=plan.source.prefix, key=key)
            raise
    return plan.with_values(new)


def parse_setting(text: str) -> tuple[str, str]:
    r"""Return name and value of `NAME=VALUE`; an equals sign in the name is spelled `\x3d`.

    Raises:
        SelectionError: it is not of that form.
    """
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise SelectionError(f"'{text}' is not NAME=VALUE, such as 'optimizer/learning_rate=1e-4'")
    return name, value


def refuse_second(plan: Plan, tensor: PlannedTensor, *, taken: bool = False) -> None:
    """Refuse a tensor that cannot get a value, or has one already.

    Raises:
        SurgeryError: it has a new value.
        CkptError: its entry is damaged, so that nobody knows dtype and shape.
    """
    if tensor.damage is not None:
        raise tensor.damage
    if taken or tensor.value is not None:
        raise SurgeryError("it gets two new values", path=plan.source.prefix, key=tensor.source_key)


def _value(tensor: PlannedTensor, given: Any) -> NewValue:
    dtype, shape = tensor.dtype, tensor.shape
    if isinstance(given, os.PathLike):
        given = read_npy(os.fspath(given), dtype, shape)
        if isinstance(given, NpyValue):
            return given
    if isinstance(given, TypedValue):
        given = parse_value(given.text, strings=dtype == STRING)
    return ArrayValue(dtype, shape, given_array(given, dtype, shape))
