"""Savers of format V1, made to restore and save V2; tests/interop has TensorFlow run them."""

from __future__ import annotations

import os
from typing import Any

import pytest

from ckpttool import pb
from ckpttool.metagraph.saver import update_saver
from ckpttool.metagraph.session_bundle import read_session_bundle
from tests.support.exports import export_path, with_old_saver

KEYS = ("b", "global_step", "rows", "w")
V1 = ("SaveSlices", "Save", "Restore", "RestoreSlice", "ShardedFilespec")


def message(name: str) -> pb.MetaGraphDef:
    folder = export_path(f"session_bundle/{name}/export/00000123")
    return read_session_bundle(os.path.join(folder, "export.meta")).message


def by_name(found: pb.MetaGraphDef) -> dict[str, pb.NodeDef]:
    return {node.name: node for node in found.graph_def.node}


@pytest.mark.parametrize("producer", ["tf0.12", "tf1.4"])
@pytest.mark.parametrize("case", ["regression", "sharded_v1", "classification", "sharded_v2"])
@pytest.mark.parametrize("old", [False, True])
def test_savers_of_the_exports(producer: str, case: str, old: bool) -> None:
    found = message(f"{producer}/{case}")
    if old:
        with_old_saver(found)
    before = {node.name for node in found.graph_def.node}
    assert update_saver(found) == KEYS
    assert found.saver_def.version == pb.SaverDef.V2
    nodes = by_name(found)
    assert before <= nodes.keys()
    assert len(nodes) == len(found.graph_def.node)
    assert not [node.op for node in nodes.values() if node.op in V1]


def test_what_is_of_format_v2_already_stays() -> None:
    found = message("tf1.4/sharded_v2")
    before = found.SerializeToString(deterministic=True)
    update_saver(found)
    assert found.SerializeToString(deterministic=True) == before


def test_a_node_that_restores_a_slice() -> None:
    found = message("tf1.4/regression")
    expected = by_name(message("tf1.4/regression"))["save/RestoreV2_2"]
    with_old_saver(found)
    update_saver(found)
    node = by_name(found)["save/RestoreV2_2"]
    assert node.op == "RestoreV2"
    assert list(node.attr["dtypes"].list.type) == list(expected.attr["dtypes"].list.type)
    assert "dt" not in node.attr
    assert "preferred_shard" not in node.attr
    assert node.input[0] == "save/Const"
    vectors = [by_name(found)[name] for name in node.input[1:]]
    assert [vector.op for vector in vectors] == ["Pack", "Pack"]
    assert [list(vector.input) for vector in vectors] == [[name] for name in expected.input[1:]]


def plain(op: str, inputs: list[str], **attributes: Any) -> pb.MetaGraphDef:
    """Return a graph that restores by one node and saves by one, in one of the oldest forms."""
    found = pb.MetaGraphDef()
    graph = found.graph_def
    graph.node.add(name="file", op="Const")
    name = graph.node.add(name="name", op="Const").attr["value"].tensor
    name.string_val.append(b"w")
    graph.node.add(name="w", op="Variable")
    node = graph.node.add(name="it", op=op, input=inputs, device="/cpu:0")
    for key, value in attributes.items():
        if isinstance(value, list):
            node.attr[key].list.type.extend(value)
        else:
            node.attr[key].type = value
    which = "save_tensor_name" if op.startswith("Save") else "restore_op_name"
    setattr(found.saver_def, which, "it")
    found.saver_def.restore_op_name = "it"
    return found


def test_restoring_a_whole_tensor() -> None:
    found = plain("Restore", ["file", "name", "^w"], dt=1)
    update_saver(found)
    nodes = by_name(found)
    node = nodes["it"]
    assert node.op == "RestoreV2"
    assert list(node.attr["dtypes"].list.type) == [1]
    assert node.input[0] == "file"
    assert list(node.input[3:]) == ["^w"]
    assert list(nodes[node.input[1]].input) == ["name"]
    slices = nodes[node.input[2]].attr["value"].tensor
    assert list(slices.string_val) == [b""]
    assert [dim.size for dim in slices.tensor_shape.dim] == [1]
    assert {nodes[name].device for name in node.input[1:3]} == {"/cpu:0"}


def test_saving_whole_tensors() -> None:
    found = plain("Save", ["file", "name", "w", "w:1"], T=[1, 3])
    update_saver(found)
    node = by_name(found)["it"]
    assert node.op == "SaveV2"
    assert list(node.attr["dtypes"].list.type) == [1, 3]
    assert "T" not in node.attr
    assert [node.input[at] for at in (0, 1, 3, 4)] == ["file", "name", "w", "w:1"]
    slices = by_name(found)[node.input[2]].attr["value"].tensor
    assert list(slices.string_val) == [b"", b""]


@pytest.mark.parametrize(
    ("op", "inputs", "attributes"),
    [
        ("Restore", ["file"], {"dt": 1}),
        ("RestoreSlice", ["file", "name"], {"dt": 1}),
        ("RestoreV2", ["file"], {"dtypes": [1]}),
        ("SaveSlices", ["file", "name"], {"T": [1]}),
        ("ShardedFilespec", [], {}),
        ("RestoreV2", ["file", "nowhere:0", "it"], {"dtypes": [1]}),
    ],
)
def test_nodes_that_make_no_sense_stay(
    op: str, inputs: list[str], attributes: dict[str, Any]
) -> None:
    found = plain(op, inputs, **attributes)
    before = found.graph_def.SerializeToString(deterministic=True)
    update_saver(found)
    assert found.graph_def.SerializeToString(deterministic=True) == before


def test_without_a_saver_nothing_changes() -> None:
    found = plain("Restore", ["file", "name"], dt=1)
    found.ClearField("saver_def")
    assert update_saver(found) == ()
    assert not found.HasField("saver_def")
    assert by_name(found)["it"].op == "Restore"
