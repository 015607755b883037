from __future__ import annotations

import gc
from random import Random

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from ckpttool import pb
from ckpttool.errors import CorruptError
from ckpttool.objects.columns import GraphColumns, view_nodes
from ckpttool.objects.decoding import decode_graph
from ckpttool.objects.encoding import encode_graph
from ckpttool.objects.nodes import (
    Attribute,
    Edge,
    Node,
    RegisteredSaver,
    SlotVariable,
)
from tests.metagraph.graph_files import FIXTURES, MADE, load

# Checkpoint(v=Variable(3.5, name="nm")) as TensorFlow 2.21 saves it.
SMALL = bytes.fromhex(
    "0a0b0a05080112017"
    "62a020801"
    "0a3812320a0e5641524941424c455f56414c554512026e6d1a1c762f2e41545452494255544553"
    "2f5641524941424c455f56414c55452a020801"
)
SMALL_NODES = (
    Node(0, (Edge("v", 1),), has_values=True),
    Node(
        1,
        attributes=(Attribute("VARIABLE_VALUE", "nm", "v/.ATTRIBUTES/VARIABLE_VALUE"),),
        has_values=True,
    ),
)


def decode_nodes(data: bytes, *, path: str | None = None) -> tuple[tuple[Node, ...], bytes]:
    """Return the nodes of a graph, and its unknown fields."""
    columns, unknown = decode_graph(data, path=path)
    return tuple(view_nodes(columns)), unknown


def encode_nodes(nodes: tuple[Node, ...], unknown: bytes = b"") -> bytes:
    """Return a graph of nodes."""
    return encode_graph(GraphColumns.of(nodes), unknown)


def test_bytes_by_hand() -> None:
    assert decode_nodes(SMALL) == (SMALL_NODES, b"")
    assert encode_nodes(SMALL_NODES) == SMALL


@pytest.mark.sweep(5)
@pytest.mark.parametrize("name", [*MADE, *FIXTURES])
def test_the_bytes_are_tensorflows(name: str) -> None:
    data = load(name).graph
    nodes, unknown = decode_nodes(data)
    assert encode_nodes(nodes, unknown) == data
    assert not unknown
    assert [node.id for node in nodes] == list(range(len(nodes)))


def test_some_fixtures_are_of_old_writers() -> None:
    stated = {
        name: {node.has_values is None for node in decode_nodes(load(name).graph)[0]}
        for name in FIXTURES
    }
    assert {True} in stated.values()
    assert {False} in stated.values()
    assert all(len(kinds) == 1 for kinds in stated.values())


@pytest.mark.parametrize(
    ("node", "data"),
    [
        (Node(0), "0a00"),
        (Node(0, has_values=False), "0a022a00"),
        (Node(0, has_values=True), "0a042a020801"),
        (Node(0, (Edge("", 0),)), "0a020a00"),
        (Node(0, (Edge("é", 0),)), "0a060a041202c3a9"),
        (Node(0, attributes=(Attribute("", "", "k", True),)), "0a0712051a016b2001"),
        (Node(0, slots=(SlotVariable(0, "m", 0),)), "0a051a0312016d"),
        (Node(0, saver=RegisteredSaver("p.s", "x")), "0a0a22080a03702e73120178"),
        (Node(0, saver=RegisteredSaver("", "")), "0a022200"),
    ],
)
def test_presence_of_fields(node: Node, data: str) -> None:
    assert encode_nodes((node,)) == bytes.fromhex(data)
    assert decode_nodes(bytes.fromhex(data)) == ((node,), b"")


_NAMES = st.text(max_size=4)
_NODES = st.integers(1, 4).flatmap(
    lambda total: st.tuples(
        *(
            st.builds(
                Node,
                st.just(node_id),
                st.lists(
                    st.builds(Edge, _NAMES, st.integers(0, total - 1), st.just(b"")),
                    max_size=3,
                    unique_by=lambda edge: edge.name,
                ).map(tuple),
                st.lists(
                    st.builds(Attribute, _NAMES, _NAMES, _NAMES, st.booleans(), st.just(b"")),
                    max_size=2,
                ).map(tuple),
                st.lists(
                    st.builds(
                        SlotVariable,
                        st.integers(0, total - 1),
                        _NAMES,
                        st.integers(0, total - 1),
                        st.just(b""),
                    ),
                    max_size=2,
                ).map(tuple),
                st.none() | st.builds(RegisteredSaver, _NAMES, _NAMES),
                st.none() | st.booleans(),
                st.just(b""),
            )
            for node_id in range(total)
        )
    )
)


