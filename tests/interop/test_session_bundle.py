"""TensorFlow loads the SavedModels that exports become, and they compute what the exports did.

CKPT_TF115_PYTHON names an interpreter that has TensorFlow 1.15, which is asked as well.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckpttool import open_checkpoint
from ckpttool.surgery.session_bundle.saved_model import prepare_export
from tests.support.conversions import convert
from tests.support.exports import (
    ASSETS,
    SAMPLE,
    copied,
    edit,
    expected,
    exports,
    exports_of_examples,
    with_old_save,
    with_old_saver,
    with_signatures,
)
from tests.support.fixtures import FIXTURES

VARIABLE = "CKPT_TF115_PYTHON"
X = np.array([[1.0, -2.0], [3.0, 5.0]], np.float32)
# The model of every export is y = x w + b with these.
Y = X @ np.array([[0.0, 0.25], [0.5, 0.75]], np.float32) + np.array([1.0, 1.25], np.float32)
SCORES = np.exp(Y) / np.exp(Y).sum(axis=1, keepdims=True)
RESULTS: dict[str, Any] = {
    "y": Y,
    "outputs": Y,
    "scores": SCORES,
    "classes": [str(at).encode() for at in Y.argmax(axis=1)],
}
ALL = [row["name"] for row in exports()]
EXPECTED = [row for row in exports() if "expected_signatures" in row]
LOAD = """
import json, sys
import tensorflow as tf
x, paths = json.loads(sys.argv[1])
results = {}
for path in paths:
    with tf.Graph().as_default():
        devices = tf.compat.v1.ConfigProto(device_count={"CPU": 2})
        with tf.compat.v1.Session(config=devices) as session:
            tf.compat.v1.saved_model.loader.load(session, ["serve"], path)
            results[path] = session.run("y:0", {"x:0": x}).tolist()
