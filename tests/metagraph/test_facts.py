from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpttool import pb
from ckpttool.errors import CkptError, CorruptError, MissingFileError
from ckpttool.metagraph.facts import (
    Collection,
    MetaGraph,
    Saver,
    Variable,
    VariableSlice,
    read_metagraphs,
)
from ckpttool.metagraph.session_bundle import Asset
from ckpttool.metagraph.signatures import Signature, SignatureTensor
from tests.support.fixtures import FIXTURES, manifest

FILES = tuple(
    path
    for row in manifest()
    for path in row["files"]
    if path.endswith((".meta", "graph.pbtxt"))
    or os.path.basename(path).startswith("saved_model.pb")
)


def read(path: str) -> tuple[MetaGraph, ...]:
    return read_metagraphs(os.path.join(FIXTURES, path))


def written(tmp_path: Path, message: object, name: str = "graph.meta") -> str:
    assert isinstance(message, (pb.MetaGraphDef, pb.SavedModel))
    path = tmp_path / name
    path.write_bytes(message.SerializeToString())
    return str(path)


@pytest.mark.sweep(5)
@pytest.mark.parametrize("path", FILES)
def test_every_fixture_is_read(path: str) -> None:
    release = path.split("/")[1].removeprefix("tf")
    graphs = read(path)
    assert len(graphs) == (2 if "builder/model" in path else 1)
    for graph in graphs:
        assert graph.path.endswith(path)
        assert graph.tensorflow_version.startswith(f"{release}.")
        assert graph.git_version
        assert graph.nodes > 0
        counts = [count for _, count in graph.ops]
        assert counts == sorted(counts, reverse=True)
        assert sum(counts) >= graph.nodes
        assert [one.key for one in graph.collections] == sorted(
            one.key for one in graph.collections
        )
        sizes = {one.key: one.size for one in graph.collections}
        for key, variables in graph.variables.items():
            assert len(variables) == sizes[key]
        assert graph.saver is not None
        assert graph.saver.restore_op


@pytest.mark.parametrize("release", ["0.12", "1.4", "1.15", "2.21"])
def test_text_says_the_same(release: str) -> None:
    folder = f"meta/tf{release}/collections"
    (binary,), (text,) = read(f"{folder}/graph.meta"), read(f"{folder}/graph.pbtxt")
    assert replace(text, path=binary.path) == binary


@pytest.mark.parametrize("release", ["1.4", "1.15", "2.21"])
def test_saved_models_as_text(release: str) -> None:
    folder = f"saved_model/tf{release}/" + ("v1_builder" if release == "2.21" else "builder")
    first, second = read(f"{folder}/model/saved_model.pb")
    assert (first.tags, second.tags) == (("serve",), ("serve", "gpu"))
    (text,) = read(f"{folder}/text/saved_model.pbtxt")
    assert (text.tags, text.nodes, text.ops) == (first.tags, first.nodes, first.ops)
    assert (text.signatures, text.assets) == (first.signatures, first.assets)


def test_facts_of_a_graph() -> None:
    (graph,) = read("meta/tf1.15/collections/graph.meta")
    assert graph.tensorflow_version == "1.15.5"
    assert graph.git_version == "v1.15.4-39-g3db52be"
    assert graph.producer == 134
    assert not graph.stripped_default_attrs
    assert (graph.tags, graph.nodes, graph.functions, graph.objects) == ((), 77, 0, 0)
    assert graph.ops[:2] == (("Const", 21), ("Identity", 13))
    assert graph.collections[:4] == (
        Collection("cond_context", "bytes_list", 2),
        Collection("floats", "float_list", 1),
        Collection("global_step", "bytes_list", 1),
        Collection("ints", "int64_list", 1),
    )
    assert Collection("train_op", "node_list", 1) in graph.collections
    assert graph.signatures == ()
    assert graph.assets == ()
    assert graph.saver == Saver(
        "save/Const:0", "save/control_dependency:0", "save/restore_all", 5, 10000.0, False, "V2"
    )


def test_variables() -> None:
    (graph,) = read("meta/tf1.15/collections/graph.meta")
    assert graph.variables["global_step"] == (
        Variable("global_step:0", is_resource=False, trainable=False),
    )
    names = {
        key: [(one.name, one.full_name) for one in found] for key, found in graph.variables.items()
    }
    assert names["variables"] == [
        ("weight:0", "weight"),
        ("global_step:0", "global_step"),
        ("rows/part_0:0", "rows"),
        ("rows/part_1:0", "rows"),
    ]
    assert names["trainable_variables"][-1] == ("local:0", "local")
    assert graph.variables["variables"][3].part == VariableSlice("rows", (4, 2), (2, 0), (2, 2))


