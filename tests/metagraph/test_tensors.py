"""What a graph says of its tensors."""

from __future__ import annotations

import pytest

from ckpttool import pb
from ckpttool.metagraph.tensors import GraphTensors

FLOAT, INT32, STRING = 1, 3, 7


def shape(*dims: int) -> pb.TensorShapeProto:
    message = pb.TensorShapeProto()
    for size in dims:
        message.dim.add(size=size)
    return message


def graph(producer: int = 24) -> pb.GraphDef:
    made = pb.GraphDef()
    made.versions.producer = producer
    plain = made.node.add(name="x", op="Placeholder")
    plain.attr["dtype"].type = FLOAT
    plain.attr["shape"].shape.CopyFrom(shape(-1, 2))
    scalar = made.node.add(name="old", op="Placeholder")
    scalar.attr["dtype"].type = INT32
    scalar.attr["shape"].shape.SetInParent()
    optional = made.node.add(name="rate", op="PlaceholderWithDefault", input=["x"])
    optional.attr["dtype"].type = FLOAT
    split = made.node.add(name="split", op="Split", input=["x:0", "^old"])
    split.attr["num"].i = 3
    split.attr["T"].type = FLOAT
    for size in (1, 2):
        split.attr["_output_shapes"].list.shape.add().CopyFrom(shape(size))
    parse = made.node.add(name="parse", op="Parse", input=["split:1"])
    parse.attr["types"].list.type.extend([STRING, INT32])
    made.node.add(name="count", op="Count", input=["rate"])
    variable = made.node.add(name="v", op="Variable")
    variable.attr["dtype"].type = 100 + FLOAT
    return made


def ops() -> pb.OpList:
    made = pb.OpList()
    split = made.op.add(name="Split")
    split.output_arg.add(name="parts", type_attr="T", number_attr="num")
    parse = made.op.add(name="Parse")
    parse.output_arg.add(name="first", type=STRING)
    parse.output_arg.add(name="rest", type_list_attr="types")
    parse.output_arg.add(name="last", type_attr="U")
    parse.attr.add(name="U").default_value.type = INT32
    made.op.add(name="Count").output_arg.add(name="n", type=INT32)
    made.op.add(name="Variable").output_arg.add(name="ref", type_attr="dtype", is_ref=True)
    return made


@pytest.fixture
def tensors() -> GraphTensors:
    return GraphTensors(graph(), ops())


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("x", "x:0"),
        ("x:0", "x:0"),
        ("split:2", "split:2"),
        ("split:3", None),
        ("parse:3", "parse:3"),
        ("parse:4", None),
        ("count:1", None),
        ("y:0", None),
        ("", None),
        ("^x", None),
        (":0", None),
        ("x:", None),
        ("x:-1", None),
        ("x:0:0", None),
        ("x:99999999999", None),
        ("x:0\n", None),
    ],
)
def test_names(tensors: GraphTensors, name: str, full: str | None) -> None:
    assert tensors.full_name(name) == full


def test_without_the_definition_of_an_op_every_output_may_be_there() -> None:
    tensors = GraphTensors(graph(), pb.OpList())
    assert tensors.full_name("split:7") == "split:7"
    assert tensors.info("split:7").dtype == 0
    assert tensors.info("x:0").dtype == FLOAT


@pytest.mark.parametrize(
    ("name", "dtype", "dims"),
    [
        ("x:0", FLOAT, [-1, 2]),
        ("old:0", INT32, []),
        ("split:1", FLOAT, [2]),
        ("split:2", FLOAT, None),
        ("parse:0", STRING, None),
        ("parse:1", STRING, None),
        ("parse:2", INT32, None),
        ("parse:3", INT32, None),
        ("v:0", FLOAT, None),
    ],
)
def test_dtype_and_shape(
    tensors: GraphTensors, name: str, dtype: int, dims: list[int] | None
) -> None:
    info = tensors.info(name)
    assert info.name == name
    assert info.dtype == dtype
    assert info.HasField("tensor_shape")
    assert info.tensor_shape.unknown_rank == (dims is None)
    assert [dim.size for dim in info.tensor_shape.dim] == (dims or [])


def test_in_an_old_graph_a_scalar_placeholder_is_of_any_rank() -> None:
    tensors = GraphTensors(graph(producer=21), pb.OpList())
    assert tensors.info("old:0").tensor_shape.unknown_rank
    assert not tensors.info("x:0").tensor_shape.unknown_rank


@pytest.mark.parametrize(
    ("outputs", "inputs", "unfed"),
    [
        (["parse:0"], [], ["old", "x"]),
        (["parse:0"], ["x:0"], ["old"]),
        (["parse:0"], ["x:0", "old:0"], []),
        (["parse:0"], ["split:1"], []),
        (["parse:0"], ["split:0"], ["old", "x"]),
        (["count:0"], [], ["x"]),
        (["count:0"], ["rate:0"], []),
        (["x:0"], ["x:0"], []),
    ],
)
def test_placeholders_that_are_needed(
    tensors: GraphTensors, outputs: list[str], inputs: list[str], unfed: list[str]
) -> None:
    assert tensors.unfed(outputs, inputs) == unfed


def test_a_loop_in_the_graph_ends() -> None:
    made = graph()
    made.node.add(name="a", op="Merge", input=["b", "x"])
    made.node.add(name="b", op="NextIteration", input=["a:0"])
    assert GraphTensors(made, ops()).unfed(["b:0"], []) == ["x"]
