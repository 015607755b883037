"""Out to safetensors and back: its own reader and TensorFlow see the same numbers as we do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ckpttool
from ckpttool.interchange.safetensors import SAFETENSORS_CODES
from ckpttool.tensor.dtypes import dtype_of_name
from tests.interop.values import content, sample

safetensors = pytest.importorskip("safetensors")
SHAPES: dict[str, tuple[int, ...]] = {
    "scalar": (),
    "none": (0,),
    "empty": (3, 0, 2),
    "vector": (7,),
    "matrix": (3, 5),
    "four": (2, 1, 3, 2),
}


def test_every_dtype_there_and_back(tf: Any, tmp_path: Path) -> None:
    arrays = {
        f"{name}/{shape}": sample(dtype_of_name(name), SHAPES[shape])
        for name in SAFETENSORS_CODES
        for shape in SHAPES
    }
    source = str(tmp_path / "ckpt-1")
    ckpttool.save_checkpoint(source, arrays)
    for limit in (None, 100):
        folder = tmp_path / f"out-{limit}"
        done = ckpttool.export(
            source, folder / "m.safetensors", all_kinds=True, max_shard_size=limit
        )
        seen = {}
        for path in {tensor.file for tensor in done.tensors}:
            for name, told in safetensors.deserialize(Path(str(path)).read_bytes()):
                seen[name] = told
        assert seen.keys() == arrays.keys()
        for name, array in arrays.items():
            told = seen[name]
            assert told["dtype"] == SAFETENSORS_CODES[name.partition("/")[0]]
            assert tuple(told["shape"]) == array.shape
            assert bytes(told["data"]) == array.tobytes(), name
        back = str(tmp_path / f"back-{limit}")
        ckpttool.import_checkpoint(done.index or folder / "m.safetensors", back)
        reader = tf.train.load_checkpoint(back)
        assert reader.get_variable_to_shape_map() == {
            name: list(array.shape) for name, array in arrays.items()
        }
        for name, array in arrays.items():
            assert content(reader.get_tensor(name)) == content(array), name
        assert ckpttool.diff(source, back, exact=True).verdict == "equal"


def test_files_of_its_own_writer(tf: Any, tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    names = [name for name in SAFETENSORS_CODES if not name.startswith(("bfloat", "float8"))]
    arrays = {f"{name}.weight": sample(dtype_of_name(name), (3, 5)) for name in names}
    path = tmp_path / "theirs.safetensors"
    save_file(arrays, path, metadata={"format": "pt"})
    prefix = str(tmp_path / "ckpt-1")
    ckpttool.import_checkpoint(path, prefix)
    reader = tf.train.load_checkpoint(prefix)
    for name, array in arrays.items():
        assert content(reader.get_tensor(name)) == content(array), name
    ckpttool.export(prefix, tmp_path / "ours.safetensors", all_kinds=True)
    found = load_file(tmp_path / "ours.safetensors")
    assert {name: content(array) for name, array in found.items()} == {
        name: content(array) for name, array in arrays.items()
    }


def test_a_program_restores_what_comes_back(tf: Any, tmp_path: Path) -> None:
    """Weights alone into existing objects; with the optimizer, everything is consumed."""
    keras = pytest.importorskip("tf_keras")

    def program() -> tuple[Any, Any]:
        net = keras.Sequential([keras.layers.Dense(4, name="a"), keras.layers.Dense(2, name="b")])
        adam = keras.optimizers.Adam(0.1)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(net(tf.ones((3, 5))) ** 2)
        adam.apply_gradients(
            zip(tape.gradient(loss, net.trainable_weights), net.trainable_weights, strict=True)
        )
        return net, tf.train.Checkpoint(net=net, optimizer=adam)

    net, checkpoint = program()
    path = checkpoint.save(str(tmp_path / "tf_ckpts" / "ckpt"))
    wanted = [value.numpy() for value in net.weights]
    for names in ("path", "variable", "key"):
        for form in ("safetensors", "npz"):
            file = tmp_path / f"{names}.{form}"
            ckpttool.export(path, file, names=names)
            back = str(tmp_path / "back" / f"{names}-{form}-3")
            ckpttool.import_checkpoint(file, back, like=path)
            other, _ = program()
            tf.train.Checkpoint(net=other).read(back).assert_existing_objects_matched()
            for value, array in zip(other.weights, wanted, strict=True):
                np.testing.assert_array_equal(value.numpy(), array)
    file = tmp_path / "all.safetensors"
    ckpttool.export(path, file, all_kinds=True)
    back = str(tmp_path / "back" / "all-1")
    ckpttool.import_checkpoint(file, back, like=path)
    other, restored = program()
    restored.restore(back).assert_consumed()
    for value, array in zip(other.weights, wanted, strict=True):
        np.testing.assert_array_equal(value.numpy(), array)
