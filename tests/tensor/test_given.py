"""Values that are given for a tensor: exact, or rounded, or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ckpttool.errors import InvalidTensorError, SurgeryError
from ckpttool.tensor.dtypes import dtype_of_name
from ckpttool.tensor.given import array_chunks, given_array


def given(value: Any, name: str, shape: tuple[int, ...]) -> list[Any]:
    """Return the stored elements."""
    dtype = dtype_of_name(name)
    array = given_array(value, dtype, shape)
    data = b"".join(map(bytes, array_chunks(array, dtype, shape)))
    found: list[Any] = np.frombuffer(data, dtype.numpy_dtype).reshape(shape).tolist()
    return found


@pytest.mark.parametrize(
    ("value", "name", "shape", "expected"),
    [
        (3, "float32", (2, 2), [[3, 3], [3, 3]]),
        (0.1, "float32", (), float(np.float32(0.1))),
        ([1, 2.5], "bfloat16", (2,), [1, 2.5]),
        ([[1], [2]], "int64", (2, 1), [[1], [2]]),
        (1e3, "int16", (1,), [1000]),
        (2**64 - 1, "uint64", (), 2**64 - 1),
        (-8, "int4", (3,), [-8] * 3),
        (True, "bool", (2,), [True, True]),
        ([0, 1], "bool", (2,), [False, True]),
        (1 + 2j, "complex64", (1,), [1 + 2j]),
        (2**53, "complex128", (), 2**53),
        (float("inf"), "float8_e5m2", (1,), [float("inf")]),
        (-5, "qint8", (2,), [(-5,), (-5,)]),
        (np.arange(3), "float16", (3,), [0, 1, 2]),
        (np.array([0.1]), "float32", (1,), [float(np.float32(0.1))]),
        ([], "float32", (0,), []),
        (7, "float32", (0, 4), []),
        (np.float64(2), "int8", (), 2),
    ],
)
def test_what_is_stored(value: Any, name: str, shape: tuple[int, ...], expected: Any) -> None:
    assert given(value, name, shape) == expected


@pytest.mark.parametrize(
    ("value", "name", "message"),
    [
        (16777217, "float32", "16777217 is not exact in float32; 16777217.0 would be rounded"),
        (2**53 + 1, "float64", "is not exact in float64"),
        (np.array(2**53 + 1), "float64", "is not exact in float64"),
        (257, "bfloat16", "257 is not exact in bfloat16"),
        (10**400, "float64", "is out of the range of float64"),
        (1e39, "float32", "1e+39, out of the range of float32"),
        (128, "int8", "128 is out of the range of int8"),
        (-1, "uint64", "-1 is out of the range of uint64"),
        (2**64, "uint64", "is out of the range of uint64"),
        (0.5, "int32", "0.5, not a whole number"),
        (float("nan"), "int32", "nan, which int32 does not have"),
        (float("inf"), "float8_e4m3fn", "inf, out of the range of float8_e4m3fn"),
        (True, "int32", "the tensor is int32, and true is not"),
        (2, "bool", "the tensor is bool, and 2 is not"),
        (1j, "float32", "the tensor is float32, and 1j is not"),
        ("1", "float32", "the tensor is float32, and '1' is not"),
        (None, "float32", "the tensor is float32, and None is not"),
        ([1, 2], "float32", "the value has shape [2], not [1]"),
        ([[1], [2, 3]], "float32", "lists have different lengths"),
        (np.array(["x"]), "float32", "the value is string, and the tensor float32"),
        (np.array([1.5]), "int32", "1.5, not a whole number"),
        ({"a": 1}, "float32", "dict"),
    ],
)
def test_what_is_refused(value: Any, name: str, message: str) -> None:
    with pytest.raises(SurgeryError) as raised:
        given_array(value, dtype_of_name(name), (1,))
    assert message in raised.value.message


def test_strings() -> None:
    dtype = dtype_of_name("string")
    assert given_array("text", dtype, (2,))[()] == "text"
    mixed: Any = [b"a", "é"]
    assert given_array(mixed, dtype, (2,)).tolist() == [b"a", "é"]
    assert given_array(np.array(["ab"]), dtype, (1,)).tolist() == ["ab"]
    assert (
        b"".join(map(bytes, array_chunks(given_array("x", dtype, (2,)), dtype, (2,))))[-2:] == b"xx"
    )
    refused: list[Any] = [3, [1, "a"]]
    for value in refused:
        with pytest.raises(InvalidTensorError, match="a string tensor cannot hold int"):
            given_array(value, dtype, (2,))


def test_a_scalar_fills_a_large_tensor_piece_by_piece() -> None:
    dtype = dtype_of_name("float64")
    pieces = list(array_chunks(given_array(2, dtype, (300_001,)), dtype, (300_001,)))
    assert [len(each) for each in pieces] == [1 << 20, 1 << 20, 8 * 300_001 - (1 << 21)]
