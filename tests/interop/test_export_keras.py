"""Weights of tf_keras and of Keras 3 in a `.weights.h5` file, loaded by Keras 3."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ckpttool
from ckpttool.errors import CkptError, CorruptError, SelectionError
from ckpttool.interchange.keras_h5 import read_template

pytest.importorskip("h5py")


def sequential(keras: Any) -> Any:
    layers = keras.layers
    return keras.Sequential(
        [
            layers.Conv2D(4, 3, name="first"),
            layers.BatchNormalization(),
            layers.Flatten(),
            layers.Dense(5),
            layers.Dense(2),
        ]
    )


def functional(keras: Any) -> Any:
    layers = keras.layers
    start = keras.Input((6, 6, 3))
    x = layers.Conv2D(4, 3)(start)
    y = layers.Dense(7, name="side")(layers.GlobalAveragePooling2D()(x))
    x = layers.LSTM(7)(layers.Reshape((4, 16))(x))
    return keras.Model(start, layers.LayerNormalization()(layers.Add()([x, y])))


def nested(keras: Any) -> Any:
    layers = keras.layers
    inner = keras.Sequential([keras.Input((4,)), layers.Dense(6), layers.Dense(4)])
    start = keras.Input((6, 6, 3))
    x = layers.GlobalAveragePooling2D()(layers.Conv2D(4, 3)(start))
    return keras.Model(start, layers.Dense(2)(inner(x)))


def equal_layers(keras: Any) -> Any:
    layers = keras.layers
    return keras.Sequential(
        [layers.Flatten(), layers.Dense(8), *(layers.Dense(8) for _ in range(11))]
    )


def recurrent(keras: Any) -> Any:
    """Both directions have the same shapes, and so have query, key and value."""
    layers = keras.layers
    start = keras.Input((6, 6, 3))
    x = layers.Bidirectional(layers.GRU(3, return_sequences=True))(layers.Reshape((6, 18))(start))
    x = layers.Add()([x, layers.MultiHeadAttention(2, 6)(x, x)])
    return keras.Model(start, layers.Dense(2)(layers.Flatten()(x)))


MODELS: tuple[Callable[[Any], Any], ...] = (sequential, functional, nested, recurrent, equal_layers)
IMAGES = np.random.default_rng(5).normal(size=(3, 6, 6, 3)).astype(np.float32)


def filled(model: Any, seed: int) -> Any:
    model(IMAGES)
    rng = np.random.default_rng(seed)
    model.set_weights([rng.uniform(0.05, 0.5, each.shape) for each in model.get_weights()])
    return model(IMAGES).numpy()


@pytest.mark.parametrize("library", ["tf_keras", "keras"])
@pytest.mark.parametrize("build", MODELS)
def test_predictions(tf: Any, tmp_path: Path, build: Any, library: str) -> None:
    """The program that loads counts its layers on its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import keras

        source = build(pytest.importorskip(library))
        expected = filled(source, 1)
        prefix = tf.train.Checkpoint(model=source).save(str(tmp_path / "ckpt"))
        target = build(keras)
        assert not np.allclose(filled(target, 2), expected)
        template, out = tmp_path / "t.weights.h5", tmp_path / "out.weights.h5"
        target.save_weights(template)
        if build is equal_layers:
            with pytest.raises(SelectionError, match="only their order tells which is which"):
                ckpttool.export(prefix, out, like=template)
            assert not out.exists()
            draft = tmp_path / "m.json"
            ckpttool.export(prefix, like=template, write_map=draft, dry_run=True)
            lines = json.loads(draft.read_text())["tensors"]
            assert {line["rule"] for line in lines} == {"by shapes", "by order"}
            ckpttool.export(prefix, out, like=template, map=draft)
            again = tmp_path / "again.weights.h5"
            ckpttool.export(prefix, again, like=template, accept_order=True)
            assert again.read_bytes() == out.read_bytes()
        else:
            ckpttool.export(prefix, out, like=template)
        target.load_weights(out)
        np.testing.assert_allclose(target(IMAGES).numpy(), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.filterwarnings("ignore")  # of Keras, and that there is nothing for the optimizer
def test_the_state_of_random_numbers_and_of_optimizers(tf: Any, tmp_path: Path) -> None:
    import keras

    layers = keras.layers
    model = keras.Sequential([layers.Flatten(), layers.Dropout(0.5), layers.Dense(3)])
    model.compile("adam", "mse")
    model.fit(IMAGES, np.ones((3, 3)), verbose=0)
    prefix = tf.train.Checkpoint(model=model).save(str(tmp_path / "ckpt"))
    template, out = tmp_path / "t.weights.h5", tmp_path / "out.weights.h5"
    model.save_weights(template)
    done = ckpttool.export(prefix, out, like=template)
    assert [each.stored_name for each in done.tensors] == [
        "layers/dense/vars/0",
        "layers/dense/vars/1",
    ]
    expected = [value.numpy() for value in model.layers[-1].weights]
    model.layers[-1].set_weights([value * 0 for value in expected])
    model.load_weights(out)
    for value, found in zip(expected, model.layers[-1].weights, strict=True):
        np.testing.assert_array_equal(value, found.numpy())


def test_what_is_refused(tf: Any, tmp_path: Path) -> None:
    import h5py

    ckpttool.save_checkpoint(str(tmp_path / "m"), {"dense/kernel": np.zeros((2, 3), np.float32)})
    out = tmp_path / "out.weights.h5"

    def template(make: Callable[[Any], object]) -> str:
        path = os.fspath(tmp_path / "t.weights.h5")
        with h5py.File(path, "w") as file:
            make(file)
        return path

    def dataset(file: Any, path: str = "layers/dense/vars/0", **how: Any) -> None:
        file.create_dataset(path, **{"shape": (2, 3), "dtype": "<f4", **how})

    def external(file: Any) -> None:
        file["layers/dense/vars/0"] = h5py.ExternalLink("/etc/passwd", "/x")

    def soft(file: Any) -> None:
        dataset(file)
        file["layers/other"] = h5py.SoftLink("/layers/dense")

    def virtual(file: Any) -> None:
        layout = h5py.VirtualLayout((2, 3), "<f4")
        layout[:] = h5py.VirtualSource("other.h5", "x", (2, 3))
        file.create_virtual_dataset("layers/dense/vars/0", layout)

    def elsewhere(file: Any) -> None:
        dataset(file, external=[("/etc/passwd", 0, 24)])

    def circle(file: Any) -> None:
        dataset(file)
        file["layers/dense/again"] = file["layers"]

    cases: tuple[tuple[Callable[[Any], object], str], ...] = (
        (external, "is a link"),
        (soft, "is a link"),
        (virtual, "lie in another file"),
        (elsewhere, "lie in another file"),
        (circle, "is a group with another path"),
        (lambda file: dataset(file, "weights"), "is no variable of a layer"),
        (lambda file: dataset(file, dtype="S3"), "has the dtype"),
        (lambda file: dataset(file, dtype=">f4"), "has the dtype"),
        (lambda file: file.create_group("layers"), "no layer of it has variables"),
        (lambda file: dataset(file, shape=(3, 2)), "nothing in it for .*no tensors for"),
        (lambda file: dataset(file, dtype="<f8"), "nothing in it for"),
    )
    for make, message in cases:
        with pytest.raises(CkptError, match=message):
            ckpttool.export(tmp_path / "m", out, like=template(make))
    assert ckpttool.export(tmp_path / "m", out, like=template(dataset)).files[0].bytes
    with h5py.File(out) as file:
        assert file["layers/dense/vars/0"].shape == (2, 3)
    (tmp_path / "no.weights.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    with pytest.raises(CorruptError, match="no file of HDF5"):
        read_template(str(tmp_path / "no.weights.h5"))
    with pytest.raises(SelectionError, match="needs like"):
        ckpttool.export(tmp_path / "m", tmp_path / "x.weights.h5")
    with pytest.raises(SelectionError, match="no tensors for"):
        path = tmp_path / "m.json"
        path.write_text(json.dumps({"dense/kernel": "layers/other/vars/0"}))
        good = template(dataset)
        ckpttool.export(tmp_path / "m", tmp_path / "x.weights.h5", like=good, map=path)
