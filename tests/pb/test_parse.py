"""Bytes to messages: good, damaged and hostile ones, and fields the schema does not know."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from google.protobuf.internal import api_implementation
from hypothesis import given
from hypothesis import strategies as st

from ckpttool import pb
from ckpttool.coding.wire import bytes_field, decode_fields, varint_field
from ckpttool.errors import CorruptError, UnsupportedError
from ckpttool.pb import convert
from ckpttool.pb.convert import UnknownField, parse, to_text, unknown_fields

if TYPE_CHECKING:
    from google.protobuf.message import Message

GROUP_OF_99 = b"\x9b\x06\x08\x01\x9c\x06"  # field 99 as a group that holds a varint


def meta_graph() -> pb.MetaGraphDef:
    graph = pb.MetaGraphDef()
    graph.meta_info_def.tags.extend(["serve", "gpu"])
    graph.meta_info_def.any_info.type_url = "type.googleapis.com/tensorflow.VersionDef"
    for number in range(3):
        node = graph.graph_def.node.add(name=f"n{number}", op="Const", input=["a", "b:1", "^c"])
        node.attr["value"].tensor.float_val.extend([1.5, -2.0])
        node.attr["shape"].list.shape.add().dim.add(size=-1)
    graph.collection_def["variables"].bytes_list.value.append(b"\x0a\x01v")
    graph.signature_def["serving_default"].inputs["x"].name = "x:0"
    graph.saver_def.keep_checkpoint_every_n_hours = 10000.0
    return graph


def test_parse_gives_an_equal_message() -> None:
    graph = meta_graph()
    again = parse(pb.MetaGraphDef, graph.SerializeToString(), path="m.meta")
    assert again.graph_def == graph.graph_def
    assert again.SerializeToString(deterministic=True) == graph.SerializeToString(
        deterministic=True
    )
    assert type(again) is pb.MetaGraphDef


def test_every_truncation_is_either_whole_or_refused() -> None:
    data = meta_graph().SerializeToString(deterministic=True)
    ends = {0}
    for _number, _kind, _value, field in decode_fields(data):
        ends.add(max(ends) + len(field))
    parsed = set()
    for length in range(len(data) + 1):
        try:
            parse(pb.MetaGraphDef, data[:length], path="m.meta", offset=7)
            parsed.add(length)
        except CorruptError as error:
            assert (error.path, error.offset) == ("m.meta", 7)
            assert f"{length} bytes that are not a tensorflow.MetaGraphDef" in str(error)
    assert parsed == ends
    assert len(ends) == 6


@pytest.mark.parametrize(
    ("message", "written"),
    [
        (pb.BundleEntryProto, "08"),
        (pb.BundleEntryProto, "00"),
        (pb.BundleEntryProto, "0801120528"),
        (pb.BundleEntryProto, "08ffffffffffffffffffff01"),
        (pb.BundleEntryProto, "35000000"),
        (pb.BundleEntryProto, "12ffffffff0f"),
        (pb.BundleEntryProto, "0f"),
        (pb.BundleEntryProto, "9b06"),
        (pb.BundleEntryProto, "9c06"),
        (pb.TensorProto, "2a0300000000"),
        (pb.CheckpointState, "0a01ff"),
        (pb.CheckpointState, "0a03eda080"),
        (pb.MetaGraphDef, "22050a01ff1200"),
    ],
    ids=[
        "value missing",
        "field number zero",
        "shape cut off",
        "varint too long",
        "fixed32 cut off",
        "huge length",
        "wire type 7",
        "group left open",
        "group closed twice",
        "packed floats not whole",
        "not UTF-8",
        "surrogate",
        "map key not UTF-8",
    ],
)
def test_damage_is_refused(message: type[Message], written: str) -> None:
    with pytest.raises(CorruptError) as raised:
        parse(message, bytes.fromhex(written), path="x.index")
    assert raised.value.path == "x.index"
    assert raised.value.offset is None


def nested_messages(depth: int) -> bytes:
    data = b""
    for _ in range(depth):
        data = bytes_field(2, data)
    return data


@pytest.mark.parametrize(
    ("message", "data"),
    [
        (pb.FullTypeDef, nested_messages(5000)),
        (pb.FullTypeDef, b"\x12\xff\xff\xff\xff\x07" * 5000),
        (pb.BundleEntryProto, b"\x9b\x06" * 5000),
        (pb.BundleEntryProto, b"\x9b\x06" * 5000 + b"\x9c\x06" * 5000),
    ],
    ids=["messages", "messages cut off", "groups left open", "groups"],
)
def test_deep_nesting_is_refused(message: type[Message], data: bytes) -> None:
    with pytest.raises(CorruptError):
        parse(message, data, path=None)


def test_nesting_that_is_allowed() -> None:
    assert parse(pb.FullTypeDef, nested_messages(90), path=None).args[0].args[0].args


def test_two_gibibytes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convert, "MAX_BYTES", 9)
    assert parse(pb.VersionDef, b"\x08\x01" * 4, path=None).producer == 1
    with pytest.raises(UnsupportedError, match="10 bytes"):
        parse(pb.VersionDef, b"\x08\x01" * 5, path=None)


@given(
    st.sampled_from([pb.MetaGraphDef, pb.BundleEntryProto, pb.StructuredValue, pb.GraphDebugInfo]),
    st.binary(max_size=200),
)
def test_random_bytes(message: type[Message], data: bytes) -> None:
    try:
        parsed = parse(message, data, path=None)
    except CorruptError:
        return
    unknown_fields(parsed)
    again = parsed.SerializeToString()
    assert parse(message, again, path=None).SerializeToString() == again


@given(st.integers(0, 400), st.integers(0, 255))
def test_changed_byte(position: int, value: int) -> None:
    data = bytearray(meta_graph().SerializeToString(deterministic=True))
    data[position % len(data)] = value
    try:
        parsed = parse(pb.MetaGraphDef, bytes(data), path=None)
    except CorruptError:
        return
    assert isinstance(parsed, pb.MetaGraphDef)
    unknown_fields(parsed)


def test_known_fields_only() -> None:
    assert unknown_fields(meta_graph()) == []


def test_unknown_fields_are_named_with_their_place() -> None:
    tensor = varint_field(1, 1) + varint_field(200, 5)
    attribute = bytes_field(1, b"b\n") + bytes_field(2, bytes_field(8, tensor))
    other = bytes_field(1, b"a") + bytes_field(2, GROUP_OF_99)
    node = bytes_field(1, b"n") + bytes_field(5, attribute) + bytes_field(5, other)
    graph = bytes_field(1, b"") + bytes_field(1, node) + bytes_field(77, b"new")
    data = bytes_field(2, graph) + varint_field(300, 1) + varint_field(300, 2)
    message = parse(pb.MetaGraphDef, data, path=None)
    assert unknown_fields(message) == [
        UnknownField("", 300, "tensorflow.MetaGraphDef"),
        UnknownField("", 300, "tensorflow.MetaGraphDef"),
        UnknownField("graph_def", 77, "tensorflow.GraphDef"),
        UnknownField("graph_def.node[1].attr['a']", 99, "tensorflow.AttrValue"),
        UnknownField("graph_def.node[1].attr['b\\n'].tensor", 200, "tensorflow.TensorProto"),
    ]


@pytest.mark.parametrize(
    "extra",
    [varint_field(100, 7), bytes_field(100, b"\x00\xff"), b"\xa1\x06" + bytes(8), GROUP_OF_99],
    ids=["varint", "bytes", "fixed64", "group"],
)
def test_unknown_fields_survive_as_bytes(extra: bytes) -> None:
    shape = bytes_field(2, varint_field(1, 3)) + extra
    data = varint_field(1, 1) + bytes_field(2, shape) + extra
    message = parse(pb.BundleEntryProto, data, path=None)
    assert [(field.path, field.number in (99, 100)) for field in unknown_fields(message)] == [
        ("", True),
        ("shape", True),
    ]
    assert message.SerializeToString() == data
    message.offset = 12
    expected = varint_field(1, 1) + bytes_field(2, shape) + varint_field(4, 12) + extra
    assert message.SerializeToString() == expected


BROKEN_KEY = bytes_field(2, bytes_field(1, b"\xff") + bytes_field(2, b""))


@pytest.mark.parametrize(
    "data",
    [
        BROKEN_KEY,
        BROKEN_KEY + bytes_field(2, bytes_field(1, b"a")),
        bytes_field(1, b"a.py") + bytes_field(1, b"\xe9.py"),
        bytes_field(4, bytes_field(2, bytes_field(5, b"\xe9 = 1"))),
    ],
    ids=["map key", "one of two map keys", "one of two files", "line of code"],
)
def test_debug_info_that_is_not_utf8(data: bytes) -> None:
    try:
        info = parse(pb.GraphDebugInfo, data, path=None)
    except CorruptError:
        assert api_implementation.Type() == "python"
        return
    assert unknown_fields(info) == []
    with pytest.raises(CorruptError, match="strings that are not UTF-8"):
        to_text(info)
    assert len(info.SerializeToString()) >= len(data)


def test_unknown_fields_of_a_deep_message() -> None:
    data = varint_field(500, 1)
    for _ in range(95):
        data = bytes_field(2, data)
    (field,) = unknown_fields(parse(pb.FullTypeDef, data, path=None))
    assert field.path == ".".join(["args[0]"] * 95)
    assert field.number == 500
