"""Exports taken apart."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ckpttool import pb
from ckpttool.errors import CkptError, CorruptError, MissingFileError
from ckpttool.metagraph.session_bundle import Asset, ExportSignature, read_session_bundle
from tests.support.exports import (
    ASSETS,
    SAMPLE,
    copied,
    edit,
    export_path,
    exports,
    pack,
    with_signatures,
)
from tests.support.refusals import refused

REGRESSION = (("input", "x:0"), ("output", "y:0"))
CLASSIFICATION = (("input", "x:0"), ("classes", "classes:0"), ("scores", "scores:0"))
NAMED = (
    ExportSignature("inputs", "generic", (("x", "x:0"),)),
    ExportSignature("outputs", "generic", (("scores", "scores:0"), ("y", "y:0"))),
    ExportSignature("third", "regression", REGRESSION),
)
DEFAULTS = {
    "regression": ExportSignature(None, "regression", REGRESSION),
    "classification": ExportSignature(None, "classification", CLASSIFICATION),
    "scores_only": ExportSignature(
        None, "classification", (("input", "x:0"), ("classes", ""), ("scores", "scores:0"))
    ),
    "generic": ExportSignature(None, "generic", (("x", "x:0"), ("y", "y:0"))),
    "no": None,
}


def meta(name: str) -> str:
    return os.path.join(export_path(name), "export.meta")


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    return copied(SAMPLE, tmp_path / "00000123")


@pytest.mark.parametrize("row", exports(), ids=lambda row: row["name"])
def test_signatures_of_every_export(row: dict[str, Any]) -> None:
    found = read_session_bundle(meta(row["name"]))
    purpose = row["purpose"].split()
    kind = "regression" if "versions" in purpose else purpose[1]
    assert found.default == DEFAULTS[kind]
    assert found.named == (NAMED if "named" in purpose else ())


@pytest.mark.parametrize("row", exports(), ids=lambda row: row["name"])
def test_assets_init_op_and_graph_of_every_export(row: dict[str, Any]) -> None:
    found = read_session_bundle(meta(row["name"]))
    has_assets = "/assets/export/" in row["name"]
    assert found.assets == ((Asset("asset_path:0", "vocabulary.txt"),) if has_assets else ())
    assert found.init_op == ("init_all" if has_assets else None)
    assert {"x", "y", "w"} <= {node.name for node in found.graph.node}


def test_the_graph_in_the_collection_is_the_one_that_counts() -> None:
    found = read_session_bundle(meta("session_bundle/tf1.4/cleared_devices/export/00000123"))
    assert found.graph is not found.message.graph_def
    assert not any(node.device for node in found.graph.node)


def test_a_signature_of_an_unknown_kind(sample: Path) -> None:
    edit(sample, with_signatures(default={"kind": "unknown"}, other={"kind": "unknown"}))
    found = read_session_bundle(str(sample / "export.meta"))
    assert found.default == ExportSignature(None, "unknown", ())
    assert found.named == (ExportSignature("other", "unknown", ()),)


def test_no_collections_at_all(sample: Path) -> None:
    path = edit(sample, lambda message: message.collection_def.clear())
    found = read_session_bundle(str(path))
    assert (found.default, found.named, found.assets, found.init_op) == (None, (), (), None)
    assert found.graph is found.message.graph_def


def two_graphs(message: pb.MetaGraphDef) -> None:
    pack(message, "serving_graph", message.graph_def, message.graph_def)


def two_manifests(message: pb.MetaGraphDef) -> None:
    pack(message, "serving_signatures", pb.Signatures(), pb.Signatures())


def wrong_any(message: pb.MetaGraphDef) -> None:
    pack(message, "serving_signatures", pb.AssetFile(filename="a"))


def wrong_asset(message: pb.MetaGraphDef) -> None:
    pack(message, "serving_assets", pb.AssetFileDef(filename="a"))


def cut_any(message: pb.MetaGraphDef) -> None:
    item = message.collection_def["serving_signatures"].any_list.value[0]
    item.value = item.value[:-3]


def names_for_messages(message: pb.MetaGraphDef) -> None:
    message.collection_def["serving_assets"].node_list.value.append("a")


def messages_for_names(message: pb.MetaGraphDef) -> None:
    pack(message, "serving_init_op", pb.AssetFile())


def two_init_ops(message: pb.MetaGraphDef) -> None:
    message.collection_def["serving_init_op"].node_list.value.extend(["x", "y"])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (two_graphs, r"'serving_graph' has 2 items"),
        (two_manifests, r"'serving_signatures' has 2 items"),
        (wrong_any, r"an Any of type '.*AssetFile', not of tensorflow.serving.Signatures"),
        (wrong_asset, r"an Any of type '.*AssetFileDef', not of tensorflow.serving.AssetFile"),
        (cut_any, r"bytes that are not a tensorflow.serving.Signatures"),
        (names_for_messages, r"'serving_assets' is of kind node_list, not any_list"),
        (messages_for_names, r"'serving_init_op' is of kind any_list, not node_list"),
        (two_init_ops, r"'serving_init_op' has 2 items"),
    ],
)
def test_collections_that_are_not_as_they_should_be(sample: Path, change: Any, reason: str) -> None:
    path = edit(sample, change)
    with refused(CorruptError, reason) as caught:
        read_session_bundle(str(path))
    assert caught.value.path == str(path)


def test_no_export(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError):
        read_session_bundle(str(tmp_path / "export.meta"))


def test_a_saved_model_is_no_export(tmp_path: Path) -> None:
    path = tmp_path / "export.meta"
    model = pb.SavedModel(saved_model_schema_version=1)
    model.meta_graphs.add().meta_info_def.tags.append("serve")
    path.write_bytes(model.SerializeToString())
    with refused(CorruptError, "a SavedModel, not the MetaGraph of an export"):
        read_session_bundle(str(path))


def test_every_cut_and_many_flips_end_in_an_export_or_an_error(tmp_path: Path) -> None:
    data = Path(meta(ASSETS)).read_bytes()
    path = tmp_path / "export.meta"
    refusals = 0
    for at in range(0, len(data), 53):
        flipped = bytearray(data)
        flipped[at] ^= 1 << at % 8
        for damaged in (data[:at], bytes(flipped)):
            path.write_bytes(damaged)
            try:
                read_session_bundle(str(path))
            except CkptError as error:
                assert error.path == str(path)
                refusals += 1
    assert refusals > len(data) // 106
