"""Trees of object graphs of odd forms."""

from __future__ import annotations

import pytest

from ckpttool.errors import CorruptError
from ckpttool.objects.graph import Attribute, Edge, Node, ObjectGraph
from ckpttool.objects.keys import attribute_key
from ckpttool.query.rows import TensorRow
from ckpttool.query.tree.nodes import MAX_DEPTH, TreeNode
from ckpttool.query.tree.objects import ObjectTree
from tests.support.limits import time_limit

_MANY = 50_000


def _row(key: str) -> TensorRow:
    return TensorRow(key, None, "float32", (), "weight", 1, 4, 0, 0, 0)


def _tree(
    graph: ObjectGraph, *keys: str, limit: int | None = None, everything: bool = True
) -> list[TreeNode]:
    with time_limit(20):
        return list(ObjectTree(graph, list(map(_row, keys)), limit, everything=everything))


def _chain(length: int, *extra: Edge) -> ObjectGraph:
    nodes = [Node(at, (*extra, Edge("n", at + 1))) for at in range(length - 1)]
    return ObjectGraph((*nodes, Node(length - 1)))


def test_a_long_chain_is_folded() -> None:
    nodes = _tree(_chain(_MANY))
    assert [node.depth for node in nodes] == list(range(MAX_DEPTH + 1))
    assert nodes[-1].hidden == _MANY - 1 - MAX_DEPTH
    assert nodes[-1].path == "/".join(["n"] * MAX_DEPTH)


def test_a_limit_may_be_deeper() -> None:
    nodes = _tree(_chain(1_000), limit=500)
    assert (nodes[-1].depth, nodes[-1].hidden) == (500, 499)


def test_paths_that_would_fill_the_disk_are_refused_before_anything_is_drawn() -> None:
    with pytest.raises(CorruptError, match="too long"):
        ObjectTree(_chain(_MANY), [], _MANY, everything=True)
    # Each of the many refers to one object, the path of which is as long as a file.
    star = [Edge("x" * 1_000_000, 1), *(Edge(str(at), 1) for at in range(_MANY))]
    with pytest.raises(CorruptError, match="too long"):
        ObjectTree(ObjectGraph((Node(0, tuple(star)), Node(1))), [], None, everything=True)


@pytest.mark.large
def test_a_star() -> None:
    edges = tuple(Edge(str(at), at + 1) for at in range(2 * _MANY))
    nodes = _tree(ObjectGraph((Node(0, edges), *(Node(at + 1) for at in range(2 * _MANY)))))
    assert [node.name for node in nodes[1:]] == [edge.name for edge in edges]
    assert [node.last for node in nodes[1:]] == [False] * (2 * _MANY - 1) + [True]


def test_circles_and_diamonds_are_drawn_once() -> None:
    """Every layer refers to the next one twice, and to the root: the paths are 2 ** 60."""
    layers = 60
    nodes = [Node(at, (Edge("a", at + 1), Edge("b", at + 1), Edge("r", 0))) for at in range(layers)]
    drawn = _tree(ObjectGraph((*nodes, Node(layers))))
    assert len(drawn) == 1 + 3 * layers
    assert [node.same_as for node in drawn].count("") == layers
    assert [node.path for node in drawn if node.same_as is None] == [
        "/".join("a" * at) for at in range(layers + 1)
    ]


def test_an_object_that_refers_to_itself() -> None:
    drawn = _tree(ObjectGraph((Node(0, (Edge("me", 0), Edge("x", 1))), Node(1, (Edge("x", 1),)))))
    found = [(node.depth, node.name, node.same_as, node.last) for node in drawn]
    assert found == [
        (0, "", None, True),
        (1, "me", "", False),
        (1, "x", None, True),
        (2, "x", "x", True),
    ]


def test_what_no_path_leads_to_stands_below_the_root() -> None:
    lost, own = attribute_key("lost"), "of/a/saver"
    graph = ObjectGraph(
        (
            Node(0, (Edge("w", 1),)),
            Node(1, (), (Attribute("VARIABLE_VALUE", "w", attribute_key("w")),)),
            Node(2, (), (Attribute("VARIABLE_VALUE", "lost", lost),)),
        )
    )
    drawn = _tree(graph, attribute_key("w"), lost, own)
    assert [node.name for node in drawn] == ["", "w", own, lost]
    assert [node.last for node in drawn] == [True, False, False, True]
    selected = _tree(graph, lost, everything=False)
    assert [node.name for node in selected] == ["", lost]
