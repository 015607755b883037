"""What is told of graphs beside what TensorFlow sees in them.

CKPT_TF115_PYTHON, CKPT_TF14_PYTHON and CKPT_TF012_PYTHON name interpreters that have 1.15, 1.4 and
0.12; TensorFlow 2 is that of this interpreter.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import ckpttool
from ckpttool.api.verify import verify
from ckpttool.metagraph.report import read_graph_facts
from ckpttool.query.diff.metagraph import diff_metagraphs
from ckpttool.query.metagraph.summary import describe_graphs
from tests.interop.test_metagraph import FILES, python_of, release_of
from tests.support.fixtures import FIXTURES

ORACLE = Path(__file__).with_name("graph_summary_oracle.py")
METAS = [
    path for path in FILES if path.endswith(".meta") and not path.startswith("session_bundle/")
]
RELEASES = sorted({release_of(path) for path in METAS})
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "GradientDescentOptimizer": {},
    "MomentumOptimizer": {"momentum": 0.9},
    "AdagradOptimizer": {},
    "AdagradDAOptimizer": {"global_step": None},
    "AdadeltaOptimizer": {},
    "AdamOptimizer": {},
    "FtrlOptimizer": {},
    "ProximalAdagradOptimizer": {},
    "RMSPropOptimizer": {"centered": True},
}


@pytest.mark.parametrize("release", RELEASES)
def test_meta_files_are_what_tensorflow_imports(release: str) -> None:
    paths = [f"{FIXTURES}/{path}" for path in METAS if release_of(path) == release]
    done = subprocess.run(
        [python_of(release), str(ORACLE), *paths],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
        timeout=600,
    )
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert sorted(seen) == sorted(paths)
    for path, wanted in seen.items():
        (facts,) = read_graph_facts(path)
        metagraph = facts.metagraph
        assert metagraph.nodes == wanted["nodes"]
        if not metagraph.functions:
            assert dict(metagraph.ops) == wanted["ops"]
        variables = {
            each.key: [each.dtype, None if each.shape is None else list(each.shape)]
            for each in facts.variables
            if each.name is not None
        }
        assert variables == wanted["variables"]
        if wanted["saver"]:
            assert metagraph.saver is not None
            assert {name: getattr(metagraph.saver, name) for name in wanted["saver"]} == wanted[
                "saver"
            ]


@pytest.mark.parametrize("name", ["module", "tf_keras", "no_variables"])
def test_signatures_and_variables_of_saved_models(tf: Any, name: str) -> None:
    folder = f"{FIXTURES}/saved_model/tf2.21/{name}/model"
    loaded = tf.saved_model.load(folder)
    reports = describe_graphs(folder)
    (report,) = reports.graphs
    signatures = {each.key: each for each in report.facts.metagraph.signatures}
    assert loaded.signatures.keys() == signatures.keys() - {"__saved_model_init_op"}
    for key, function in loaded.signatures.items():
        found = signatures[key]
        _, inputs = function.structured_input_signature
        for tensors, wanted in (
            (found.inputs, inputs),
            (found.outputs, function.structured_outputs),
        ):
            assert {
                each.key: (each.dtype, None if each.shape is None else list(each.shape))
                for each in tensors
            } == {
                key: (
                    spec.dtype.name,
                    [-1 if size is None else size for size in spec.shape.as_list()],
                )
                for key, spec in wanted.items()
            }
    keys = dict(tf.train.list_variables(f"{folder}/variables/variables"))
    objects = {key: shape for key, shape in keys.items() if key.endswith("/VARIABLE_VALUE")}
    rows = {row.key: list(row.shape or ()) for row in report.variables if row.stored_dtype}
    assert rows == objects


def _train(tf: Any, name: str, options: dict[str, Any], *, resource: bool) -> list[set[str]]:
    """Make a graph with an optimizer of a name that says nothing; return slots and parameters."""
    tf1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        tf1.set_random_seed(1)
        given = dict(options)
        if "global_step" in given:
            given["global_step"] = tf1.get_variable(
                "gs", (), tf.int64, trainable=False, use_resource=resource
            )
        w = tf1.get_variable("w", (3, 2), use_resource=resource)
        rows = tf1.get_variable("rows", (5, 2), use_resource=resource)
        rate = tf1.get_variable("speed", (), trainable=False, use_resource=resource)
        optimizer = getattr(tf1.train, name)(rate, name="opaque", **given)
        loss = tf.reduce_sum(w * w) + tf.reduce_sum(tf.nn.embedding_lookup(rows, [1, 2]) ** 2)
        optimizer.minimize(loss)
        slots = {
            optimizer.get_slot(variable, slot).op.name
            for slot in optimizer.get_slot_names()
            for variable in (w, rows)
        }
        own = {each.op.name for each in optimizer.variables()} - slots
        with tf1.Session(graph=graph) as session:
            session.run(tf1.global_variables_initializer())
            tf1.train.Saver().save(session, "m", write_state=False)
        return [slots, own]


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_kinds_are_those_that_the_optimizer_tells(
    tf: Any, name: str, resource: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    slots, own = _train(tf, name, OPTIMIZERS[name], resource=resource)
    with ckpttool.open_checkpoint(tmp_path / "m") as ckpt:
        kinds = dict(ckpt.kinds)
    assert {key for key, kind in kinds.items() if kind == "slot"} == slots
    assert {key for key, kind in kinds.items() if kind == "weight"} >= {"w", "rows"}
    assert all(kinds[key] == "optimizer" for key in own)
    if name != "AdagradDAOptimizer":
        assert kinds["speed"] == "optimizer"


def test_a_saver_of_averages(tf: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph restores averages into variables of other names, and leaves one alone."""
    monkeypatch.chdir(tmp_path)
    tf1 = tf.compat.v1
    with tf.Graph().as_default() as graph, tf1.Session(graph=graph) as session:
        w = tf1.get_variable("w", (3, 2))
        tf1.get_variable("rest", (4,))
        session.run(tf1.global_variables_initializer())
        saver = tf1.train.Saver({"w/ExponentialMovingAverage": w})
        saver.save(session, "m", write_state=False)
    (report,) = describe_graphs(str(tmp_path / "m")).graphs
    assert report.comparison is not None and report.comparison.agrees
    assert [row.key for row in report.comparison.unsaved] == ["rest"]
    assert verify(tmp_path / "m")[0].findings == ()


def test_two_saves_of_one_program_do_not_differ(tf: Any, tmp_path: Path) -> None:
    """TensorFlow numbers functions anew each time."""

    class Model(tf.Module):  # type: ignore[misc]
        def __init__(self, size: int) -> None:
            super().__init__()
            self.w = tf.Variable(tf.ones((2, size)))

        @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32)])  # type: ignore[untyped-decorator]
        def __call__(self, x: Any) -> Any:
            return tf.nn.relu(x @ self.w)

    for name, size in (("a", 3), ("b", 3), ("c", 4)):
        tf.saved_model.save(Model(size), str(tmp_path / name))
    same = diff_metagraphs(str(tmp_path / "a"), str(tmp_path / "b"))
    assert same.equal
    other = diff_metagraphs(str(tmp_path / "a"), str(tmp_path / "c"))
    (pair,) = other.graphs
    assert {(each.part, each.name) for each in pair.changes} >= {
        ("object", "w"),
        ("signature", "serving_default"),
    }