@given(_NODES)
def test_round_trip(nodes: tuple[Node, ...]) -> None:
    data = encode_nodes(nodes)
    assert decode_nodes(data) == (nodes, b"")
    assert pb.TrackableObjectGraph.FromString(data).SerializeToString() == data


def with_unknown_fields() -> bytes:
    """Return a graph with a field of number 99 in every message that it is made of."""
    more = bytes.fromhex("9a0601") + b"?"  # field 99, one byte

    def field(number: int, *parts: bytes) -> bytes:
        body = b"".join(parts)
        return bytes((number << 3 | 2, len(body))) + body

    return (
        field(
            1,
            field(1, field(2, b"c"), more),
            field(2, field(1, b"a"), more),
            field(3, field(2, b"m"), more),
            field(4, field(1, b"s"), more),
            field(5, b"\x08\x01", more),
            more,
        )
        + field(1)
        + more
    )


def test_unknown_fields_are_kept() -> None:
    data = with_unknown_fields()
    nodes, unknown = decode_nodes(data)
    more = bytes.fromhex("9a06013f")
    assert unknown == more
    assert nodes[0].children == (Edge("c", 0, more),)
    assert nodes[0].attributes[0].unknown == more
    assert nodes[0].slots[0].unknown == more
    assert nodes[0].saver == RegisteredSaver("s", "")
    assert nodes[0].has_values is True
    again = encode_nodes(nodes, unknown)
    assert decode_nodes(again) == (nodes, unknown)
    # Those of singular messages come in a second piece; parsed they are the same message.
    assert pb.TrackableObjectGraph.FromString(again) == pb.TrackableObjectGraph.FromString(data)
    assert again.count(more) == data.count(more) == 7


BAD = [
    ("no root", b"", "no root"),
    ("cut off", SMALL[:-1], "not a tensorflow.TrackableObjectGraph"),
    ("not UTF-8", bytes.fromhex("0a050a031201ff"), "not a tensorflow.TrackableObjectGraph"),
    ("child beyond", bytes.fromhex("0a070a050801120176"), "child 'v' of node 0 is node 1, but"),
    ("child below", bytes.fromhex("0a0d0a0b08ffffffffffffffffff01"), "node -1"),
    ("slot's variable", bytes.fromhex("0a071a050807120178"), "slot 'x' of node 0 is node 7"),
    ("slot's node", bytes.fromhex("0a071a051201781809"), "slot 'x' of node 0 is node 9"),
    (
        "same name twice",
        encode_nodes((Node(0, (Edge("a", 0), Edge("b", 0), Edge("a", 0))),)),
        "node 0 has two children named 'a'",
    ),
]


