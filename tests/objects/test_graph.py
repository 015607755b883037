from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpttool.errors import CorruptError
from ckpttool.objects.graph import (
    Attribute,
    Edge,
    Node,
    ObjectGraph,
    SlotLink,
    SlotVariable,
)
from ckpttool.objects.keys import GRAPH_KEY, attribute_key
from tests.metagraph.graph_files import FIXTURES, MADE, load
from tests.support.limits import memory_limit, run_python


def graph_of(
    *children: dict[str, int], slots: Mapping[int, tuple[SlotVariable, ...]] | None = None
) -> ObjectGraph:
    """Return a graph with these edges; a node's key is its path."""
    nodes = [
        Node(node_id, tuple(Edge(name, child) for name, child in edges.items()))
        for node_id, edges in enumerate(children)
    ]
    for node_id, links in (slots or {}).items():
        nodes[node_id] = nodes[node_id]._replace(slots=links)
    return ObjectGraph(tuple(nodes))


def variable(key: str, name: str = "VARIABLE_VALUE") -> Attribute:
    return Attribute(name, "", key)


@pytest.mark.sweep(5)
@pytest.mark.parametrize("name", [*MADE, *FIXTURES])
def test_paths_are_those_of_the_keys(name: str) -> None:
    graph = ObjectGraph.from_bytes(load(name).graph)
    named = 0
    for node, path in zip(graph.nodes, graph.paths, strict=True):
        assert path is not None
        assert graph.node_at(path) == node.id
        for attribute in node.attributes:
            assert attribute.checkpoint_key == attribute_key(path, attribute.name)
            named += 1
        for other in graph.paths_of(node.id):
            assert graph.node_at(other) == node.id
    assert named or name.endswith(("no_values/ckpt", "no_variables/model"))
    assert graph.unreachable == ()


@pytest.mark.sweep(5)
@pytest.mark.parametrize("name", [*MADE, *FIXTURES])
def test_every_tensor_has_an_owner(name: str) -> None:
    made = load(name)
    graph = ObjectGraph.from_bytes(made.graph)
    claims = graph.claims(made.entries.keys())
    # A registered saver writes under names of its own.
    assert claims.unclaimed == (("custom/registered",) if "registered_saver" in name else ())
    assert not claims.disputed
    keys = [attribute.checkpoint_key for _, attribute in claims.missing]
    assert keys == (["none/.ATTRIBUTES/VARIABLE_VALUE"] if "max_shard_size_lost" in name else [])
    assert len(claims.owners) + len(claims.unclaimed) + 1 == len(made.entries)
    for key, (node_id, attribute) in claims.owners.items():
        assert key.startswith(attribute.checkpoint_key)
        assert attribute in graph.nodes[node_id].attributes


def test_legacy_objects_own_several_tensors() -> None:
    made = load("everything_else")
    graph = ObjectGraph.from_bytes(made.graph)
    owners = graph.claims(made.entries.keys()).owners
    table = graph.node_at("table")
    assert owners["table/.ATTRIBUTES/table-keys"][0] == table
    assert owners["table/.ATTRIBUTES/table-values"][0] == table
    node_id, attribute = owners["iterator/.ATTRIBUTES/ITERATOR_STATE"]
    assert node_id == graph.node_at("iterator")
    assert attribute.checkpoint_key == "iterator/.ATTRIBUTES/ITERATOR"


def test_shared_and_circular_objects() -> None:
    graph = ObjectGraph.from_bytes(load("shared_and_circular").graph)
    x = graph.node_at("z")
    assert x is not None
    assert graph.key_of_node(x) == "z/.ATTRIBUTES/VARIABLE_VALUE"
    assert graph.nodes[x].attributes[0].full_name == "x"
    for path in ("m/z", "m/deep/x", "m/many/0", "m/self_/self_/deep/back/deep/x"):
        assert graph.node_at(path) == x
    ways = graph.paths_of(x)
    assert ways[0] == "z"
    assert {"m/z", "m/deep/x", "m/many/0", "m/many/1/x"} <= set(ways)
    assert graph.paths_of(x, limit=2) == ways[:2]
    assert graph.paths_of(0) == ("",)
    parents = {(graph.paths[parent], name) for parent, name in graph.parents(x)}
    assert parents == {("", "z"), ("m", "z"), ("m/deep", "x"), ("m/many", "0")}


