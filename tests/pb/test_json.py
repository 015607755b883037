"""Messages as JSON: what protobuf's own runtime says of it, and what it has no answer to."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import struct
from typing import TYPE_CHECKING, Any

import pytest
from google.protobuf import json_format
from google.protobuf.internal import api_implementation
from hypothesis import given
from hypothesis import strategies as st

from ckpttool import pb
from ckpttool.coding.wire import bytes_field, varint_field
from ckpttool.pb.convert import parse
from ckpttool.pb.json.mapping import float_text
from ckpttool.pb.json.parser import load_object, message_from_json
from ckpttool.pb.json.printer import JsonLoss, JsonStyle, write_message
from ckpttool.pb.pool import POOL
from tests.pb.graph_messages import graphs

if TYPE_CHECKING:
    from google.protobuf.message import Message

PLAIN = JsonStyle()
URL = "type.googleapis.com/"


def printed(message: Message, style: JsonStyle = PLAIN) -> tuple[str, tuple[JsonLoss, ...]]:
    pieces: list[str] = []
    losses = write_message(message, pieces.append, style)
    return "".join(pieces), losses


def read(message_class: type[Message], text: str) -> Any:
    return message_from_json(message_class, load_object(text, path=None), text=text, path=None)


def data(message: Message) -> bytes:
    return message.SerializeToString(deterministic=True)


@given(graphs())
def test_protobuf_agrees(graph: pb.MetaGraphDef) -> None:
    text, losses = printed(graph)
    assert losses == ()
    assert text.isascii()
    assert json.loads(text) == json_format.MessageToDict(graph, descriptor_pool=POOL)
    theirs = json_format.Parse(text, pb.MetaGraphDef(), descriptor_pool=POOL)
    assert data(read(pb.MetaGraphDef, text)) == data(graph) == data(theirs)
    other = json_format.MessageToJson(
        graph, preserving_proto_field_name=True, use_integers_for_enums=True, descriptor_pool=POOL
    )
    assert data(read(pb.MetaGraphDef, other)) == data(graph)


@given(graphs(), st.sampled_from([None, 0, 1, 4]))
def test_layout_is_that_of_python(graph: pb.MetaGraphDef, indent: int | None) -> None:
    text, _ = printed(graph, JsonStyle(indent=indent))
    separators = (",", ":") if indent is None else None
    assert text == json.dumps(json.loads(text), indent=indent, separators=separators)


@given(st.integers(0, 2**32 - 1))
def test_floats_are_as_short_as_can_be(bits: int) -> None:
    (value,) = struct.unpack("<f", struct.pack("<I", bits))
    if not math.isfinite(value):
        assert float_text(value) in ('"NaN"', '"Infinity"', '"-Infinity"')
        return
    text = float_text(value)
    assert struct.pack("<f", float(text)) == struct.pack("<f", value)
    message = json_format.MessageToDict(pb.FloatValue(value=value), descriptor_pool=POOL)
    assert json.loads(text) == message


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"),
        (10000.0, "10000.0"),
        (-0.0, "-0.0"),
        (16777217.0, "16777216.0"),
        (3.4028234663852886e38, "3.4028235e+38"),
        (1.401298464324817e-45, "1.4013e-45"),
        (123456.79, "123456.79"),
    ],
)
def test_floats(value: float, text: str) -> None:
    (stored,) = struct.unpack("<f", struct.pack("<f", value))
    assert float_text(stored) == text


def test_maps_are_in_order_of_their_keys() -> None:
    graph = pb.MetaGraphDef()
    for key in ("b", "é", "a", "", "\U0001f600", "B"):
        graph.collection_def[key].SetInParent()
    function = graph.graph_def.library.function.add()
    for number in (10, 9, 2**32 - 1, 0):
        function.resource_arg_unique_id[number] = 1
    found = json.loads(printed(graph)[0])
    assert list(found["collectionDef"]) == ["", "B", "a", "b", "é", "\U0001f600"]
    (told,) = found["graphDef"]["library"]["function"]
    assert list(told["resourceArgUniqueId"]) == ["0", "9", "10", "4294967295"]


def packed(type_url: str, value: bytes) -> pb.MetaGraphDef:
    graph = pb.MetaGraphDef()
    graph.meta_info_def.any_info.type_url = type_url
    graph.meta_info_def.any_info.value = value
    return graph


def test_an_any_keeps_the_order_of_its_maps() -> None:
    entries = [
        bytes_field(2, bytes_field(1, key) + bytes_field(2, bytes_field(3, inner)))
        for key, inner in (
            (b"z", bytes_field(1, bytes_field(1, b"y") + bytes_field(2, bytes_field(1, b"y:0")))),
            (
                b"a",
                bytes_field(1, bytes_field(1, b"d") + bytes_field(2, b""))
                + bytes_field(1, bytes_field(1, b"") + bytes_field(2, bytes_field(1, b"c:0"))),
            ),
        )
    ]
    value = b"".join(entries)
    graph = packed(URL + "tensorflow.serving.Signatures", value)
    text, losses = printed(graph)
    assert losses == ()
    named = json.loads(text)["metaInfoDef"]["anyInfo"]["namedSignatures"]
    assert list(named) == ["z", "a"]
    assert list(named["a"]["genericSignature"]["map"]) == ["d", ""]
    assert read(pb.MetaGraphDef, text).meta_info_def.any_info.value == value
    assert json.loads(text) == json_format.MessageToDict(graph, descriptor_pool=POOL)


def test_an_any_keeps_the_order_of_maps_of_text() -> None:
    entries = [
        bytes_field(2, bytes_field(1, key) + bytes_field(2, text))
        for key, text in ((b"b", b"1"), (b"a", b""), (b"", b"2"))
    ]
    value = bytes_field(1, b"x") + bytes_field(5, b"".join(entries))
    graph = packed(URL + "tensorflow.CondContextDef", value)
    text, losses = printed(graph)
    assert losses == ()
    told = json.loads(text)["metaInfoDef"]["anyInfo"]["valuesDef"]
    assert list(told["externalValues"].items()) == [("b", "1"), ("a", ""), ("", "2")]
    assert data(read(pb.MetaGraphDef, text)) == data(graph)


def test_an_any_keeps_the_order_of_maps_by_number() -> None:
    arguments = [
        bytes_field(7, varint + bytes_field(2, bytes_field(1, entry)))
        for varint, entry in (
            (b"\x08\x02", bytes_field(1, b"k") + bytes_field(2, varint_field(3, 1))),
            (b"\x08\x00", bytes_field(1, b"j") + bytes_field(2, b"")),
        )
    ]
    value = bytes_field(1, bytes_field(1, b"f")) + b"".join(arguments)
    graph = packed(URL + "tensorflow.FunctionDef", value)
    text, losses = printed(graph)
    assert losses == ()
    assert list(json.loads(text)["metaInfoDef"]["anyInfo"]["argAttr"]) == ["2", "0"]
    assert read(pb.MetaGraphDef, text).meta_info_def.any_info.value == value


TWICE = bytes_field(2, b"a") * 2


@pytest.mark.parametrize(
    ("type_url", "value", "what"),
    [
        ("example.com/my.Type", b"\x00\xff", "the unknown type example.com/my.Type"),
        ("", b"x", "the unknown type (empty)"),
        (URL + "tensorflow.SaverDef", b"\xff", "with bytes that are no such message"),
        (URL + "tensorflow.SaverDef", varint_field(99, 1), "fields that are not in the schema"),
        (URL + "tensorflow.SaverDef", TWICE, "in unusual bytes"),
    ],
)
def test_an_any_that_has_to_stay_bytes(type_url: str, value: bytes, what: str) -> None:
    graph = packed(type_url, value)
    text, (loss,) = printed(graph)
    assert json.loads(text)["metaInfoDef"]["anyInfo"] == {
        "@type": type_url,
        "ckpt:base64": base64.b64encode(value).decode(),
    }
    assert what in loss.what
    assert (loss.place, loss.count, loss.dropped) == ("metaInfoDef.anyInfo", 1, False)
    assert data(read(pb.MetaGraphDef, text)) == data(graph)


def test_an_any_in_an_any() -> None:
    inner = pb.Any(type_url=URL + "google.protobuf.Int64Value", value=varint_field(1, 7))
    graph = packed(URL + "google.protobuf.Any", data(inner))
    text, losses = printed(graph)
    assert losses == ()
    assert json.loads(text)["metaInfoDef"]["anyInfo"]["value"]["value"] == "7"
    assert json.loads(text) == json_format.MessageToDict(graph, descriptor_pool=POOL)
    assert data(read(pb.MetaGraphDef, text)) == data(graph)


def test_anys_without_end() -> None:
    value = b""
    for _ in range(3000):
        value = bytes_field(1, b"t/google.protobuf.Any") + bytes_field(2, value)
    graph = packed("t/google.protobuf.Any", value)
    text, (loss,) = printed(graph, JsonStyle(indent=None))
    assert "nested too deep" in loss.what
    assert text.count("@type") < 20
    assert data(read(pb.MetaGraphDef, text)) == data(graph)


def test_messages_nested_as_deep_as_can_be() -> None:
    value = b""
    for _ in range(90):
        value = bytes_field(2, value)
    node = bytes_field(7, value)
    graph = parse(pb.MetaGraphDef, bytes_field(2, bytes_field(1, node)), path=None)
    text, losses = printed(graph)
    assert losses == ()
    assert data(read(pb.MetaGraphDef, text)) == data(graph)
    outer = packed(URL + "tensorflow.NodeDef", node)
    text, losses = printed(outer)
    assert losses == ()
    assert data(read(pb.MetaGraphDef, text)) == data(outer)


def test_unknown_fields_are_named() -> None:
    node = bytes_field(1, b"n") + varint_field(99, 1)
    written = bytes_field(2, bytes_field(1, node) * 3) + varint_field(77, 1)
    text, losses = printed(parse(pb.MetaGraphDef, written, path=None))
    assert json.loads(text) == {"graphDef": {"node": [{"name": "n"}] * 3}}
    assert losses == (
        JsonLoss("field 77 of tensorflow.MetaGraphDef, which is not in the schema", "", 1, True),
        JsonLoss(
            "field 99 of tensorflow.NodeDef, which is not in the schema",
            "graphDef.node[0]",
            3,
            True,
        ),
    )


def test_text_that_is_not_utf8_is_named() -> None:
    # Only messages of proto2 let it pass, and not in every runtime.
    debug = bytes_field(1, b"\xff") + bytes_field(2, bytes_field(1, b"\xfe") + bytes_field(2, b""))
    try:
        message = pb.GraphDebugInfo.FromString(debug)
    except Exception:
        pytest.skip("this runtime refuses it")
    text, losses = printed(message)
    assert json.loads(text)["files"] == ["\\xff"]
    assert [(loss.place, loss.dropped) for loss in losses] == [("files[0]", True), ("traces", True)]


@pytest.mark.skipif(
    api_implementation.Type() == "python", reason="this runtime forgets them on parsing"
)
def test_bits_of_a_nan_are_named() -> None:
    graph = pb.GraphDef()
    attributes = graph.node.add().attr
    for name, written in (("minus", "0000c0ff"), ("bits", "0100c07f"), ("usual", "0000c07f")):
        attributes[name].ParseFromString(b"\x25" + bytes.fromhex(written))
    value = bytes_field(5, bytes.fromhex("0000c07f0000c0ff"))
    attributes["tensor"].tensor.ParseFromString(value)
    text, losses = printed(graph)
    assert json.loads(text) == json_format.MessageToDict(graph, descriptor_pool=POOL)
    assert [(loss.what.split()[-1], loss.place, loss.count) for loss in losses] == [
        ("tensorflow.AttrValue.f", "node[0].attr.bits.f", 2),
        ("tensorflow.TensorProto.float_val", "node[0].attr.tensor.tensor.floatVal[1]", 1),
    ]


def constants() -> pb.GraphDef:
    graph = pb.GraphDef()
    for name in ("content", "values", "small"):
        tensor = graph.node.add(name=name, op="Const").attr["value"].tensor
        tensor.dtype = 1
        tensor.tensor_shape.dim.add(size=8)
    graph.node[0].attr["value"].tensor.tensor_content = bytes(range(32))
    graph.node[1].attr["value"].tensor.float_val.extend(range(8))
    graph.node[2].attr["value"].tensor.float_val.append(1)
    return graph


def test_large_constants_can_be_left_out() -> None:
    graph = constants()
    found = json.loads(printed(graph, JsonStyle(elide=16))[0])
    content, values, small = (node["attr"]["value"]["tensor"] for node in found["node"])
    digest = hashlib.sha256(bytes(range(32))).hexdigest()
    facts = {"dtype": "DT_FLOAT", "tensorShape": {"dim": [{"size": "8"}]}}
    assert content == {**facts, "ckpt:elided": {"bytes": 32, "sha256": digest}}
    assert {name: values[name] for name in facts} == facts
    assert values["ckpt:elided"]["bytes"] == 34  # with the tag and the length of the field
    assert small == {**facts, "floatVal": [1.0]}
    assert printed(graph, JsonStyle(elide=34)) == printed(graph)


def test_collections_can_be_unpacked() -> None:
    graph = pb.MetaGraphDef()
    good = pb.VariableDef(variable_name="v:0", initializer_name="v/Assign")
    values = graph.collection_def["variables"].bytes_list.value
    values.extend([data(good), b"\xff", b""])
    graph.collection_def["other"].bytes_list.value.append(data(good))
    style = JsonStyle(packed={"variables": "tensorflow.VariableDef"})
    text, (loss,) = printed(graph, style)
    found = json.loads(text)["collectionDef"]
    assert found["variables"]["bytesList"]["value"] == [
        {
            "@type": URL + "tensorflow.VariableDef",
            "variableName": "v:0",
            "initializerName": "v/Assign",
        },
        "/w==",
        {"@type": URL + "tensorflow.VariableDef"},
    ]
    assert found["other"] == {"bytesList": {"value": [base64.b64encode(data(good)).decode()]}}
    assert loss.place == "collectionDef.variables.bytesList.value[1]"
    assert data(read(pb.MetaGraphDef, text)) == data(graph)


def test_text_comes_in_pieces() -> None:
    graph = pb.MetaGraphDef()
    content = graph.graph_def.node.add().attr["a"].tensor
    content.tensor_content = bytes(5 << 20)
    content.float_val.extend([0.5] * 200_000)
    pieces: list[str] = []
    write_message(graph, pieces.append, PLAIN)
    assert max(map(len, pieces)) < 2 << 20
    assert data(read(pb.MetaGraphDef, "".join(pieces))) == data(graph)
