"""TensorFlow restores edited checkpoints, and casts to the same numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import ckpttool
from ckpttool import surgery
from ckpttool.tensor.casting import Cast
from ckpttool.tensor.dtypes import dtype_of_name

SMALL = ("bfloat16", "float16", "float8_e5m2", "float8_e4m3fn")


def telling_floats() -> Any:
    """Return float32 that lie on, in the middle of and beside all numbers of small dtypes."""
    found = [np.zeros(1)]
    for name in SMALL:
        numpy_dtype = dtype_of_name(name).numpy_dtype
        bits = np.dtype(f"u{numpy_dtype.itemsize}")
        with np.errstate(all="ignore"):
            every = np.arange(1 << 8 * bits.itemsize, dtype=bits).view(numpy_dtype).astype(float)
        points = np.unique(every[np.isfinite(every)])
        found += [points, (points[1:] + points[:-1]) / 2]
    with np.errstate(all="ignore"):
        near = np.unique(np.concatenate(found).astype(np.float32))
        beside = [np.nextafter(near, np.float32(way)) for way in (-np.inf, np.inf)]
    return np.concatenate(
        [near, *beside, np.array([np.inf, -np.inf, np.nan, -0.0, 1e-45], np.float32)]
    )


@pytest.mark.parametrize("name", SMALL)
def test_casts_are_those_of_tensorflow(name: str, tmp_path: Path) -> None:
    values = telling_floats()
    expected = tf.cast(tf.constant(values), tf.as_dtype(name)).numpy()
    overflows = ~np.isfinite(expected.astype(np.float32)) & np.isfinite(values)
    if name == "float8_e4m3fn":
        overflows |= np.isinf(values)
    kept, bits = values[~overflows], np.dtype(f"u{expected.dtype.itemsize}")
    found = Cast(dtype_of_name("float32"), dtype_of_name(name)).array(kept)
    there = ~np.isnan(kept)
    assert (found[there].view(bits) == expected[~overflows][there].view(bits)).all()
    assert np.isnan(found[~there].astype(np.float32)).all()
    for value in values[overflows][:: max(1, overflows.sum() // 50)]:
        with pytest.raises(ckpttool.SurgeryError):
            Cast(dtype_of_name("float32"), dtype_of_name(name)).array(np.array([value]))
    ckpttool.save_checkpoint(tmp_path / "m", {"w": kept})
    ckpttool.edit(tmp_path / "m", tmp_path / "out", cast={"w": name})
    read = tf.train.load_checkpoint(str(tmp_path / "out")).get_tensor("w")
    assert read.dtype == expected.dtype
    assert (read[there].view(bits) == expected[~overflows][there].view(bits)).all()


class Net(tf.Module):  # type: ignore[misc]
    """Two variables of a dtype."""

    def __init__(self, dtype: Any = tf.float32) -> None:
        super().__init__()
        self.kernel = tf.Variable(tf.reshape(tf.range(6, dtype=tf.float32) / 7, [2, 3]))
        self.kernel = tf.Variable(tf.cast(self.kernel, dtype))
        self.bias = tf.Variable(tf.zeros([3], dtype))


def test_objects_are_restored(tmp_path: Path) -> None:
    """Set, cast and grafted, linked and compact; and another dtype is refused, as the note says."""
    net, step = Net(), tf.Variable(3, dtype=tf.int64)
    first = tf.train.Checkpoint(net=net, step=step).save(str(tmp_path / "a" / "ckpt"))
    net.bias.assign([1, 2, 3])
    kernel = net.kernel.numpy()
    second = tf.train.Checkpoint(net=net, step=step).save(str(tmp_path / "b" / "ckpt"))
    for compact in (False, True):
        out = str(tmp_path / f"set{compact}")
        ckpttool.edit(first, out, set={"step": 7, "net/kernel": 0.5}, compact=compact)
        other = Net(), tf.Variable(0, dtype=tf.int64)
        tf.train.Checkpoint(net=other[0], step=other[1]).restore(out).assert_consumed()
        assert int(other[1]) == 7
        assert (other[0].kernel.numpy() == 0.5).all()

        out = str(tmp_path / f"graft{compact}")
        ckpttool.edit(first, out, graft=[(second, "net", "net")], compact=compact)
        grafted = Net()
        status = tf.train.Checkpoint(net=grafted, step=other[1]).restore(out)
        status.assert_consumed()
        assert grafted.bias.numpy().tolist() == [1, 2, 3]

        out = str(tmp_path / f"cast{compact}")
        done = ckpttool.edit(second, out, cast={"net": "bfloat16"}, compact=compact)
        half = Net(tf.bfloat16)
        tf.train.Checkpoint(net=half, step=other[1]).restore(out).assert_consumed()
        assert (half.kernel.numpy() == tf.cast(kernel, tf.bfloat16).numpy()).all()
        assert any("of the same dtype" in note for note in done.notes)
        with pytest.raises(Exception, match=r"(?i)dtype|float"):
            tf.train.Checkpoint(net=Net(), step=other[1]).restore(out).assert_consumed()


def test_partitioned_variables_are_restored_from_wholes(tmp_path: Path) -> None:
    """A partitioned tensor becomes whole; TensorFlow cuts it again."""
    values = np.arange(12, dtype=np.float32).reshape(4, 3)
    specs = ["4 3 0,2:0,3", "4 3 2,2:0,3"]
    prefix = str(tmp_path / "m")
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=["w", "w"],
        shape_and_slices=specs,
        tensors=[values[:2], values[2:]],
    )
    for cast, dtype in (("float64", tf.float64), ("bfloat16", tf.bfloat16)):
        out = str(tmp_path / cast)
        ckpttool.edit(prefix, out, cast={"w": cast})
        parts = tf.raw_ops.RestoreV2(
            prefix=out, tensor_names=["w", "w"], shape_and_slices=specs, dtypes=[dtype] * 2
        )
        assert (np.concatenate([each.numpy() for each in parts]) == values).all()
    out = str(tmp_path / "half")
    done = ckpttool.edit(prefix, out, cast={"w": "float16"})
    assert any("cannot cut tensors of that dtype" in note for note in done.notes)
    with pytest.raises(tf.errors.OpError):
        tf.raw_ops.RestoreV2(
            prefix=out, tensor_names=["w"], shape_and_slices=specs[:1], dtypes=[tf.float16]
        )


def test_strings_and_v1(tmp_path: Path) -> None:
    tf.raw_ops.Save(
        filename=str(tmp_path / "v1"),
        tensor_names=["s", "w"],
        data=[tf.constant(["a", "b"]), tf.constant([1.0, 2.0])],
    )
    values: Any = {"s": ["hello", "é"], "w": [3, 4.5]}
    with ckpttool.open_checkpoint(tmp_path / "v1") as ckpt:
        plan = surgery.set_values(surgery.Plan.of(ckpt), values)
        surgery.write(plan, tmp_path / "out")
    read = tf.train.load_checkpoint(str(tmp_path / "out"))
    assert read.get_tensor("w").tolist() == [3, 4.5]
    (text,) = tf.raw_ops.RestoreV2(
        prefix=str(tmp_path / "out"), tensor_names=["s"], shape_and_slices=[""], dtypes=[tf.string]
    )
    assert text.numpy().tolist() == [b"hello", "é".encode()]
