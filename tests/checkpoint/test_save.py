"""What is saved reads back; that TensorFlow reads it too is told by tests/interop."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import ckpttool
from ckpttool.errors import DestinationError, InvalidTensorError

ARRAYS: dict[str, Any] = {
    "w": np.arange(6, dtype=np.float32).reshape(2, 3),
    "step": np.int64(7),
    "text": ["one", "zwölf", ""],
    "bytes": b"ab\0",
    "flags": [True, False],
    "scope/none": np.zeros((0, 4), np.float16),
    "complex": np.array([1 + 2j, -0.0j]),
    "fortran": np.asfortranarray(np.arange(6, dtype=np.int32).reshape(2, 3)),
    "big-endian": np.arange(3, dtype=">f8"),
}


@pytest.mark.parametrize("num_shards", [1, 3])
def test_round_trip(tmp_path: os.PathLike[str], num_shards: int) -> None:
    prefix = os.path.join(tmp_path, "out", "ckpt-1")
    ckpttool.save_checkpoint(prefix, ARRAYS, num_shards=num_shards)
    with ckpttool.open_checkpoint(prefix) as ckpt:
        assert set(ckpt) == set(ARRAYS)
        assert ckpt.bundle.header.num_shards == num_shards
        for key, value in ARRAYS.items():
            if key in ("text", "bytes"):
                continue
            assert np.array_equal(ckpt[key], np.asarray(value))
            assert ckpt[key].dtype == np.asarray(value).dtype.newbyteorder("=")
        assert ckpt["text"].tolist() == [b"one", "zwölf".encode(), b""]
        assert ckpt["bytes"][()] == b"ab\0"
    files = os.listdir(os.path.dirname(prefix))
    assert len(files) == num_shards + 1


def test_the_same_tensors_give_the_same_files(tmp_path: os.PathLike[str]) -> None:
    first, second = (os.path.join(tmp_path, name) for name in ("a", "b"))
    ckpttool.save_checkpoint(first, ARRAYS)
    ckpttool.save_checkpoint(second, dict(reversed(ARRAYS.items())))
    for ending in (".index", ".data-00000-of-00001"):
        with open(first + ending, "rb") as one, open(second + ending, "rb") as other:
            assert one.read() == other.read()


def test_an_existing_checkpoint_is_not_replaced_unasked(tmp_path: os.PathLike[str]) -> None:
    prefix = os.path.join(tmp_path, "ckpt")
    ckpttool.save_checkpoint(prefix, {"a": 1})
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(DestinationError):
        ckpttool.save_checkpoint(prefix, {"b": 2})
    assert sorted(os.listdir(tmp_path)) == before
    ckpttool.save_checkpoint(prefix, {"b": 2}, force=True)
    with ckpttool.open_checkpoint(prefix) as ckpt:
        assert list(ckpt) == ["b"]
        shards = {os.path.basename(file.path) for file in ckpt.bundle.shard_files()}
    # The old shard is gone; each shard that the header counts exists.
    present = {name for name in os.listdir(tmp_path) if ".data-" in name}
    assert shards <= present and "ckpt.data-00000-of-00001" not in present


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"": 1}, "empty key"),
        ({"when": np.array(["2020-01-01"], "datetime64[D]")}, "no TensorFlow dtype"),
        ({"mixed": np.array([b"a", 3], dtype=object)}, "cannot hold int"),
        ({"ragged": [[1], [2, 3]]}, "ragged|inhomogeneous"),
    ],
)
def test_what_cannot_be_stored_leaves_nothing(
    tmp_path: os.PathLike[str], tensors: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidTensorError, match=message):
        ckpttool.save_checkpoint(os.path.join(tmp_path, "ckpt"), {"fine": 1.0, **tensors})
    assert os.listdir(tmp_path) == []
