"""Two arrays compared element by element agree with NumPy's formulas and with exact integers."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ckpttool.query.diff import elements as module
from ckpttool.query.diff.elements import Comparer, Tally
from ckpttool.query.diff.results import Element, Tolerance, ValueDifference
from ckpttool.tensor.dtypes import STRING, dtype_of_array, dtype_of_name
from ckpttool.tensor.values import object_array

Array = np.ndarray[Any, Any]
FLOATS = ("float16", "float32", "float64", "complex64", "complex128")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
SMALL = ("bfloat16", "float8_e5m2", "float8_e4m3fn", "float8_e4m3b11fnuz", "float4_e2m1fn")
NAN, INF = math.nan, math.inf


@pytest.fixture(autouse=True, scope="module")
def small_pieces() -> Any:
    """Make many pieces of few elements, so that they have to be merged."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_PIECE", 5)
        yield


def compared(
    a: Array, b: Array, *, cuts: tuple[int, ...] = (), **tolerance: Any
) -> ValueDifference:
    """Compare arrays in parts that come in any order."""
    comparer = Comparer(dtype_of_array(a), Tolerance(**tolerance))
    x, y = a.reshape(-1), b.reshape(-1)
    edges = [0, *sorted(cut % (len(x) + 1) for cut in cuts), len(x)]
    tally = Tally()
    for low, high in reversed(list(pairwise(edges))):
        tally.merge(comparer.compare(x[low:high], y[low:high], low))
    return comparer.values(tally, a.shape)


def expected(
    a: Array, b: Array, *, rtol: float = 0, atol: float = 0, equal_nan: bool = False
) -> Any:
    """Return distances and which elements differ, by NumPy's own functions."""
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    x, y = a.astype(wide).reshape(-1), b.astype(wide).reshape(-1)
    with np.errstate(all="ignore"):
        distances = np.abs(x - y)
        one, other = np.isnan(x), np.isnan(y)
        distances[np.isnan(distances) | (one ^ other)] = INF
        distances[(x == y) | (one & other)] = 0
        # Not all releases of NumPy call a complex infinity close to itself.
        differ = ~(np.isclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan) | (x == y))
    return distances, differ, np.abs(y)


def check(found: ValueDifference, a: Array, b: Array, **tolerance: Any) -> None:
    distances, differ, sizes = expected(a, b, **tolerance)
    assert found.elements == a.size
    assert found.differing == np.count_nonzero(differ)
    if not found.differing:
        assert found.worst is None
        return
    where = np.flatnonzero(differ)
    assert found.max_abs == distances[where].max()
    at = int(where[distances[where].argmax()])
    assert found.worst is not None
    assert found.worst.index == np.unravel_index(at, a.shape)
    with np.errstate(all="ignore"):
        ratios = distances[where] / sizes[where]
    ratios = ratios[(sizes[where] > 0) & ~np.isnan(ratios)]
    if ratios.size:
        assert found.max_rel == pytest.approx(ratios.max(), rel=1e-12)
    else:
        assert found.max_rel is None
    with np.errstate(all="ignore"):
        assert found.mean_abs == pytest.approx(distances.mean(), rel=1e-9)
    check_norm(found, distances, a)


def check_norm(found: ValueDifference, distances: Array, a: Array) -> None:
    """Check the norm of the change against NumPy's widest numbers."""
    with np.errstate(all="ignore"):
        change = np.linalg.norm(distances.astype(np.longdouble))
        base = np.linalg.norm(np.abs(a.astype(np.clongdouble)).reshape(-1))
    if float(change) == INF:
        assert found.rel_norm == INF
    elif base == 0 or not np.isfinite(float(base)):
        assert found.rel_norm is None
    elif min(base, change or base) > 1e-300:  # smaller numbers have fewer digits
        assert found.rel_norm == pytest.approx(float(change / base), rel=1e-9)


def near(dtype: str, shape: Any) -> Any:
    """Return pairs of arrays that are mostly alike."""
    arrays = hnp.arrays(dtype, shape)
    mask = hnp.arrays(np.bool_, shape)
    return st.tuples(arrays, arrays, mask).map(lambda t: (t[0], np.where(t[2], t[0], t[1])))


SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, max_side=5)
CUTS = st.lists(st.integers(0, 200), max_size=3).map(tuple)


@given(st.data(), st.sampled_from(FLOATS), CUTS)
def test_floats_without_a_tolerance(data: st.DataObject, dtype: str, cuts: tuple[int, ...]) -> None:
    a, b = data.draw(near(dtype, data.draw(SHAPES)))
    check(compared(a, b, cuts=cuts), a, b)


@given(st.data(), st.sampled_from(FLOATS), st.booleans(), CUTS)
def test_tolerance_is_that_of_isclose(
    data: st.DataObject, dtype: str, equal_nan: bool, cuts: tuple[int, ...]
) -> None:
    a, b = data.draw(near(dtype, data.draw(SHAPES)))
    steps = st.sampled_from((0.0, 1e-8, 0.01, 0.5, 3.0))
    given_ = {"rtol": data.draw(steps), "atol": data.draw(steps), "equal_nan": equal_nan}
    check(compared(a, b, cuts=cuts, **given_), a, b, **given_)


