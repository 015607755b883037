from __future__ import annotations

from ckpttool import pb
from ckpttool.metagraph.updates import UPDATES, Update, optimizer_updates, source_variable
from tests.metagraph.graph_messages import FLOAT, node


def updates(graph: pb.GraphDef) -> list[Update]:
    return list(optimizer_updates({each.name: each for each in graph.node}))


def variables(graph: pb.GraphDef, *names: str, op: str = "VariableV2") -> None:
    for name in names:
        node(graph, name, op, dtype=FLOAT, shape=[2])


def test_adam() -> None:
    graph = pb.GraphDef()
    variables(graph, "w", "mean", "power", "b1")
    node(graph, "b1/read", "Identity", "b1")
    node(graph, "lr", "Const")
    node(graph, "u", "ApplyAdam", "w", "mean", "power", "b1/read", "x", "lr", "", "", "", "b1")
    assert updates(graph) == [Update("ApplyAdam", "w", ("mean", "power"), ("b1",))]


def test_resources_and_rows() -> None:
    graph = pb.GraphDef()
    variables(graph, "w", "m", "lr", op="VarHandleOp")
    node(graph, "lr/Read", "ReadVariableOp", "lr")
    node(graph, "u", "ResourceSparseApplyMomentum", "w:0", "m:0", "lr/Read:0", "g", "i", "lr")
    assert updates(graph) == [Update("ResourceSparseApplyMomentum", "w", ("m",), ("lr",))]


def test_the_gradient_is_no_parameter() -> None:
    graph = pb.GraphDef()
    variables(graph, "w", "s", "other")
    node(graph, "dense", "ApplyFtrl", "w", "s", "s", "other", "x", "x", "x", "x")
    node(graph, "rows", "SparseApplyFtrl", "w", "s", "s", "other", "other", "x", "x", "x", "x")
    assert [each.parameters for each in updates(graph)] == [(), ()]


def test_the_counter_of_dual_averaging_is_no_parameter() -> None:
    graph = pb.GraphDef()
    variables(graph, "w", "a", "b", "lr", "global_step")
    node(graph, "u", "ApplyAdagradDA", "w", "a", "b", "g", "lr", "l1", "l2", "global_step")
    assert updates(graph)[0].parameters == ("lr",)


def test_what_is_no_update() -> None:
    graph = pb.GraphDef()
    node(graph, "c", "Const")
    node(graph, "cut", "ApplyAdam")
    node(graph, "u", "ApplyAdam", "c", "c", "c")
    node(graph, "other", "ApplyMagic", "c", "c")
    assert updates(graph) == []


def test_circles_end() -> None:
    graph = pb.GraphDef()
    node(graph, "a", "Identity", "b")
    node(graph, "b", "Identity", "a")
    node(graph, "u", "ApplyAdam", "a", "a")
    assert updates(graph) == []
    assert source_variable({each.name: each for each in graph.node}, "^a") is None


def test_all_forms_are_known() -> None:
    for name in ("ApplyAdam", "SparseApplyFtrlV2", "ResourceApplyKerasMomentum"):
        assert name in UPDATES
    assert UPDATES["ResourceApplyAdamWithAmsgrad"][0] == 3