def test_variables_that_old_releases_only_name() -> None:
    (graph,) = read("meta/tf0.12/collections/graph.meta")
    assert Collection("local_variables", "node_list", 1) in graph.collections
    assert "local_variables" not in graph.variables
    assert not any(one.trainable for one in graph.variables["trainable_variables"])


def test_stripped_defaults() -> None:
    assert read("meta/tf2.21/stripped/graph.meta")[0].stripped_default_attrs


def test_signatures_and_assets_of_tensorflow_2() -> None:
    (graph,) = read("saved_model/tf2.21/module/model/saved_model.pb")
    assert (graph.functions, graph.objects) == (9, 20)
    assert graph.signatures == (
        Signature(
            "__saved_model_init_op",
            "",
            (),
            (SignatureTensor("__saved_model_init_op", ("NoOp",), "invalid", None),),
        ),
        Signature(
            "lookup",
            "tensorflow/serving/predict",
            (SignatureTensor("words", ("lookup_words:0",), "string", (-1,)),),
            (SignatureTensor("ids", ("StatefulPartitionedCall:0",), "int64", (-1,)),),
        ),
        Signature(
            "serving_default",
            "tensorflow/serving/predict",
            (SignatureTensor("x", ("serving_default_x:0",), "float32", (-1, 2)),),
            (SignatureTensor("y", ("StatefulPartitionedCall_1:0",), "float32", (-1, 3)),),
        ),
    )
    assert graph.assets == (Asset("asset_path_initializer:0", "vocabulary.tsv"),)


@pytest.mark.parametrize(
    ("path", "asset"),
    [
        ("saved_model/tf1.15/builder/model/saved_model.pb", Asset("asset_path:0", "words.txt")),
        (
            "session_bundle/tf0.12/assets/export/00000123/export.meta",
            Asset("asset_path:0", "vocabulary.txt"),
        ),
    ],
)
def test_assets_in_collections(path: str, asset: Asset) -> None:
    assert read(path)[0].assets == (asset,)


def test_the_graph_of_an_export_is_the_one_in_its_collection(tmp_path: Path) -> None:
    message = pb.MetaGraphDef()
    message.graph_def.node.add(op="Left")
    inner = pb.GraphDef()
    inner.node.add(op="Right")
    inner.node.add(op="Right")
    message.collection_def["serving_graph"].any_list.value.add(
        type_url="type.googleapis.com/tensorflow.GraphDef", value=inner.SerializeToString()
    )
    (graph,) = read_metagraphs(written(tmp_path, message))
    assert (graph.nodes, graph.ops) == (2, (("Right", 2),))


def test_nodes_of_functions_are_counted_among_the_ops(tmp_path: Path) -> None:
    message = pb.MetaGraphDef()
    for op in ("Const", "NoOp", "Add"):
        message.graph_def.node.add(op=op)
    function = message.graph_def.library.function.add()
    for op in ("NoOp", "Add", "NoOp"):
        function.node_def.add(op=op)
    (graph,) = read_metagraphs(written(tmp_path, message))
    assert (graph.nodes, graph.functions) == (3, 1)
    assert graph.ops == (("NoOp", 3), ("Add", 2), ("Const", 1))


def test_odd_signatures(tmp_path: Path) -> None:
    message = pb.MetaGraphDef()
    signature = message.signature_def["s"]
    sparse = signature.inputs["sparse"]
    sparse.coo_sparse.values_tensor_name = "v:0"
    sparse.coo_sparse.indices_tensor_name = "i:0"
    sparse.coo_sparse.dense_shape_tensor_name = "d:0"
    sparse.dtype = 1
    ragged = signature.inputs["ragged"]
    for name in ("flat:0", "splits:0"):
        ragged.composite_tensor.components.add(name=name)
    signature.inputs["old"].dtype = 101
    signature.inputs["new"].dtype = 77
    signature.inputs["new"].tensor_shape.unknown_rank = True
    scalar = signature.inputs["scalar"]
    scalar.tensor_shape.SetInParent()
    signature.defaults["scalar"].dtype = 3
    (found,) = read_metagraphs(written(tmp_path, message))[0].signatures
    assert found.inputs == (
        SignatureTensor("new", (), "unknown(77)", None),
        SignatureTensor("old", (), "float32_ref", None),
        SignatureTensor("ragged", ("flat:0", "splits:0"), "invalid", None),
        SignatureTensor("scalar", (), "invalid", (), has_default=True),
        SignatureTensor("sparse", ("v:0", "i:0", "d:0"), "float32", None),
    )


