"""Variables hold what TensorFlow's hold: dtype, shape, value and name; or both refuse."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.interop.train_faces import ours, theirs

Make = Callable[[Any], Any]

VALUES: list[Any] = [
    *(1.0, 1, -(1 << 31), -(1 << 31) - 1, 1 << 31, 1 << 40, 1 << 63, True, 1j, "a", b"a", "é"),
    *([1, 2.5], [1, 1 << 40], [], [[]], (1, 2), range(3), ["a", b"b"], float("inf"), 1e300),
    *([True, 1], [True, 1.0], [1, 1j], [1, "a"], [None], {"a": 1}, None, [[1], [1, 2]]),
    *([np.float64(1)], [np.float64(1), 2], np.float64(1), np.int8(3), [np.zeros(2), np.ones(2)]),
    *(np.array(["a"]), np.array([b"a\0b"]), np.array("a"), np.arange(3, dtype=">i4")),
    *(np.zeros((0, 3)), np.asfortranarray(np.arange(6).reshape(2, 3)), np.array(["é", b"a"], "O")),
    *(np.array([1.5, 2], ml_dtypes.bfloat16), np.array([1, 2], ml_dtypes.int4)),
]
DTYPES: list[tuple[Any, str]] = [
    *((1.5, "int32"), (1, "float64"), (1, "bool"), (True, "int32"), (True, "float32")),
    *((1j, "float32"), (1.0, "complex64"), ("a", "float32"), (1, "string"), ([1.5, 2], "int64")),
    *((1, "bfloat16"), (1.5, "bfloat16"), (1, "int4"), ((1 << 64) - 1, "uint64"), (1.5, "float16")),
    *((np.array([1.5]), "int32"), (np.array([1]), "float32"), (np.array([1.5]), "float32")),
    *((np.array([1]), "uint8"), (np.array([1.5], "f"), "bfloat16"), (np.array([True]), "int32")),
    *((np.array([1]), "bool"), (np.float64(1.5), "int32"), (np.int64(3), "float32")),
]
NAMES = [None, "w", "w:0", "a:1", "w/", "a/b/", "", "x y", "w//", "w:0/"]
CHANGES: list[tuple[Any, Any]] = [
    *(([1, 2], [1.5, 2.5]), ([1, 2], np.array([1.5, 2.5])), ([1.0, 2.0], [3, 4])),
    *(([1.0, 2.0], np.array([3, 4])), ([1.0, 2.0], 3), ([1.0, 2.0], [3]), ([[1.0, 2.0]], [1.0, 2])),
    *(([1, 2], np.array([3, 4], "int16")), ([1, 2], np.array([3, 4], "uint32")), (["a"], ["b"])),
    *((["a"], [1]), ([True], [1]), ([1], [True]), ([1.0], [1j]), (1.0, 2), ("a", "é")),
]


def outcome(make: Make, face: Any) -> tuple[Any, ...]:
    try:
        variable = make(face)
    except (TypeError, ValueError):
        return ("refused",)
    value = np.asarray(variable.numpy())
    held = value.tolist() if value.dtype.kind in "OSU" else (value.dtype.name, value.tobytes())
    return tuple(variable.shape), variable.dtype.name, held, variable.name


def differences(tf: Any, cases: Sequence[tuple[Any, Make]]) -> list[Any]:
    them, us = theirs(tf), ours()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [(what, outcome(make, them), outcome(make, us)) for what, make in cases]
    assert {their == ("refused",) for _, their, _ in found} & {False}
    return [each for each in found if each[1] != each[2]]


def made(m: Any, value: Any, **how: Any) -> Any:
    return m.Variable(value, **how)


def assigned(m: Any, value: Any, then: Any, **how: Any) -> Any:
    variable = m.Variable(value, **how)
    variable.assign(then)
    return variable


def summed(m: Any, value: Any, then: Any, error: type[Exception]) -> Any:
    variable = m.Variable(value)
    try:
        variable.assign_add(then)
        variable.assign_sub(then)
        variable.assign_add(then)
    except error as refused:
        raise ValueError from refused
    return variable


def test_values(tf: Any) -> None:
    assert differences(tf, [(v, partial(made, value=v)) for v in VALUES]) == []


def test_dtypes(tf: Any) -> None:
    cases = [((v, d), partial(made, value=v, dtype=d)) for v, d in DTYPES]
    assert differences(tf, cases) == []


def test_names(tf: Any) -> None:
    assert differences(tf, [(n, partial(made, value=1.0, name=n)) for n in NAMES]) == []


def test_assignments(tf: Any) -> None:
    cases = [((a, b), partial(assigned, value=a, then=b)) for a, b in CHANGES]
    assert differences(tf, cases) == []


def test_sums(tf: Any) -> None:
    error = tf.errors.InvalidArgumentError
    cases = [((a, b), partial(summed, value=a, then=b, error=error)) for a, b in CHANGES]
    assert differences(tf, cases) == []


@pytest.mark.parametrize("shape", [[None, 3], [2, None], [None, None]])
def test_open_dimensions(shape: list[Any], tf: Any) -> None:
    sizes: list[tuple[int, ...]] = [(4, 3), (2, 5), (2, 3), (3,), (4, 5)]
    start = np.zeros((2, 3), "float32")
    cases: list[tuple[Any, Make]] = []
    for size in sizes:
        value = np.ones(size, "float32")
        cases.append((size, partial(assigned, value=start, then=value, shape=shape)))
        cases.append((size, partial(made, value=value, shape=shape)))
    assert differences(tf, cases) == []
