"""The message of a SavedModel, from exports."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ckpttool import pb
from ckpttool.errors import CorruptError, UnsupportedError
from ckpttool.metagraph.saved_model import BuiltModel, build_saved_model
from ckpttool.metagraph.session_bundle import read_session_bundle
from ckpttool.pb.convert import parse, unknown_fields
from tests.support.exports import (
    ASSETS,
    SAMPLE,
    copied,
    edit,
    expected,
    export_path,
    exports,
    with_signatures,
)
from tests.support.refusals import refused

FLOAT, STRING = 1, 7


def build(name: str) -> BuiltModel:
    return build_saved_model(read_session_bundle(os.path.join(export_path(name), "export.meta")))


def metagraph(built: BuiltModel) -> pb.MetaGraphDef:
    model = parse(pb.SavedModel, built.data, path=None)
    assert model.saved_model_schema_version == 1
    (found,) = model.meta_graphs
    return found


def edited(
    tmp_path: Path, change: Callable[[pb.MetaGraphDef], object], name: str = SAMPLE
) -> BuiltModel:
    path = edit(copied(name, tmp_path / "export"), change)
    return build_saved_model(read_session_bundle(str(path)))


def as_tensorflow_has_it(found: pb.MetaGraphDef) -> dict[str, Any]:
    """Return the signatures, without what the converter of TensorFlow does not tell."""

    def names(tensors: Any) -> dict[str, Any]:
        return {key: {"name": tensors[key].name} for key in tensors}

    return {
        key: {
            "inputs": names(signature.inputs),
            "methodName": signature.method_name,
            "outputs": names(signature.outputs),
        }
        for key, signature in found.signature_def.items()
    }


@pytest.mark.parametrize(
    "row", [row for row in exports() if "expected_signatures" in row], ids=lambda row: row["name"]
)
def test_signatures_are_those_of_tensorflow_1_4(row: dict[str, Any]) -> None:
    wanted = expected(row)["signature_def"]
    for signature in wanted.values():
        # TensorFlow makes an output of what is not there; then nobody can load the result.
        outputs = signature["outputs"]
        signature["outputs"] = {key: outputs[key] for key in outputs if outputs[key]["name"]}
    found = as_tensorflow_has_it(metagraph(build(row["name"])))
    # It leaves out named signatures other than "inputs" and "outputs".
    third = found.pop("third", None)
    assert found == wanted
    assert (third is not None) == ("named" in row["purpose"])


@pytest.mark.parametrize("row", exports(), ids=lambda row: row["name"])
def test_dtypes_and_shapes_are_told(row: dict[str, Any]) -> None:
    found = metagraph(build(row["name"]))
    tensors = [
        info
        for signature in found.signature_def.values()
        for info in (*signature.inputs.values(), *signature.outputs.values())
    ]
    assert tensors
    for info in tensors:
        assert info.dtype == (STRING if info.name == "classes:0" else FLOAT)
        assert info.HasField("tensor_shape")
        if "cleared" not in row["name"]:
            last = [] if info.name == "classes:0" else [2]
            assert [dim.size for dim in info.tensor_shape.dim] == [-1, *last]


@pytest.mark.parametrize("row", exports(), ids=lambda row: row["name"])
def test_nothing_of_the_export_is_lost(row: dict[str, Any]) -> None:
    bundle = read_session_bundle(os.path.join(export_path(row["name"]), "export.meta"))
    before, after = bundle.message, metagraph(build_saved_model(bundle))
    assert list(after.meta_info_def.tags) == ["serve"]
    assert after.meta_info_def.stripped_op_list == before.meta_info_def.stripped_op_list
    assert {node.name for node in bundle.graph.node} <= {node.name for node in after.graph_def.node}
    for key, collection in before.collection_def.items():
        if not key.startswith("serving_"):
            assert after.collection_def[key] == collection
    assert unknown_fields(after) == []


def test_assets_and_init_op() -> None:
    collections = metagraph(build(ASSETS)).collection_def
    (packed,) = collections["saved_model_assets"].any_list.value
    assert packed.type_url == "type.googleapis.com/tensorflow.AssetFileDef"
    asset = parse(pb.AssetFileDef, packed.value, path=None)
    assert (asset.tensor_info.name, asset.filename) == ("asset_path:0", "vocabulary.txt")
    assert list(collections["legacy_init_op"].node_list.value) == ["init_all"]
    assert not [key for key in collections if key.startswith("serving_")]


def test_the_graph_of_the_collection_takes_the_place_of_the_other(tmp_path: Path) -> None:
    name = "session_bundle/tf1.4/cleared_devices/export/00000123"

    def change(message: pb.MetaGraphDef) -> None:
        message.graph_def.node.add(name="unwanted", op="NoOp")

    found = metagraph(edited(tmp_path, change, name))
    assert "unwanted" not in {node.name for node in found.graph_def.node}
    assert "serving_graph" not in found.collection_def


def test_signatures_without_a_form_stay_where_they_are(tmp_path: Path) -> None:
    change = with_signatures(default={"kind": "unknown"}, inputs={"kind": "generic", "x": "x:0"})
    built = edited(tmp_path, change)
    before = read_session_bundle(str(tmp_path / "export" / "export.meta")).message
    found = metagraph(built)
    assert built.signatures == ()
    assert {(each.name, each.kind) for each in built.unmapped} == {
        (None, "unknown"),
        ("inputs", "generic"),
    }
    assert not found.signature_def
    key = "serving_signatures"
    assert (
        found.collection_def[key].SerializeToString()
        == before.collection_def[key].SerializeToString()
    )


def test_fields_that_are_newer_than_the_schema_are_carried(tmp_path: Path) -> None:
    def change(message: pb.MetaGraphDef) -> None:
        message.meta_info_def.MergeFromString(b"\xfa\x3f\x03new")
        message.graph_def.node[0].MergeFromString(b"\xfa\x3f\x03new")

    found = metagraph(edited(tmp_path, change))
    assert [field.number for field in unknown_fields(found)] == [1023, 1023]


def test_a_tag_that_is_there_is_not_added_again(tmp_path: Path) -> None:
    def change(message: pb.MetaGraphDef) -> None:
        message.meta_info_def.tags.extend(["gpu", "serve"])

    assert list(metagraph(edited(tmp_path, change)).meta_info_def.tags) == ["gpu", "serve"]


def test_a_placeholder_that_a_signature_lacks_is_told(tmp_path: Path) -> None:
    def change(message: pb.MetaGraphDef) -> None:
        message.graph_def.node.add(name="rate", op="Placeholder")
        (y,) = (node for node in message.graph_def.node if node.name == "y")
        y.input.append("^rate")

    built = edited(tmp_path, change)
    assert set(built.unfed) == {
        (key, "rate") for key in ("serving_default", "serving_default_from_named", "third")
    }


def test_keys_that_are_restored() -> None:
    assert build(SAMPLE).keys == ("b", "global_step", "rows", "w")


def no_init_op(message: pb.MetaGraphDef) -> None:
    message.collection_def["serving_init_op"].node_list.value[0] = "gone"


def test_an_asset_for_a_tensor_that_is_not_there(tmp_path: Path) -> None:
    reason = "asset 'vocabulary.txt' is for the tensor 'asset_path:0', which is not in the graph"
    with refused(CorruptError, reason):
        edited(tmp_path, lambda message: drop_node(message, "asset_path"), ASSETS)


def test_an_init_op_that_is_not_there(tmp_path: Path) -> None:
    with refused(CorruptError, "the init op 'gone' is not in the graph"):
        edited(tmp_path, no_init_op, ASSETS)


def drop_node(message: pb.MetaGraphDef, name: str) -> None:
    kept = [node for node in message.graph_def.node if node.name != name]
    del message.graph_def.node[:]
    message.graph_def.node.extend(kept)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda message: message.signature_def["a"].inputs["x"].SetInParent(), "signature_def"),
        (lambda message: message.asset_file_def.add(), "asset_file_def"),
        (lambda message: message.object_graph_def.nodes.add(), "object_graph_def"),
        (
            lambda message: message.collection_def["saved_model_main_op"].node_list.value.append(
                "x"
            ),
            "saved_model_main_op",
        ),
    ],
)
def test_what_is_in_part_a_saved_model(tmp_path: Path, change: Any, named: str) -> None:
    with refused(UnsupportedError, f"has parts of a SavedModel already: {named}"):
        edited(tmp_path, change)


def test_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ckpttool.metagraph.saved_model.MAX_BYTES", 5000)
    with refused(UnsupportedError, "would have [0-9]+ bytes; the limit is 5000"):
        build(SAMPLE)