@given(st.data(), st.sampled_from(INTEGERS), CUTS)
def test_integers_are_exact(data: st.DataObject, dtype: str, cuts: tuple[int, ...]) -> None:
    a, b = data.draw(near(dtype, data.draw(SHAPES)))
    found = compared(a, b, cuts=cuts)
    x, y = a.reshape(-1).tolist(), b.reshape(-1).tolist()
    distances = [abs(one - other) for one, other in zip(x, y, strict=True)]
    assert found.differing == sum(map(bool, distances))
    if found.differing:
        check_norm(found, np.array(distances, np.longdouble), a)
        assert found.max_abs == max(distances) and type(found.max_abs) is int
        assert found.worst is not None
        at = distances.index(max(distances))
        assert found.worst == Element(
            tuple(map(int, np.unravel_index(at, a.shape))), x[at], y[at], str(x[at]), str(y[at])
        )


@pytest.mark.parametrize(
    ("dtype", "a", "b", "distance"),
    [
        ("int64", -(2**63), 2**63 - 1, 2**64 - 1),
        ("int64", 2**63 - 1, -(2**63), 2**64 - 1),
        ("int64", 2**62, 2**62 + 1, 1),
        ("uint64", 0, 2**64 - 1, 2**64 - 1),
        ("uint64", 2**64 - 1, 2**64 - 2, 1),
        ("int32", -(2**31), 2**31 - 1, 2**32 - 1),
        ("uint8", 0, 255, 255),
        ("int8", -128, 127, 255),
    ],
)
def test_no_distance_overflows(dtype: str, a: int, b: int, distance: int) -> None:
    found = compared(np.array([a, 0], dtype), np.array([b, 0], dtype))
    assert (found.differing, found.max_abs) == (1, distance)
    assert found.mean_abs == distance / 2


def test_equal_elements_have_no_part_in_the_largest_ratio() -> None:
    a, b = np.array([1, 5, 0], np.float32), np.array([0, 5, 0], np.float32)
    assert compared(a, b).max_rel is None  # by what is 0 in B nothing can be divided
    assert compared(a + 1, b + 1).max_rel == 1


@pytest.mark.parametrize("name", SMALL)
def test_small_floats_are_taken_exactly(name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name))
    every = np.arange(16 if name.startswith("float4") else 256, dtype=np.uint8)
    if dtype.itemsize == 2:
        every = (np.arange(512, dtype=np.uint16) * 127).astype(np.uint16)
    a = every.view(dtype)
    b = np.roll(a, 3)
    found = compared(a, b)
    check(found, a.astype(np.float64), b.astype(np.float64))


@pytest.mark.parametrize("name", ["int4", "uint4", "int2", "uint2"])
def test_small_integers(name: str) -> None:
    low = -2 if name == "int4" else 0
    a = np.array([1, low, 1, 1]).astype(getattr(ml_dtypes, name))
    b = np.array([1, 1, 1, 0]).astype(getattr(ml_dtypes, name))
    found = compared(a, b)
    assert (found.differing, found.max_abs, found.mean_abs) == (2, 1 - low, (2 - low) / 4)
    assert found.worst == Element((1,), low, 1, str(low), "1")


@pytest.mark.parametrize("name", ["qint8", "quint8", "qint16", "quint16", "qint32"])
def test_quantised_numbers(name: str) -> None:
    dtype = dtype_of_name(name).numpy_dtype
    a, b = (np.array(each).astype(dtype[0]).view(dtype) for each in ([1, 2, 9], [1, 5, 7]))
    found = compared(a, b)
    assert (found.differing, found.max_abs) == (2, 3)
    assert found.worst is not None and (found.worst.a, found.worst.b) == (2, 5)


def test_bools_have_no_distance() -> None:
    found = compared(np.array([[True, False]]), np.array([[True, True]]))
    assert found == ValueDifference(
        1, 2, None, None, None, None, Element((0, 1), False, True, "False", "True")
    )


def test_strings() -> None:
    a = object_array([b"x", b"y", b"\xff", b""], (2, 2))
    b = object_array([b"x", b"z", b"\xff", b"\0"], (2, 2))
    comparer = Comparer(STRING, Tolerance())
    found = comparer.values(comparer.compare(a.reshape(-1), b.reshape(-1)), (2, 2))
    assert (found.differing, found.elements, found.max_abs) == (2, 4, None)
    assert found.worst is not None
    assert (found.worst.index, found.worst.a, found.worst.b) == ((0, 1), b"y", b"z")


