"""JSON that is no message: where the fault is, and what it is."""

from __future__ import annotations

import json

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from ckpttool import pb
from ckpttool.errors import CkptError, CorruptError, UnsupportedError
from ckpttool.pb.json.parser import load_object, message_from_json
from ckpttool.pb.pool import POOL


def read(text: str) -> pb.MetaGraphDef:
    return message_from_json(
        pb.MetaGraphDef, load_object(text, path="g.json"), text=text, path="g.json"
    )


def attribute(value: str) -> str:
    return f'{{"graphDef": {{"node": [{{"attr": {{"x y":\n{value}}}}}]}}}}'


def tensor(members: str) -> str:
    return attribute(f'{{"tensor": {{{members}}}}}')


AT = 'graphDef.node[0].attr["x y"]'
FAULTS = {
    "empty": ("", "line 1, column 1: not JSON"),
    "cut": ('{"graphDef":\n{"node": [', "line 2, column 11: not JSON"),
    "trailing": ('{}\n{"a": 1}', "line 2, column 1: not JSON: extra data"),
    "comma": ('{"graphDef": {},\n}', "line "),
    "a list": ("\n[1]", "line 1: expected an object, not a list"),
    "a word": ("null", "line 1: expected an object, not null"),
    "unknown field": (
        '{"graphDef": {"node": [\n{},\n{"nam": "a"}]}}',
        "line 3: graphDef.node[1].nam: a tensorflow.NodeDef has no such field; nearest: 'name'",
    ),
    "unknown at the top": ('{\n"colour": 1}', "line 2: colour: a tensorflow.MetaGraphDef has no"),
    "other object": ('{"name": "x",\n"layers": []}', "line 1: name: a tensorflow.MetaGraphDef"),
    "no object": ('{"graphDef":\n3}', "not the number 3"),
    "no list": ('{"graphDef": {"node":{}}}', "graphDef.node: expected a list, not an object"),
    "no map": ('{"signatureDef": []}', "signatureDef: expected an object, a map, not a list"),
    "null in a list": ('{"graphDef": {"node": [null]}}', "graphDef.node[0]: expected an object"),
    "string": ('{"metaInfoDef": {"tags": ["a",\n1]}}', "line 2: metaInfoDef.tags[1]: the number 1"),
    "bool": (attribute('{"b": "true"}'), f"line 2: {AT}.b: the string 'true' does not fit"),
    "int": (attribute('{"i": "1x"}'), f"{AT}.i: the string '1x' does not fit"),
    "int of blanks": (attribute('{"i": " 1"}'), f"{AT}.i: the string ' 1' does not fit"),
    "int of other digits": (attribute('{"i": "\u0661"}'), f"{AT}.i: the string"),
    "int with a line": (attribute('{"i": "1_0"}'), f"{AT}.i: the string '1_0' does not fit"),
    "int too large": (attribute('{"i": "9223372036854775808"}'), f"{AT}.i: the string '92233"),
    "int of endless digits": (attribute(f'{{"i": {"9" * 9999}}}'), f"{AT}.i: the number inf"),
    "int half": (attribute('{"i": 1.5}'), f"{AT}.i: the number 1.5 does not fit"),
    "int true": (attribute('{"i": true}'), f"{AT}.i: true does not fit"),
    "int32 in a list": (tensor('"intVal": [1, 2147483648]'), "tensor.intVal[1]: the number 2147"),
    "uint negative": (tensor('"uint64Val": ["-1"]'), "tensor.uint64Val[0]: the string '-1'"),
    "float": (attribute('{"f": "x"}'), f"{AT}.f: the string 'x' does not fit"),
    "float too large": (attribute('{"f": 1e39}'), f"{AT}.f: the number 1e+39 does not fit"),
    "double too large": (tensor('"doubleVal": [1e999]'), "tensor.doubleVal[0]: the number inf"),
    "nan bare": ('{"saverDef":\n{"keepCheckpointEveryNHours":\nNaN}}', "line 3: NaN is not JSON"),
    "nan in small letters": (attribute('{"f": "nan"}'), f"{AT}.f: the string 'nan' does not fit"),
    "enum": (attribute('{"type": "DT_X"}'), f"{AT}.type: the string 'DT_X' is not a value of the"),
    "enum too large": (attribute('{"type": 4294967296}'), f"{AT}.type: the number 4294967296"),
    "base64": (
        attribute('{"s": "a*b="}'),
        f"{AT}.s: expected bytes in base64, not the string 'a*b='",
    ),
    "base64 cut": (
        attribute('{"s": "abcde"}'),
        f"{AT}.s: expected bytes in base64, not the string 'abcde'",
    ),
    "bytes": (attribute('{"s": 1}'), f"{AT}.s: expected bytes in base64, not the number 1"),
    "half a pair": ('{"metaInfoDef": {"tags": ["\\ud800"]}}', "metaInfoDef.tags[0]: the string"),
    "half a pair as a key": ('{"signatureDef": {"\\ud800": {}}}', "signatureDef"),
    "twice": (
        '{"graphDef": {},\n"saverDef": {},\n"graphDef": {}}',
        "line 3: an object has the member 'graphDef' twice",
    ),
    "two spellings": (
        '{"graphDef": {},\n"graph_def": {}}',
        "line 2: graph_def: it cannot be combined",
    ),
    "oneof": (attribute('{"i": 1,\n"b": true}'), f"line 3: {AT}.b: it cannot be combined with 'i'"),
    "key": (
        '{"graphDef": {"library": {"function": [{"argAttr": {"x": {}}}]}}}',
        "function[0].argAttr.x: the string 'x' does not fit",
    ),
    "key too large": (
        '{"graphDef": {"library": {"function": [{"argAttr": {"4294967296": {}}}]}}}',
        "function[0].argAttr.4294967296: the string '4294967296' does not fit",
    ),
    "any without a type": (
        '{"metaInfoDef": {"anyInfo":\n{"x": 1}}}',
        'line 1: metaInfoDef.anyInfo: an Any without a string "@type"',
    ),
    "any of an unknown type": (
        '{"metaInfoDef": {"anyInfo": {\n"@type": "a/b.C", "x": 1}}}',
        "line 2: metaInfoDef.anyInfo.@type: the type 'a/b.C' is not known",
    ),
    "any with both": (
        '{"metaInfoDef": {"anyInfo": {"@type": "a/b.C", "ckpt:base64": "", "x": 1}}}',
        'metaInfoDef.anyInfo.x: it cannot be combined with "ckpt:base64"',
    ),
    "field of an any": (
        '{"metaInfoDef": {"anyInfo": {"@type": "a/tensorflow.SaverDef", "x": 1}}}',
        "metaInfoDef.anyInfo.x: a tensorflow.SaverDef has no such field",
    ),
    "wrapper in an any": (
        '{"metaInfoDef": {"anyInfo": {"@type": "a/google.protobuf.Int64Value", "x": 1}}}',
        'metaInfoDef.anyInfo: only "value" can stand beside "@type" here',
    ),
    "packed": (
        '{"collectionDef": {"variables": {"bytesList": {"value": [{}]}}}}',
        'variables.bytesList.value[0]: an Any without a string "@type"',
    ),
}


