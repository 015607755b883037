"""The columns of a graph against the nodes that they stand for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ckpttool.objects.columns import GraphColumns, view_nodes, view_slots
from ckpttool.objects.nodes import Attribute, Edge, Node, RegisteredSaver, SlotLink, SlotVariable

ODD = b"\x9a\x06\x01?"  # an unknown field
NODES: tuple[Node, ...] = (
    Node(0, (Edge("a", 1), Edge("b", 2, ODD)), has_values=True, unknown=ODD),
    Node(1, (), (Attribute("x", "", "a/x"), Attribute("y", "n", "a/y", True, ODD))),
    Node(2, (Edge("c", 1),), (), (SlotVariable(1, "m", 3), SlotVariable(1, "v", 4, ODD))),
    Node(3, (), (Attribute("x", "", "m"),), saver=RegisteredSaver("s", "o")),
    Node(4, (), (Attribute("x", "", "v", True),), has_values=False),
)
COLUMNS = GraphColumns.of(NODES)


def nodes(columns: GraphColumns) -> tuple[Node, ...]:
    return tuple(view_nodes(columns))


def test_nodes_are_what_was_given() -> None:
    view = view_nodes(COLUMNS)
    assert view == NODES
    assert view[1:3] == NODES[1:3]
    assert view[-1] == NODES[-1]
    assert len(view) == 5
    assert view != NODES[:4]
    assert view_slots(COLUMNS) == (SlotLink(2, 1, "m", 3), SlotLink(2, 1, "v", 4))


def test_who_holds_what() -> None:
    assert [COLUMNS.source(at) for at in range(3)] == [0, 0, 2]
    assert [COLUMNS.holder(at) for at in range(4)] == [1, 1, 3, 4]
    assert [*COLUMNS.parents_with_edges()] == [0, 2]
    assert [*COLUMNS.nodes_with_attributes()] == [1, 3, 4]
    assert [*COLUMNS.children(0)] == [("a", 1), ("b", 2)]


@given(st.lists(st.booleans(), min_size=3, max_size=3))
def test_some_edges(kept: list[bool]) -> None:
    flags = iter(kept)
    expected = [
        node._replace(children=tuple(edge for edge in node.children if next(flags)))
        for node in NODES
    ]
    assert nodes(COLUMNS.with_some_edges(bytes(kept))) == tuple(expected)


@given(st.lists(st.booleans(), min_size=4, max_size=4))
def test_some_attributes(kept: list[bool]) -> None:
    flags = iter(kept)
    expected = [
        node._replace(attributes=tuple(one for one in node.attributes if next(flags)))
        for node in NODES
    ]
    assert nodes(COLUMNS.with_some_attributes(bytes(kept))) == tuple(expected)


@given(st.lists(st.booleans(), min_size=2, max_size=2))
def test_some_slots(kept: list[bool]) -> None:
    flags = iter(kept)
    expected = [
        node._replace(slots=tuple(slot for slot in node.slots if next(flags))) for node in NODES
    ]
    columns = COLUMNS.with_some_slots(bytes(kept))
    assert nodes(columns) == tuple(expected)
    assert len(view_slots(columns)) == sum(kept)


def test_other_children_and_new_nodes() -> None:
    changed = {0: [Edge("b", 2, ODD)], 3: [Edge("n", 5)]}
    found = nodes(COLUMNS.with_children(changed, [[Edge("a", 1, ODD)], []]))
    assert found == (
        NODES[0]._replace(children=(Edge("b", 2, ODD),)),
        *NODES[1:3],
        NODES[3]._replace(children=(Edge("n", 5),)),
        NODES[4],
        Node(5, (Edge("a", 1, ODD),)),
        Node(6),
    )
    assert nodes(COLUMNS) == NODES


def test_equal_columns() -> None:
    assert GraphColumns.of(NODES) == COLUMNS
    assert GraphColumns.of(NODES[:4]) != COLUMNS
    assert COLUMNS.with_keys([*COLUMNS.keys]) == COLUMNS
    assert COLUMNS.with_keys(["", *COLUMNS.keys[1:]]) != COLUMNS
