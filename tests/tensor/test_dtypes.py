from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ckpttool.tensor.dtypes import (
    DTYPES,
    DType,
    dtype_of_array,
    dtype_of_name,
    dtype_of_number,
)
from ckpttool.tensor.values import Array, object_array
from ckpttool.tensor.variants import VariantElement

# (number, name, bytes, TensorFlow joins slices): what TensorFlow 2.21 does.
FACTS = [
    (1, "float32", 4, True),
    (2, "float64", 8, True),
    (3, "int32", 4, True),
    (4, "uint8", 1, True),
    (5, "int16", 2, True),
    (6, "int8", 1, True),
    (7, "string", None, False),
    (8, "complex64", 8, True),
    (9, "int64", 8, True),
    (10, "bool", 1, True),
    (11, "qint8", 1, True),
    (12, "quint8", 1, True),
    (13, "qint32", 4, True),
    (14, "bfloat16", 2, True),
    (15, "qint16", 2, False),
    (16, "quint16", 2, False),
    (17, "uint16", 2, False),
    (18, "complex128", 16, True),
    (19, "float16", 2, False),
    (20, "resource", None, False),
    (21, "variant", None, False),
    (22, "uint32", 4, False),
    (23, "uint64", 8, False),
    (24, "float8_e5m2", 1, False),
    (25, "float8_e4m3fn", 1, False),
    (26, "float8_e4m3fnuz", 1, False),
    (27, "float8_e4m3b11fnuz", 1, False),
    (28, "float8_e5m2fnuz", 1, False),
    (29, "int4", 1, True),
    (30, "uint4", 1, True),
    (31, "int2", 1, False),
    (32, "uint2", 1, False),
    (33, "float4_e2m1fn", 1, False),
]
SIZED = [row[:3] for row in FACTS if row[2] is not None]


@pytest.mark.parametrize(("number", "name", "size", "joinable"), FACTS, ids=[r[1] for r in FACTS])
def test_facts(number: int, name: str, size: int | None, joinable: bool) -> None:
    dtype = dtype_of_number(number)
    assert (dtype.number, dtype.name, dtype.size, dtype.joinable) == (number, name, size, joinable)
    assert dtype_of_name(name) is dtype
    assert str(dtype) == name
    assert dtype.known == (name != "resource")


def test_there_are_no_others() -> None:
    assert sorted(DTYPES) == [row[0] for row in FACTS]


@pytest.mark.parametrize("number", [0, 34, 99, 101, 120, -1, 2**31, 2**63 - 1])
def test_a_number_that_is_not_known(number: int) -> None:
    dtype = dtype_of_number(number)
    assert dtype == DType(number, f"unknown({number})", None)
    assert not dtype.known
    with pytest.raises(TypeError, match="unknown"):
        dtype.numpy_dtype  # noqa: B018


@pytest.mark.parametrize("name", ["", "half", "float", "unknown(99)", "FLOAT32"])
def test_a_name_that_is_not_known(name: str) -> None:
    with pytest.raises(KeyError):
        dtype_of_name(name)


@pytest.mark.parametrize(("number", "name", "size"), SIZED, ids=[row[1] for row in SIZED])
def test_numpy_and_back(number: int, name: str, size: int) -> None:
    numpy_dtype = dtype_of_number(number).numpy_dtype
    assert numpy_dtype.itemsize == size
    assert dtype_of_array(np.zeros((2, 3), numpy_dtype)).name == name
    assert dtype_of_array(np.zeros((), numpy_dtype)).name == name
    assert dtype_of_array(np.zeros((0, 3), numpy_dtype)).name == name


@pytest.mark.parametrize("name", ["qint8", "quint8", "qint16", "quint16", "qint32"])
def test_quantised_dtypes_are_structures_of_one_field(name: str) -> None:
    assert dtype_of_name(name).numpy_dtype == np.dtype([(name, name[1:])])


@pytest.mark.parametrize("name", ["string", "variant", "resource"])
def test_elements_of_any_size_are_objects(name: str) -> None:
    assert dtype_of_name(name).numpy_dtype == np.dtype(object)


@pytest.mark.parametrize(
    ("array", "name"),
    [
        (np.array(["text"]), "string"),
        (np.array([b"bytes"]), "string"),
        (np.array(["text", b"bytes"], dtype=object), "string"),
        (np.empty(0, dtype=object), "string"),
        (np.zeros(2, ">f4"), "float32"),
        (np.zeros(2, ">c16"), "complex128"),
        (np.zeros(2, "<i8"), "int64"),
        (np.zeros(2, ml_dtypes.bfloat16), "bfloat16"),
        (object_array([VariantElement(b"")], ()), "variant"),
        (object_array([VariantElement(b""), VariantElement(b"x")], (1, 2)), "variant"),
        (object_array([VariantElement(b""), b"x"], (2,)), "string"),
    ],
)
def test_dtype_of_an_array(array: Array, name: str) -> None:
    assert dtype_of_array(array).name == name


@pytest.mark.parametrize(
    "numpy_dtype",
    [
        "M8[s]",
        "m8[s]",
        "V4",
        "longdouble",
        "clongdouble",
        [("float32", "f4")],
        [("float32", "i8")],
        [("qint8", "i4")],
        [("qint32", ">i4")],
        [("string", "S3")],
        [("qint8", "i1"), ("more", "i1")],
        [("other", "i1")],
        ml_dtypes.float8_e3m4,
        ml_dtypes.float8_e8m0fnu,
    ],
    ids=str,
)
def test_what_tensorflow_cannot_store(numpy_dtype: Any) -> None:
    with pytest.raises(TypeError, match="no TensorFlow dtype"):
        dtype_of_array(np.zeros(1, numpy_dtype))
