"""Variables in the memory of other libraries' arrays."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ckpttool.train.variable import Variable


class Exported:
    """An array of another library, which gives its memory through DLPack of today."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **how: Any) -> Any:
        return self.array.__dlpack__(**how)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


class Older(Exported):
    """Through the first version of DLPack, whose memory NumPy takes read-only."""

    def __dlpack__(self) -> Any:  # type: ignore[override]
        return self.array.__dlpack__()


class Parameter(Older):
    """As PyTorch's: it must be detached first, and `__array__` shares its memory."""

    def detach(self) -> Any:
        return Detached(self.array)

    def __dlpack__(self) -> Any:  # type: ignore[override]
        raise RuntimeError("requires grad")


class Detached(Older):
    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.array


class Copying:
    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.zeros(3)


@pytest.mark.parametrize("kind", [lambda a: a, Exported, Parameter, Detached])
def test_memory_is_shared(kind: Any) -> None:
    array = np.arange(3.0)
    variable = Variable(kind(array), name="v", copy=False)
    variable.assign([7.0, 8.0, 9.0])
    assert array.tolist() == [7.0, 8.0, 9.0] and variable.dtype.name == "float64"


def test_bfloat16_and_views() -> None:
    array = np.zeros((4, 4), ml_dtypes.bfloat16)
    Variable(array.T[1:], copy=False).assign(np.ones((3, 4)))
    assert array.astype(float).sum() == 12 and array[:, 0].astype(float).sum() == 0
    assert Variable(Detached(array), copy=False).dtype.name == "bfloat16"


def frozen() -> Any:
    array = np.zeros(3)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("value", [frozen(), Exported(frozen()), Older(np.zeros(3)), Copying()])
def test_memory_that_cannot_be_written_to(value: Any) -> None:
    with pytest.raises(ValueError, match=r"cannot be written to; track\(…, convert=\)"):
        Variable(value, copy=False)


def test_memory_that_is_not_as_stored() -> None:
    for value, dtype in [
        (np.zeros(3), "float32"),
        (np.zeros(3, ">f4"), None),
        (np.array(["a"]), None),
    ]:
        with pytest.raises(ValueError, match="cannot be used"):
            Variable(value, dtype=dtype, copy=False)
    with pytest.raises(TypeError, match="list gives NumPy no memory"):
        Variable([1.0], copy=False)
    copied = Variable(array := np.zeros(3))
    copied.assign([1, 1, 1])
    assert array.sum() == 0
