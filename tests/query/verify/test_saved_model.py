"""Verifying the graphs and assets of SavedModels, exports and `.meta` files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ckpttool import pb
from ckpttool.api.verify import verify
from ckpttool.query.verify import metagraph as integrity_metagraph
from ckpttool.query.verify.findings import Finding
from ckpttool.query.verify.report import Report
from tests.support.fixtures import FIXTURES

MODEL = "saved_model/tf2.21/v1_builder/model"
NO_VARIABLES = "saved_model/tf2.21/no_variables/model"
EXPORT = "session_bundle/tf1.4/assets/export/00000123"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return copied(MODEL, tmp_path)


def copied(name: str, folder: Path) -> Path:
    shutil.copytree(os.path.join(FIXTURES, name), folder / "model")
    return folder / "model"


def only(folder: Path) -> Report:
    (report,) = verify(folder)
    return report


def one(folder: Path) -> Finding:
    (found,) = only(folder).findings
    return found


RUINS: list[tuple[Callable[[bytes], bytes], str]] = [
    (lambda data: data[:-5], "cut"),
    (lambda data: b"", "empty"),
    (lambda data: bytes(len(data)), "zeros"),
    (lambda data: bytes(range(256)) * 8, "garbage"),
    (lambda data: b"\n" * 100, "lines"),
    (lambda data: b"\x89HDF\r\n\x1a\n" + bytes(100), "another kind"),
]


@pytest.mark.parametrize(("ruin", "name"), RUINS, ids=[name for _, name in RUINS])
@pytest.mark.parametrize(
    ("fixture", "file"),
    [(MODEL, "saved_model.pb"), (NO_VARIABLES, "saved_model.pb"), (EXPORT, "export.meta")],
)
def test_a_graph_that_cannot_be_read_is_damage(
    fixture: str, file: str, ruin: Callable[[bytes], bytes], name: str, tmp_path: Path
) -> None:
    folder = copied(fixture, tmp_path)
    assert only(folder).verdict == "ok"
    path = folder / file
    path.write_bytes(ruin(path.read_bytes()))
    report = only(folder)
    assert report.verdict == "damaged"
    (found,) = report.findings
    assert (found.code, found.path) == ("metagraph-unreadable", str(path))
    assert verify(folder, fast=True)[0].verdict == "structure-ok"


def test_a_meta_file_that_is_cut(tmp_path: Path) -> None:
    shutil.copytree(os.path.join(FIXTURES, "v2/tf2.21/saver_v2"), tmp_path / "run")
    path = tmp_path / "run" / "model.ckpt-3.meta"
    os.truncate(path, 100)
    reports = {os.path.basename(each.prefix): each for each in verify(tmp_path / "run")}
    assert reports["model.ckpt-3"].verdict == "damaged"
    assert reports["model.ckpt-2"].verdict == "ok"


def test_a_graph_of_another_kind(model: Path) -> None:
    path = model / "saved_model.pb"
    metagraph = pb.SavedModel.FromString(path.read_bytes()).meta_graphs[0]
    path.write_bytes(metagraph.SerializeToString())
    found = one(model)
    assert found.code == "metagraph-unreadable" and "not a SavedModel" in found.message
    path.write_bytes(pb.SavedModel(saved_model_schema_version=1).SerializeToString())
    assert "without MetaGraphs" in one(model).message


def test_a_graph_beyond_the_bound_is_unchecked(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open(model / "saved_model.pb", "r+b") as file:
        file.truncate((512 << 20) + 1)  # a hole: nothing of it may be read
    monkeypatch.setattr(integrity_metagraph, "read_graph_file", None)
    report = only(model)
    assert report.verdict == "unchecked"
    assert [each.code for each in report.findings] == ["metagraph-not-read"]


def edit(model: Path, change: Callable[[pb.MetaGraphDef], object]) -> None:
    """Change the first MetaGraph of a SavedModel."""
    path = model / "saved_model.pb"
    message = pb.SavedModel.FromString(path.read_bytes())
    change(message.meta_graphs[0])
    path.write_bytes(message.SerializeToString())


def add_constant(graph: pb.GraphDef, dims: list[int], content: bytes = b"") -> None:
    node = graph.node.add(name="made/up", op="Const")
    node.attr["dtype"].type = 1
    tensor = node.attr["value"].tensor
    tensor.dtype = 1
    tensor.tensor_content = content
    for size in dims:
        tensor.tensor_shape.dim.add(size=size)


def rename_first(graph: pb.GraphDef) -> None:
    graph.node.add().CopyFrom(graph.node[0])


def break_input(graph: pb.GraphDef) -> None:
    node = next(node for node in graph.node if node.input)
    node.input[0] = "^no/such:1"


CHANGES: list[tuple[str, str, Callable[[pb.GraphDef], object]]] = [
    ("graph-node-twice", "2 nodes", rename_first),
    ("graph-input-missing", "no/such", break_input),
    ("graph-constant", "no value", lambda graph: graph.node.add(name="made/up", op="Const")),
    ("graph-constant", "-3", lambda graph: add_constant(graph, [2, -3])),
    ("graph-constant", "any file", lambda graph: add_constant(graph, [1 << 40, 1 << 40])),
    ("graph-constant", "claims", lambda graph: add_constant(graph, [1 << 50])),
    ("graph-constant", "takes 24 bytes", lambda graph: add_constant(graph, [2, 3], b"x" * 20)),
]


@pytest.mark.parametrize(("code", "words", "change"), CHANGES)
def test_what_no_loader_accepts(
    code: str, words: str, change: Callable[[pb.GraphDef], object], model: Path
) -> None:
    edit(model, lambda metagraph: change(metagraph.graph_def))
    report = only(model)
    assert report.verdict == "damaged"
    (found,) = (each for each in report.findings if each.severity == "damage")
    assert found.code == code and words in found.message and found.key


def test_what_may_mislead(model: Path) -> None:
    path = model / "saved_model.pb"
    message = pb.SavedModel.FromString(path.read_bytes())
    message.meta_graphs.add(meta_info_def=message.meta_graphs[0].meta_info_def)
    path.write_bytes(message.SerializeToString())
    (model / "saved_model.pbtxt").write_text("")
    report = only(model)
    codes = {each.code for each in report.findings}
    assert codes >= {"graph-tags-twice", "graph-empty", "graph-both-forms"}
    assert {each.severity for each in report.findings} == {"warning"}


def test_assets_that_are_missing_or_lie_elsewhere(tmp_path: Path) -> None:
    folder = copied(EXPORT, tmp_path)
    names = sorted(os.listdir(folder / "assets"))
    for name in names:
        os.rename(folder / "assets" / name, tmp_path / name)
    report = only(folder)
    assert report.verdict == "damaged"
    assert [(each.code, each.path) for each in report.findings] == [
        ("asset-missing", str(folder / "assets" / name)) for name in names
    ]
    os.mkfifo(folder / "assets" / names[0])
    assert "no regular file" in only(folder).findings[0].message
    os.unlink(folder / "assets" / names[0])
    for name in names:
        os.symlink(tmp_path / name, folder / "assets" / name)
    assert {each.code for each in only(folder).findings} == {"link-outside"}


@pytest.mark.parametrize("op", ["ReadFile", "StatefulPartitionedCall", "Identity", "Assign"])
def test_a_missing_asset_that_may_be_read_or_not(op: str, model: Path) -> None:
    path = model / "saved_model.pb"
    message = pb.SavedModel.FromString(path.read_bytes())
    for metagraph in message.meta_graphs:
        for node in metagraph.graph_def.node:
            if "asset_path" in node.input:
                node.input[:] = []
    path.write_bytes(message.SerializeToString())

    def change(metagraph: pb.MetaGraphDef) -> None:
        graph = metagraph.graph_def
        graph.node.add(name="kept", op="VariableV2")
        graph.node.add(name="between", op="Assign", input=["kept", "asset_path:0"])
        graph.node.add(name="user", op=op, input=["kept"])

    edit(model, change)
    (model / "assets/words.txt").unlink()
    reads = op in ("ReadFile", "StatefulPartitionedCall")
    (found,) = (each for each in only(model).findings if each.code.startswith("asset"))
    assert (found.code, found.severity) == (
        ("asset-missing", "damage") if reads else ("asset-unread", "warning")
    )

    def add_object(metagraph: pb.MetaGraphDef) -> None:
        metagraph.object_graph_def.nodes.add()

    edit(model, add_object)  # whose functions may read it
    assert [each.code for each in only(model).findings if each.severity == "damage"] == [
        "asset-missing"
    ]


@pytest.mark.parametrize(
    "name", ["../secret", "/etc/passwd", "", ".", "a/../../x", "a\0b"], ids=ascii
)
def test_assets_outside_of_the_folder(name: str, model: Path) -> None:
    edit(model, lambda metagraph: metagraph.asset_file_def.add(filename=name))
    found = one(model)
    assert (found.code, found.severity) == ("asset-outside", "damage")


def test_a_saved_model_without_variables_is_sound(tmp_path: Path) -> None:
    folder = copied(NO_VARIABLES, tmp_path)
    for path in (folder / "variables").glob("*"):
        path.unlink()
    for typed in (folder, folder / "saved_model.pb"):
        report = only(typed)
        assert (report.kind, report.verdict, report.findings) == ("graph", "ok", ())
        assert report.prefix == str(folder / "saved_model.pb")


def test_a_missing_index_is_a_finding_of_its_own(model: Path) -> None:
    (model / "variables" / "variables.index").unlink()
    report = only(model)
    assert report.verdict == "damaged"
    (found,) = report.findings
    assert found.code == "index-missing"
    assert found.path == str(model / "variables" / "variables.index")


def test_every_saved_model_and_export_of_the_fixtures_is_sound() -> None:
    found = []
    for pattern in ("saved_model.pb*", "export.meta"):
        for path in Path(FIXTURES).rglob(pattern):
            for report in verify(path.parent):
                found.append(report.prefix)
                assert report.judged(strict=True) in ("ok", "structure-ok"), report
    assert len(found) > 12
