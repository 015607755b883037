from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

from ckpttool.errors import CkptError, CorruptError, UnsupportedError
from ckpttool.interchange.npy import NpyHeader, parse_npy
from tests.support.arrays import described, npy_bytes

Array = np.ndarray[Any, np.dtype[Any]]


def header_of(array: Array) -> NpyHeader:
    file = io.BytesIO()
    np.save(file, array)
    data = file.getvalue()
    found = parse_npy(data)
    if found.width:
        assert found.size == len(data) - found.data_start
    return found


@pytest.mark.parametrize(
    "code", ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]
)
@pytest.mark.parametrize("order", "<>")
def test_numbers(code: str, order: str) -> None:
    dtype = np.dtype(order + code)
    found = header_of(np.zeros((2, 3), dtype))
    assert found.dtype.name == dtype.name
    assert (found.shape, found.width) == ((2, 3), dtype.itemsize)
    assert found.big_endian == (dtype.byteorder == ">")
    assert not (found.fortran or found.characters or found.unreadable)


def test_shapes_orders_and_text() -> None:
    assert header_of(np.zeros(())).shape == ()
    assert header_of(np.zeros(7)).shape == (7,)
    assert header_of(np.zeros((0, 4))).shape == (0, 4)
    assert header_of(np.zeros((2, 3), order="F")).fortran
    text = header_of(np.array(["abc", "d"]))
    assert (text.dtype.name, text.width, text.characters) == ("string", 12, 4)
    text = header_of(np.array([b"abc", b"d"]))
    assert (text.dtype.name, text.width, text.characters) == ("string", 3, 1)


@pytest.mark.parametrize(
    ("array", "name", "why"),
    [
        (np.array([{}], object), "unknown(object)", "pickles are never opened"),
        (np.zeros(1, "M8[ns]"), "unknown(<M8[ns])", "no dtype for NumPy's <M8"),
        (np.zeros(1, "V2"), "unknown(|V2)", "did not record what its elements are"),
    ],
)
def test_what_tensorflow_does_not_have(array: Array, name: str, why: str) -> None:
    found = header_of(array)
    assert (found.dtype.name, found.dtype.known) == (name, False)
    assert why in found.unreadable


def test_structures_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="structures"):
        header_of(np.zeros(1, [("a", "i4"), ("b", "f4")]))


@pytest.mark.parametrize(
    "text",
    [
        '{"descr": "<f4", "fortran_order": False, "shape": (3,)}',
        "{'shape':(3,),'fortran_order':False,'descr':'<f4'}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3L,), }",
        "  {'descr': '<f4', 'fortran_order': False, 'shape': (3,), }      \n",
    ],
)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_other_writers(text: str, version: int) -> None:
    found = parse_npy(npy_bytes(text, version=version))
    assert (found.dtype.name, found.shape) == ("float32", (3,))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "does not begin as one"),
        (b"\x93NUMPY", "version none"),
        (b"\x93NUMPY\x04\0\0\0", "version 4.0"),
        (b"\x93NUMPY\x01\0\xff\xff", "65535 bytes is more than 10000"),
        (b"\x93NUMPY\x02\0\xff\xff\xff\xff", "4294967295 bytes is more than"),
        (b"\x93NUMPY\x01\0\x20\0{", "goes beyond the end"),
        (b"\x93NUMPY\x03\0\x01\0\0\0\xff", "not UTF-8"),
        (npy_bytes(""), "'{' is expected"),
        (npy_bytes("[]"), "'{' is expected"),
        (npy_bytes("{}"), "lacks a dtype"),
        (npy_bytes(described("<f4", "(3,)") + "x"), "not one that NumPy writes"),
        (npy_bytes(described("<f4", "(3,)")[:-4]), "not one that NumPy writes"),
        (npy_bytes("{'descr': '<f4', 'descr': '<f8', 'shape': (3,), }"), "'descr' twice"),
        (npy_bytes("{'descr': '<f4', 'fortran_order': 0, 'shape': (3,), }"), "NumPy writes"),
        (npy_bytes(described("<f4", "(-3,)")), "NumPy writes"),
        (npy_bytes(described("<f4", "(3)")), "no tuple"),
        (npy_bytes(described("<f4", "(3,,4)")), "lacks a dtype, an order or a shape"),
        (npy_bytes(described("<f4", "(%s,)" % ("9" * 30))), "too many digits"),
        (npy_bytes(described("<f4", "(4294967296, 4294967296)")), "more elements than any file"),
        (npy_bytes(described("<f4", str((1,) * 300))), "300 dimensions"),
        (npy_bytes(described("float32", "(3,)")), "'float32' in the header is none"),
        (npy_bytes(described("__import__", "()")), "none of NumPy's"),
        (npy_bytes("{'descr': " + "(" * 5000), "NumPy writes"),
        (npy_bytes("{'shape': (" + "1," * 4000), "NumPy writes"),
        (npy_bytes("{'shape': (" + " " * 9000), "NumPy writes"),
    ],
)
def test_broken_headers(data: bytes, message: str) -> None:
    with pytest.raises(CkptError, match=message) as caught:
        parse_npy(data)
    assert isinstance(caught.value, CorruptError | UnsupportedError)
    assert caught.value.offset is not None
