"""Texts say exactly what is stored, and line up."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ckpttool.query.values.texts import Formatter, nested
from ckpttool.tensor.dtypes import STRING, dtype_of_array
from ckpttool.tensor.values import object_array

Array = np.ndarray[Any, Any]
FLOATS = ("float16", "float32", "float64")
SMALL_FLOATS = (
    "bfloat16",
    "float8_e5m2",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e4m3b11fnuz",
    "float8_e5m2fnuz",
    "float4_e2m1fn",
)


def texts(array: Array, **options: Any) -> list[str]:
    """Return the texts of an array that comes in two blocks."""
    flat = array.reshape(-1)
    blocks = [flat[: len(flat) // 2], flat[len(flat) // 2 :]]
    formatter = Formatter(dtype_of_array(array), lambda: blocks, **options)
    return [text for block in blocks for text in formatter.texts(block)]


@given(hnp.arrays(st.sampled_from(FLOATS), st.integers(0, 20)))
def test_floats_read_back_as_what_they_were(array: Array) -> None:
    found = texts(array)
    assert len({len(text) for text in found}) <= 1
    for text, element in zip(found, array, strict=True):
        again = array.dtype.type(text)
        assert again == element or (np.isnan(again) and np.isnan(element))
        assert np.signbit(again) == np.signbit(element) or np.isnan(element)
        digits = len(Decimal(text.strip()).normalize().as_tuple().digits)
        whole = element == np.trunc(element) and "e" not in text
        if np.isfinite(element) and digits > 1 and not whole:
            # With a digit less it would be another number.
            assert array.dtype.type(f"{float(element):.{digits - 2}e}") != element


@pytest.mark.parametrize("name", SMALL_FLOATS)
def test_small_floats_are_written_as_their_values(name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name))
    count = 1 << (16 if dtype.itemsize == 2 else 4 if name.startswith("float4") else 8)
    array = np.arange(count).astype(f"u{dtype.itemsize}").view(dtype)
    with np.errstate(invalid="ignore"):
        exact = array.astype(np.float64)
    for text, element in zip(texts(array), exact, strict=True):
        assert float(text) == element or np.isnan(element)
        assert np.signbit(float(text)) == np.signbit(element) or np.isnan(element)


@given(
    st.sampled_from(
        ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
    ).flatmap(lambda name: hnp.arrays(name, st.integers(0, 20)))
)
def test_whole_numbers(array: Array) -> None:
    found = texts(array)
    assert [int(text) for text in found] == array.tolist()
    assert len({len(text) for text in found}) <= 1


@given(hnp.arrays(st.sampled_from(["complex64", "complex128"]), st.integers(0, 20)))
def test_complex_numbers(array: Array) -> None:
    found = texts(array)
    assert len({len(text) for text in found}) <= 1
    for text, element in zip(found, array, strict=True):
        number = complex(text.strip())
        for again, part in ((number.real, element.real), (number.imag, element.imag)):
            exact = element.real.dtype.type(again)
            assert exact == part or (np.isnan(exact) and np.isnan(part))


@pytest.mark.parametrize(
    ("array", "wanted"),
    [
        (np.array([0.1, -0.0, 1 / 3, 12.25], np.float32), ["0.1", "-0.", "0.33333334", "12.25"]),
        (np.array([1e-5, np.nan, -np.inf], np.float32), ["1.e-05", "nan", "-inf"]),
        (np.array([1e8, 1.0]), ["1.e+08", "1.e+00"]),
        (np.array([99999999.0, 1e6]), ["99999999.", "1000000."]),
        (np.array([1000.0, 1.0]), ["1000.", "1."]),
        (np.array([1001.0, 1.0]), ["1.001e+03", "1.e+00"]),
        (np.array([0.0, -0.0]), ["0.", "-0."]),
        (np.array([65504.0, -2049.9, 100], np.float16), ["65504.", "-2050.", "100."]),
        (np.array([67108872.0, 16777218], np.float32), ["67108872.", "16777218."]),
        (np.array([67108872 + 67108872j], np.complex64), ["67108872.+67108872.j"]),
        (np.array([2**64 - 1, 0], np.uint64), ["18446744073709551615", "0"]),
        (np.array([True, False]), ["True", "False"]),
        (np.array([-8, 7], ml_dtypes.int4), ["-8", "7"]),
        (np.array([(-7,), (5,)], [("qint8", "i1")]), ["-7", "5"]),
        (np.array([1 / 3], ml_dtypes.bfloat16), ["0.333984375"]),
        (np.array([complex(1, -0.0), complex(np.nan, np.nan)]), ["1.-0.j", "nan+nanj"]),
    ],
)
def test_examples(array: Array, wanted: list[str]) -> None:
    assert [text.strip() for text in texts(array)] == wanted


def test_points_stand_below_each_other() -> None:
    assert texts(np.array([1.5, -10.25, np.nan])) == ["  1.5 ", "-10.25", "   nan"]


@pytest.mark.parametrize(
    ("precision", "wanted"), [(0, ["0.", "12."]), (1, ["0.1", "12.2"]), (9, ["0.123", "12.25"])]
)
def test_precision(precision: int, wanted: list[str]) -> None:
    found = texts(np.array([0.123, 12.25]), precision=precision)
    assert [text.strip() for text in found] == wanted


def strings(*elements: bytes, full: bool = False) -> list[str]:
    array = object_array(list(elements), (len(elements),))
    return list(Formatter(STRING, lambda: [array], full=full).texts(array))


def test_strings() -> None:
    assert strings(b"plain", "grüß 日本".encode(), b"") == ["'plain'", "'grüß 日本'", "''"]
    assert strings(b"it's", b"both ' and \"") == ['"it\'s"', "'both \\' and \"'"]
    assert strings(b"\xff\x00", b"a\\b") == ["b'\\xff\\x00'", "'a\\\\b'"]
    assert strings("\x1b[31m\n‮".encode(), b"") == ["'\\x1b[31m\\n\\u202e'", "''"]


def test_long_strings_are_cut_unless_all_is_wanted() -> None:
    assert strings(b"a" * 2000) == [f"'{'a' * 2000}'"]
    assert strings(b"a" * 2001) == [f"'{'a' * 2000}'… (2,001 bytes)"]
    assert strings(b"a" * 121, b"")[0] == f"'{'a' * 120}'… (121 bytes)"
    assert strings(b"\xff" * 121, b"")[0].endswith("'… (121 bytes)")
    assert strings(b"a" * 5000, b"", full=True)[0] == f"'{'a' * 5000}'"


def test_nested_lists() -> None:
    assert nested(np.array([[1, 2]], np.uint64)) == [[1, 2]]
    assert nested(np.array(0.1, np.float32)) == 0.10000000149011612
    assert nested(np.array([[1 + 2j]], np.complex64)) == [[{"re": 1.0, "im": 2.0}]]
    assert nested(np.array(1 + 2j)) == {"re": 1.0, "im": 2.0}
    assert nested(np.array([(-7,)], [("qint8", "i1")])) == [-7]
    assert nested(np.array([1.5], ml_dtypes.bfloat16)) == [1.5]
    assert nested(np.array([-3], ml_dtypes.int4)) == [-3]
    assert nested(object_array([b"a"], (1, 1))) == [[b"a"]]
    assert nested(np.zeros((2, 0))) == [[], []]
