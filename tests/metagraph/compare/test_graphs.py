from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from ckpttool import pb
from ckpttool.metagraph.compare.changes import MetaGraphChange
from ckpttool.metagraph.compare.graphs import compare_metagraphs, function_pairs
from ckpttool.metagraph.facts import read_messages
from tests.metagraph.graph_messages import FLOAT, INT32, constant, node, strings, with_saver
from tests.support.fixtures import FIXTURES

Change = tuple[str, str, str, str | None]


def model() -> pb.MetaGraphDef:
    """Return a graph that has something of everything."""
    message = with_saver({"w": (FLOAT, [2, 3])})
    graph = message.graph_def
    node(graph, "x", "Placeholder", dtype=FLOAT, shape=[-1, 2])
    node(graph, "y", "MatMul", "x", "w", "^save/Const", "^init", T=FLOAT, device="/cpu:0")
    node(graph, "call", "PartitionedCall", "y", f=pb.AttrValue(func=pb.NameAttrList(name="f_12")))
    function = graph.library.function.add()
    function.signature.name = "f_12"
    function.signature.input_arg.add(name="a", type=FLOAT)
    function.node_def.add(name="inner", op="Relu", input=["a"])
    function.ret["out"] = "inner:y"
    signature = message.signature_def["serving_default"]
    signature.inputs["x"].name, signature.inputs["x"].dtype = "x:0", FLOAT
    signature.outputs["y"].name, signature.outputs["y"].dtype = "y:0", FLOAT
    message.collection_def["losses"].node_list.value.extend(["y:0", "x:0"])
    op = message.meta_info_def.stripped_op_list.op.add(name="MatMul")
    op.attr.add(name="transpose_a", type="bool").default_value.b = False
    root = message.object_graph_def.nodes.add()
    root.children.add(local_name="v", node_id=1)
    message.object_graph_def.nodes.add().variable.dtype = FLOAT
    return message


def changes(a: pb.MetaGraphDef, b: pb.MetaGraphDef) -> list[Change]:
    found = compare_metagraphs(a, b, ("a", "b"))
    back = compare_metagraphs(b, a, ("b", "a"))
    # What is new one way is gone the other way.
    swap = {"added": "removed", "removed": "added"}
    assert sorted(map(_key, found)) == sorted(
        (part, swap.get(word, word), what) for part, word, what in map(_key, back)
    )
    return [(each.part, each.change, each.name, each.what) for each in found]


def _key(change: MetaGraphChange) -> tuple[str, str, str]:
    return change.part, change.change, change.what or ""


def test_nothing_differs() -> None:
    assert changes(model(), model()) == []


def test_order_says_nothing() -> None:
    a, b = model(), model()
    nodes = list(b.graph_def.node)
    random.Random(1).shuffle(nodes)
    del b.graph_def.node[:]
    b.graph_def.node.extend(nodes)
    next(each for each in b.graph_def.node if each.name == "y").input[2:] = ["^init", "^save/Const"]
    assert changes(a, b) == []


def test_defaults_and_derived_attributes_say_nothing() -> None:
    a, b = model(), model()
    matmul = next(each for each in b.graph_def.node if each.name == "y")
    matmul.attr["transpose_a"].b = False
    matmul.attr["_output_shapes"].list.shape.add()
    next(each for each in a.graph_def.node if each.name == "y").input[0] = "x:0"
    assert changes(a, b) == []
    matmul.attr["transpose_a"].b = True
    assert changes(a, b) == [("node", "changed", "y", "attr transpose_a")]


def test_numbers_of_functions_say_nothing() -> None:
    a, b = model(), model()
    b.graph_def.library.function[0].signature.name = "f_99"
    call = next(each for each in b.graph_def.node if each.name == "call")
    call.attr["f"].func.name = "f_99"
    assert changes(a, b) == []
    call.attr["f"].func.name = "g"
    assert changes(a, b) == [("node", "changed", "call", "attr f")]


def _node(message: pb.MetaGraphDef, name: str) -> pb.NodeDef:
    return next(each for each in message.graph_def.node if each.name == name)


def _variable(message: pb.MetaGraphDef) -> None:
    values = message.collection_def["variables"].bytes_list.value
    found = pb.VariableDef.FromString(values[0])
    found.trainable = True
    values[0] = found.SerializeToString()