@pytest.mark.parametrize(("text", "expected"), FAULTS.values(), ids=FAULTS.keys())
def test_faults(text: str, expected: str) -> None:
    with pytest.raises(CorruptError) as caught:
        read(text)
    assert str(caught.value).startswith("g.json: line ")
    assert expected in str(caught.value)


# It takes what Python's int() takes, base64 with anything in it, and what is said twice.
LENIENT = {
    "base64",
    "enum too large",
    "int of other digits",
    "int too large",
    "int with a line",
    "two spellings",
}


@pytest.mark.parametrize("name", sorted(set(FAULTS) - LENIENT))
def test_protobuf_refuses_most_of_them(name: str) -> None:
    with pytest.raises(Exception):  # noqa: B017 - of many classes
        json_format.Parse(FAULTS[name][0], pb.MetaGraphDef(), descriptor_pool=POOL)


def test_constants_that_were_left_out() -> None:
    text = tensor('"dtype": "DT_FLOAT",\n"ckpt:elided": {"bytes": 9}')
    with pytest.raises(UnsupportedError, match="--elide-constants") as caught:
        read(text)
    assert f"line 2: {AT}.tensor: " in str(caught.value)


def nested(depth: int) -> str:
    inner = '{"args": [' * depth + "]}" * depth
    return '{"graphDef": {"node": [{"experimentalType":\n' + inner + "}]}}"


@pytest.mark.parametrize(("depth", "part"), [(150, "more than 100 deep"), (100_000, "too deep")])
def test_deep_nesting(depth: int, part: str) -> None:
    with pytest.raises(CorruptError, match=part) as caught:
        read(nested(depth))
    assert "line 2: " in str(caught.value)


def test_what_is_allowed() -> None:
    graph = read(
        '\n{"graphDef": null, "graph_def": {"node": [{"attr": {"a": {"i": 1e3}, "b": {"i": "-2.0"},'
        ' "c": {"s": "_-8"}, "d": {"type": "1"}, "e": {"f": "-Infinity"}, "g": {"type": 999}}}]}}'
    )
    attributes = graph.graph_def.node[0].attr
    assert (attributes["a"].i, attributes["b"].i, attributes["c"].s) == (1000, -2, b"\xff\xef")
    assert (attributes["d"].type, attributes["g"].type) == (1, 999)
    assert attributes["e"].f == float("-inf")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["graphDef", "node", "attr", "tensor", "floatVal", "@type", "value", "x"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["graphDef", "metaInfoDef", "collectionDef"]), JSON))
def test_any_json(document: dict[str, object]) -> None:
    text = json.dumps(document, allow_nan=False) if _finite(document) else json.dumps(document)
    try:
        read(text)
    except CkptError as error:
        assert "line 1" in str(error)


def _finite(document: object) -> bool:
    try:
        json.dumps(document, allow_nan=False)
    except ValueError:
        return False
    return True


@given(st.text(max_size=30))
def test_any_text(text: str) -> None:
    try:
        read(text)
    except CorruptError as error:
        assert "line " in str(error)
