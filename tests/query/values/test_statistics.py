"""Statistics agree with exact arithmetic, however the elements come."""

from __future__ import annotations

import decimal
import math
import os
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ckpttool import open_checkpoint
from ckpttool.bundle.writer import BundleWriter
from ckpttool.errors import ChecksumError
from ckpttool.query.values import statistics as module
from ckpttool.query.values.parts import Part
from ckpttool.query.values.statistics import Statistics, histogram, statistics, statistics_of
from ckpttool.tensor.dtypes import STRING, dtype_of_array, dtype_of_name
from ckpttool.tensor.slices import TensorSlice
from ckpttool.tensor.values import object_array
from tests.support.fixtures import BundleFixture
from tests.support.limits import memory_limit
from tests.support.sweeps import each_bundle

FLOATS = ("float16", "float32", "float64")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
SMALL = (
    "bfloat16",
    "float8_e5m2",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e4m3b11fnuz",
    "float8_e5m2fnuz",
    "float4_e2m1fn",
)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make many pieces of few elements, so that they have to be merged."""
    monkeypatch.setattr(module, "_PIECE", 5)


def in_parts(array: np.ndarray[Any, Any], cuts: list[int]) -> Iterator[np.ndarray[Any, Any]]:
    flat = array.reshape(-1)
    edges = [0, *sorted(cut % (len(flat) + 1) for cut in cuts), len(flat)]
    for low, high in pairwise(edges):
        yield flat[low:high]


def check(found: Statistics, numbers: list[Any], *, error: float = 1e-12) -> None:
    """Hold statistics to those of Python numbers, calculated without rounding."""
    finite = [one for one in numbers if isinstance(one, int) or math.isfinite(one)]
    assert found.count == len(numbers)
    assert found.nan == sum(one != one for one in numbers)
    assert found.inf == len(numbers) - len(finite) - found.nan
    assert found.zeros == sum(one == 0 for one in finite)
    if not finite:
        assert (found.min, found.max, found.mean, found.std) == (None,) * 4
        return
    assert found.min == min(finite) and type(found.min) is type(finite[0])
    assert found.max == max(finite)
    assert found.mean is not None and found.std is not None
    fractions = list(map(Fraction, finite))
    mean = sum(fractions, Fraction(0)) / len(fractions)
    largest = float(max(map(abs, fractions)))
    if isinstance(finite[0], int):
        assert found.mean == float(mean)
    slack = Fraction(largest) * Fraction(error) + Fraction(5e-324)
    assert abs(Fraction(found.mean) - mean) <= slack
    deviation = deviation_of(finite)
    slack = Fraction(largest) * Fraction(error) + Fraction(5e-324)
    assert abs(Fraction(found.std) - deviation) <= max(slack, deviation / 10**9)


def deviation_of(numbers: list[Any]) -> Fraction:
    """Return the standard deviation of a population, to 60 digits."""
    fractions = list(map(Fraction, numbers))
    mean = sum(fractions, Fraction(0)) / len(fractions)
    square = sum(((one - mean) ** 2 for one in fractions), Fraction(0)) / len(fractions)
    with decimal.localcontext(decimal.Context(prec=60, Emin=-9999, Emax=9999)):
        root = (decimal.Decimal(square.numerator) / decimal.Decimal(square.denominator)).sqrt()
    return Fraction(root)


@given(
    hnp.arrays(
        st.sampled_from(FLOATS),
        st.integers(0, 40),
        elements={"allow_subnormal": True},
        fill=st.nothing(),
    ),
    st.lists(st.integers(0, 40), max_size=3),
)
def test_floats(array: np.ndarray[Any, Any], cuts: list[int]) -> None:
    found = statistics_of(dtype_of_array(array), in_parts(array, cuts))
    assert found.of == "values"
    check(found, array.astype(np.float64).tolist())


@given(
    st.sampled_from(INTEGERS).flatmap(lambda name: hnp.arrays(name, st.integers(0, 40))),
    st.lists(st.integers(0, 40), max_size=3),
)
def test_integers(array: np.ndarray[Any, Any], cuts: list[int]) -> None:
    check(statistics_of(dtype_of_array(array), in_parts(array, cuts)), array.tolist())


@pytest.mark.parametrize("name", [*SMALL, "int4", "uint4", "int2", "uint2"])
def test_what_numpy_lacks(name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name))
    patterns = np.arange(1 << (8 * dtype.itemsize)).astype(f"u{dtype.itemsize}")
    # Of a dtype of four bits the others do not count: 16 patterns are all there are.
    patterns = patterns[:16] if "4" in name[-2:] or name == "float4_e2m1fn" else patterns
    array = (patterns[:4] if name[-1] == "2" and "int" in name else patterns).view(dtype)
    with np.errstate(invalid="ignore"):  # NaNs of the signalling sort
        numbers = array.astype(np.float64 if "float" in name else np.int64).tolist()
    check(statistics_of(dtype_of_name(name), [array]), numbers)


@pytest.mark.parametrize("name", ["qint8", "quint8", "qint16", "quint16", "qint32"])
def test_quantised_numbers_are_the_stored_integers(name: str) -> None:
    raw = np.array([0, 1, 7, 100], name[1:])
    array = raw.view(dtype_of_name(name).as_numpy_dtype)
    check(statistics_of(dtype_of_name(name), [array]), raw.tolist())


@given(hnp.arrays(np.bool_, st.integers(0, 30)))
def test_bools(array: np.ndarray[Any, Any]) -> None:
    found = statistics_of(dtype_of_array(array), [array])
    check(found, array.astype(int).tolist())
    assert (found.of, found.true) == ("truth", int(array.sum()))


@given(hnp.arrays(st.sampled_from(["complex64", "complex128"]), st.integers(0, 30)))
def test_complex_numbers_by_their_magnitudes(array: np.ndarray[Any, Any]) -> None:
    found = statistics_of(dtype_of_array(array), [array])
    assert (found.of, found.count, found.true) == ("magnitudes", len(array), None)
    real, imaginary = array.real.astype(np.float64), array.imag.astype(np.float64)
    nan = np.isnan(real) | np.isnan(imaginary)
    with np.errstate(all="ignore"):
        magnitudes = np.hypot(real, imaginary)[~nan]
    assert found.nan == int(nan.sum())
    assert found.inf == int(np.isinf(magnitudes).sum())
    assert found.zeros == int((magnitudes == 0).sum())
    finite = magnitudes[np.isfinite(magnitudes)]
    assert found.min == (finite.min() if len(finite) else None)
    assert found.max == (finite.max() if len(finite) else None)


@given(st.lists(st.binary(max_size=30), max_size=20))
def test_strings_by_their_lengths(strings: list[bytes]) -> None:
    found = statistics_of(STRING, [object_array(list(strings), (len(strings),))])
    assert found.of == "lengths"
    check(found, [len(one) for one in strings])


@pytest.mark.parametrize(
    "numbers",
    [
        [1.7976931348623157e308, 1.7976931348623157e308],
        [1.7976931348623157e308, -1.7976931348623157e308] * 4,
        [1e308, 5.0, -1e308, 1e308, 7.0, 1e307],
        [5e-324, 1e-323, 0.0],
        [1e-200, 3e-200, 2e-200, 1e-200, 5e-200, 2e-200, 9e-200],
        [1e8 + 4, 1e8 + 7, 1e8 + 13, 1e8 + 16] * 5,
        [1e16, 1e16 + 2, 1e16 + 4] * 7,
        [0.1] * 23,
    ],
)
def test_numbers_that_cost_digits(numbers: list[float]) -> None:
    array = np.array(numbers)
    found = statistics_of(dtype_of_array(array), [array])
    check(found, numbers, error=1e-15)
    largest = max(map(abs, numbers))
    wanted = deviation_of(numbers)
    assert found.std is not None
    nearest = Fraction(largest) / 10**20 + Fraction(5e-324)
    assert abs(Fraction(found.std) - wanted) <= max(nearest, wanted / 10**9)


@pytest.mark.parametrize("base", [2**62, -(2**63), 2**63 - 40])
def test_close_neighbours_among_large_integers(base: int) -> None:
    numbers = [base + offset for offset in (0, 1, 5, 2, 30, 39, 17, 3)]
    array = np.array(numbers, np.int64)
    found = statistics_of(dtype_of_array(array), [array])
    assert (found.min, found.max) == (base, base + 39)
    assert found.mean == float(Fraction(sum(numbers), 8))
    assert found.std == pytest.approx(float(deviation_of(numbers)), rel=1e-12)


def test_the_ends_of_64_bits() -> None:
    array = np.array([0, 2**64 - 1, 2**63, 1], np.uint64)
    found = statistics_of(dtype_of_array(array), [array])
    assert (found.min, found.max, found.zeros) == (0, 2**64 - 1, 1)
    assert found.mean == float(Fraction(2**64 + 2**63, 4))


@each_bundle
def test_every_tensor_of_the_fixtures(fixture: BundleFixture) -> None:
    with open_checkpoint(fixture.prefix) as ckpt:
        for key, entry in ckpt.entries.items():
            found = statistics(Part(ckpt, key))
            value = ckpt.bundle.read(key)
            if entry.dtype.name == "variant":
                assert found is None
                continue
            assert found is not None and found.count == value.size
            if value.dtype.names or value.dtype == object or value.dtype.kind == "c":
                continue
            plain = value.astype(np.float64)
            finite = plain[np.isfinite(plain)]
            assert found.nan == np.isnan(plain).sum()
            assert found.zeros == (plain == 0).sum()
            if finite.size and np.abs(finite).max() < 1e100:
                near = {"rel": 1e-9, "abs": 1e-12 * np.abs(finite).max() + 5e-324}
                assert found.mean == pytest.approx(finite.mean(), **near)
                assert found.std == pytest.approx(finite.std(), **near)


def write_large(prefix: str) -> np.ndarray[Any, Any]:
    array = np.random.default_rng(5).standard_normal((1024, 1100)).astype(np.float32)
    with BundleWriter(prefix) as writer:
        writer.add("whole", array)
        for start in range(0, 1024, 512):
            part = TensorSlice(((start, 512), (0, -1)))
            writer.add_slice("sliced", array.shape, part, array[start : start + 512])
    return array


def test_large_tensors_are_streamed(
    tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = os.path.join(tmp_path, "large")
    array = write_large(prefix)
    monkeypatch.setattr(module, "_PIECE", 1 << 16)
    monkeypatch.setattr("ckpttool.query.values.parts._SMALL", 0)
    with open_checkpoint(prefix) as ckpt:
        monkeypatch.setattr(ckpt.bundle, "read", None)
        for key in ("whole", "sliced"):
            found = statistics(Part(ckpt, key))
            assert found is not None
            assert (found.min, found.max) == (float(array.min()), float(array.max()))
            assert found.mean == pytest.approx(array.mean(dtype=np.float64), rel=1e-12)
            assert found.std == pytest.approx(array.std(dtype=np.float64), rel=1e-12)


def test_damage_is_found_while_streaming(
    tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = os.path.join(tmp_path, "large")
    write_large(prefix)
    monkeypatch.setattr(module, "_PIECE", 1 << 16)
    monkeypatch.setattr("ckpttool.query.values.parts._SMALL", 0)
    with open(prefix + ".data-00000-of-00001", "r+b") as file:
        file.seek(-3, os.SEEK_END)
        file.write(b"\x55")
    with open_checkpoint(prefix) as ckpt:
        assert statistics(Part(ckpt, "whole")) is not None
        with pytest.raises(ChecksumError) as caught:
            statistics(Part(ckpt, "sliced"))
    assert caught.value.key == "sliced" and caught.value.offset is not None


@given(
    hnp.arrays(st.sampled_from(["float32", "float64", "int64", "uint8"]), st.integers(0, 60)),
    st.sampled_from([1, 4, 8]),
)
def test_histograms_count_every_finite_element(array: np.ndarray[Any, Any], bins: int) -> None:
    dtype = dtype_of_array(array)
    summary = statistics_of(dtype, [array])
    bars = histogram(dtype, [array], summary, bins=bins)
    if summary.min == summary.max:
        assert bars is None
        return
    assert bars is not None and len(bars.counts) == bins
    assert sum(bars.counts) == summary.count - summary.nan - summary.inf
    assert (bars.low, bars.high) == (summary.min, summary.max)
    assert bars.counts[0] and bars.counts[-1]


def test_histograms_agree_with_numpy() -> None:
    array = np.random.default_rng(1).standard_normal(1000)
    dtype = dtype_of_array(array)
    bars = histogram(dtype, [array[:300], array[300:]], statistics_of(dtype, [array]), bins=16)
    assert bars is not None
    assert bars.counts == tuple(np.histogram(array, bins=16)[0])


def test_memory_stays_bounded(tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PIECE", 1 << 16)
    prefix = os.path.join(tmp_path, "large")
    with BundleWriter(prefix) as writer:
        writer.add("w", np.ones(24 << 20, np.float32))
    with open_checkpoint(prefix) as ckpt, memory_limit(16 << 20):
        found = statistics(Part(ckpt, "w"))
    assert found is not None and (found.count, found.mean, found.std) == (24 << 20, 1.0, 0.0)