EDITS: list[tuple[Callable[[pb.MetaGraphDef], object], list[Change]]] = [
    (
        lambda m: setattr(m.meta_info_def, "tensorflow_version", "9"),
        [("version", "added", "tensorflow_version", None)],
    ),
    (
        lambda m: setattr(m.graph_def.versions, "producer", 7),
        [("version", "added", "producer", None)],
    ),
    (lambda m: m.meta_info_def.tags.append("gpu"), [("tag", "added", "gpu", None)]),
    (
        lambda m: setattr(m.signature_def["serving_default"].inputs["x"], "dtype", INT32),
        [("signature", "changed", "serving_default", "input x")],
    ),
    (
        lambda m: m.signature_def["serving_default"].outputs.pop("y"),
        [("signature", "changed", "serving_default", "output y")],
    ),
    (
        lambda m: m.signature_def.pop("serving_default"),
        [("signature", "removed", "serving_default", None)],
    ),
    (
        lambda m: setattr(m.saver_def, "max_to_keep", 3),
        [("saver", "changed", "saver", "max_to_keep")],
    ),
    (lambda m: m.ClearField("saver_def"), [("saver", "removed", "saver", None)]),
    (lambda m: m.asset_file_def.add(filename="v.txt"), [("asset", "added", "v.txt", None)]),
    (_variable, [("collection", "changed", "variables", "item")]),
    (lambda m: m.collection_def.pop("losses"), [("collection", "removed", "losses", None)]),
    (
        lambda m: m.collection_def["losses"].node_list.value.reverse(),
        [("collection", "changed", "losses", "order")],
    ),
    (
        lambda m: m.collection_def["losses"].node_list.value.pop(),
        [("collection", "changed", "losses", "item")],
    ),
    (
        lambda m: m.collection_def["losses"].int64_list.value.append(1),
        [("collection", "changed", "losses", "kind")],
    ),
    (lambda m: node(m.graph_def, "z", "NoOp"), [("node", "added", "z", None)]),
    (lambda m: m.graph_def.node.remove(_node(m, "x")), [("node", "removed", "x", None)]),
    (lambda m: setattr(_node(m, "y"), "op", "Add"), [("node", "changed", "y", "op")]),
    (lambda m: setattr(_node(m, "y"), "device", ""), [("node", "changed", "y", "device")]),
    (lambda m: _node(m, "y").input.pop(), [("node", "changed", "y", "control input")]),
    (lambda m: _node(m, "a0").input.reverse(), [("node", "changed", "a0", "input")]),
    (
        lambda m: _node(m, "x").attr["dtype"].MergeFrom(pb.AttrValue(type=INT32)),
        [("node", "changed", "x", "attr dtype")],
    ),
    (
        lambda m: _node(m, "save/names").attr["value"].tensor.CopyFrom(strings("v")),
        [("node", "changed", "save/names", "attr value")],
    ),
    (
        lambda m: setattr(m.graph_def.library.function[0].node_def[0], "op", "Elu"),
        [("node", "changed", "f_12/inner", "op")],
    ),
    (
        lambda m: m.graph_def.library.function[0].ret.update({"out": "a"}),
        [("function", "changed", "f_12", "ret")],
    ),
    (
        lambda m: setattr(m.graph_def.library.function[0].signature.input_arg[0], "name", "b"),
        [("function", "changed", "f_12", "input")],
    ),
    (
        lambda m: setattr(m.graph_def.library.function.add().signature, "name", "g"),
        [("function", "added", "g", None)],
    ),
    (
        lambda m: setattr(m.meta_info_def.stripped_op_list.op[0], "summary", "x"),
        [("op", "changed", "MatMul", None)],
    ),
    (
        lambda m: setattr(m.object_graph_def.nodes[1].variable, "dtype", INT32),
        [("object", "changed", "v", None)],
    ),
]


@pytest.mark.parametrize(("edit", "wanted"), EDITS)
def test_each_difference_is_told(
    edit: Callable[[pb.MetaGraphDef], object], wanted: list[Change]
) -> None:
    other = model()
    edit(other)
    assert changes(model(), other) == wanted


def test_what_it_was_and_is() -> None:
    other = model()
    _node(other, "x").attr["shape"].shape.dim[1].size = 5
    _node(other, "y").input[0] = "call"
    found = compare_metagraphs(model(), other, ("a", "b"))
    assert [(each.a, each.b) for each in found] == [("[?, 2]", "[?, 5]"), ("x, w", "call, w")]


def test_forms_of_a_constant_say_nothing() -> None:
    a, b = pb.MetaGraphDef(), pb.MetaGraphDef()
    shape = pb.TensorShapeProto()
    shape.dim.add(size=2)
    listed = pb.TensorProto(dtype=FLOAT, tensor_shape=shape, float_val=[0.0])
    constant(a.graph_def, "c", listed)
    constant(
        b.graph_def, "c", pb.TensorProto(dtype=FLOAT, tensor_shape=shape, tensor_content=bytes(8))
    )
    assert changes(a, b) == []
    b.graph_def.node[0].attr["value"].tensor.tensor_content = bytes(7) + b"@"
    assert changes(a, b) == [("node", "changed", "c", "attr value")]


def test_functions_are_paired_in_the_order_of_their_numbers() -> None:
    libraries = []
    for names in (("f_9", "f_10", "same_1", "gone", "g_x"), ("f_100", "f_99", "same_1", "f_101")):
        library = pb.FunctionDefLibrary()
        for name in names:
            library.function.add().signature.name = name
        libraries.append(library)
    assert function_pairs(*libraries) == {"same_1": "same_1", "f_9": "f_99", "f_10": "f_100"}


@pytest.mark.parametrize(
    ("path", "other"),
    [
        ("saved_model/tf2.21/v1_builder/model/saved_model.pb", "v1_builder/text/saved_model.pbtxt"),
        ("saved_model/tf1.15/builder/model/saved_model.pb", "builder/text/saved_model.pbtxt"),
        ("saved_model/tf1.4/builder/model/saved_model.pb", "builder/text/saved_model.pbtxt"),
    ],
)
def test_bytes_and_text_of_one_graph(path: str, other: str) -> None:
    """TensorFlow wrote the same graph twice, in maps of another order and in another form."""
    producer = "/".join(path.split("/")[:2])
    one = read_messages(f"{FIXTURES}/{path}")[0]
    two = read_messages(f"{FIXTURES}/{producer}/{other}")[0]
    assert compare_metagraphs(one, two, ("a", "b")) == ()


def test_hostile_messages_end() -> None:
    message = model()
    message.object_graph_def.nodes[1].children.add(local_name="up", node_id=0)
    message.object_graph_def.nodes[1].children.add(local_name="out", node_id=-5)
    for _ in range(3):
        message.graph_def.node.add(name="twice", op="NoOp")
    assert changes(message, message) == []
