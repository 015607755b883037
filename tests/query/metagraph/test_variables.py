"""Variables of graphs against tensors: real ones agree, and whatever is changed is told."""

from __future__ import annotations

import glob
import os
import shutil
from pathlib import Path

import pytest

import ckpttool
from ckpttool import pb
from ckpttool.api.verify import verify
from ckpttool.bundle.entry import BundleEntry
from ckpttool.metagraph.report import GraphFacts, read_graph_facts
from ckpttool.query.metagraph.summary import describe_graphs
from ckpttool.query.metagraph.variables import VariableComparison, compare_variables, variable_rows
from ckpttool.tensor.dtypes import dtype_of_name
from tests.metagraph.graph_messages import FLOAT, INT32, node, with_saver, written
from tests.support.fixtures import FIXTURES

SAVER = "v2/tf1.15/saver/model.ckpt-3"
KERAS = "saved_model/tf2.21/tf_keras/model"


def graph_addresses() -> list[str]:
    """Return every checkpoint among the fixtures that has a graph."""
    metas = glob.glob(f"{FIXTURES}/*/**/*.meta", recursive=True)
    models = glob.glob(f"{FIXTURES}/*/**/saved_model.pb*", recursive=True)
    found = [path for path in metas if f"{FIXTURES}/meta/" not in path]
    return sorted(found + list(map(os.path.dirname, models)))


def compared(message: pb.MetaGraphDef, tmp_path: Path, **tensors: str) -> VariableComparison:
    """Hold a graph against tensors, given as dtype and numbers: "float32 2 3"."""
    (facts,) = read_graph_facts(written(message, tmp_path / "x.meta"))
    return compare_variables(facts, entries(**tensors), None)


def entries(**tensors: str) -> dict[str, BundleEntry]:
    found = {}
    for key, text in tensors.items():
        dtype, *shape = text.split()
        found[key] = BundleEntry(dtype_of_name(dtype), tuple(map(int, shape)))
    return found


@pytest.mark.sweep(5)
@pytest.mark.parametrize(
    "path", [pytest.param(path, id=os.path.relpath(path, FIXTURES)) for path in graph_addresses()]
)
def test_what_tensorflow_wrote_agrees(path: str) -> None:
    reports = describe_graphs(path)
    assert reports.problems == () and reports.source is not None
    with ckpttool.open_checkpoint(path) as ckpt:
        keys = set(ckpt.entries)
    for each in reports.graphs:
        assert each.comparison is not None and each.comparison.reason is None
        assert each.comparison.agrees
        named = {row.key for row in each.variables if row.stored_dtype is not None}
        objects = {key for key in keys if not key.endswith("/VARIABLE_VALUE")}
        assert named == keys or (keys - named) <= objects
    assert [found.code for each in verify(path) for found in each.findings] == []


def test_there_are_graphs_of_all_sorts() -> None:
    paths = graph_addresses()
    assert len(paths) > 50
    for part in ("v1/tf0.12", "v2/tf1.4", "session_bundle/tf1.4", "saved_model/tf2.21"):
        assert any(part in path for path in paths)


def test_disagreements(tmp_path: Path) -> None:
    variables = {name: (FLOAT, [2, 3]) for name in ("same", "gone", "dtype", "shape")}
    found = compared(
        with_saver(variables),
        tmp_path,
        same="float32 2 3",
        dtype="float64 2 3",
        shape="float32 3",
        extra="int32",
    )
    assert {row.key: row.disagreements for row in found.rows} == {
        "same": (),
        "gone": ("missing",),
        "dtype": ("dtype",),
        "shape": ("shape",),
        "extra": ("extra",),
    }
    assert not found.agrees and found.count("missing") == found.count("extra") == 1


def test_unsaved_variables_may_be_missing(tmp_path: Path) -> None:
    message = with_saver({"w": (FLOAT, [2]), "rest": (FLOAT, [2])}, {"w": "w"})
    found = compared(message, tmp_path, w="float32 2")
    assert found.agrees and [row.key for row in found.unsaved] == ["rest"]


def test_without_a_saver_all_have_to_be_there(tmp_path: Path) -> None:
    message = with_saver({"w": (FLOAT, [2])})
    message.ClearField("saver_def")
    found = compared(message, tmp_path, v="float32 2")
    assert [row.disagreements for row in found.rows] == [("missing",), ("extra",)]


def test_open_dimensions_take_any_size(tmp_path: Path) -> None:
    message = with_saver({"w": (FLOAT, [-1, 3])})
    assert compared(message, tmp_path, w="float32 7 3").agrees
    assert compared(message, tmp_path, w="float32 7 4").count("shape") == 1


