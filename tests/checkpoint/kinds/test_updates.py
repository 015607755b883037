"""Kinds that only the operations of optimizers tell."""

from __future__ import annotations

import pytest

from ckpttool import pb
from ckpttool.bundle.entry import BundleEntry
from ckpttool.checkpoint.kinds.names import kinds_from_metagraph, kinds_from_names
from ckpttool.metagraph.facts import metagraph_of
from ckpttool.tensor.dtypes import dtype_of_name
from tests.metagraph.graph_messages import FLOAT, node


def entries(**shapes: tuple[int, ...]) -> dict[str, BundleEntry]:
    dtype = dtype_of_name("float32")
    return {key: BundleEntry(dtype, shape) for key, shape in shapes.items()}


def graph(op: str, *inputs: str) -> pb.MetaGraphDef:
    message = pb.MetaGraphDef()
    for name in dict.fromkeys(inputs):
        node(message.graph_def, name, "VariableV2", dtype=FLOAT)
    node(message.graph_def, "update", op, *inputs)
    return message


def test_names_that_say_nothing() -> None:
    tensors = entries(w=(3,), a=(3,), b=(3,), c=(), d=(), rest=(3,))
    metagraph = metagraph_of(graph("ApplyAdam", "w", "a", "b", "c", "d"), "x")
    assert set(kinds_from_names(tensors).values()) == {"weight"}
    assert kinds_from_metagraph(tensors, metagraph) == {
        "w": "weight",
        "a": "slot",
        "b": "slot",
        "c": "optimizer",
        "d": "optimizer",
        "rest": "weight",
    }


def test_names_that_mislead() -> None:
    tensors = {"w": (3,), "w/Adam": (3,), "w/Adam_1": (3,)}
    made = {key: BundleEntry(dtype_of_name("float32"), shape) for key, shape in tensors.items()}
    assert kinds_from_names(made)["w/Adam"] == "slot"
    metagraph = metagraph_of(graph("ApplyGradientDescent", "w/Adam", "lr", "g"), "x")
    assert kinds_from_metagraph(made, metagraph)["w/Adam"] == "weight"


def test_what_is_trained_stays_a_weight() -> None:
    message = graph("ApplyMomentum", "w", "v")
    value = pb.VariableDef(variable_name="v:0").SerializeToString()
    message.collection_def["trainable_variables"].bytes_list.value.append(value)
    kinds = kinds_from_metagraph(entries(w=(2,), v=(2,)), metagraph_of(message, "x"))
    assert kinds == {"w": "weight", "v": "weight"}


def test_a_parameter_is_a_scalar() -> None:
    metagraph = metagraph_of(graph("ApplyAdagrad", "w", "s", "rate"), "x")
    assert kinds_from_metagraph(entries(w=(2,), s=(2,), rate=(2,)), metagraph)["rate"] == "weight"
    assert kinds_from_metagraph(entries(w=(2,), s=(2,), rate=()), metagraph)["rate"] == "optimizer"


def test_parts_of_a_partitioned_slot() -> None:
    message = graph("ApplyMomentum", "p/part_0", "q/part_0")
    for name, full in (("p/part_0", "p"), ("q/part_0", "q")):
        definition = pb.VariableDef(variable_name=f"{name}:0")
        definition.save_slice_info_def.full_name = full
        value = definition.SerializeToString()
        message.collection_def["variables"].bytes_list.value.append(value)
    kinds = kinds_from_metagraph(entries(p=(4,), q=(4,)), metagraph_of(message, "x"))
    assert kinds == {"p": "weight", "q": "slot"}


@pytest.mark.parametrize("op", ["ResourceApplyKerasMomentum", "SparseApplyAdagrad"])
def test_other_forms(op: str) -> None:
    metagraph = metagraph_of(graph(op, "w", "s"), "x")
    assert kinds_from_metagraph(entries(w=(2,), s=(2,)), metagraph)["s"] == "slot"
    # Names that the checkpoint does not have are left out.
    assert kinds_from_metagraph(entries(w=(2,)), metagraph) == {"w": "weight"}
