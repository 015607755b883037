"""The dtypes of TensorFlow: number in files, name, size, NumPy counterpart."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class DType:
    """A dtype.

    Attributes:
        number: the value of the DataType enum that files hold.
        name: TensorFlow's name, such as "float32".
        size: bytes per element in a file; None for dtypes whose elements vary in size and for
            numbers that are not known.
        joinable: whether TensorFlow can assemble a tensor of this dtype from several slices.
    """

    number: int
    name: str
    size: int | None
    joinable: bool = False

    @property
    def known(self) -> bool:
        """Whether tensors of this dtype can be in a checkpoint and be read."""
        return self.size is not None or self.number in (STRING.number, VARIANT.number)

    @property
    def as_numpy_dtype(self) -> Any:
        """As `tf.DType.as_numpy_dtype`: a scalar type, `object`, or a structure's dtype."""
        dtype = self.numpy_dtype
        if dtype.hasobject:
            return object
        return dtype if dtype.names else dtype.type

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of arrays of this dtype, as TensorFlow has it.

        Strings, variants and resources are objects; quantised dtypes are structures of one field;
        what NumPy lacks comes from ml_dtypes.

        Raises:
            TypeError: the dtype is not known.
        """
        import numpy as np

        if self.name.startswith(("qint", "quint")):
            return np.dtype([(self.name, self.name[1:])])
        if self.size is None:
            if self.name.startswith("unknown"):
                raise TypeError(f"no NumPy dtype for {self.name}")
            return np.dtype(object)
        if self.name.startswith(_ML_DTYPES):
            import ml_dtypes

            extension: np.dtype[Any] = np.dtype(getattr(ml_dtypes, self.name))
            return extension
        return np.dtype(self.name)

    def __str__(self) -> str:
        return self.name


_ML_DTYPES = ("bfloat16", "float8", "float4", "int4", "uint4", "int2", "uint2")

STRING = DType(7, "string", None)
INT64 = DType(9, "int64", 8, joinable=True)
VARIANT = DType(21, "variant", None)

_ALL = (
    DType(1, "float32", 4, joinable=True),
    DType(2, "float64", 8, joinable=True),
    DType(3, "int32", 4, joinable=True),
    DType(4, "uint8", 1, joinable=True),
    DType(5, "int16", 2, joinable=True),
    DType(6, "int8", 1, joinable=True),
    STRING,
    DType(8, "complex64", 8, joinable=True),
    INT64,
    DType(10, "bool", 1, joinable=True),
    DType(11, "qint8", 1, joinable=True),
    DType(12, "quint8", 1, joinable=True),
    DType(13, "qint32", 4, joinable=True),
    DType(14, "bfloat16", 2, joinable=True),
    DType(15, "qint16", 2),
    DType(16, "quint16", 2),
    DType(17, "uint16", 2),
    DType(18, "complex128", 16, joinable=True),
    DType(19, "float16", 2),
    DType(20, "resource", None),
    VARIANT,
    DType(22, "uint32", 4),
    DType(23, "uint64", 8),
    DType(24, "float8_e5m2", 1),
    DType(25, "float8_e4m3fn", 1),
    DType(26, "float8_e4m3fnuz", 1),
    DType(27, "float8_e4m3b11fnuz", 1),
    DType(28, "float8_e5m2fnuz", 1),
    # These are not packed: one byte an element, the value in its low bits.
    DType(29, "int4", 1, joinable=True),
    DType(30, "uint4", 1, joinable=True),
    DType(31, "int2", 1),
    DType(32, "uint2", 1),
    DType(33, "float4_e2m1fn", 1),
)
# A graph adds this to the number of a dtype for references to variables.
REFERENCE = 100
DTYPES: dict[int, DType] = {dtype.number: dtype for dtype in _ALL}
_BY_NAME = {dtype.name: dtype for dtype in _ALL}


def dtype_of_number(number: int) -> DType:
    """Return the dtype for a DataType number; one that is not known keeps its number as name."""
    return DTYPES.get(number) or DType(number, f"unknown({number})", None)


def dtype_of_name(name: str) -> DType:
    """Return the dtype with TensorFlow's name for it.

    Raises:
        KeyError: there is none.
    """
    return _BY_NAME[name]


def dtype_of_array(array: np.ndarray[Any, Any]) -> DType:
    """Return the dtype under which an array is stored.

    Text and byte strings, also as objects, are "string"; a structure with one field that has the
    name of a quantised dtype is that dtype.

    Raises:
        TypeError: no dtype of TensorFlow fits.
    """
    dtype = array.dtype
    if dtype.kind in "SUT":
        return STRING
    if dtype.kind == "O":
        from ckpttool.tensor.variants import VariantElement

        variant = array.size and all(isinstance(item, VariantElement) for item in array.flat)
        return VARIANT if variant else STRING
    return _dtype_of_numbers(dtype)


@lru_cache(maxsize=256)  # the name of a NumPy dtype is put together anew each time
def _dtype_of_numbers(dtype: np.dtype[Any]) -> DType:
    found = _BY_NAME.get(dtype.names[0] if dtype.names else dtype.name)
    if found is None or found.size is None or (dtype.names and found.numpy_dtype != dtype):
        raise TypeError(f"no TensorFlow dtype for NumPy's {dtype}")
    return found