print(json.dumps(results))
"""


@contextlib.contextmanager
def loaded(tf: Any, model: Path) -> Iterator[tuple[Any, Any]]:
    """Load a SavedModel as programs of TensorFlow 1 do; yield the session and the MetaGraph."""
    v1 = tf.compat.v1
    config = v1.ConfigProto(device_count={"CPU": 2}, allow_soft_placement=True)
    with tf.Graph().as_default(), v1.Session(config=config) as session:
        yield session, v1.saved_model.loader.load(session, ["serve"], str(model))


def converted(folder: Path, tmp_path: Path) -> Path:
    prepare_export(str(folder), str(tmp_path / "model")).write()
    return tmp_path / "model"


def check_values(tf: Any, model: Path) -> set[str]:
    """Check what a SavedModel computes, loaded in both ways; return the keys of its signatures."""
    with loaded(tf, model) as (session, _):
        assert np.allclose(session.run("y:0", {"x:0": X}), Y)
    signatures = tf.saved_model.load(str(model)).signatures
    for key in signatures:
        results = signatures[key](tf.constant(X))
        assert results
        for name, result in results.items():
            if name == "classes":
                assert result.numpy().tolist() == RESULTS[name]
            else:
                assert np.allclose(result.numpy(), RESULTS[name])
    return set(signatures)


@pytest.mark.parametrize("name", ALL)
def test_every_export(tf: Any, tmp_path: Path, name: str) -> None:
    keys = check_values(tf, converted(copied(name, tmp_path / "export"), tmp_path))
    assert "serving_default" in keys


@pytest.mark.parametrize("name", exports_of_examples())
def test_builds_from_source_and_placeholders_of_any_shape(
    tf: Any, tmp_path: Path, name: str
) -> None:
    model = converted(copied(name, tmp_path / "export"), tmp_path)
    values = np.array([[1.0], [4.0]], np.float32)
    examples = [
        tf.train.Example(
            features=tf.train.Features(
                feature={"x": tf.train.Feature(float_list=tf.train.FloatList(value=row))}
            )
        ).SerializeToString()
        for row in values
    ]
    with loaded(tf, model) as (session, _):
        assert np.allclose(session.run("y:0", {"examples:0": examples}), values * 0.5 + 2)
    signatures = tf.saved_model.load(str(model)).signatures
    assert set(signatures) == {"serving_default", "from_x"}
    (scores,) = signatures["serving_default"](tf.constant(examples)).values()
    assert np.allclose(scores.numpy(), values * 0.5 + 2)
    (y,) = signatures["from_x"](tf.constant(values)).values()
    assert np.allclose(y.numpy(), values * 0.5 + 2)


@pytest.mark.parametrize("producer", ["tf0.12", "tf1.4"])
def test_a_graph_by_a_build_from_source(tf: Any, tmp_path: Path, producer: str) -> None:
    source = f"{FIXTURES}/v1/{producer}/built_from_source/model.ckpt-3"
    convert(source, tmp_path / "model.ckpt-3")
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        saver = v1.train.import_meta_graph(str(tmp_path / "model.ckpt-3.meta"))
        saver.restore(session, str(tmp_path / "model.ckpt-3"))
        assert session.run("sum:0", {"fed:0": [1.0, 1.0]}).tolist() == [1.0, 1.25]


def test_an_export_without_its_asset(tf: Any, tmp_path: Path) -> None:
    source = copied(ASSETS, tmp_path / "export")
    edit(source, lambda message: message.collection_def.pop("serving_init_op"))
    shutil.rmtree(source / "assets")
    prepare_export(str(source), str(tmp_path / "model"), force=True).write()
    check_values(tf, tmp_path / "model")


@pytest.mark.parametrize("row", EXPECTED, ids=lambda row: row["name"])
def test_values_that_tensorflow_1_4_computed(tf: Any, tmp_path: Path, row: Any) -> None:
    wanted = expected(row)
    with loaded(tf, converted(copied(row["name"], tmp_path / "export"), tmp_path)) as (session, _):
        for name, value in wanted["fetch"].items():
            found = session.run(name, wanted["feed"])
            assert (found.decode() if isinstance(found, bytes) else found.tolist()) == value


def test_the_init_op_reads_the_asset(tf: Any, tmp_path: Path) -> None:
    source = copied(ASSETS, tmp_path / "export")
    (source / "assets" / "vocabulary.txt").write_bytes(b"other words\n")
    model = converted(source, tmp_path)
    with loaded(tf, model) as (session, _):
        assert session.run("vocabulary:0") == b"other words\n"
    words = tf.saved_model.load(str(model)).prune([], "vocabulary/read:0")
    assert words().numpy() == b"other words\n"


def test_an_asset_without_an_init_op(tf: Any, tmp_path: Path) -> None:
    source = copied(ASSETS, tmp_path / "export")
    edit(source, lambda message: message.collection_def.pop("serving_init_op"))
    check_values(tf, converted(source, tmp_path))


@pytest.mark.parametrize("name", ALL)
def test_savers_of_the_oldest_exports(tf: Any, tmp_path: Path, name: str) -> None:
    source = copied(name, tmp_path / "export")
    edit(source, with_old_saver)
    check_values(tf, converted(source, tmp_path))


def unchanged(message: Any) -> None:
    """Leave an export as it is."""


@pytest.mark.parametrize(
    ("name", "change"), [*((name, unchanged) for name in ALL), (SAMPLE, with_old_save)]
)
def test_saving_again(tf: Any, tmp_path: Path, name: str, change: Callable[[Any], None]) -> None:
    source = copied(name, tmp_path / "export")
    edit(source, change)
    with loaded(tf, converted(source, tmp_path)) as (session, metagraph):
        (tmp_path / "again").mkdir()
        saver = tf.compat.v1.train.Saver(saver_def=metagraph.saver_def, name="")
        session.run(
            "save/restore_all", {"save/Const:0": str(tmp_path / "model/variables/variables")}
        )
        saver.save(session, str(tmp_path / "again" / "ckpt"), write_meta_graph=False)
    with (
        open_checkpoint(str(tmp_path / "again" / "ckpt")) as again,
        open_checkpoint(str(tmp_path / "model")) as model,
    ):
        assert again.generation == "V2"
        assert list(again) == list(model)
        assert all(np.array_equal(again[key], model[key]) for key in model)


@pytest.mark.parametrize(
    ("signature", "result"),
    [
        ({"kind": "generic", "given": "x:0", "scores": "scores:0"}, "scores"),
        ({"kind": "regression", "input": "x", "output": "y"}, "outputs"),
    ],
)
@pytest.mark.parametrize("key", ["default", "other"])
def test_signatures_that_its_own_converter_leaves_out(
    tf: Any, tmp_path: Path, signature: dict[str, str], result: str, key: str
) -> None:
    source = copied(SAMPLE, tmp_path / "export")
    edit(source, with_signatures(**{key: signature}))
    model = converted(source, tmp_path)
    assert check_values(tf, model) == {"serving_default" if key == "default" else key}
    (found,) = tf.saved_model.load(str(model)).signatures.values()
    assert list(found.structured_outputs) == [result]


def test_no_signatures_at_all(tf: Any, tmp_path: Path) -> None:
    source = copied(SAMPLE, tmp_path / "export")
    edit(source, with_signatures(default={"kind": "unknown"}))
    assert check_values(tf, converted(source, tmp_path)) == set()


def test_tensorflow_1_15(tmp_path: Path) -> None:
    python = os.environ.get(VARIABLE)
    if not python:
        pytest.skip(f"{VARIABLE} names no interpreter that has TensorFlow 1.15")
    models = []
    for number, name in enumerate(ALL):
        source = copied(name, tmp_path / f"export{number}")
        if number % 2:
            edit(source, with_old_saver)
        models.append(str(tmp_path / f"model{number}"))
        prepare_export(str(source), models[-1]).write()
    done = subprocess.run(
        [python, "-c", LOAD, json.dumps([X.tolist(), models])],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
        text=True,
    )
    results = json.loads(done.stdout)
    assert results.keys() == set(models)
    assert all(np.allclose(value, Y) for value in results.values())
