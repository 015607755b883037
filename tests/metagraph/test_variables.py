from __future__ import annotations

import pytest

from ckpttool import pb
from ckpttool.errors import CorruptError
from ckpttool.metagraph.facts import metagraph_of
from ckpttool.metagraph.variables import (
    GraphVariable,
    SavedNode,
    graph_variables,
    saved_nodes,
    saved_paths,
)
from tests.metagraph.graph_messages import FLOAT, INT64, constant, node, strings, with_saver


def found(message: pb.MetaGraphDef) -> tuple[GraphVariable, ...]:
    nodes = {each.name: each for each in message.graph_def.node}
    collections = metagraph_of(message, "x").variables
    return graph_variables(nodes, message.saver_def, collections)


@pytest.mark.parametrize("resource", [False, True])
def test_variables_of_a_saver(resource: bool) -> None:
    message = with_saver({"w": (FLOAT, [2, 3]), "n": (INT64, [])}, resource=resource)
    assert found(message) == (
        GraphVariable("n", "n", "int64", (), True),
        GraphVariable("w", "w", "float32", (2, 3), True),
    )


def test_keys_are_those_that_the_saver_reads() -> None:
    message = with_saver({"w": (FLOAT, [2])}, {"w": "w/ExponentialMovingAverage"})
    assert found(message) == (
        GraphVariable("w/ExponentialMovingAverage", "w", "float32", (2,), True),
    )


def test_what_the_saver_leaves_alone() -> None:
    message = with_saver({"w": (FLOAT, [2]), "rest": (FLOAT, [1])}, {"w": "w"})
    assert found(message)[0] == GraphVariable("rest", "rest", "float32", (1,), False)


def test_local_variables_are_left_out() -> None:
    message = with_saver({"w": (FLOAT, [2])})
    definition = pb.VariableDef(variable_name="tmp:0").SerializeToString()
    message.collection_def["local_variables"].bytes_list.value.append(definition)
    message.collection_def["trainable_variables"].bytes_list.value.append(definition)
    assert [each.key for each in found(message)] == ["w"]
    message.ClearField("saver_def")
    del message.collection_def["variables"]
    assert found(message) == ()
    del message.collection_def["local_variables"]
    assert [each.key for each in found(message)] == ["tmp"]


def test_what_is_restored_into_no_variable() -> None:
    message = with_saver({"w": (FLOAT, [2])})
    graph = message.graph_def
    constant(graph, "names", strings("t-keys", "t-values"))
    constant(graph, "slices", strings("", "3 2 0,2:-"))
    node(graph, "r", "RestoreV2", "p", "names", "slices")
    node(graph, "import", "LookupTableImportV2", "t", "r", "r:1")
    next(each for each in graph.node if each.name == "save/restore_all").input.append("^import")
    assert found(message)[:2] == (
        GraphVariable("t-keys", None, None, None, True),
        GraphVariable("t-values", None, None, (3, 2), True),
    )


def test_parts_have_the_shape_of_the_whole() -> None:
    message = pb.MetaGraphDef()
    definition = pb.VariableDef(variable_name="p/part_0:0")
    definition.save_slice_info_def.full_name = "p"
    definition.save_slice_info_def.full_shape.extend([4, 2])
    message.collection_def["variables"].bytes_list.value.append(definition.SerializeToString())
    node(message.graph_def, "p/part_0", "VariableV2", dtype=FLOAT, shape=[2, 2])
    assert found(message) == (GraphVariable("p", "p/part_0", "float32", (4, 2), None),)


def test_odd_savers_lead_to_nothing() -> None:
    message = pb.MetaGraphDef()
    graph = message.graph_def
    message.saver_def.restore_op_name = "all"
    node(graph, "all", "NoOp", "^r", "^a", "^b", "^loop", "missing")
    node(graph, "r", "RestoreV2", "p")
    node(graph, "a", "Assign", "w")
    node(graph, "b", "Assign", "w", "r:99999999999999999999")
    node(graph, "loop", "Identity", "loop")
    node(graph, "s", "RestoreV2", "p", "all")
    assert found(message) == ()


def saved(*children: list[tuple[str, int]]) -> tuple[SavedNode, ...]:
    return tuple(SavedNode(tuple(each), (), None) for each in children)


def test_paths_of_saved_objects() -> None:
    nodes = saved([("a", 1), ("b/c", 2), ("far", 9), ("self", 0)], [("x", 2)], [])
    assert saved_paths(nodes) == {0: "", 1: "a", 2: "b.Sc"}
    assert saved_paths(()) == {}


def test_slots_are_named_by_variable_and_optimizer() -> None:
    graph = pb.SavedObjectGraph()
    root = graph.nodes.add()
    root.children.add(local_name="w", node_id=1)
    root.children.add(local_name="opt", node_id=2)
    graph.nodes.add().variable.dtype = FLOAT
    slot = graph.nodes.add().slot_variables.add()
    slot.original_variable_node_id, slot.slot_name, slot.slot_variable_node_id = 1, "m", 3
    graph.nodes.add().variable.dtype = FLOAT
    nodes = saved_nodes(graph)
    assert saved_paths(nodes)[3] == "w/.OPTIMIZER_SLOT/opt/m"
    assert nodes[1].variable is not None and nodes[1].kind == "variable"


def test_paths_of_a_chain_of_thousands() -> None:
    nodes = saved(*([("next", number + 1)] for number in range(5000)), [])
    assert saved_paths(nodes)[5000] == "/".join(["next"] * 5000)


def test_paths_of_a_long_chain_are_refused() -> None:
    nodes = saved(*([("x" * 200, number + 1)] for number in range(3000)), [])
    with pytest.raises(CorruptError, match="too long"):
        saved_paths(nodes)