def test_slot_variables() -> None:
    graph = ObjectGraph.from_bytes(load("two_optimizers").graph)
    assert len(graph.slots) == 4
    link = graph.slots[0]
    assert isinstance(link, SlotLink)
    assert graph.paths[link.optimizer_id] == "t/opts/1"
    assert graph.paths[link.variable_id] == "t/d/layer_with_weights-0/kernel"
    path = "t/d/layer_with_weights-0/kernel/.OPTIMIZER_SLOT/t/opts/1/m"
    assert graph.paths[link.slot_id] == path
    # Both the variable and the optimizer may be named along other edges.
    assert graph.node_at("t/d/layer-0/kernel/.OPTIMIZER_SLOT/t/also/opt/m") == link.slot_id
    assert graph.node_at(path[:-1] + "w") is None
    assert graph.node_at("t/nothing/.OPTIMIZER_SLOT/t/opts/1/m") is None
    assert graph.node_at("t/d/layer_with_weights-0/kernel/.OPTIMIZER_SLOT") is None
    assert graph.node_at("t/d/layer_with_weights-0/kernel/.OPTIMIZER_SLOT/m") is None


def test_slots_of_an_optimizer_that_is_the_root() -> None:
    slots = {0: (SlotVariable(1, "m", 2),)}
    graph = graph_of({"w": 1}, {}, {}, slots=slots)
    assert graph.paths == ("", "w", "w/.OPTIMIZER_SLOT//m")
    assert graph.node_at("w/.OPTIMIZER_SLOT//m") == 2


def test_the_shortest_path_wins_and_then_the_first() -> None:
    graph = graph_of({"deep": 1, "b": 3, "a": 3}, {"x": 2}, {"y": 3}, {})
    assert graph.paths == ("", "deep", "deep/x", "b")
    assert graph.paths_of(3) == ("b", "a", "deep/x/y")


def test_names_are_escaped() -> None:
    graph = graph_of({"a.b": 1}, {"c/d": 2}, {})
    assert graph.paths == ("", "a..b", "a..b/c.Sd")
    assert graph.node_at("a..b/c.Sd") == 2
    assert graph.node_at("a.b") == 1
    assert graph.node_at("a..b/c/d") is None
    assert graph.paths_of(2) == ("a..b/c.Sd",)


def test_unreachable_nodes() -> None:
    graph = graph_of({}, {"x": 2}, {"root": 0, "back": 1})
    assert graph.unreachable == (1, 2)
    assert graph.paths == ("", None, None)
    assert graph.paths_of(2) == ()
    # The root is reachable from them, but they are not on the way to anything.
    assert graph.paths_of(0) == ("",)


def test_an_unreachable_optimizer_names_no_slots() -> None:
    graph = graph_of({"w": 1}, {}, {}, {}, slots={2: (SlotVariable(1, "m", 3),)})
    assert graph.unreachable == (2, 3)


def test_key_of_node() -> None:
    node = Node(0, attributes=(variable("k1", "a"), variable("k2", "b")))
    graph = ObjectGraph((node,))
    assert graph.key_of_node(0) is None
    assert graph.key_of_node(0, "b") == "k2"
    assert graph.key_of_node(0, "c") is None
    assert ObjectGraph((node._replace(attributes=node.attributes[:1]),)).key_of_node(0) == "k1"


def test_claims_find_what_is_wrong() -> None:
    nodes = (
        Node(0, (Edge("a", 1), Edge("b", 2))),
        Node(1, attributes=(variable("a/.ATTRIBUTES/X"), variable("a/.ATTRIBUTES/Y"))),
        Node(2, attributes=(variable("a/.ATTRIBUTES/X"), variable("b/.ATTRIBUTES/t"))),
    )
    keys = {
        GRAPH_KEY,
        "a/.ATTRIBUTES/X",
        "b/.ATTRIBUTES/t-keys",
        "b/.ATTRIBUTES/t/more",
        "b/.ATTRIBUTES/other",
        "plain",
    }
    claims = ObjectGraph(nodes).claims(keys)
    assert {key: owner[0] for key, owner in claims.owners.items()} == {
        "a/.ATTRIBUTES/X": 1,
        "b/.ATTRIBUTES/t-keys": 2,
        "b/.ATTRIBUTES/t/more": 2,
    }
    assert claims.unclaimed == ("b/.ATTRIBUTES/other", "plain")
    assert claims.missing == ((1, variable("a/.ATTRIBUTES/Y")),)
    assert claims.disputed == ("a/.ATTRIBUTES/X",)


def test_the_longest_prefix_owns() -> None:
    nodes = (Node(0, attributes=(variable("/.ATTRIBUTES/t"), variable("/.ATTRIBUTES/t-a"))),)
    owners = ObjectGraph(nodes).claims({"/.ATTRIBUTES/t-a-keys", "/.ATTRIBUTES/t-b"}).owners
    assert owners["/.ATTRIBUTES/t-a-keys"][1].checkpoint_key == "/.ATTRIBUTES/t-a"
    assert owners["/.ATTRIBUTES/t-b"][1].checkpoint_key == "/.ATTRIBUTES/t"