def test_what_cannot_be_compared(tmp_path: Path) -> None:
    message = pb.MetaGraphDef()
    node(message.graph_def, "x", "Placeholder", dtype=INT32)
    found = compared(message, tmp_path, w="float32")
    assert found.reason == "the MetaGraph names no variables" and found.rows == ()
    message.object_graph_def.nodes.add()
    found = compared(message, tmp_path, w="float32")
    assert found.reason == "the checkpoint has no object graph, the MetaGraph has one"


def keras() -> tuple[GraphFacts, dict[str, BundleEntry], object]:
    (facts,) = read_graph_facts(f"{FIXTURES}/{KERAS}/saved_model.pb")
    with ckpttool.open_checkpoint(f"{FIXTURES}/{KERAS}") as ckpt:
        return facts, dict(ckpt.entries), ckpt.object_graph  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "path",
    [
        "layer_with_weights-0/kernel",
        "optimizer/iter",
        "layer_with_weights-0/kernel/.OPTIMIZER_SLOT/optimizer/momentum",
        "keras_api/metrics/0/total",
    ],
)
def test_objects_of_a_saved_model(path: str) -> None:
    facts, tensors, graph = keras()
    key = f"{path}/.ATTRIBUTES/VARIABLE_VALUE"
    entry = tensors.pop(key)
    found = compare_variables(facts, tensors, graph)  # type: ignore[arg-type]
    (row,) = (row for row in found.rows if row.disagreements)
    assert (row.key, row.name, row.disagreements) == (key, path, ("missing",))
    tensors[key] = BundleEntry(dtype_of_name("int16"), (*entry.shape, 9))
    found = compare_variables(facts, tensors, graph)  # type: ignore[arg-type]
    (row,) = (row for row in found.rows if row.disagreements)
    assert row.disagreements == ("dtype", "shape")


def test_objects_without_a_checkpoint() -> None:
    facts, tensors, _ = keras()
    rows = variable_rows(facts)
    assert {f"{row.name}/.ATTRIBUTES/VARIABLE_VALUE" for row in rows} == {
        key for key in tensors if key.endswith("VALUE")
    }


def test_a_tensor_that_no_object_has() -> None:
    facts, tensors, graph = keras()
    tensors["new/.ATTRIBUTES/VARIABLE_VALUE"] = BundleEntry(dtype_of_name("float32"), ())
    found = compare_variables(facts, tensors, graph)  # type: ignore[arg-type]
    assert [row.key for row in found.rows if row.disagreements] == [
        "new/.ATTRIBUTES/VARIABLE_VALUE"
    ]


def test_several_graphs_share_a_checkpoint(tmp_path: Path) -> None:
    facts = [
        read_graph_facts(written(with_saver({name: (FLOAT, [1])}), tmp_path / f"{name}.meta"))[0]
        for name in ("a", "b")
    ]
    found = compare_variables(facts[0], entries(a="float32 1", b="float32 1"), None, others=facts)
    assert found.agrees


def copied(folder: Path) -> str:
    """Copy a checkpoint with its graph, and return its prefix."""
    for path in glob.glob(f"{FIXTURES}/{SAVER}.*"):
        shutil.copy(path, folder)
    return str(folder / "model.ckpt-3")


def test_verify_tells_of_another_graph(tmp_path: Path) -> None:
    prefix = copied(tmp_path)
    shapes = {"dense/kernel": (FLOAT, [3, 9]), "new": (FLOAT, [1])}
    written(with_saver(shapes), Path(f"{prefix}.meta"))
    (report,) = verify(prefix)
    found = {(each.code, each.key) for each in report.findings}
    assert ("graph-variable-missing", "new") in found
    assert ("graph-variable-differs", "dense/kernel") in found
    assert ("graph-variable-unclaimed", "global_step") in found
    assert {each.path for each in report.findings} == {f"{prefix}.meta"}
    told = [each for each in report.findings if each.code.startswith("graph-variable")]
    assert {each.severity for each in told} == {"warning"}
    (differs,) = (each for each in report.findings if each.code == "graph-variable-differs")
    assert differs.message == (
        "the MetaGraph has it as float32 [3, 9], the checkpoint as float32 [3, 2]"
    )
    assert verify(prefix, fast=True)[0].findings == ()


def test_verify_tells_of_a_graph_that_is_none(tmp_path: Path) -> None:
    prefix = copied(tmp_path)
    with open(f"{prefix}.meta", "r+b") as file:
        file.truncate(1000)
    (report,) = verify(prefix)
    assert [each.code for each in report.findings] == ["metagraph-unreadable"]
    assert report.verdict == "damaged"
