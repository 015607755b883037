from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from ckpttool import pb
from ckpttool.errors import CkptError
from ckpttool.metagraph.effects import find_effects
from ckpttool.metagraph.report import Constant, NodeSize, RunOp, read_graph_facts
from tests.metagraph.graph_messages import (
    FLOAT,
    INT32,
    constant,
    node,
    strings,
    with_saver,
    written,
)
from tests.support.fixtures import FIXTURES

EXPORT = "session_bundle/tf0.12/assets/export/00000123/export.meta"


def test_a_graph_of_everything(tmp_path: Path) -> None:
    message = with_saver({"w": (FLOAT, [2])})
    graph = message.graph_def
    graph.versions.producer, graph.versions.min_consumer = 30, 12
    weights = pb.TensorProto(dtype=FLOAT, tensor_content=bytes(2000))
    weights.tensor_shape.dim.add(size=500)
    constant(graph, "weights", weights, device="/gpu:0")
    constant(graph, "few", pb.TensorProto(dtype=FLOAT, tensor_content=bytes(1000)))
    constant(graph, "words", strings("x" * 5000))
    node(graph, "read", "ReadFile", "few", device="/gpu:0")
    function = graph.library.function.add()
    function.signature.name = "f"
    function.node_def.add(name="py", op="EagerPyFunc", device="/cpu:0")
    message.collection_def["legacy_init_op"].node_list.value.append("init")
    message.signature_def["__saved_model_train_op"].outputs["t"].name = "train"
    (facts,) = read_graph_facts(written(message, tmp_path / "m.meta"))
    assert facts.min_consumer == 12 and facts.metagraph.producer == 30
    assert facts.bytes == graph.ByteSize()
    assert facts.constants == (Constant("weights", "float32", (500,), weights.ByteSize()),)
    assert facts.devices == (("/gpu:0", 2), ("/cpu:0", 1))
    assert facts.run_ops == (
        RunOp("init", "init", "legacy_init_op"),
        RunOp("train", "train", "__saved_model_train_op"),
    )
    words = next(each for each in graph.node if each.name == "words")
    assert facts.sizes[0] == NodeSize("words", "Const", words.ByteSize())
    assert [each.bytes for each in facts.sizes] == sorted(
        (each.ByteSize() for each in (*graph.node, *function.node_def)), reverse=True
    )
    assert [(each.name, each.nodes) for each in facts.library] == [("f", 1)]
    assert [
        (each.op, each.reach, each.count, each.of_saver, each.nodes) for each in facts.effects
    ] == [
        ("EagerPyFunc", "code", 1, 0, ("f/py",)),
        ("ReadFile", "reads", 1, 0, ("read",)),
        ("RestoreV2", "reads", 1, 1, ("save/RestoreV2",)),
    ]


def test_functions_that_the_saver_calls_belong_to_it() -> None:
    path = f"{FIXTURES}/saved_model/tf2.21/module/model/saved_model.pb"
    (facts,) = read_graph_facts(path)
    assert {each.op: (each.count, each.of_saver) for each in facts.effects} == {
        "InitializeTableFromTextFileV2": (1, 0),
        "MergeV2Checkpoints": (1, 1),
        "RestoreV2": (1, 1),
        "SaveV2": (1, 1),
    }


def test_printing_reaches_a_file_only_where_it_says_so() -> None:
    graph = pb.GraphDef()
    node(graph, "a", "PrintV2", output_stream="stderr")
    node(graph, "b", "PrintV2", output_stream="file:///tmp/x")
    node(graph, "c", "PrintV2")
    (found,) = find_effects((("", each) for each in graph.node), lambda *place: False)
    assert (found.op, found.reach, found.nodes) == ("PrintV2", "writes", ("b",))


def test_of_many_nodes_a_few_are_named() -> None:
    graph = pb.GraphDef()
    for number in range(9):
        node(graph, f"n{number}", "ReadFile")
    (found,) = find_effects((("f", each) for each in graph.node), lambda *place: True)
    assert (found.count, found.of_saver) == (9, 9)
    assert found.nodes == tuple(f"f/n{number}" for number in range(5))


def test_an_export() -> None:
    (facts,) = read_graph_facts(f"{FIXTURES}/{EXPORT}")
    assert [each.key for each in facts.metagraph.signatures] == [
        "serving_default",
        "serving_default_from_named",
        "third",
    ]
    assert facts.metagraph.signatures[0].inputs[0].dtype == "float32"
    assert facts.metagraph.signatures[0].inputs[0].shape == (-1, 2)
    assert [each.filename for each in facts.metagraph.assets] == ["vocabulary.txt"]
    assert facts.run_ops == (RunOp("init", "init_all", "serving_init_op"),)
    assert {each.key: each.restored for each in facts.variables} == {
        "b": True,
        "global_step": True,
        "rows": True,
        "w": True,
    }


def test_signatures_that_cannot_be_called(tmp_path: Path) -> None:
    message = pb.MetaGraphDef()
    node(message.graph_def, "x", "Placeholder", dtype=FLOAT)
    manifest = pb.Signatures()
    manifest.named_signatures["odd"].generic_signature.map["only"].tensor_name = "x:0"
    message.collection_def["serving_signatures"].any_list.value.add(
        type_url="type.googleapis.com/tensorflow.serving.Signatures",
        value=manifest.SerializeToString(),
    )
    (facts,) = read_graph_facts(written(message, tmp_path / "export.meta"))
    (other,) = facts.metagraph.other_signatures
    assert facts.metagraph.signatures == ()
    assert (other.name, other.kind) == ("signature 'odd'", "generic")
    assert other.reason == "it has no tensor to be its output"
    assert other.tensors == (("only", "x:0"),)


@pytest.mark.parametrize("seed", range(20))
def test_damaged_files_are_refused_or_read_in_time(seed: int, tmp_path: Path) -> None:
    paths = (EXPORT, "saved_model/tf2.21/tf_keras/model/saved_model.pb")
    rng = random.Random(seed)
    with open(os.path.join(FIXTURES, paths[seed % 2]), "rb") as file:
        data = bytearray(file.read())
    for _ in range(rng.randrange(1, 20)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    if seed % 3 == 0:
        del data[rng.randrange(len(data)) :]
    path = tmp_path / "x.meta"
    path.write_bytes(bytes(data))
    start = time.perf_counter()
    try:
        assert len(read_graph_facts(str(path))) >= 1
    except CkptError as error:
        assert error.path == str(path)
    assert time.perf_counter() - start < 5


def test_a_shape_that_claims_much_takes_nothing(tmp_path: Path) -> None:
    message = pb.MetaGraphDef()
    tensor = pb.TensorProto(dtype=INT32, int_val=[1] * 600)
    for _ in range(50):
        tensor.tensor_shape.dim.add(size=(1 << 62))
    tensor.tensor_shape.dim.add(size=-7)
    constant(message.graph_def, "c", tensor)
    (facts,) = read_graph_facts(written(message, tmp_path / "m.meta"))
    assert facts.constants[0].shape == (1 << 62,) * 50 + (-1,)
    assert facts.constants[0].bytes == tensor.ByteSize()
