"""Variables: the dtypes of values, assignment in place, names."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ckpttool.train.variable import Variable


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (1.0, "float32"),
        (1, "int32"),
        (-(1 << 31), "int32"),
        (1 << 31, "int64"),
        (True, "bool"),
        (1j, "complex128"),
        ("é", "string"),
        (b"a", "string"),
        ([1, 2.5], "float32"),
        ([1, 1 << 40], "int64"),
        ([], "float32"),
        ([[]], "float32"),
        ((1, 2), "int32"),
        (range(3), "int32"),
        (["a", b"b"], "string"),
        (np.float64(1), "float64"),
        ([np.float64(1), 2], "float64"),
        (np.array(["a"]), "string"),
        (np.array([b"a\0b"]), "string"),
        (np.arange(3, dtype=">i4"), "int32"),
        (np.zeros(2, ml_dtypes.bfloat16), "bfloat16"),
        (lambda: 3.0, "float32"),
    ],
    ids=lambda value: "function" if callable(value) else repr(value),  # an address differs per run
)
def test_dtype_of_a_value(value: Any, dtype: str) -> None:
    variable = Variable(value)
    assert variable.dtype.name == dtype
    assert variable.array.dtype == variable.dtype.numpy_dtype


@pytest.mark.parametrize(
    ("value", "dtype", "error", "told"),
    [
        (1 << 63, None, ValueError, "out of range for int64"),
        (300, "uint8", ValueError, "300 is out of range for uint8"),
        (-1, "uint8", ValueError, "out of range for uint8"),
        (8, "int4", ValueError, "8 is out of range for int4"),
        (1e300, None, ValueError, "out of range for float32"),
        ([True, 1], None, ValueError, "different kinds: bool, int"),
        ([1, "a"], None, ValueError, "text and numbers"),
        ([[1], [1, 2]], None, ValueError, "inhomogeneous"),
        (1.5, "int32", TypeError, "a Python float for a variable of int32"),
        (1, "bool", TypeError, "a Python int for a variable of bool"),
        (1j, "float32", TypeError, "complex"),
        ("a", "float32", TypeError, "text for a variable of float32"),
        (1, "string", TypeError, "a Python int for a variable of string"),
        ({"a": 1}, None, ValueError, "dict"),
        (None, None, ValueError, "initial value"),
        (np.zeros(2, "datetime64[s]"), None, TypeError, "datetime64"),
    ],
    ids=repr,
)
def test_values_that_no_variable_takes(
    value: Any, dtype: str | None, error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        Variable(value, dtype=dtype)


@pytest.mark.parametrize(
    ("given", "name", "full_name"),
    [
        (None, "Variable:0", "Variable"),
        ("w", "w:0", "w"),
        ("w:0", "w:0:0", "w"),
        ("a/b/", "a/b:0", "a/b"),
        ("w//", "w/:0", "w/"),
        ("", ":0", ""),
    ],
)
def test_names(given: str | None, name: str, full_name: str) -> None:
    variable = Variable(0.0, name=given)
    assert (variable.name, variable.full_name) == (name, full_name)


def test_assignment_is_in_place() -> None:
    variable = Variable([1.0, 2.0])
    buffer = variable.array
    assert variable.assign([3, 4]).assign_add([1, 1]).assign_sub(np.array([2.0, 0.5])) is variable
    assert variable.array is buffer
    assert buffer.tolist() == [2.0, 4.5]
    before = variable.numpy()
    variable.assign([0, 0])
    assert before.tolist() == [2.0, 4.5]
    for wrong in (3, [3], [[1, 2]]):
        with pytest.raises(ValueError, match=r"has shape \[2\]"):
            variable.assign(wrong)
        with pytest.raises(ValueError, match=r"has shape \[2\]"):
            variable.assign_add(wrong)
    with pytest.raises(TypeError):
        Variable([1]).assign([1.5])


def test_text_becomes_bytes() -> None:
    variable = Variable(["é", b"\xff\0"])
    assert variable.numpy().tolist() == ["é".encode(), b"\xff\0"]
    assert Variable("a").numpy() == b"a"
    with pytest.raises(TypeError, match="no sum"):
        variable.assign_add(["a", "b"])


def test_open_dimensions() -> None:
    variable = Variable(np.zeros((0, 3), "float32"), shape=[None, 3])
    variable.assign(np.ones((4, 3)))
    assert variable.numpy().shape == (4, 3)
    assert variable.shape == (None, 3)
    with pytest.raises(ValueError, match=r"\[None, 3\]"):
        variable.assign(np.ones((4, 2)))
    with pytest.raises(ValueError, match=r"shape \[2\], not \[3\]"):
        Variable([1.0, 2.0], shape=[3])


def test_as_numbers_and_arrays() -> None:
    assert (int(Variable(3.7)), float(Variable(3)), [1, 2, 3][Variable(1)]) == (3, 3.0, 2)
    assert not Variable(0)
    variable = Variable([1.0, 2.0])
    assert np.asarray(variable).tolist() == [1.0, 2.0]
    assert not np.shares_memory(np.asarray(variable), variable.array)
    assert np.asarray(variable, dtype="int64").dtype == "int64"
    assert isinstance(Variable(1.0).numpy(), np.float32)
    assert variable != Variable([1.0, 2.0])
    assert len({variable, variable}) == 1


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (float, "float32"),
        (bool, "bool"),
        (complex, "complex128"),
        (np.float16, "float16"),
        (np.dtype(">i8"), "int64"),
        (ml_dtypes.bfloat16, "bfloat16"),
        ("int4", "int4"),
        (Variable(0, dtype="uint8").dtype, "uint8"),
    ],
)
def test_dtypes_that_are_given(given: Any, name: str) -> None:
    assert Variable(1 if name.startswith(("u", "int")) else True, dtype=given).dtype.name == name
