"""TensorFlow reads the V1 checkpoints that we write."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ckpttool import open_checkpoint
from ckpttool.legacy.naming import shard_pattern
from ckpttool.legacy.reader import LegacyReader
from ckpttool.legacy.writer import LegacyWriter
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.writing.prepare import WriteOptions, prepare
from ckpttool.surgery.writing.recoding.spread import Recoding
from ckpttool.tensor.dtypes import DType, dtype_of_name
from tests.interop.partitions import grid, numpy_index, spec
from tests.interop.process import Oracle, summary
from tests.interop.values import Array, sample
from tests.support.faults import CHANGES, Call, System

# What the reader of each release returns from a V1 file; the op that restores takes all dtypes.
READER = {
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "string",
}
OTHERS = {
    "bool",
    "complex64",
    "complex128",
    "qint8",
    "quint8",
    "qint32",
    "uint16",
    "float16",
}
DTYPES = [dtype_of_name(name) for name in sorted(READER | OTHERS)]
SHAPES: list[tuple[int, ...]] = [(), (0, 3), (7,), (3, 4)]
PYTHONS = {"1.15": "CKPT_TF115_PYTHON", "2.21": None}


@pytest.fixture(scope="module", params=PYTHONS)
def oracle(request: pytest.FixtureRequest) -> Iterator[Oracle]:
    import importlib.util
    import sys

    variable = PYTHONS[request.param]
    python = os.environ.get(variable) if variable else sys.executable
    if not python or (not variable and importlib.util.find_spec("tensorflow") is None):
        pytest.skip(f"there is no interpreter that has TensorFlow {request.param}")
    with Oracle(python) as process:
        yield process


def giving(value: Array) -> Callable[[], Array]:
    return lambda: value


def stored(value: Array, dtype: DType) -> Array:
    """Return an array as the writer takes it."""
    return value if value.dtype == object else value.view(dtype.numpy_dtype)


def values(dtype: DType, shape: tuple[int, ...]) -> Array:
    """Return elements of random bits; a bool is 0 or 1."""
    return stored(sample(dtype, shape), dtype)


def test_tensors_of_every_dtype(oracle: Oracle, tmp_path: Path) -> None:
    path = str(tmp_path / "model")
    arrays = {(d.name, shape): values(d, shape) for d in DTYPES for shape in SHAPES}
    with LegacyWriter(path) as writer:
        for (name, shape), array in arrays.items():
            writer.add(f"{name}/{shape}", dtype_of_name(name), shape, giving(array))
    found = oracle.ask(path)["tensors"]
    assert set(found) == {f"{name}/{shape}" for name, shape in arrays}
    for (name, shape), array in arrays.items():
        key = f"{name}/{shape}"
        answer = found[key]
        if name in OTHERS and "error" in answer:
            answer = oracle.ask([path, key, "", dtype_of_name(name).number])
        assert answer == summary(array), key


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_slices_across_files(oracle: Oracle, tmp_path: Path, dtype: DType) -> None:
    shape = (5, 4)
    parts = grid(shape, {0: [1, 2], 1: [3]})
    array = values(dtype, shape)
    prefix = str(tmp_path / "sliced")
    with LegacyWriter(prefix, num_shards=2) as writer:
        for at, part in enumerate(parts):
            writer.add_slice(
                "w", dtype, shape, part, giving(array[numpy_index(part, shape)]), shard_id=at % 2
            )
    pattern = shard_pattern(prefix, 2)
    for part in parts:
        answer = oracle.ask([pattern, "w", spec(shape, part), dtype.number])
        assert answer == summary(array[numpy_index(part, shape)]), part
    if dtype.joinable:
        assert oracle.ask([pattern, "w", "", dtype.number]) == summary(array)


def test_odd_keys_and_large_records(oracle: Oracle, tmp_path: Path) -> None:
    path = str(tmp_path / "odd")
    arrays: dict[str, Any] = {
        key: sample(dtype_of_name("float32"), (2,)) for key in ("a b/ü", "x" * 300, "new\nline")
    }
    arrays["large"] = sample(dtype_of_name("float64"), (100_000,))
    arrays["larger"] = sample(dtype_of_name("int64"), (200_000,))
    with LegacyWriter(path) as writer:
        for key, array in arrays.items():
            writer.add(key, dtype_of_name(array.dtype.name), array.shape, giving(array))
    expected = {key: summary(array) for key, array in arrays.items()}
    assert oracle.ask(path) == {"tensors": expected}
    with LegacyReader(path, [path]) as reader:
        assert {key: summary(reader.read(key)) for key in reader.entries} == expected


def test_nobody_reads_part_of_a_set(oracle: Oracle, tmp_path: Path) -> None:
    """A set of two files takes the place of another one, which TensorFlow looks at all the time."""
    source, target = str(tmp_path / "source"), str(tmp_path / "q")
    for prefix, keys, shards in ((source, "abc", None), (target, "xyz", 2)):
        with LegacyWriter(prefix, num_shards=shards) as writer:
            for at, key in enumerate(keys):
                array = values(dtype_of_name("float32"), (at + 1,))
                shard_id = at % 2 if shards else 0
                writer.add(
                    key, dtype_of_name("float32"), (at + 1,), giving(array), shard_id=shard_id
                )
    seen = []

    def look(call: Call) -> None:
        if call.name not in CHANGES:
            return
        found = set()
        for count in (2, 3):
            answer = oracle.ask(shard_pattern(target, count))
            assert "tensors" in answer or "error" in answer
            if "tensors" in answer:
                keys = "".join(sorted(answer["tensors"]))
                assert not any("error" in each for each in answer["tensors"].values()), call
                found.add(keys)
        seen.append(found)
        assert found and found <= {"abc", "xyz"}, (call, found)

    with open_checkpoint(source) as ckpt, System(tmp_path, after=look):
        options = WriteOptions(generation="V1", force=True, recoding=Recoding(shards=2))
        prepare(Plan.of(ckpt), target, options).write()
    assert seen[0] == {"xyz"}
    assert {"abc", "xyz"} in seen
    assert seen[-1] == {"abc"}
    assert oracle.ask(shard_pattern(target, 3))["tensors"] == oracle.ask(source)["tensors"]