@pytest.mark.parametrize(
    ("a", "b", "tolerance", "differing", "max_abs"),
    [
        ([0.0], [-0.0], {}, 0, None),
        ([0.0], [-0.0], {"exact": True}, 1, 0),
        ([NAN], [NAN], {}, 1, 0),
        ([NAN], [NAN], {"equal_nan": True}, 0, None),
        ([NAN], [NAN], {"exact": True}, 0, None),
        ([NAN, 1], [NAN, 2], {"exact": True}, 1, 1),
        ([NAN, 1], [NAN, 2], {}, 2, 1),
        ([NAN, 1], [5, 2], {}, 2, INF),
        ([INF], [INF], {}, 0, None),
        ([INF], [-INF], {}, 1, INF),
        ([INF], [-INF], {"rtol": 9.0}, 1, INF),
        ([1], [INF], {"rtol": 0.5}, 1, INF),
        ([1.0], [1.5], {"atol": 0.5}, 0, None),
        ([1.0], [1.5], {"atol": 0.49}, 1, 0.5),
        # Relative to B, as in NumPy.
        ([1.0], [2.0], {"rtol": 0.5}, 0, None),
        ([2.0], [1.0], {"rtol": 0.5}, 1, 1.0),
        ([3e38], [-3e38], {}, 1, 2 * float(np.float32(3e38))),
    ],
)
def test_zeros_nans_and_infinities(
    a: list[float], b: list[float], tolerance: dict[str, Any], differing: int, max_abs: object
) -> None:
    found = compared(np.array(a, np.float32), np.array(b, np.float32), **tolerance)
    assert (found.differing, found.max_abs) == (differing, max_abs)


@pytest.mark.parametrize(
    ("a", "b", "tolerance", "expected"),
    [
        ([3.0, 4.0], [3.0, 4.5], {}, 0.1),
        ([0.0, 0.0], [1.0, 0.0], {}, None),
        ([NAN, 1.0], [NAN, 2.0], {}, None),
        ([NAN, 1.0], [0.0, 1.0], {}, INF),
        ([1.0, 1.0], [NAN, 1.0], {}, INF),
        ([0.0, 0.0], [0.0, INF], {}, INF),
        ([INF, 1.0], [INF, 2.0], {}, None),
        ([INF, 1.0], [-INF, 1.0], {}, INF),
        ([0.0, 1.0], [-0.0, 1.0], {"exact": True}, 0.0),
        ([1.0] * 12, [1.0] * 11 + [2.0], {}, math.sqrt(1 / 12)),
        # What is within the tolerance has changed, too.
        ([3.0, 4.0], [3.3, 8.0], {"rtol": 0.2}, math.hypot(0.3, 4) / 5),
        # Squares beyond the range of float64, numbers within.
        ([3e200, 4e200], [3e200, 4.5e200], {}, 0.1),
        ([3e-200, 4e-200], [3e-200, 4.5e-200], {}, 0.1),
        ([3e200, 1.0], [3e200, 2.0], {}, 1 / 3e200),
    ],
)
def test_the_norm_of_the_change(
    a: list[float], b: list[float], tolerance: dict[str, Any], expected: float | None
) -> None:
    found = compared(np.array(a), np.array(b), **tolerance)
    assert found.rel_norm == (expected and pytest.approx(expected, rel=1e-12, abs=0))


def test_the_norm_of_the_change_of_many_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal pieces count in the norm of A."""
    monkeypatch.setattr(module, "_PIECE", 1 << 15)
    rng = np.random.default_rng(5)
    a = rng.normal(size=100_001).astype(np.float32)
    b = a.copy()
    b[40_000:50_000] += rng.normal(size=10_000).astype(np.float32)
    wide = a.astype(np.float64), b.astype(np.float64)
    expected = np.linalg.norm(wide[1] - wide[0]) / np.linalg.norm(wide[0])
    assert compared(a, b, cuts=(70_000,)).rel_norm == pytest.approx(expected, rel=1e-12)
    complex_a, complex_b = a + 2j * b, b + 1j * a
    expected = np.linalg.norm(complex_b - complex_a) / np.linalg.norm(complex_a)
    assert compared(complex_a, complex_b).rel_norm == pytest.approx(expected, rel=1e-6)


def test_the_worst_of_those_beyond_the_tolerance() -> None:
    """A larger distance may be within the relative tolerance."""
    a, b = np.array([1000.0, 1.0, 5.0]), np.array([1001.0, 1.5, 5.0])
    found = compared(a, b, rtol=0.01)
    assert (found.differing, found.max_abs) == (1, 0.5)
    assert found.worst is not None and found.worst.index == (1,)
    assert found.mean_abs == 0.5


def test_nan_payloads_count_where_bytes_do() -> None:
    a = np.array([0x7FC00000, 0x7FC00000], np.uint32).view(np.float32)
    b = np.array([0x7FC00000, 0x7FC00001], np.uint32).view(np.float32)
    assert compared(a, b, exact=True).differing == 1
    assert compared(a, b, equal_nan=True).differing == 0


def test_complex_elements_are_told_as_pairs() -> None:
    found = compared(np.array([1 + 2j, 0]), np.array([1 - 1j, 0]))
    assert found.max_abs == 3.0 and found.worst is not None
    assert (found.worst.a, found.worst.b) == ({"re": 1.0, "im": 2.0}, {"re": 1.0, "im": -1.0})
    assert compared(np.array([1 + 2j]), np.array([1 + 2j]), exact=True).differing == 0
