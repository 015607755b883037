"""TensorFlow 1.15 reads what we write.

CKPT_TF115_PYTHON names an interpreter that has it, Python 3.7.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ckpttool.bundle.writer import BundleWriter
from ckpttool.tensor.dtypes import DType
from tests.interop.partitions import grid, numpy_index, spec
from tests.interop.process import Oracle, summary
from tests.interop.values import PLAIN_DTYPES, sample

VARIABLE = "CKPT_TF115_PYTHON"
NEWEST = 23  # the last dtype that this release knows: uint64
DTYPES = tuple(dtype for dtype in PLAIN_DTYPES if dtype.number <= NEWEST)
SHAPES: list[tuple[int, ...]] = [(), (0, 3), (7,), (3, 4)]


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    python = os.environ.get(VARIABLE)
    if not python:
        pytest.skip(f"{VARIABLE} names no interpreter that has TensorFlow 1.15")
    with Oracle(python) as process:
        yield process


def test_tensors_of_every_dtype_it_knows(oracle: Oracle, tmp_path: Path) -> None:
    prefix = str(tmp_path / "ckpt-1")
    arrays = {f"{dtype}/{shape}": sample(dtype, shape) for dtype in DTYPES for shape in SHAPES}
    with BundleWriter(prefix, num_shards=3) as writer:
        for at, (key, array) in enumerate(arrays.items()):
            writer.add(key, array, shard_id=at % 3)
    expected = {key: summary(array) for key, array in arrays.items()}
    assert oracle.ask(prefix) == {"tensors": expected}


def test_odd_keys(oracle: Oracle, tmp_path: Path) -> None:
    prefix = str(tmp_path / "odd")
    keys = ["\x00zero", "a b/ü", "x" * 300, "new\nline"]
    array = sample(DTYPES[0], (2,))
    with BundleWriter(prefix) as writer:
        for key in keys:
            writer.add(key, array)
    assert oracle.ask(prefix) == {"tensors": dict.fromkeys(keys, summary(array))}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_slices_of_every_dtype_it_knows(oracle: Oracle, tmp_path: Path, dtype: DType) -> None:
    shape = (5, 4)
    parts = grid(shape, {0: [1, 2], 1: [3]})
    array = sample(dtype, shape)
    prefix = str(tmp_path / "sliced")
    with BundleWriter(prefix, num_shards=2) as writer:
        for at, part in enumerate(parts):
            value = array[numpy_index(part, shape)]
            writer.add_slice("w", shape, part, value, shard_id=at % 2)
    for part in parts:
        stored = oracle.ask([prefix, "w", spec(shape, part), dtype.number])
        assert stored == summary(array[numpy_index(part, shape)])
    answer = oracle.ask(prefix)["tensors"]["w"]
    if dtype.joinable:
        assert answer == summary(array)
    else:
        assert "not supported" in answer["error"]
