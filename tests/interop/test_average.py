"""TensorFlow restores means, which are those of NumPy in float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import ckpttool
from ckpttool.tensor.casting import rounded
from ckpttool.tensor.dtypes import dtype_of_name

DTYPES = ("float32", "float64", "float16", "bfloat16", "complex64", "complex128", "float8_e5m2")


def test_every_dtype_by_names(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    prefixes, every = [], []
    for at in range(3):
        values = {
            name: tf.cast(
                tf.constant(random.normal(size=(5, 3)) + at, tf.complex128), tf.as_dtype(name)
            )
            if name.startswith("complex")
            else tf.cast(tf.constant(random.normal(size=(5, 3)), tf.float32), tf.as_dtype(name))
            for name in DTYPES
        }
        prefixes.append(str(tmp_path / f"m-{at}"))
        names = list(values)
        tf.raw_ops.SaveV2(
            prefix=prefixes[-1],
            tensor_names=[*names, "global_step"],
            shape_and_slices=[""] * (len(names) + 1),
            tensors=[*values.values(), tf.constant(at, tf.int64)],
        )
        every.append({name: value.numpy() for name, value in values.items()})
    done = ckpttool.average(prefixes, tmp_path / "mean")
    assert len(done.changes) == len(DTYPES)
    reader = tf.train.load_checkpoint(str(tmp_path / "mean"))
    assert int(reader.get_tensor("global_step")) == 2
    for name in DTYPES:
        first, *others = (each[name] for each in every)
        wide = np.complex128 if name.startswith("complex") else np.float64
        total = first.astype(wide)
        for other in others:
            total = total + other.astype(wide)
        found = reader.get_tensor(name)
        if name.startswith("complex"):
            parts = total.view(np.float64) / 3
            expected = parts.astype(first.real.dtype).view(first.dtype)
        else:
            expected = rounded(total / 3, dtype_of_name(name))
        assert found.dtype == first.dtype
        assert found.tobytes() == expected.tobytes(), name


@pytest.mark.parametrize("old", [False, True], ids=["keras", "tf_keras"])
def test_a_trained_model_goes_on(old: bool, tmp_path: Path) -> None:
    """Weights are the mean, optimizer and step those of the last; everything is consumed."""
    keras: Any = pytest.importorskip("tf_keras") if old else tf.keras

    def made() -> tuple[Any, Any, Any]:
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(1)])
        optimizer = keras.optimizers.Adam(0.1)
        model.compile(optimizer, "mse")
        return model, optimizer, tf.train.Checkpoint(model=model, optimizer=optimizer)

    model, optimizer, checkpoint = made()
    data = np.random.default_rng(2).normal(size=(8, 4)).astype(np.float32)
    weights, prefixes = [], []
    for _ in range(3):
        model.fit(data, data[:, :1], verbose=0)
        weights.append([each.numpy() for each in model.trainable_variables])
        prefixes.append(checkpoint.save(str(tmp_path / "run" / "ckpt")))
    ckpttool.average(tmp_path / "run", tmp_path / "out" / "ckpt-3", last=3, update_state=True)
    other, again, target = made()
    status = target.restore(tf.train.latest_checkpoint(str(tmp_path / "out")))
    other.fit(data, data[:, :1], epochs=1, verbose=0)
    status.assert_existing_objects_matched()
    assert int(again.iterations) == int(optimizer.iterations) + 1
    target.restore(str(tmp_path / "out" / "ckpt-3")).assert_existing_objects_matched()
    for at, variable in enumerate(other.trainable_variables):
        wide = [each[at].astype(np.float64) for each in weights]
        mean = ((wide[0] + wide[1] + wide[2]) / 3).astype(np.float32)
        assert (variable.numpy() == mean).all()
