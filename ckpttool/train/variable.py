"""An array with a name, which is saved and restored in place."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ckpttool.checkpoint.fitting import OpenShape, ValueSpec, shape_fits
from ckpttool.objects.keys import VARIABLE_VALUE
from ckpttool.tensor.dtypes import STRING, DType, dtype_of_array
from ckpttool.train.adoption import adopted
from ckpttool.train.initial import as_dtype, initial_array
from ckpttool.train.trackable import Trackable

if TYPE_CHECKING:
    from ckpttool.tensor.values import Array

_NO_EDGES: Mapping[str, Trackable] = MappingProxyType({})


class Variable(Trackable):
    """An array that keeps its buffer, dtype and shape; restoring writes into it.

    Args:
        initial_value: anything that NumPy makes an array of, or a function that returns it.
            Python's floats become float32, its integers int32, or int64 if one does not fit; text
            becomes bytes. Arrays keep their dtype.
        trainable: for the program's own use.
        name: its name in the checkpoint; need not be unique.
        dtype: convert the value to it: TensorFlow's name of a dtype, or NumPy's.
        shape: None in it lets that dimension have any length, now and later.
        copy: False to use the memory of the value itself: of an array of NumPy, or of one of any
            library that gives it through DLPack or `__array__`, such as a parameter of PyTorch.
            Restoring writes there.

    Raises:
        TypeError: the value does not go with the dtype.
        ValueError: it does not go with the shape, or has no memory that can be used.
    """

    def __init__(
        self,
        initial_value: Any,
        trainable: bool = True,
        name: str | None = None,
        dtype: Any = None,
        shape: Any = None,
        *,
        copy: bool = True,
    ) -> None:
        if initial_value is None:
            raise ValueError("a variable needs an initial value")
        if callable(initial_value):
            initial_value = initial_value()
        wanted = None if dtype is None else as_dtype(dtype)
        if copy:
            array, self._dtype = initial_array(initial_value, wanted)
            array = np.array(array, order="C")
        else:
            array = adopted(initial_value)
            self._dtype = _dtype_as_it_is(array, wanted)
        self._array = array
        self._shape: OpenShape = array.shape if shape is None else tuple(shape)
        if not shape_fits(self._shape, array.shape):
            raise ValueError(
                f"the value has shape {list(array.shape)}, not {_shape_text(self._shape)}"
            )
        self._handle_name = "Variable" if name is None else name.removesuffix("/")
        self._trainable = trainable

    @property
    def array(self) -> Array:
        """The live buffer: writing to it changes the variable, restoring writes to it."""
        return self._array

    @property
    def name(self) -> str:
        """The name as TensorFlow spells it, such as "w:0"."""
        return self._handle_name + ":0"

    @property
    def full_name(self) -> str:
        """The name in a checkpoint."""
        return self._handle_name.partition(":")[0]

    @property
    def trainable(self) -> bool:
        """As given."""
        return self._trainable

    @property
    def dtype(self) -> DType:
        """The dtype; it has `name` and `as_numpy_dtype`."""
        return self._dtype

    @property
    def shape(self) -> OpenShape:
        """The shape; None stands for any length."""
        return self._shape

    def numpy(self) -> Any:
        """Return a copy of the value, a scalar for rank 0."""
        return self._array.copy()[()]

    def assign(self, value: Any) -> Variable:
        """Replace the value, in place.

        Args:
            value: anything of the variable's shape, of a dtype that can be cast.

        Raises:
            TypeError: a Python value does not go with the dtype.
            ValueError: the shape is another.
        """
        array, _ = initial_array(value, self._dtype)
        self._put(array)
        return self

    def assign_add(self, delta: Any) -> Variable:
        """Add to the value, in place.

        Args:
            delta: of the variable's shape.

        Raises:
            TypeError, ValueError: as of `assign`.
        """
        np.add(self._array, self._operand(delta), out=self._array)
        return self

    def assign_sub(self, delta: Any) -> Variable:
        """Subtract from the value, in place.

        Args:
            delta: of the variable's shape.

        Raises:
            TypeError, ValueError: as of `assign`.
        """
        np.subtract(self._array, self._operand(delta), out=self._array)
        return self

    def _operand(self, delta: Any) -> Array:
        if self._dtype == STRING:
            raise TypeError("a string variable has no sum")
        array, _ = initial_array(delta, self._dtype)
        if array.shape != self._array.shape:
            raise self._mismatch(array.shape)
        return array

    def _put(self, array: Array) -> None:
        if array.shape == self._array.shape:
            self._array[...] = array
        elif shape_fits(self._shape, array.shape):
            self._array = np.array(array, order="C")
        else:
            raise self._mismatch(array.shape)

    def _mismatch(self, shape: tuple[int, ...]) -> ValueError:
        return ValueError(
            f"variable '{self._handle_name}' has shape {_shape_text(self._shape)}, "
            f"the value {list(shape)}"
        )

    @property
    def _trackable_full_name(self) -> str:
        return self.full_name

    def _trackable_edges(self) -> Mapping[str, Trackable]:
        return _NO_EDGES  # without the state that an object with edges has

    def _trackable_values(self) -> Mapping[str, ValueSpec]:
        return {VARIABLE_VALUE: ValueSpec(self._dtype, self._shape)}

    def _trackable_read(self) -> Mapping[str, Array]:
        return {VARIABLE_VALUE: self._array}

    def _trackable_assign(self, values: Mapping[str, Array]) -> None:
        self._put(values[VARIABLE_VALUE])

    def _trackable_buffer(self, name: str) -> Array | None:
        flags = self._array.flags
        plain = flags.c_contiguous and flags.writeable and not self._array.dtype.hasobject
        return self._array if plain else None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if dtype is not None and np.dtype(dtype) != self._array.dtype:
            if copy is False:
                raise ValueError(f"{self._dtype} becomes {np.dtype(dtype)} only in a copy")
            return self._array.astype(dtype)
        return self._array if copy is False else self._array.copy()

    def __bool__(self) -> bool:
        return bool(self._array)

    def __int__(self) -> int:
        return int(self._array)

    def __float__(self) -> float:
        return float(self._array)

    def __index__(self) -> int:
        return self._array.__index__()

    def __repr__(self) -> str:
        return (
            f"<Variable {self.name!r} shape={_shape_text(self._shape)} dtype={self._dtype} "
            f"value={np.array2string(self._array, threshold=20)}>"
        )


def _dtype_as_it_is(array: Array, wanted: DType | None) -> DType:
    found = dtype_of_array(array)
    if wanted not in (None, found) or array.dtype != found.numpy_dtype:
        raise ValueError(f"memory of NumPy's {array.dtype} cannot be used for {wanted or found}")
    return found


def _shape_text(shape: OpenShape) -> str:
    return str(list(shape))
