"""Means, against NumPy's in float64."""

from __future__ import annotations

import numpy as np
import pytest

from ckpttool.tensor.casting import rounded, sort_of
from ckpttool.tensor.dtypes import DTYPES, DType, dtype_of_name
from ckpttool.tensor.mean import Mean
from ckpttool.tensor.values import Array

FLOATS = [each for each in DTYPES.values() if sort_of(each) in ("float", "complex")]


def mean(dtype: DType, *arrays: Array, weights: tuple[float, ...] | None = None) -> Array:
    pieces = [np.ascontiguousarray(each).view(np.uint8).data for each in arrays]
    return np.frombuffer(bytes(Mean(dtype, weights).piece(pieces)), dtype.numpy_dtype)


def parts(array: Array) -> Array:
    """Return numbers, those of complex ones by themselves, as float64."""
    if array.dtype.kind == "c":
        array = array.view(array.real.dtype)
    return array.astype(np.float64)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_sums_are_float64_and_rounded_once(dtype: DType) -> None:
    random = np.random.default_rng(5)
    arrays = [random.normal(size=64).astype(dtype.numpy_dtype) for _ in range(3)]
    with np.errstate(all="ignore"):
        wide = (parts(arrays[0]) + parts(arrays[1]) + parts(arrays[2])) / 3
        weighted = (parts(arrays[0]) + 2 * parts(arrays[1]) + 5 * parts(arrays[2])) / 8
    half = {"complex64": "float32", "complex128": "float64"}.get(dtype.name, dtype.name)
    expected = rounded(wide, dtype_of_name(half))
    assert mean(dtype, *arrays).tobytes() == expected.tobytes()
    found = mean(dtype, *arrays, weights=(1, 2, 5))
    assert np.allclose(parts(found), rounded(weighted, dtype_of_name(half)).astype(float), 1e-12)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("weights", [None, (0.1, 0.7, 3.0)])
def test_the_mean_of_equal_elements_is_the_element(
    dtype: DType, weights: tuple[float, ...] | None
) -> None:
    """Each bit, whatever the element is: NaN with what it carries, infinities, -0, the largest."""
    count = 1 << 16
    raw = np.random.default_rng(3).integers(0, 256, count, np.uint8)
    if dtype.name.startswith("float4"):
        raw &= 15
    value = raw.view(dtype.numpy_dtype)
    assert mean(dtype, value, value, value, weights=weights).tobytes() == raw.tobytes()


def test_large_numbers_do_not_overflow() -> None:
    large = np.finfo(np.float64).max
    one, other = np.array([large, large, -large]), np.array([large / 2, large, large])
    found = mean(dtype_of_name("float64"), one, other, one)
    assert found[0] == pytest.approx(large / 1.2)
    assert found.tolist()[1:] == [large, pytest.approx(-large / 3)]
    found = mean(dtype_of_name("float64"), one, other, weights=(1e300, 1e300))
    assert found.tolist() == [pytest.approx(0.75 * large), large, 0]


def test_infinities_and_nan() -> None:
    one = np.array([np.inf, np.inf, np.nan, 1], np.float32)
    other = np.array([1, -np.inf, 1, 2], np.float32)
    found = mean(dtype_of_name("float32"), one, other)
    assert found[0] == np.inf
    assert np.isnan(found[1:3]).all()
    assert found[3] == 1.5