def test_odd_collections_and_savers(tmp_path: Path) -> None:
    message = pb.MetaGraphDef()
    message.collection_def["nothing"].SetInParent()
    message.collection_def["none"].node_list.SetInParent()
    message.saver_def.version = 9
    (graph,) = read_metagraphs(written(tmp_path, message))
    assert graph.collections == (
        Collection("none", "node_list", 0),
        Collection("nothing", "empty", 0),
    )
    assert graph.saver is not None
    assert graph.saver.version == "unknown(9)"
    message.ClearField("saver_def")
    assert read_metagraphs(written(tmp_path, message))[0].saver is None


def test_a_saved_model_may_hold_any_number(tmp_path: Path) -> None:
    message = pb.SavedModel(saved_model_schema_version=1)
    with pytest.raises(CorruptError, match="without MetaGraphs"):
        read_metagraphs(written(tmp_path, message, "saved_model.pb"))
    for tag in ("a", "b", "c"):
        message.meta_graphs.add().meta_info_def.tags.append(tag)
    found = read_metagraphs(written(tmp_path, message, "saved_model.pb"))
    assert [graph.tags for graph in found] == [("a",), ("b",), ("c",)]


BAD = [
    ("empty", b"", "empty"),
    ("spaces", b" \n", "empty"),
    ("binary", b"\x00\x01\x02", "not a tensorflow.MetaGraphDef"),
    ("word", b"hello", "not the text of a tensorflow.MetaGraphDef"),
    ("unknown field", b"meta_info_def { colour: 1 }\n", "colour"),
    ("unbalanced", b"meta_info_def {", "not the text"),
    ("not UTF-8", b"meta_info_def \xff", "neither a MetaGraph nor text"),
]


@pytest.mark.parametrize(("data", "message"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_files(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "bad.meta"
    path.write_bytes(data)
    with pytest.raises(CorruptError, match=message) as caught:
        read_metagraphs(str(path))
    assert caught.value.path == str(path)


def test_parts_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    message = pb.MetaGraphDef()
    message.graph_def.node.add(name="n", op="NoOp")
    variables = message.collection_def["variables"].bytes_list.value
    variables.extend([pb.VariableDef(variable_name="v:0").SerializeToString(), b"\xff"])
    for key in ("serving_graph", "serving_assets", "saved_model_assets", "serving_signatures"):
        message.collection_def[key].any_list.value.add(type_url="x/tensorflow.VariableDef")
    for kind in ("tensorflow.AssetFileDef", "tensorflow.GraphDef"):
        items = message.collection_def["saved_model_assets"].any_list.value
        items.add(type_url=f"type.googleapis.com/{kind}", value=b"\xff")
    path = written(tmp_path, message)
    (graph,) = read_metagraphs(path)
    assert [variable.name for variable in graph.variables["variables"]] == ["v:0"]
    assert (graph.nodes, graph.ops, graph.assets) == (1, (("NoOp", 1),), ())
    assert (graph.signatures, graph.other_signatures) == ((), ())
    assert all(error.path == path for error in graph.problems)
    assert sorted(error.message for error in graph.problems) == [
        "collection 'serving_graph' has an Any of type 'x/tensorflow.VariableDef', not of "
        "tensorflow.GraphDef",
        "item 0 of the collection 'saved_model_assets' is an Any of type "
        "'x/tensorflow.VariableDef', not of tensorflow.AssetFileDef",
        "item 0 of the collection 'serving_assets' is an Any of type 'x/tensorflow.VariableDef', "
        "not of tensorflow.serving.AssetFile",
        "item 0 of the collection 'serving_graph' is an Any of type 'x/tensorflow.VariableDef', "
        "not of tensorflow.GraphDef",
        "item 1 of the collection 'saved_model_assets': 1 bytes that are not a "
        "tensorflow.AssetFileDef",
        "item 1 of the collection 'variables': 1 bytes that are not a tensorflow.VariableDef",
        "item 2 of the collection 'saved_model_assets' is an Any of type "
        "'type.googleapis.com/tensorflow.GraphDef', not of tensorflow.AssetFileDef",
    ]


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError):
        read_metagraphs(str(tmp_path / "no.meta"))


@given(end=st.integers(0, 4000))
def test_a_file_that_was_cut_off(tmp_path: Path, end: int) -> None:
    with open(os.path.join(FIXTURES, "meta/tf2.21/stripped/graph.meta"), "rb") as file:
        data = file.read()
    path = tmp_path / "cut.meta"
    path.write_bytes(data[: end % len(data)])
    try:
        (graph,) = read_metagraphs(str(path))
    except CkptError as error:
        assert isinstance(error, CorruptError)
        assert error.path == str(path)
    else:
        assert graph.nodes <= 18
