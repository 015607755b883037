"""A PyTorch module fed by a drafted map computes what the Keras model computes.

CKPT_TORCH_PYTHON names an interpreter that has PyTorch, NumPy and safetensors.
"""

from __future__ import annotations

import json
import os
import subprocess
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ckpttool

VARIABLE = "CKPT_TORCH_PYTHON"
MODULES = Path(__file__).with_name("torch_modules.py")


def images(keras: Any, tf: Any) -> tuple[Any, Any]:
    class Model(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            layers = keras.layers
            self.conv = layers.Conv2D(8, 3)
            self.bn = layers.BatchNormalization()
            self.second_conv = layers.Conv2D(5, (3, 2), use_bias=False)
            self.conv_transpose = layers.Conv2DTranspose(4, 2, strides=2)
            self.volume_conv = layers.Conv3D(3, (1, 2, 2))
            self.head = layers.Dense(3)

        def call(self, x: Any) -> Any:
            x = tf.nn.relu(self.bn(self.conv(x), training=False))
            x = tf.nn.relu(self.conv_transpose(tf.tanh(self.second_conv(x))))
            return self.head(tf.reduce_mean(self.volume_conv(x[:, None]), axis=(1, 2, 3)))

    return Model(), np.random.default_rng(1).normal(size=(2, 9, 10, 3)).astype(np.float32)


def words(keras: Any, tf: Any) -> tuple[Any, Any]:
    class Model(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            layers = keras.layers
            self.words = layers.Embedding(11, 6)
            self.conv = layers.Conv1D(7, 3)
            self.norm = layers.LayerNormalization()
            self.hidden = layers.Dense(7)
            self.head = layers.Dense(2)

        def call(self, x: Any) -> Any:
            x = tf.reduce_mean(self.norm(self.conv(self.words(x))), axis=1)
            return self.head(tf.nn.relu(self.hidden(x)))

    return Model(), np.random.default_rng(2).integers(0, 11, (3, 8))


@pytest.mark.parametrize("library", ["tf_keras", "keras"])
@pytest.mark.parametrize("build", [images, words])
def test_predictions(tf: Any, tmp_path: Path, build: Any, library: str) -> None:
    python = os.environ.get(VARIABLE)
    if not python:
        pytest.skip(f"{VARIABLE} names no interpreter that has PyTorch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        keras = pytest.importorskip(library)
        model, inputs = build(keras, tf)
        model(inputs)
        rng = np.random.default_rng(3)
        # Variances are positive; nothing has the value that it would have anyhow.
        for variable in model.weights:
            value = rng.uniform(0.1, 1, tuple(variable.shape))
            variable.assign(value)
        expected = model(inputs).numpy()
        prefix = tf.train.Checkpoint(model=model).save(str(tmp_path / "ckpt"))
    draft, weights = tmp_path / "m.json", tmp_path / "m.safetensors"
    ckpttool.export(prefix, table="torch", write_map=draft, dry_run=True)
    lines = json.loads(draft.read_text())["tensors"]
    assert len(lines) == len(model.weights)
    assert all(line["to"].startswith("model.") for line in lines)
    if build is words:
        assert [line["to"] for line in lines if "note" in line] == ["model.hidden.weight"]
    ckpttool.export(prefix, weights, map=draft)
    found = ckpttool.diff(prefix, weights, kinds="weight", map=draft, exact=True)
    assert found.verdict == "equal"
    np.save(tmp_path / "in.npy", inputs)
    done = subprocess.run(
        [
            *(python, str(MODULES), build.__name__, str(weights)),
            *(str(tmp_path / "in.npy"), str(tmp_path / "out.npy")),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), expected, rtol=1e-5, atol=1e-5)
