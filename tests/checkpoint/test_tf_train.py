"""The look-alikes of `tf.train`; their equality with TensorFlow is told by tests/interop."""

from __future__ import annotations

import os
import shutil
import threading
import time

import numpy as np
import pytest

import ckpttool
from ckpttool.errors import MissingKeyError
from tests.legacy.handmade import LegacyFixture, legacy_fixture, legacy_fixtures
from tests.support.fixtures import FIXTURES, bundle, digest

FOLDER = os.path.join(FIXTURES, "v2/tf2.21/guide_legacy_adam/tf_ckpts")
STEP = "step/.ATTRIBUTES/VARIABLE_VALUE"


def test_reader() -> None:
    reader = ckpttool.load_checkpoint(FOLDER)
    assert reader.has_tensor(STEP) and not reader.has_tensor("step")
    shapes = reader.get_variable_to_shape_map()
    dtypes = reader.get_variable_to_dtype_map()
    assert shapes["net/l1/kernel/.ATTRIBUTES/VARIABLE_VALUE"] == [1, 5]
    assert dtypes[STEP].name == "int32" and dtypes[STEP].as_numpy_dtype is np.int32
    assert reader.get_tensor(STEP) == 50 and isinstance(reader.get_tensor(STEP), np.int32)
    assert isinstance(reader.get_tensor("_CHECKPOINTABLE_OBJECT_GRAPH"), bytes)
    with pytest.raises(MissingKeyError):
        reader.get_tensor("step")
    assert f"{STEP} (DT_INT32) []" in reader.debug_string().decode().splitlines()


@pytest.mark.parametrize("fixture", legacy_fixtures(), ids=lambda fixture: fixture.name)
def test_reader_of_v1(fixture: LegacyFixture) -> None:
    """Partitioned and half tensors too, which TensorFlow's own reader refuses."""
    reader = ckpttool.load_checkpoint(fixture.address)
    shapes = {key: list(facts.shape) for key, facts in fixture.tensors.items()}
    assert reader.get_variable_to_shape_map() == shapes
    dtypes = reader.get_variable_to_dtype_map()
    assert {key: dtype.name for key, dtype in dtypes.items()} == {
        key: facts.dtype for key, facts in fixture.tensors.items()
    }
    assert ckpttool.list_variables(fixture.address) == sorted(shapes.items())
    for key, facts in fixture.tensors.items():
        value = reader.get_tensor(key)
        array = np.asarray(value, object if isinstance(value, bytes) else None)
        assert digest(array) == facts.sha256
    key = min(fixture.tensors)
    value = ckpttool.load_variable(fixture.address, key + ":0")
    assert np.shape(value) == fixture.tensors[key].shape
    assert len(reader.debug_string().splitlines()) == len(shapes)


def test_latest_checkpoint_in_several_v1_files() -> None:
    fixture = legacy_fixture("v1/tf1.15/partitioned_sharded/model.ckpt-7")
    assert ckpttool.latest_checkpoint(os.path.dirname(fixture.prefix)) == fixture.address


def test_variables() -> None:
    listed = ckpttool.list_variables(FOLDER)
    assert listed == sorted(listed) and (STEP, []) in listed
    assert ckpttool.load_variable(FOLDER, STEP) == 50
    assert ckpttool.load_variable(FOLDER, STEP + ":0") == 50


def test_latest_checkpoint_and_state(tmp_path: os.PathLike[str]) -> None:
    assert ckpttool.latest_checkpoint(FOLDER) == os.path.join(FOLDER, "ckpt-5")
    state = ckpttool.get_checkpoint_state(FOLDER)
    assert state is not None
    assert [os.path.basename(path) for path in state.all_model_checkpoint_paths] == [
        "ckpt-3",
        "ckpt-4",
        "ckpt-5",
    ]
    assert ckpttool.latest_checkpoint(tmp_path) is None
    assert ckpttool.get_checkpoint_state(tmp_path) is None
    path = os.path.join(tmp_path, "checkpoint")
    with open(path, "w", encoding="utf-8") as file:
        file.write('model_checkpoint_path: "gone"\n')
    assert ckpttool.latest_checkpoint(tmp_path) is None
    with open(path, "w", encoding="utf-8") as file:
        file.write("no such text\n")
    with pytest.warns(UserWarning, match="checkpoint"):
        assert ckpttool.get_checkpoint_state(tmp_path) is None
    with open(path, "w", encoding="utf-8") as file:
        file.write('all_model_checkpoint_paths: "a"\n')
    with pytest.raises(ValueError, match="no checkpoint is named"):
        ckpttool.get_checkpoint_state(tmp_path)


@pytest.mark.parametrize("named", ["/old/place/ckpt-5", r"C:\\runs\\ckpt-5"])
def test_the_latest_of_a_folder_that_was_moved(named: str, tmp_path: os.PathLike[str]) -> None:
    folder = os.path.join(tmp_path, "moved")
    shutil.copytree(FOLDER, folder)
    path = os.path.join(folder, "checkpoint")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'model_checkpoint_path: "{named}"\n')
    with pytest.warns(UserWarning, match="does not exist; using '.*moved/ckpt-5'"):
        assert ckpttool.latest_checkpoint(folder) == os.path.join(folder, "ckpt-5")
    with open(path, "w", encoding="utf-8") as file:
        file.write('model_checkpoint_path: "/old/place/gone"\n')
    assert ckpttool.latest_checkpoint(folder) is None


def test_iterator_yields_each_latest_once(tmp_path: os.PathLike[str]) -> None:
    folder = os.path.join(tmp_path, "ckpts")
    os.mkdir(folder)

    def train() -> None:
        for name in ("ckpt-3", "ckpt-4"):
            for ending in (".index", ".data-00000-of-00001"):
                shutil.copy(os.path.join(FOLDER, name + ending), folder)
            temporary = os.path.join(folder, "checkpoint.new")
            with open(temporary, "w", encoding="utf-8") as file:
                file.write(f'model_checkpoint_path: "{name}"\n')
            os.rename(temporary, os.path.join(folder, "checkpoint"))
            time.sleep(1.6)

    trainer = threading.Thread(target=train)
    trainer.start()
    found = list(ckpttool.checkpoints_iterator(folder, timeout=2.5))
    trainer.join()
    assert found == [os.path.join(folder, name) for name in ("ckpt-3", "ckpt-4")]


def test_iterator_asks_the_timeout_function() -> None:
    answers = iter([False, True])
    found = ckpttool.checkpoints_iterator(FOLDER, timeout=0, timeout_fn=lambda: next(answers))
    assert list(found) == [bundle("v2/tf2.21/guide_legacy_adam/tf_ckpts/ckpt-5").prefix]
    assert next(answers, None) is None
