"""Edges renamed and moved."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckpttool.errors import CkptError, KeyCollisionError, SurgeryError
from ckpttool.objects.graph import Attribute, Edge, Node, ObjectGraph, RegisteredSaver
from ckpttool.objects.keys import ATTRIBUTES, escape
from ckpttool.objects.moves import move_edges, spell_keys
from tests.surgery.graphs import (
    NAMES,
    VARIABLE,
    Slot,
    Tree,
    edge_at,
    graph_of,
    graphs,
    holding,
    keys_of,
    links_of,
    outline,
)

V = VARIABLE
DEEP: Tree = {"net": {"l1": {"w": V, "b": V}, "l2": {"w": V}}, "step": V}
SHARED: Tree = {"a": {"w": V, "v": V}, "b": {"m": "@a", "x": "@a/w"}, "c": {"k": V}}
CIRCLE: Tree = {"a": {"w": V, "me": "@a", "b": {"v": V, "up": "@a"}}}


def move(graph: ObjectGraph, moves: dict[str, str]) -> ObjectGraph:
    return move_edges(graph, {edge_at(graph, old): new for old, new in moves.items()})


@dataclass(frozen=True)
class Case:
    """A tree, what is moved, and the tree that comes of it."""

    tree: Tree
    moves: dict[str, str]
    expected: Tree
    slots: tuple[Slot, ...] = ()
    slots_after: tuple[Slot, ...] = field(default=())


CASES: dict[str, Case] = {
    "nothing": Case(DEEP, {}, DEEP),
    "to its own name": Case(DEEP, {"net": "net", "net/l1": "net/l1"}, DEEP),
    "leaf": Case(
        DEEP, {"net/l1/w": "net/l1/x"}, {"net": {"l1": {"x": V, "b": V}, "l2": {"w": V}}, "step": V}
    ),
    "order is kept": Case({"b": V, "a": V, "c": V}, {"a": "z"}, {"b": V, "z": V, "c": V}),
    "scope takes along": Case(DEEP, {"net": "m"}, {"m": DEEP["net"], "step": V}),
    "scope, spelled out below": Case(
        DEEP,
        {"net": "m", "net/l1": "m/l1", "net/l1/w": "m/l1/w"},
        {"m": DEEP["net"], "step": V},
    ),
    "scope and leaf": Case(
        DEEP,
        {"net": "m", "net/l2/w": "m/l2/x"},
        {"m": {"l1": {"w": V, "b": V}, "l2": {"x": V}}, "step": V},
    ),
    "swap of siblings": Case(
        {"a": {"p": V}, "b": {"q": V}},
        {"a": "b", "b": "a"},
        {"b": {"p": V}, "a": {"q": V}},
    ),
    "ring of three": Case(
        {"a": {"p": V}, "b": {"q": V}, "c": {"r": V}},
        {"a": "b", "b": "c", "c": "a"},
        {"b": {"p": V}, "c": {"q": V}, "a": {"r": V}},
    ),
    "swap across levels": Case(
        {"a": {"p": V}, "b": {"q": V, "d": {"r": V}}},
        {"a": "b/d", "b/d": "a"},
        {"b": {"q": V, "d": {"p": V}}, "a": {"r": V}},
    ),
    "into an object": Case(
        DEEP,
        {"step": "net/l2/step"},
        {"net": {"l1": {"w": V, "b": V}, "l2": {"w": V, "step": V}}},
    ),
    "into an object that moves too": Case(
        DEEP,
        {"step": "m/l2/step", "net": "m"},
        {"m": {"l1": {"w": V, "b": V}, "l2": {"w": V, "step": V}}},
    ),
    "into an object that leaves too": Case(
        {"a": {"p": V}, "b": {"q": V}, "c": {"r": V}},
        {"a": "b/a", "c": "b/a/c"},
        {"b": {"q": V, "a": {"p": V, "c": {"r": V}}}},
    ),
    "where a moved object was": Case(
        {"a": {"p": V}, "b": {"q": V}},
        {"a": "old", "b": "a/b"},
        {"old": {"p": V}, "a": {"b": {"q": V}}},
    ),
    "into new objects": Case(
        {"w": V, "v": V}, {"w": "new/deep/w"}, {"v": V, "new": {"deep": {"w": V}}}
    ),
    "two into one new object": Case(
        {"w": V, "v": V}, {"w": "new/w", "v": "new/v"}, {"new": {"w": V, "v": V}}
    ),
    "into itself": Case(
        {"a": {"p": V}, "z": V}, {"a": "a/inner"}, {"z": V, "a": {"inner": {"p": V}}}
    ),
    "into what was its own child": Case(
        {"a": {"p": V, "b": {"q": V}}},
        {"a/b": "b", "a": "b/a"},
        {"b": {"q": V, "a": {"p": V}}},
    ),
    "into each other": Case(
        {"a": {"p": V}, "b": {"q": V}},
        {"a": "b/x", "b": "a/y"},
        {"b": {"x": {"p": V}}, "a": {"y": {"q": V}}},
    ),
    "all out of an object": Case(
        {"a": {"p": V, "q": V}, "z": V}, {"a/p": "p", "a/q": "q"}, {"z": V, "p": V, "q": V}
    ),
    "all out of a deep object": Case(
        {"a": {"b": {"p": V}}, "z": V}, {"a/b/p": "p"}, {"z": V, "p": V}
    ),
    "up and down at once": Case(
        {"a": {"b": {"p": V}}}, {"a": "c", "a/b": "a", "a/b/p": "c/p"}, {"c": {"p": V}}
    ),
    "shared, by its first name": Case(
        SHARED,
        {"a": "z"},
        {"z": {"w": V, "v": V}, "b": {"m": "@z", "x": "@z/w"}, "c": {"k": V}},
    ),
    "shared, by its other name": Case(
        SHARED,
        {"b/m": "b/n"},
        {"a": {"w": V, "v": V}, "b": {"n": "@a", "x": "@a/w"}, "c": {"k": V}},
    ),
    "shared, by its other name elsewhere": Case(
        SHARED,
        {"b/m": "c/m"},
        {"a": {"w": V, "v": V}, "b": {"x": "@a/w"}, "c": {"k": V, "m": "@a"}},
    ),
    "shared, below its other name": Case(
        SHARED,
        {"b/m/w": "b/m/y"},
        {"a": {"y": V, "v": V}, "b": {"m": "@a", "x": "@a/y"}, "c": {"k": V}},
    ),
    "shared, first name goes deeper than the other": Case(
        {"a": {"w": V}, "b": {"m": "@a"}, "c": {"k": V}},
        {"a": "c/d/e/a"},
        {"b": {"m": {"w": V}}, "c": {"k": V, "d": {"e": {"a": "@b/m"}}}},
    ),
    "into what a further name will lead to": Case(
        {"a": {"to_b": "@b"}, "b": {"w": V}, "z": V},
        {"a/to_b": "q", "z": "q/z"},
        {"b": {"w": V, "z": V}, "q": "@b"},
    ),
    "into what a moved object leads to by a further name": Case(
        {"a": {"up": "@b", "w": V}, "b": {"v": V}, "z": V},
        {"a": "c/a", "z": "c/a/up/z"},
        {"b": {"v": V, "z": V}, "c": {"a": {"up": "@b", "w": V}}},
    ),
    "two names of one object become one": Case(
        {"a": {"s": "@z", "w": V}, "z": V}, {"a/s": "q", "z": "q"}, {"a": {"w": V}, "q": V}
    ),
    "circle": Case(CIRCLE, {"a": "x"}, {"x": {"w": V, "me": "@x", "b": {"v": V, "up": "@x"}}}),
    "edge of a circle": Case(
        CIRCLE, {"a/me": "a/self"}, {"a": {"w": V, "self": "@a", "b": {"v": V, "up": "@a"}}}
    ),
    "object in a circle leaves": Case(
        CIRCLE, {"a/b": "b"}, {"a": {"w": V, "me": "@a"}, "b": {"v": V, "up": "@a"}}
    ),
    "edge back to the root": Case(
        {"root": "@", "a": {"w": V, "top": "@"}},
        {"a": "x", "a/top": "x/up"},
        {"root": "@", "x": {"w": V, "up": "@"}},
    ),
    "slots": Case(
        {"net": {"w": V}, "opt": {"lr": V}},
        {"net": "m", "opt": "deep/o"},
        {"m": {"w": V}, "deep": {"o": {"lr": V}}},
        (("opt", "net/w", "m"), ("opt", "net/w", "v")),
        (("deep/o", "m/w", "m"), ("deep/o", "m/w", "v")),
    ),
    "odd names": Case(
        {"d": {"a/b": V, "c.d": V, "plain": V}},
        {"d/a.Sb": "d/x..y", "d/c..d": "d/e.Sf", "d/plain": "d/ü  "},
        {"d": {"x.y": V, "e/f": V, "ü  ": V}},
    ),
    "a lone dot": Case({"a": {"w": V}}, {"a": "a.b"}, {"a.b": {"w": V}}),
}


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_moves(name: str, told: bool) -> None:
    case = CASES[name]
    graph = graph_of(case.tree, case.slots, told=told)
    before = graph.to_bytes()
    moved = move(graph, case.moves)
    expected = graph_of(case.expected, case.slots_after, told=told)
    assert outline(moved) == outline(expected)
    assert keys_of(moved) == keys_of(expected)
    assert links_of(moved) == links_of(expected)
    assert graph.to_bytes() == before
    reachable = [node for node in moved.nodes if moved.paths[node.id] is not None]
    holders = holding(moved) if told else set()
    assert {node.id for node in reachable if node.has_values} == holders & {n.id for n in reachable}
    assert told or all(node.has_values is None for node in moved.nodes)
    ObjectGraph.from_bytes(moved.to_bytes())


@pytest.mark.parametrize(
    ("tree", "moves", "path"),
    [
        (DEEP, {"net/l1": "net/l2"}, "net/l2"),
        (DEEP, {"net": "step"}, "step"),
        (DEEP, {"step": "net/l1"}, "net/l1"),
        (DEEP, {"net/l1": "x", "net/l2": "x"}, "x"),
        (DEEP, {"net/l1": "x/y", "net/l2": "x/y"}, "x/y"),
        (DEEP, {"net": "m", "step": "m/l1"}, "m/l1"),
        (SHARED, {"b/m": "b/x"}, "b/x"),
        ({"a": V, "b": V}, {"b": "new/b", "a": "new/b"}, "new/b"),
        ({"a": {"w": V}, "b": V}, {"b": "a.Sw", "a": "a.Sw"}, "a.Sw"),
    ],
)
def test_collisions(tree: Tree, moves: dict[str, str], path: str) -> None:
    with pytest.raises(KeyCollisionError, match="two objects would be called") as caught:
        move(graph_of(tree), moves)
    assert f"'{path}'" in str(caught.value)


@pytest.mark.parametrize("new", ["", "/", "a/", "/a", "a//b", "net//l1", "net/", "net/l1/"])
@pytest.mark.parametrize("old", ["net", "step", "net/l1", "net/l1/w"])
def test_empty_names(old: str, new: str) -> None:
    with pytest.raises(SurgeryError, match="a name in it is empty"):
        move(graph_of(DEEP), {old: new})


def test_objects_that_are_let_go_of_lose_their_edges_and_keep_their_ids() -> None:
    graph = graph_of({"a": {"b": {"p": V}}, "z": V})
    moved = move(graph, {"a/b/p": "p"})
    assert len(moved.nodes) == len(graph.nodes)
    assert [node.id for node in moved.nodes] == list(range(len(moved.nodes)))
    assert set(moved.unreachable) == {graph.node_at("a"), graph.node_at("a/b")}


def test_objects_that_held_nothing_stay() -> None:
    graph = graph_of({"a": {"empty": {}, "w": V}, "nothing": {}})
    moved = move(graph, {"a": "x", "a/empty": "x/none", "nothing": "void"})
    assert outline(moved) == outline(graph_of({"x": {"none": {}, "w": V}, "void": {}}))


def test_new_objects_come_last_without_attributes() -> None:
    graph = graph_of({"w": V})
    moved = move(graph, {"w": "new/deep/w"})
    assert moved.nodes[: len(graph.nodes)][1].attributes
    added = moved.nodes[len(graph.nodes) :]
    assert [moved.paths[node.id] for node in added] == ["new", "new/deep"]
    assert all(not node.attributes and node.has_values for node in added)


def test_what_no_path_leads_to_is_left_alone() -> None:
    graph = graph_of({"a": V, "b": V})
    lost = Node(3, (Edge("below", 4),), has_values=True)
    below = Node(
        4, (), (Attribute("VARIABLE_VALUE", "", f"lost/below{ATTRIBUTES}V"),), has_values=True
    )
    graph = ObjectGraph((*graph.nodes, lost, below))
    moved = move(graph, {"a": "c"})
    assert moved.nodes[3:] == graph.nodes[3:]


def test_children_of_slot_variables_stay() -> None:
    graph = graph_of({"w": V, "opt": {"lr": V}}, [("opt", "w", "m")])
    child = Node(len(graph.nodes), (), (Attribute("VARIABLE_VALUE", "", "?"),), has_values=True)
    slot = graph.slots[0].slot_id
    nodes = [*graph.nodes, child]
    nodes[slot] = nodes[slot]._replace(children=(Edge("part", child.id),))
    moved = move(ObjectGraph(tuple(nodes)), {"w": "v"})
    assert moved.nodes[slot].children == nodes[slot].children
    assert moved.paths[child.id] == "v/.OPTIMIZER_SLOT/opt/m/part"


def test_unknown_fields_savers_and_restored_flags_are_carried() -> None:
    unknown = b"\xf8\x01\x07"
    attribute = Attribute("A", "full", f"a/b{ATTRIBUTES}A", True, unknown)
    graph = ObjectGraph(
        (
            Node(0, (Edge("a", 1, unknown),), unknown=unknown),
            Node(1, (Edge("b", 2),), saver=RegisteredSaver("s", "a")),
            Node(2, (), (attribute,)),
        ),
        unknown,
    )
    moved = move(graph, {"a": "c"})
    assert moved.unknown == unknown
    assert moved.nodes[0] == Node(0, (Edge("c", 1, unknown),), unknown=unknown)
    assert moved.nodes[1] == graph.nodes[1]
    spelled = attribute._replace(checkpoint_key=f"c/b{ATTRIBUTES}A")
    assert moved.nodes[2].attributes == (spelled,)


def test_attribute_names_keep_their_spelling() -> None:
    keys = [f"a{ATTRIBUTES}x....y", f"a{ATTRIBUTES}table", "not/spelled/so"]
    attributes = tuple(Attribute(str(at), "", key) for at, key in enumerate(keys))
    graph = ObjectGraph((Node(0, (Edge("a", 1),)), Node(1, (), attributes)))
    found = [one.checkpoint_key for one in move(graph, {"a": "b"}).nodes[1].attributes]
    assert found == [f"b{ATTRIBUTES}x....y", f"b{ATTRIBUTES}table", "not/spelled/so"]


def test_attributes_of_the_root_keep_their_keys() -> None:
    root = Node(0, (Edge("a", 1),), (Attribute("own", "", f"{ATTRIBUTES}own"),))
    graph = ObjectGraph((root, Node(1, (), (Attribute("V", "", f"a{ATTRIBUTES}V"),))))
    moved = move(graph, {"a": "b"})
    assert moved.nodes[0].attributes == root.attributes
    assert spell_keys(moved, graph) == graph


@given(graphs(), st.data())
def test_renaming_in_place_there_and_back(graph: ObjectGraph, data: st.DataObject) -> None:
    fresh: dict[tuple[int, str], str] = {}
    for node in graph.nodes:
        for edge in node.children:
            if data.draw(st.booleans()):
                fresh[node.id, edge.name] = f"{edge.name}_{len(fresh)}"
    there = move_edges(graph, absolute(graph, fresh))
    back = {(at, new): old for (at, old), new in fresh.items()}
    again = move_edges(there, absolute(there, back))
    assert again.to_bytes() == graph.to_bytes()
    assert [len(node.children) for node in there.nodes] == [len(n.children) for n in graph.nodes]


def absolute(graph: ObjectGraph, names: dict[tuple[int, str], str]) -> dict[tuple[int, str], str]:
    """Return moves that give edges other names and leave them where they are."""
    paths = {0: ""}
    moves = {}
    queue = [0]
    for at in queue:
        for edge in graph.nodes[at].children:
            name = escape(names.get((at, edge.name), edge.name))
            path = f"{paths[at]}/{name}" if at else name
            if (at, edge.name) in names:
                moves[at, edge.name] = path
            if edge.node_id not in paths:
                paths[edge.node_id] = path
                queue.append(edge.node_id)
    return moves


def put(graph: ObjectGraph, moves: dict[tuple[int, str], str]) -> list[dict[str, int]] | None:
    """Return where the edges of each object lead if moved ones are put in place one by one."""
    edges: list[dict[str, int]] = [{} for _ in graph.nodes]
    moved = []
    for node in graph.nodes:
        for edge in node.children:
            if (node.id, edge.name) in moves:
                moved.append((moves[node.id, edge.name].split("/"), edge.node_id))
            else:
                edges[node.id][edge.name] = edge.node_id
    for names, target in sorted(moved, key=lambda each: len(each[0])):
        at = 0
        for name in names[:-1]:
            if name not in edges[at]:
                edges[at][name] = len(edges)
                edges.append({})
            at = edges[at][name]
        if edges[at].setdefault(names[-1], target) != target:
            return None
    return edges


def walks(edges: list[dict[str, int]], known: int, length: int) -> set[tuple[str, int]]:
    """Return the paths up to some length, each with the object of before that it leads to."""
    found = {("", 0)}
    for _ in range(length):
        found |= {
            (f"{path}/{name}", child) for path, at in found for name, child in edges[at].items()
        }
    return {(path, at) for path, at in found if at < known}


PLAIN_NAMES = st.sampled_from("abcxy")


@settings(max_examples=300)
@given(graphs(), st.data())
def test_moves_are_refused_only_where_two_objects_meet(
    graph: ObjectGraph, data: st.DataObject
) -> None:
    # All objects hold values here, so that no edge is let go of.
    attribute = Attribute("VARIABLE_VALUE", "", "a key of its own")
    full = ObjectGraph(tuple(node._replace(attributes=(attribute,)) for node in graph.nodes))
    edges = [
        (node.id, edge.name)
        for node in full.nodes
        for edge in node.children
        if edge.name.isalnum() and full.paths[node.id] is not None
    ]
    chosen = data.draw(st.lists(st.sampled_from(edges), max_size=3, unique=True)) if edges else []
    moves = {
        edge: "/".join(data.draw(st.lists(PLAIN_NAMES, min_size=1, max_size=3))) for edge in chosen
    }
    expected = put(full, moves)
    try:
        moved = move_edges(full, moves)
    except KeyCollisionError:
        assert expected is None
        return
    except SurgeryError as error:
        assert "nothing would lead to" in str(error)
        return
    assert expected is not None
    found = [{edge.name: edge.node_id for edge in node.children} for node in moved.nodes]
    known = len(full.nodes)
    assert walks(found, known, 4) == walks(expected, known, 4)


@given(graphs(), st.data())
def test_any_moves(graph: ObjectGraph, data: st.DataObject) -> None:
    edges = [(node.id, edge.name) for node in graph.nodes for edge in node.children]
    chosen = data.draw(st.lists(st.sampled_from(edges), max_size=4, unique=True))
    moves = {
        edge: "/".join(map(escape, data.draw(st.lists(NAMES, min_size=1, max_size=3))))
        for edge in chosen
    }
    try:
        moved = move_edges(graph, moves)
    except CkptError:
        return
    assert [node.id for node in moved.nodes] == list(range(len(moved.nodes)))
    for before, after in zip(graph.nodes, moved.nodes, strict=False):
        assert [one.name for one in before.attributes] == [one.name for one in after.attributes]
        assert moved.paths[after.id] is not None or not after.attributes
        for one in after.attributes:
            assert one.checkpoint_key == f"{moved.paths[after.id]}{ATTRIBUTES}VARIABLE_VALUE"
    found = holding(moved)
    for node in moved.nodes:
        assert node.has_values is None or node.has_values == (node.id in found)
    ObjectGraph.from_bytes(moved.to_bytes())
