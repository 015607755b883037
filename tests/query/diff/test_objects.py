"""Object graphs compared object by object."""

from __future__ import annotations

import pytest

from ckpttool import open_checkpoint
from ckpttool.objects.graph import (
    Attribute,
    Edge,
    Node,
    ObjectGraph,
    RegisteredSaver,
    SlotVariable,
)
from ckpttool.query.diff.objects import diff_graphs
from ckpttool.query.diff.results import GraphChange
from tests.support.fixtures import bundles
from tests.support.limits import time_limit

OBJECTS = [each for each in bundles() if "_CHECKPOINTABLE_OBJECT_GRAPH" in each.tensors]


def variable(node_id: int, key: str, full_name: str = "v") -> Node:
    return Node(node_id, attributes=(Attribute("VARIABLE_VALUE", full_name, key),))


def graph(*nodes: Node) -> ObjectGraph:
    return ObjectGraph(nodes)


def changes(a: ObjectGraph, b: ObjectGraph, **moves: str) -> list[GraphChange]:
    return list(diff_graphs(a, b, moves).changes)


# root -> net -> w, root -> opt, which keeps slot m of w
ROOT = Node(0, (Edge("net", 1), Edge("opt", 2)))
NET = Node(1, (Edge("w", 3),))
OPT = Node(2, slots=(SlotVariable(3, "m", 4),))
W, M = variable(3, "net/w"), variable(4, "net/w/m")
BASE = graph(ROOT, NET, OPT, W, M)


@pytest.mark.parametrize("fixture", OBJECTS, ids=lambda each: each.name)
def test_every_graph_is_equal_to_itself(fixture: object) -> None:
    with open_checkpoint(fixture.prefix) as ckpt:  # type: ignore[attr-defined]
        found = ckpt.object_graph
    assert found is not None
    compared = diff_graphs(found, found, {})
    assert compared.equal and compared.objects == (len(found.nodes),) * 2


def test_numbers_of_nodes_do_not_count() -> None:
    other = graph(
        Node(0, (Edge("net", 3), Edge("opt", 1))),
        Node(1, slots=(SlotVariable(2, "m", 4),)),
        variable(2, "net/w"),
        Node(3, (Edge("w", 2),)),
        M,
    )
    assert changes(BASE, other) == changes(other, BASE) == []


def test_objects_that_come_and_go() -> None:
    more = graph(
        Node(0, (*ROOT.children, Edge("a/b", 5))), NET, OPT, W, M, Node(5, (Edge("c", 6),)), Node(6)
    )
    assert changes(BASE, more) == [GraphChange("edge", "added", "a.Sb", objects=2)]
    assert changes(more, BASE) == [GraphChange("edge", "removed", "a.Sb", objects=2)]


def test_another_edge_to_a_known_object() -> None:
    more = graph(Node(0, (*ROOT.children, Edge("again", 1))), NET, OPT, W, M)
    assert changes(BASE, more) == [GraphChange("edge", "added", "again", objects=0)]


def test_objects_shared_otherwise() -> None:
    one = graph(Node(0, (Edge("a", 1), Edge("b", 2), Edge("c", 1))), Node(1), Node(2))
    other = graph(Node(0, (Edge("a", 1), Edge("b", 2), Edge("c", 2))), Node(1), Node(2))
    assert changes(one, other) == [GraphChange("sharing", "changed", "c", a="a", b="b")]


def test_attributes() -> None:
    named = graph(ROOT, NET, OPT, variable(3, "net/w", "other"), M)
    name = "VARIABLE_VALUE"
    assert changes(BASE, named) == [
        GraphChange("attribute", "changed", "net/w", name=name, a="v", b="other")
    ]
    keyed = graph(ROOT, NET, OPT, variable(3, "elsewhere"), M)
    assert changes(BASE, keyed) == [
        GraphChange("attribute", "changed", "net/w", name=name, a="net/w", b="elsewhere")
    ]
    bare = graph(ROOT, NET, OPT, Node(3), M)
    assert changes(BASE, bare) == [GraphChange("attribute", "removed", "net/w", name=name)]
    assert changes(bare, BASE) == [GraphChange("attribute", "added", "net/w", name=name)]


def test_slots() -> None:
    without = graph(ROOT, NET, Node(2), W)
    slot = {"path": "net/w", "name": "m", "optimizer": "opt"}
    assert changes(BASE, without) == [GraphChange("slot", "removed", **slot)]  # type: ignore[arg-type]
    assert changes(without, BASE) == [GraphChange("slot", "added", **slot)]  # type: ignore[arg-type]
    other = graph(ROOT, NET, OPT, W, variable(4, "net/w/m", "x"))
    (change,) = changes(BASE, other)
    assert (change.path, change.b) == ("net/w/.OPTIMIZER_SLOT/opt/m", "x")


def test_savers() -> None:
    saved = graph(ROOT, NET._replace(saver=RegisteredSaver("pkg.Saver", "net")), OPT, W, M)
    assert changes(BASE, saved) == [GraphChange("saver", "changed", "net", b="pkg.Saver")]


def test_renames_are_followed() -> None:
    root = Node(0, (Edge("model", 1), Edge("opt", 2)))
    other = graph(root, NET, OPT, variable(3, "model/w", "x"), M)
    assert changes(BASE, other, net="model") == [
        GraphChange("edge", "renamed", "net", "model"),
        GraphChange("attribute", "changed", "net/w", name="VARIABLE_VALUE", a="v", b="x"),
    ]
    kinds = {(each.part, each.change) for each in changes(BASE, other)}
    assert kinds == {
        ("edge", "removed"),
        ("edge", "added"),
        ("slot", "removed"),
        ("slot", "added"),
    }


def test_a_side_without_a_graph() -> None:
    found = diff_graphs(BASE, None, {})
    assert (found.objects, found.slots, found.equal) == ((5, None), (1, None), False)


def test_circles_and_long_chains() -> None:
    circle = graph(Node(0, (Edge("self", 0), Edge("x", 1))), Node(1, (Edge("up", 0),)))
    assert changes(circle, circle) == []
    size = 500
    chain = graph(*(Node(at, (Edge("n", at + 1),)) for at in range(size)), Node(size))
    fan = graph(
        Node(0, tuple(Edge(f"e{at}", 1) for at in range(size))), Node(1, (Edge("n", 2),)), Node(2)
    )
    with time_limit(10):
        assert changes(chain, chain) == []
        assert [each.objects for each in changes(graph(Node(0)), chain)] == [size]
        assert sum(each.objects for each in changes(graph(Node(0)), fan)) == 2
