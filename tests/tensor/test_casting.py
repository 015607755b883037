"""Elements in another dtype: exact where they fit, rounded once, or refused."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from ckpttool.errors import SurgeryError
from ckpttool.tensor.casting import Cast, can_cast, castable_names, rounded, sort_of
from ckpttool.tensor.dtypes import DTYPES, dtype_of_name
from ckpttool.tensor.values import Array


def cast(array: Array, source: str, target: str, *, saturate: bool = False) -> Array:
    """Cast an array in pieces of two elements."""
    made = Cast(dtype_of_name(source), dtype_of_name(target), saturate=saturate)
    raw = array.astype(dtype_of_name(source).numpy_dtype).view(np.uint8).data
    step = 2 * (dtype_of_name(source).size or 1)
    out = b"".join(bytes(made.piece(raw[at : at + step])) for at in range(0, len(raw), step))
    return np.frombuffer(out, dtype_of_name(target).numpy_dtype)


def test_small_numbers_stay_themselves_in_every_dtype() -> None:
    values = np.array([0, 1, 1, 0])
    for source in DTYPES.values():
        for name in castable_names():
            if sort_of(source) is None or not can_cast(source, dtype_of_name(name)):
                continue
            found = cast(values, source.name, name)
            assert found.dtype == dtype_of_name(name).numpy_dtype
            assert found.astype(np.complex128).tolist() == [0, 1, 1, 0], (source, name)


def test_what_cannot_be_cast() -> None:
    for source, target in (
        ("complex64", "float32"),
        ("float32", "bool"),
        ("string", "float32"),
        ("float32", "string"),
        ("qint8", "float32"),
        ("float32", "qint8"),
    ):
        assert not can_cast(dtype_of_name(source), dtype_of_name(target))


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_float64_is_rounded_once_to_nearest_even(name: str) -> None:
    """The middle of two neighbours becomes the even one, what lies beside it the nearer one."""
    numpy_dtype = dtype_of_name(name).numpy_dtype
    bits = np.dtype(f"u{numpy_dtype.itemsize}")
    every = np.arange(1 << 8 * bits.itemsize, dtype=bits).view(numpy_dtype)
    with np.errstate(invalid="ignore"):
        all_values = every.astype(np.float64)
    points = np.unique(all_values[np.isfinite(all_values)])
    middle = (points[1:] + points[:-1]) / 2
    target = dtype_of_name(name)
    assert (rounded(np.nextafter(middle, np.inf), target).astype(float) == points[1:]).all()
    assert (rounded(np.nextafter(middle, -np.inf), target).astype(float) == points[:-1]).all()
    assert not (rounded(middle, target).view(bits) & 1).any()


def test_large_integers_are_rounded_once() -> None:
    half = 2**62 + 2**54  # in the middle of two bfloat16
    for dtype in (np.int64, np.uint64):
        values = np.array([half - 1, half, half + 1], dtype)
        found = rounded(values, dtype_of_name("bfloat16")).astype(np.float64)
        assert found.tolist() == [2.0**62, 2.0**62, 2.0**62 + 2.0**55]
    found = rounded(np.array([-half - 1, -half]), dtype_of_name("bfloat16")).astype(np.float64)
    assert found.tolist() == [-(2.0**62) - 2.0**55, -(2.0**62)]


@pytest.mark.parametrize("name", castable_names())
def test_what_is_out_of_range_is_refused_or_becomes_the_nearest(name: str) -> None:
    target = dtype_of_name(name)
    if target.numpy_dtype.itemsize >= 8 and sort_of(target) != "integer":
        return
    values = np.array([1, 1, 1, 1e300, np.inf])
    with pytest.raises(SurgeryError, match=rf"element 3 is 1e\+300, out of the range of .*{name}"):
        cast(values, "float64", name)
    found = cast(values[:4], "float64", name, saturate=True)
    if sort_of(target) == "integer":
        bits = int(name.lstrip("uint"))
        largest = 2**bits - 1 if name.startswith("u") else 2 ** (bits - 1) - 1
        assert int(found[3]) == largest
        with pytest.raises(SurgeryError, match=r"element 1 is 0\.5, not a whole number"):
            cast(np.array([1, 0.5]), "float64", name, saturate=True)
        with pytest.raises(SurgeryError, match="element 0 is nan, which"):
            cast(np.array([np.nan]), "float32", name, saturate=True)
        return
    real = found.view(np.float32)[::2] if sort_of(target) == "complex" else found
    assert float(real[3]) == float(ml_dtypes.finfo(real.dtype).max)  # type: ignore[no-untyped-call]
    if name != "float4_e2m1fn":
        assert np.isnan(cast(np.array([np.nan]), "float32", name)[0])


def test_infinity_stays_where_there_is_one() -> None:
    both = np.array([np.inf, -np.inf])
    for name in ("float16", "bfloat16", "float8_e5m2", "complex64"):
        assert np.real(cast(both, "float32", name).astype(complex)).tolist() == both.tolist()
    for name in ("float8_e4m3fn", "float8_e5m2fnuz", "int32", "float4_e2m1fn"):
        with pytest.raises(SurgeryError, match="element 0 is inf, out of the range"):
            cast(both, "float32", name)
        low, high = cast(both, "float32", name, saturate=True)[::-1].astype(float)
        assert low < -1 < 1 < high or name == "float4_e2m1fn"


def test_integers_out_of_range() -> None:
    assert cast(np.array([2**31 - 1]), "int64", "int32").tolist() == [2**31 - 1]
    for value, source, target in (
        (2**31, "int64", "int32"),
        (-1, "int32", "uint64"),
        (2**64 - 1, "uint64", "int64"),
        (2.0**63, "float64", "int64"),
        (2.0**64, "float32", "uint64"),
    ):
        with pytest.raises(SurgeryError, match="out of the range"):
            cast(np.array([value]), source, target)
    found = cast(np.array([2.0**64, -1]), "float64", "uint64", saturate=True)
    assert found.tolist() == [2**64 - 1, 0]
    assert cast(np.array([-(2.0**63)]), "float64", "int64").tolist() == [-(2**63)]
    with pytest.raises(SurgeryError, match="out of the range of float16"):
        cast(np.array([70000]), "int32", "float16")
