"""A checkpoint of TensorFlow and files of arrays with the same values are the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file, save_file

from ckpttool.checkpoint.locate import locate
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.interchange.safetensors import SAFETENSORS_CODES
from ckpttool.tensor.dtypes import dtype_of_name
from tests.interop.values import Array, content, sample
from tests.support.command import ckpt

SHAPES: tuple[tuple[int, ...], ...] = ((), (0, 3), (7,), (2, 3, 5))


def values(names: list[str]) -> dict[str, Array]:
    """Return an array of each dtype and shape."""
    return {
        f"{name}/{'x'.join(map(str, shape)) or 'scalar'}": sample(dtype_of_name(name), shape)
        for name in names
        for shape in SHAPES
    }


def saved(prefix: Path, arrays: dict[str, Array]) -> str:
    """Have TensorFlow save arrays."""
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=list(arrays),
        shape_and_slices=[""] * len(arrays),
        tensors=[tf.constant(each) for each in arrays.values()],
    )
    return str(prefix)


def test_every_dtype_of_safetensors(tmp_path: Path) -> None:
    arrays = values(list(SAFETENSORS_CODES))
    prefix = saved(tmp_path / "ckpt-1", arrays)
    path = tmp_path / "m.safetensors"
    save_file(arrays, path, metadata={"format": "pt"})
    for pair in ((prefix, str(path)), (str(path), prefix)):
        for more in ("--equal-nan", "--exact"):
            done = ckpt("diff", *pair, more)
            assert (done.code, done.err) == (0, ""), done.out
    reader = tf.train.load_checkpoint(prefix)
    with Checkpoint(locate(path)) as opened:
        assert set(opened.entries) == set(reader.get_variable_to_shape_map())
        for key in opened.entries:
            assert content(opened.read(key)) == content(reader.get_tensor(key))
    plain = {key: each for key, each in arrays.items() if not key.startswith("float8")}
    save_file(plain, path)
    theirs = load_file(path)  # has no float8
    with Checkpoint(locate(path)) as opened:
        assert all(content(opened.read(key)) == content(theirs[key]) for key in plain)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_every_dtype_of_numpy(save: Any, tmp_path: Path) -> None:
    names = [name for name in SAFETENSORS_CODES if "float8" not in name and name != "bfloat16"]
    arrays = values([*names, "complex128"])
    prefix = saved(tmp_path / "ckpt-1", arrays)
    save(tmp_path / "x.npz", **arrays)
    done = ckpt("diff", prefix, str(tmp_path / "x.npz"), "--exact")
    assert (done.code, done.err) == (0, ""), done.out
    with np.load(tmp_path / "x.npz") as theirs, Checkpoint(locate(tmp_path / "x.npz")) as opened:
        assert all(content(opened.read(key)) == content(theirs[key]) for key in arrays)
    changed = {**arrays, "float32/7": arrays["float32/7"] + 1}
    save(tmp_path / "x.npz", **changed)
    done = ckpt("diff", prefix, str(tmp_path / "x.npz"), "--json")
    assert done.code == 1
    assert [each["key"] for each in json.loads(done.out)["tensors"]] == ["float32/7"]
