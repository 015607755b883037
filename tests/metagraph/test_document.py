"""Graph files as a whole: choosing from them, and what becomes of what is written of them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ckpttool import pb
from ckpttool.coding.wire import bytes_field, varint_field
from ckpttool.errors import CorruptError, NotFoundError, SelectionError
from ckpttool.metagraph.collections import MESSAGES
from ckpttool.metagraph.document import (
    GraphDocument,
    JsonForm,
    Loss,
    graph_from_json,
    read_graph,
)
from tests.support.fixtures import FIXTURES

BUILDER = "saved_model/tf1.15/builder/model/saved_model.pb"
COLLECTIONS = "meta/tf1.15/collections/graph.meta"


def fixture(path: str) -> GraphDocument:
    return read_graph(os.path.join(FIXTURES, path))


def as_json(document: GraphDocument, form: JsonForm | None = None) -> dict[str, object]:
    pieces: list[str] = []
    document.write_json(pieces.append, form or JsonForm())
    found: dict[str, object] = json.loads("".join(pieces))
    return found


def test_tag_sets() -> None:
    document = fixture(BUILDER)
    assert document.kind == "SavedModel"
    assert document.tag_sets == (("serve",), ("serve", "gpu"))
    chosen = document.choose(["gpu", "serve"])
    assert (chosen.kind, chosen.tag_sets) == ("MetaGraphDef", (("serve", "gpu"),))
    assert document.choose(["serve"]).tag_sets == (("serve",),)
    assert fixture(COLLECTIONS).tag_sets == ((),)
    assert fixture(COLLECTIONS).choose(()).kind == "MetaGraphDef"
    only = fixture("saved_model/tf2.21/module/model/saved_model.pb").choose(None)
    assert only.tag_sets == (("serve",),)


@pytest.mark.parametrize(
    ("tags", "problem"),
    [
        (None, "it has 2 MetaGraphs; the tag sets are: serve; serve,gpu"),
        (["gpu"], "no MetaGraph with the tags gpu; the tag sets are: serve; serve,gpu"),
        ([], "no MetaGraph with the tags (none); the tag sets are"),
    ],
)
def test_no_such_tags(tags: list[str] | None, problem: str) -> None:
    with pytest.raises(SelectionError) as caught:
        fixture(BUILDER).choose(tags)
    assert problem in str(caught.value)


def test_odd_saved_models(tmp_path: Path) -> None:
    model = pb.SavedModel(saved_model_schema_version=1)
    path = tmp_path / "saved_model.pb"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(NotFoundError, match="without MetaGraphs"):
        read_graph(str(path)).choose(None)
    for _ in range(2):
        model.meta_graphs.add().meta_info_def.tags.append("serve")
    path.write_bytes(model.SerializeToString())
    with pytest.raises(SelectionError, match="2 MetaGraph with the tags serve"):
        read_graph(str(path)).choose(["serve"])


def test_fingerprints_have_no_tags() -> None:
    document = fixture("saved_model/tf2.21/module/model/fingerprint.pb")
    assert document.tag_sets == ()
    assert document.choose(None) is document
    with pytest.raises(SelectionError, match="no tags"):
        document.choose(["serve"])
    assert list(as_json(document.select(["uuid"]))) == ["uuid"]


def test_select() -> None:
    document = fixture(COLLECTIONS)
    whole = as_json(document)
    chosen = document.select(["saver_def", "collectionDef", "signature_def", "saverDef"])
    assert as_json(chosen) == {name: whole[name] for name in ("saverDef", "collectionDef")}
    tags = fixture(BUILDER).choose(["serve"]).select(["meta_info_def"])
    assert tags.tag_sets == (("serve",),)
    with pytest.raises(SelectionError, match=r"no field 'saver'; it may have meta_info_def, "):
        document.select(["saver"])


def test_a_saved_model_of_one_graph() -> None:
    document = fixture(COLLECTIONS)
    model = document.as_saved_model()
    assert (model.kind, model.as_saved_model()) == ("SavedModel", model)
    assert as_json(model)["savedModelSchemaVersion"] == "1"
    assert model.choose(None).data() == document.data()


NODE = bytes_field(1, b"n") + varint_field(99, 1)
NEW = bytes_field(1, bytes_field(4, b"t")) + bytes_field(2, bytes_field(1, NODE) * 2)


def test_unknown_fields(tmp_path: Path) -> None:
    path = tmp_path / "new.meta"
    path.write_bytes(NEW)
    document = read_graph(str(path))
    assert document.data() == NEW
    what = "field 99 of tensorflow.NodeDef, which is not in the schema"
    assert document.text_losses() == (Loss(what, "graph_def.node[0]", 2, True),)
    assert document.json_losses(JsonForm()) == (Loss(what, "graphDef.node[0]", 2, True),)
    assert document.select(["graph_def"]).data() == NEW[5:]
    assert document.select(["meta_info_def"]).json_losses(JsonForm()) == ()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("{}", "MetaGraphDef"),
        ('{"metaGraphs": []}', "SavedModel"),
        ('{"saved_model_schema_version": 1}', "SavedModel"),
        ('{"uuid": "1", "checkpointHash": "2"}', "FingerprintDef"),
        ('\ufeff{"graphDef": {}}', "MetaGraphDef"),
    ],
)
def test_kinds_of_json(text: str, kind: str) -> None:
    assert graph_from_json(text.encode(), "x").kind == kind


def test_json_that_is_not_utf8() -> None:
    with pytest.raises(CorruptError, match="line 2: not JSON: it is not UTF-8"):
        graph_from_json(b'{\n"\xff": 1}', "x")


@pytest.mark.parametrize("release", ["0.12", "1.4", "1.15", "2.21"])
def test_collections_are_decoded(release: str) -> None:
    document = fixture(f"meta/tf{release}/collections/graph.meta")
    plain, decoded = as_json(document), as_json(document, JsonForm(decode_collections=True))
    collections = decoded["collectionDef"]
    assert isinstance(collections, dict)
    types = {
        key: {item["@type"].rpartition("/")[2] for item in one["bytesList"]["value"]}
        for key, one in collections.items()
        if key in MESSAGES and "bytesList" in one
    }
    assert types
    assert types == {key: {MESSAGES[key]} for key in types}
    expected = {"variables", "trainable_variables", "moving_average_variables"}
    if release != "2.21":  # whose control flow is in functions
        expected |= {"cond_context", "while_context", "queue_runners", "savers"}
    assert expected <= set(types)
    names = [item["variableName"] for item in collections["variables"]["bytesList"]["value"]]
    assert "weight:0" in names
    back = graph_from_json(json.dumps(decoded).encode(), "x")
    assert back.data() == document.data()
    assert graph_from_json(json.dumps(plain).encode(), "x").data() == document.data()
