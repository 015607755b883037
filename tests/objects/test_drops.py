"""Attributes taken out of a graph."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from ckpttool.objects.drops import drop_attributes
from ckpttool.objects.graph import (
    Attribute,
    Edge,
    Node,
    ObjectGraph,
    RegisteredSaver,
)
from tests.surgery.graphs import (
    VARIABLE,
    Slot,
    Tree,
    graph_of,
    holding,
    keys_of,
    links_of,
    outline,
)

V = VARIABLE
NAME = "VARIABLE_VALUE"
TRAINED: Tree = {"net": {"w": V, "b": V}, "opt": {"lr": V}, "step": V}
M_AND_V: tuple[Slot, ...] = (
    ("opt", "net/w", "m"),
    ("opt", "net/w", "v"),
    ("opt", "net/b", "m"),
    ("opt", "net/b", "v"),
)


def drop(graph: ObjectGraph, *paths: str) -> ObjectGraph:
    """Drop the variables at these paths."""
    found = {path: graph.node_at(path) for path in paths}
    assert None not in found.values()
    return drop_attributes(graph, {(at, NAME) for at in found.values() if at is not None})


@dataclass(frozen=True)
class Case:
    """A tree, what is dropped, and the tree that is left."""

    tree: Tree
    dropped: tuple[str, ...]
    expected: Tree
    slots: tuple[Slot, ...] = ()
    slots_after: tuple[Slot, ...] = ()


CASES = {
    "leaf": Case(TRAINED, ("net/w",), {"net": {"b": V}, "opt": {"lr": V}, "step": V}),
    "all of an object": Case(TRAINED, ("net/w", "net/b"), {"opt": {"lr": V}, "step": V}),
    "a chain": Case({"a": {"b": {"c": V}}, "z": V}, ("a/b/c",), {"z": V}),
    "shared": Case({"a": V, "b": {"x": "@a"}, "c": {"x": "@a", "y": V}}, ("a",), {"c": {"y": V}}),
    "circle": Case({"a": {"me": "@a", "w": V}, "z": V}, ("a/w",), {"z": V}),
    "leading back to what holds values": Case(
        {"a": {"w": V, "top": "@"}, "z": V}, ("a/w",), {"a": {"top": "@"}, "z": V}
    ),
    "part of a circle": Case(
        {"a": {"b": {"up": "@a", "v": V}, "w": V}},
        ("a/b/v",),
        {"a": {"b": {"up": "@a"}, "w": V}},
    ),
    "empty objects stay": Case(
        {"a": {"nothing": {}, "w": V, "v": V}, "none": {}},
        ("a/w",),
        {"a": {"nothing": {}, "v": V}, "none": {}},
    ),
    "empty object below a dropped one": Case(
        {"a": {"none": {}, "w": V}, "z": V}, ("a/w",), {"z": V}
    ),
    "one slot name": Case(
        TRAINED,
        ("net/w/.OPTIMIZER_SLOT/opt/m", "net/b/.OPTIMIZER_SLOT/opt/m"),
        TRAINED,
        M_AND_V,
        (M_AND_V[1], M_AND_V[3]),
    ),
    "all slots": Case(
        TRAINED,
        tuple(f"{variable}/.OPTIMIZER_SLOT/opt/{slot}" for _, variable, slot in M_AND_V),
        TRAINED,
        M_AND_V,
    ),
    "optimizer that has slots still": Case(
        TRAINED,
        ("opt/lr",),
        {"net": {"w": V, "b": V}, "opt": {}, "step": V},
        M_AND_V,
        M_AND_V,
    ),
    "optimizer and slots": Case(
        TRAINED,
        (
            "opt/lr",
            *(f"{variable}/.OPTIMIZER_SLOT/opt/{slot}" for _, variable, slot in M_AND_V),
        ),
        {"net": {"w": V, "b": V}, "step": V},
        M_AND_V,
    ),
    "nothing": Case(TRAINED, (), TRAINED, M_AND_V, M_AND_V),
}


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_drops(name: str, told: bool) -> None:
    case = CASES[name]
    graph = graph_of(case.tree, case.slots, told=told)
    before = graph.to_bytes()
    left = drop(graph, *case.dropped)
    expected = graph_of(case.expected, case.slots_after, told=told)
    assert outline(left) == outline(expected)
    assert keys_of(left) == keys_of(expected)
    assert links_of(left) == links_of(expected)
    assert [node.id for node in left.nodes] == [node.id for node in graph.nodes]
    assert graph.to_bytes() == before
    found = holding(left)
    for node in left.nodes:
        assert node.has_values == ((node.id in found) if told else None)


def test_nothing_dropped_gives_the_same_bytes() -> None:
    graph = graph_of(TRAINED, M_AND_V)
    assert drop_attributes(graph, set()).to_bytes() == graph.to_bytes()


def test_one_of_several_attributes() -> None:
    attributes = (Attribute("keep", "", "a/keep"), Attribute("go", "", "a/go"))
    graph = ObjectGraph((Node(0, (Edge("a", 1),)), Node(1, (), attributes)), b"\xf8\x01\x07")
    left = drop_attributes(graph, {(1, "go"), (0, "keep")})
    assert left.nodes == (graph.nodes[0], Node(1, (), attributes[:1]))
    assert left.unknown == graph.unknown


def test_objects_with_a_saver_of_their_own_stay() -> None:
    graph = ObjectGraph(
        (
            Node(0, (Edge("a", 1), Edge("b", 2)), has_values=True),
            Node(1, (Edge("w", 2),), saver=RegisteredSaver("s", "a"), has_values=True),
            Node(2, (), (Attribute(NAME, "", "b"),), has_values=True),
        )
    )
    left = drop_attributes(graph, {(2, NAME)})
    assert outline(left) == {"": [("a", "a")], "a": []}
    assert [node.has_values for node in left.nodes] == [True, True, False]
