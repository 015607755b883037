"""What drawings show of checkpoints, and what they fold and leave out."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ckpttool import open_checkpoint
from ckpttool.objects.graph import Attribute, Edge, Node, ObjectGraph
from ckpttool.objects.keys import attribute_key
from ckpttool.query.drawing.build import Drawing, DrawnNode, build_drawing, fold_outline
from ckpttool.query.drawing.objects import outline_objects
from ckpttool.query.drawing.scopes import outline_scopes
from ckpttool.query.listing import list_tensors
from ckpttool.query.rows import TensorRow
from tests.support.fixtures import FIXTURES
from tests.support.limits import time_limit


def drawing_of(name: str, **how: bool | int) -> Drawing:
    with open_checkpoint(os.path.join(FIXTURES, name)) as ckpt:
        return build_drawing(ckpt, list_tensors(ckpt).rows, **how)  # type: ignore[arg-type]


def lines(drawing: Drawing) -> list[str]:
    """Return the drawing as indented text."""

    def below(node: DrawnNode, depth: int) -> Iterator[str]:
        slots = "".join(f" +{','.join(slot.names)}" for slot in node.slots)
        edges = "".join(f" {each.name}->{each.path}" for each in node.references)
        count = f" x{node.copies}" if node.copies > 1 else ""
        yield f"{'  ' * depth}{node.name} {node.look}{count}{slots}{edges}"
        for child in node.children:
            yield from below(child, depth + 1)

    return [*below(drawing.root, 0)]


def adds_up(drawing: Drawing) -> None:
    left = drawing.alike + drawing.empty + drawing.unselected + drawing.beyond + drawing.deeper
    assert drawing.drawn + left == drawing.total
    nodes = [*drawing.root.walk()]
    slots = sum(len(slot.names) for node in nodes for slot in node.slots)
    assert drawing.drawn == len(nodes) + slots


def row(key: str, kind: str = "weight", shape: tuple[int, ...] = ()) -> TensorRow:
    return TensorRow(key, None, "float32", shape, kind, 1, 4, 0, 0, 0)


def graph_of(edges: dict[int, list[tuple[str, int]]], values: set[int]) -> Drawing:
    """Draw a graph with these edges, in which these nodes are variables."""
    total = max([*edges, *(child for each in edges.values() for _, child in each)]) + 1
    nodes, rows = [], []
    for at in range(total):
        key = attribute_key(f"v{at}", "VARIABLE_VALUE")
        attributes = (Attribute("VARIABLE_VALUE", "", key),) if at in values else ()
        rows += [row(key)] if attributes else []
        nodes.append(Node(at, tuple(Edge(*edge) for edge in edges.get(at, ())), attributes))
    with time_limit(20):
        return fold_outline(outline_objects(ObjectGraph(nodes), rows, {}), "ckpt")


def names_of(*keys: str, **kinds: str) -> Drawing:
    rows = [row(key, kinds.get(key.rpartition("/")[2], "weight")) for key in sorted(keys)]
    with time_limit(20):
        return fold_outline(outline_scopes(rows), "model.ckpt-1")


def test_the_guide_has_the_picture_of_the_guide() -> None:
    drawing = drawing_of("v2/tf2.21/guide_legacy_adam/tf_ckpts")
    assert lines(drawing) == [
        "ckpt-5 root",
        "  iterator other",
        "  net object",
        "    l1 object",
        "      kernel weight +m +v",
        "      bias weight +m +v",
        "  optimizer optimizer",
        *(
            f"    {name} hyper-parameter"
            for name in ("iter", "beta_1", "beta_2", "decay", "learning_rate")
        ),
        "  step step",
        "  save_counter step",
    ]
    assert (drawing.drawn, drawing.total) == (18, 18)


def test_weights_of_keras_hang_below_their_model() -> None:
    drawing = drawing_of("v2/tf2.21/keras3_adam")
    adds_up(drawing)
    assert (drawing.total, drawing.empty) == (35, 9)
    found = {node.path: node for node in drawing.root.walk()}
    (model,) = [node for node in drawing.root.children if node.name == "model"]
    assert [node.name for node in model.walk() if node.look == "weight"] == ["_kernel", "bias"] * 2
    assert {node.look for node in found["optimizer/_momentums"].children} == {"slot"}
    lists = {name: found[f"optimizer/{name}"] for name in ("_variables", "_trainable_variables")}
    assert {name: node.more_references for name, node in lists.items()} == {
        "_variables": 10,
        "_trainable_variables": 4,
    }


def test_a_drawing_of_everything_has_every_object() -> None:
    for name in ("v2/tf2.21/keras3_adam", "v2/tf2.21/containers", "v2/tf2.21/references"):
        drawing = drawing_of(name, everything=True)
        adds_up(drawing)
        assert drawing.drawn == drawing.total


def test_depth_counts_what_is_below() -> None:
    drawing = drawing_of("v2/tf2.21/guide_legacy_adam/tf_ckpts", depth=1)
    adds_up(drawing)
    assert [node.name for node in drawing.root.walk()][1:] == [
        *("iterator", "net", "optimizer", "step", "save_counter")
    ]
    assert [node.below for node in drawing.root.children] == [0, 7, 5, 0, 0]
    assert drawing.deeper == 12


def test_what_is_selected_is_drawn_alone() -> None:
    with open_checkpoint(os.path.join(FIXTURES, "v2/tf2.21/keras3_adam")) as ckpt:
        rows = [one for one in list_tensors(ckpt).rows if one.kind == "slot"]
        drawing = build_drawing(ckpt, rows)
    adds_up(drawing)
    assert {node.look for node in drawing.root.walk()} == {"root", "optimizer", "object", "slot"}
    assert drawing.unselected == drawing.total - drawing.drawn


def test_layers_that_are_alike_are_one_with_all_their_numbers() -> None:
    keys = [f"h{at}/{name}" for at in range(200) for name in ("attn/w", "attn/b", "mlp/w")]
    drawing = names_of(*keys, "h201/attn/w", "h201/attn/b", "h201/mlp/w", "ln/g")
    adds_up(drawing)
    assert lines(drawing) == [
        "model.ckpt-1 root",
        "  h0…199, 201 object x201",
        "    attn object",
        "      b weight",
        "      w weight",
        "    mlp object",
        "      w weight",
        "  ln object",
        "    g weight",
    ]


def test_numbers_are_in_natural_order_and_two_are_no_group() -> None:
    assert lines(names_of("h10", "h9", "h2/x")) == [
        "model.ckpt-1 root",
        "  h2 object",
        "    x weight",
        "  h9 weight",
        "  h10 weight",
    ]


def test_bytes_of_a_group_are_added_up() -> None:
    (group,) = names_of("v/0", "v/1", "v/2").root.children[0].children
    assert (group.name, group.bytes, group.copies) == ("0…2", 12, 3)


def test_slots_of_names_hang_at_their_variable() -> None:
    keys = ("a/w", "a/w/Adam", "a/w/Adam_1", "a/w/ExponentialMovingAverage", "lone/Adam")
    kinds = {"Adam": "slot", "Adam_1": "slot", "ExponentialMovingAverage": "ema"}
    assert lines(names_of(*keys, **kinds)) == [
        "model.ckpt-1 root",
        "  a object",
        "    w weight +Adam +Adam_1 +ExponentialMovingAverage",
        "  lone object",
        "    Adam slot",
    ]


def test_more_than_eight_slots_are_drawn_by_variable() -> None:
    keys = [f"{name}/w{slot}" for name in "abcde" for slot in ("", "/m", "/v")]
    drawing = names_of(*keys, m="slot", v="slot")
    adds_up(drawing)
    assert "    w weight +m,v" in lines(drawing)


def test_references_are_edges_up_to_three() -> None:
    shared = [("x", 1), ("a", 2), ("b", 2), ("c", 2), ("d", 2)]
    drawing = graph_of({0: [("v", 2), ("o", 1)], 1: shared}, {2})
    (_, other) = drawing.root.children
    assert (other.more_references, other.references) == (5, [])
    drawing = graph_of({0: [("v", 2), ("o", 1)], 1: shared[:3]}, {2})
    assert lines(drawing)[-1] == "  o object x->o a->v b->v"


def test_long_chains_are_one() -> None:
    """Twenty thousand objects, each in the one before it."""
    length = 20_000
    drawing = graph_of({at: [(f"n{at}", at + 1)] for at in range(length)}, {length})
    adds_up(drawing)
    assert lines(drawing) == [
        "ckpt root",
        f"  n0/…/n{length - 2} object x{length - 1}",
        f"    n{length - 1} weight",
    ]


def test_a_long_list_of_names_is_cut() -> None:
    drawing = names_of(*(f"name-{'x' * (at % 7)}{at:x}z" for at in range(20_000)))
    adds_up(drawing)
    assert len(drawing.root.children) == 10
    assert drawing.root.more > 18_000


def test_a_wide_graph_is_drawn_as_far_as_there_is_room() -> None:
    keys = [
        f"{a}{a}/{b}{b}/{c}{c}" for a in "abcdefghij" for b in "klmnopqrst" for c in "uvwxyzabcd"
    ]
    drawing = names_of(*keys)
    adds_up(drawing)
    assert drawing.drawn == 1 + 10 + 100
    assert {node.below for node in drawing.root.walk() if not node.children} == {10}


def test_a_circle_and_an_object_within_itself() -> None:
    drawing = graph_of({0: [("a", 1)], 1: [("b", 0), ("me", 1), ("w", 2)]}, {2})
    assert lines(drawing) == ["ckpt root", "  a object b-> me->a", "    w weight"]


def test_v1_and_partitioned_tensors_are_drawn_like_others() -> None:
    for name in ("v1/tf1.15/partitioned_sharded", "v2/tf1.15/partitioned_sharded"):
        drawing = drawing_of(name)
        adds_up(drawing)
        assert any(node.look == "weight" for node in drawing.root.walk())