def test_errors_say_where() -> None:
    with pytest.raises(CorruptError) as caught:
        ObjectGraph.from_bytes(b"", path="some/ckpt")
    assert caught.value.path == "some/ckpt"
    assert caught.value.key == GRAPH_KEY


def test_a_changed_copy() -> None:
    data = load("shared_and_circular").graph
    graph = ObjectGraph.from_bytes(data)
    root = graph.nodes[0]
    renamed = root._replace(children=(root.children[0]._replace(name="n"), *root.children[1:]))
    changed = ObjectGraph((renamed, *graph.nodes[1:]), graph.unknown)
    assert changed.node_at("n/deep") == graph.node_at("m/deep")
    assert ObjectGraph.from_bytes(changed.to_bytes()) == changed
    assert graph.to_bytes() == data


_GRAPHS = st.integers(1, 6).flatmap(
    lambda total: st.tuples(
        *(st.dictionaries(st.sampled_from("abc"), st.integers(0, total - 1)) for _ in range(total))
    ).map(lambda children: graph_of(*children))
)


@given(_GRAPHS)
def test_paths_of_any_graph(graph: ObjectGraph) -> None:
    for node_id, path in enumerate(graph.paths):
        ways = graph.paths_of(node_id, limit=50)
        assert (path is None) == (ways == ())
        if path is not None:
            assert ways[0] == path
            assert len(set(ways)) == len(ways)
            lengths = [way.count("/") for way in ways]
            assert lengths == sorted(lengths)
            assert {graph.node_at(way) for way in ways} == {node_id}


def test_a_chain_of_thousands() -> None:
    graph = graph_of(*({"next": at + 1} for at in range(5000)), {})
    assert graph.paths[5000] == "/".join(["next"] * 5000)


@pytest.mark.large
def test_a_chain_that_is_too_long() -> None:
    total = 200_000
    nodes = tuple(Node(i, (Edge("some_long_name", i + 1),)) for i in range(total))
    graph = ObjectGraph((*nodes, Node(total)))
    with pytest.raises(CorruptError, match="too long"):
        _ = graph.paths


def test_one_long_name_before_many() -> None:
    names = {f"n{i}": i + 2 for i in range(20_000)}
    graph = graph_of({"x" * 20_000_000: 1}, names, *({} for _ in names))
    with memory_limit(1 << 29), pytest.raises(CorruptError, match="too long"):
        _ = graph.paths


def test_slots_of_a_long_name() -> None:
    slots = {0: tuple(SlotVariable(1, f"s{i}", i + 2) for i in range(20_000))}
    graph = graph_of({"x" * 5_000_000: 1}, {}, *({} for _ in slots[0]), slots=slots)
    with memory_limit(1 << 29), pytest.raises(CorruptError, match="too long"):
        _ = graph.paths


def test_a_web_with_countless_paths_ends() -> None:
    size = 60
    edges = [{f"e{j}": j for j in range(size)} for _ in range(size)]
    graph = graph_of(*edges)
    assert len(graph.paths_of(size - 1, limit=20)) == 20
    assert len(graph.paths_of(size - 1, limit=10**9)) < 10_000


def big_graph() -> bytes:
    """Return the graph of 50,000 variables in 5,000 layers, with a slot each."""
    layers, width = 5_000, 10
    count = layers * width
    nodes = [
        Node(0, (*(Edge(f"layer_{i}", i + 1) for i in range(layers)), Edge("opt", layers + 1)))
    ]
    first = layers + 2
    for i in range(layers):
        edges = (Edge(f"var_{j}", first + i * width + j) for j in range(width))
        nodes.append(Node(i + 1, tuple(edges)))
    slots = (SlotVariable(first + i, "momentum", first + count + i) for i in range(count))
    nodes.append(Node(layers + 1, slots=tuple(slots)))
    for i in range(2 * count):
        path = f"layer_{i % count // width}/var_{i % width}"
        if i >= count:
            path += "/.OPTIMIZER_SLOT/opt/momentum"
        nodes.append(Node(first + i, attributes=(variable(attribute_key(path)),), has_values=True))
    return ObjectGraph(tuple(nodes)).to_bytes()


@pytest.mark.large
def test_a_big_graph() -> None:
    data = big_graph()
    graph = ObjectGraph.from_bytes(data)
    paths = graph.paths
    assert len(paths) > 100_000
    assert all(
        attribute.checkpoint_key == attribute_key(path or "")
        for node, path in zip(graph.nodes, paths, strict=True)
        for attribute in node.attributes
    )


def test_keys_and_paths_need_no_protobuf() -> None:
    code = (
        "import sys, ckpttool.objects.keys, ckpttool.objects.graph, ckpttool.checkpoint.state\n"
        "print([name for name in sys.modules if name.startswith(('google', 'numpy'))])"
    )
    assert run_python(code).stdout == "[]\n"