@pytest.mark.parametrize(("data", "message"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_graphs(data: bytes, message: str) -> None:
    with pytest.raises(CorruptError, match=message):
        decode_nodes(data, path="some/ckpt")


# Of the graph: a field of an unknown number, one of a known number and another form, one cut off.
ODD_FIELDS = ["", "1a0161", "0801", "0a05", "0a80"]


def by_protobuf(data: bytes) -> object:
    """Return what protobuf finds in a graph, or None where that is no graph."""
    try:
        message = pb.TrackableObjectGraph.FromString(data)
    except DecodeError:
        return None
    nodes = []
    for node in message.nodes:
        edges = [(one.local_name, one.node_id) for one in node.children]
        attributes = [
            (one.name, one.full_name, one.checkpoint_key, one.optional_restore)
            for one in node.attributes
        ]
        slots = [
            (one.original_variable_node_id, one.slot_name, one.slot_variable_node_id)
            for one in node.slot_variables
        ]
        saver = node.registered_saver
        named = (saver.name, saver.object_name) if node.HasField("registered_saver") else None
        stated = node.HasField("has_checkpoint_values")
        nodes.append(
            (edges, attributes, slots, named, node.has_checkpoint_values.value if stated else None)
        )
    return nodes


def by_us(data: bytes) -> object:
    """Return what is found in a graph, in the same form; None where that is refused."""
    try:
        nodes, _ = decode_nodes(data)
    except CorruptError:
        return None
    return [
        (
            [edge[:2] for edge in node.children],
            [one[:4] for one in node.attributes],
            [slot[:3] for slot in node.slots],
            None if node.saver is None else tuple(node.saver),
            node.has_values,
        )
        for node in nodes
    ]


@pytest.mark.sweep(8)
@pytest.mark.parametrize("name", [*MADE, *FIXTURES])
@pytest.mark.parametrize("odd", ODD_FIELDS)
@pytest.mark.parametrize("batch", [1, 3, 1 << 20])
def test_graphs_are_what_protobuf_finds(
    name: str, odd: str, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ckpttool.objects.decoding._BATCH", batch)
    data = load(name).graph
    cut = 2 + data[1] if data[1] < 0x80 else 0  # behind the root
    for graph in (data[:cut] + bytes.fromhex(odd) + data[cut:], data + bytes.fromhex(odd)):
        assert by_us(graph) == by_protobuf(graph)


@pytest.mark.sweep(20)
@pytest.mark.parametrize("name", [*MADE, *FIXTURES])
def test_changed_bytes_are_what_protobuf_finds(name: str) -> None:
    """Lengths, tags and text that do not agree: a graph is refused, or read as protobuf does."""
    data = load(name).graph[:2000]
    random = Random(name)
    for _ in range(300):
        changed = bytearray(data)
        for _ in range(random.randint(1, 3)):
            at = random.randrange(len(changed))
            changed[at] = random.choice((changed[at] ^ 1 << random.randrange(8), 0x0A, 0x12, 0x2A))
        found = by_us(bytes(changed))
        assert found is None or found == by_protobuf(bytes(changed))


@pytest.mark.large
def test_nodes_far_apart() -> None:
    """An edge may lead to any node, and numbers of nodes take one byte or four."""
    total = 1 << 21
    few = {0: 130, 130: 16_400, 16_400: total, total: 1}
    data = b"".join(
        encode_nodes((Node(0, (Edge("x", few[at]),)),)) if at in few else b"\x0a\x00"
        for at in range(total + 1)
    )
    columns, _ = decode_graph(data)
    assert {columns.source(at): end for at, end in enumerate(columns.edge_targets)} == few


def test_keys_are_shared() -> None:
    """So that the text of a key is held once, by the index and by the graph."""
    key = "".join(["v", "/.ATTRIBUTES/VARIABLE_VALUE"])
    columns, _ = decode_graph(SMALL, shared={key: key})
    assert columns.keys == [key]
    assert columns.keys[0] is key


def test_nodes_of_other_forms_take_no_longer_together() -> None:
    """One of a wrong length behind thousands: none of them is looked at again and again."""
    usual = SMALL[SMALL.index(b"\x0a\x38") :]
    wrong = usual.replace(b"\x12\x02nm", b"\x12\x03nm")
    assert decode_nodes(b"\x0a\x00" + usual * 20_000)[0][-1].attributes[0].full_name == "nm"
    with pytest.raises(CorruptError):
        decode_nodes(b"\x0a\x00" + usual * 20_000 + wrong)


def test_messages_stay_short() -> None:
    with pytest.raises(CorruptError) as caught:
        decode_nodes(encode_nodes((Node(0, (Edge("x" * 100_000, 5),)),)))
    assert len(str(caught.value)) < 400


@given(st.binary(max_size=80))
def test_any_bytes_give_nodes_or_an_error(data: bytes) -> None:
    try:
        nodes, unknown = decode_nodes(data)
    except CorruptError:
        return
    assert decode_nodes(encode_nodes(nodes, unknown)) == (nodes, unknown)


@given(st.integers(0, len(SMALL) * 8 - 1))
def test_flipped_bits(bit: int) -> None:
    data = bytearray(SMALL)
    data[bit // 8] ^= 1 << bit % 8
    try:
        nodes, unknown = decode_nodes(bytes(data))
    except CorruptError:
        return
    assert decode_nodes(encode_nodes(nodes, unknown)) == (nodes, unknown)


def test_garbage_collection_goes_on_afterwards() -> None:
    assert gc.isenabled()
    with pytest.raises(CorruptError):
        decode_nodes(bytes.fromhex("0a070a050801120176"))
    assert gc.isenabled()
    gc.disable()
    try:
        decode_nodes(SMALL)
        assert not gc.isenabled()
    finally:
        gc.enable()
