"""Files of weights that tf_keras and Keras 3 saved, restored as checkpoints by TensorFlow."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ckpttool
from ckpttool.errors import SelectionError, SurgeryError
from tests.interop.test_export_keras import IMAGES, MODELS, equal_layers, filled, sequential

pytest.importorskip("h5py")


def restored(tf: Any, model: Any, prefix: Path | str) -> Any:
    tf.train.Checkpoint(model=model).restore(str(prefix)).assert_existing_objects_matched()
    return model(IMAGES).numpy()


@pytest.mark.parametrize("library", ["tf_keras", "keras"])
@pytest.mark.parametrize("build", MODELS)
def test_predictions(tf: Any, tmp_path: Path, build: Any, library: str) -> None:
    """The program that restores counts its layers on its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        keras = pytest.importorskip(library)
        source, target = build(keras), build(keras)
        expected = filled(source, 1)
        path, out = tmp_path / "s.weights.h5", tmp_path / "out-1"
        source.save_weights(str(path))
        assert not np.allclose(filled(target, 2), expected)
        like = tf.train.Checkpoint(model=target).save(str(tmp_path / "ckpt"))
        if build is equal_layers:
            with pytest.raises(SelectionError, match="only their order tells which is which"):
                ckpttool.import_checkpoint(path, out, like=like)
            assert not list(tmp_path.glob("out*"))
            draft = tmp_path / "m.json"
            ckpttool.import_checkpoint(path, like=like, write_map=draft, dry_run=True)
            lines = json.loads(draft.read_text())["tensors"]
            assert {line["rule"] for line in lines} == {"by shapes", "by order"}
            ckpttool.import_checkpoint(path, tmp_path / "mapped-1", like=like, map=draft)
            ckpttool.import_checkpoint(path, out, like=like, accept_order=True)
            found = restored(tf, target, tmp_path / "mapped-1")
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
            filled(target, 2)
        else:
            ckpttool.import_checkpoint(path, out, like=like)
        assert not np.allclose(target(IMAGES).numpy(), expected)
        found = restored(tf, target, out)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
        # It is what this program itself would have saved, and leads back to the same file.
        back = tmp_path / "back.weights.h5"
        ckpttool.export(out, back, like=path, accept_order=build is equal_layers)
        assert ckpttool.diff(path, back, exact=True).verdict == "equal"


@pytest.mark.filterwarnings("ignore")
def test_older_files_of_tf_keras_have_full_names(tf: Any, tmp_path: Path) -> None:
    keras = pytest.importorskip("tf_keras")
    keras.backend.clear_session()
    model = equal_layers(keras)
    expected = filled(model, 1)
    model.save_weights(str(tmp_path / "s.h5"))
    model.compile("adam", "mse")
    model.fit(IMAGES, np.zeros((3, 8)), verbose=0)
    expected_later = model(IMAGES).numpy()
    model.save(str(tmp_path / "whole.h5"))
    keras.backend.clear_session()
    target = equal_layers(keras)
    for name, values in (("s", expected), ("whole", expected_later)):
        filled(target, 2)
        like = tf.train.Checkpoint(model=target).save(str(tmp_path / "ckpt"))
        done = ckpttool.import_checkpoint(tmp_path / f"{name}.h5", tmp_path / name, like=like)
        assert done.receipt is not None
        found = restored(tf, target, tmp_path / name)
        np.testing.assert_allclose(found, values, rtol=1e-6, atol=1e-6)
    other = equal_layers(keras)  # its layers are counted on
    filled(other, 2)
    like = tf.train.Checkpoint(model=other).save(str(tmp_path / "other"))
    with pytest.raises(SelectionError, match="no variable has the name, dtype and shape of"):
        ckpttool.import_checkpoint(tmp_path / "s.h5", tmp_path / "no", like=like)


@pytest.mark.filterwarnings("ignore")
def test_bfloat16_and_the_state_of_optimizers(tf: Any, tmp_path: Path) -> None:
    import keras

    def build() -> Any:
        layers = keras.layers
        model = keras.Sequential([layers.Flatten(), layers.Dense(4, dtype="bfloat16")])
        model.add(layers.Dense(3))
        model.compile("adam", "mse")
        model.fit(IMAGES, np.ones((3, 3)), verbose=0)
        return model

    source, target = build(), build()
    path = tmp_path / "s.weights.h5"
    source.save_weights(path)
    like = tf.train.Checkpoint(model=target).save(str(tmp_path / "ckpt"))
    done = ckpttool.import_checkpoint(path, tmp_path / "out-1", like=like)
    assert {name for name, _ in done.skipped} == {f"optimizer/vars/{n}" for n in range(10)}
    tf.train.Checkpoint(model=target).restore(str(tmp_path / "out-1")).expect_partial()
    for ours, theirs in zip(source.get_weights(), target.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    # A template with bfloat16 is filled, too.
    back = tmp_path / "back.weights.h5"
    ckpttool.export(tmp_path / "out-1", back, like=path)
    fresh = build()
    fresh.load_weights(back)
    for ours, theirs in zip(source.get_weights(), fresh.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_reference_that_does_not_fit(tf: Any, tmp_path: Path) -> None:
    keras = pytest.importorskip("tf_keras")
    model = sequential(keras)
    filled(model, 1)
    path, out = tmp_path / "s.weights.h5", tmp_path / "out-1"
    model.save_weights(str(path))
    smaller = keras.Sequential(model.layers[:-1])
    like = tf.train.Checkpoint(model=smaller).save(str(tmp_path / "ckpt"))
    with pytest.raises(SelectionError, match="no tensors for 'layers/dense_1/vars/0'"):
        ckpttool.import_checkpoint(path, out, like=like)
    ckpttool.import_checkpoint(path, tmp_path / "names-1")
    with pytest.raises(SurgeryError, match="name-based"):
        ckpttool.import_checkpoint(path, out, like=tmp_path / "names-1")
    assert not list(tmp_path.glob("out*"))
