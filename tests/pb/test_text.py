"""Messages to text and back, the same under every protobuf release."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpttool import pb
from ckpttool.coding.wire import bytes_field, varint_field
from ckpttool.errors import CorruptError
from ckpttool.pb.convert import from_text, parse, to_text

# Written by tf.train.CheckpointManager.
STATE = """\
model_checkpoint_path: "ckpt-3"
all_model_checkpoint_paths: "ckpt-2"
all_model_checkpoint_paths: "ckpt-3"
all_model_checkpoint_timestamps: 1795181199.8361657
all_model_checkpoint_timestamps: 1795181199.8458865
last_preserved_timestamp: 1795181198.828453
"""


def path_of(text: str) -> str:
    return from_text(pb.CheckpointState, text, path="checkpoint").model_checkpoint_path


def test_state_file() -> None:
    state = from_text(pb.CheckpointState, STATE, path="checkpoint")
    assert state.model_checkpoint_path == "ckpt-3"
    assert list(state.all_model_checkpoint_paths) == ["ckpt-2", "ckpt-3"]
    assert list(state.all_model_checkpoint_timestamps) == [1795181199.8361657, 1795181199.8458865]
    assert to_text(state) == STATE
    assert to_text(pb.CheckpointState()) == ""


@pytest.mark.parametrize(
    ("number", "written"),
    [
        (1.0, "1.0"),
        (1e20, "1e+20"),
        (0.1, "0.1"),
        (123456789.123, "123456789.123"),
        (-5e-324, "-5e-324"),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
    ],
)
def test_doubles(number: float, written: str) -> None:
    text = to_text(pb.CheckpointState(last_preserved_timestamp=number))
    assert text == f"last_preserved_timestamp: {written}\n"
    again = from_text(pb.CheckpointState, text, path=None).last_preserved_timestamp
    assert again == number or number != number


@pytest.mark.parametrize(
    ("path", "written"),
    [
        ('a"b', r"a\"b"),
        ("a'b", r"a\'b"),
        ("a\\b", r"a\\b"),
        ("a\nb", r"a\nb"),
        ("a\r\tb", r"a\r\tb"),
        ("\x01\x1b[1m\x7f9", r"\001\033[1m\1779"),
        ("\x00", r"\000"),
        ("modèle-中-😀", "modèle-中-😀"),
        ("\x85\u2028\u202e", "\x85\u2028\u202e"),
        (r"C:\u4e2d", r"C:\\u4e2d"),
    ],
)
def test_strings(path: str, written: str) -> None:
    text = to_text(pb.CheckpointState(model_checkpoint_path=path))
    assert text == f'model_checkpoint_path: "{written}"\n'
    assert path_of(text) == path


@pytest.mark.parametrize(
    ("written", "path"),
    [
        (r"mod\303\250le", "modèle"),
        (r"mod\u00e8le-\u4e2d-\U0001F600", "modèle-中-😀"),
        (r"\344\270\255中", "中中"),
        (r"\x41\x4-\101\0", "A\x04-A\x00"),
        (r"\a\b\f\v\?", "\a\b\f\v?"),
        (r"\u000a\u0022", '\n"'),
        (r"\\u0041", r"\u0041"),
        ('a" "b', "ab"),
        ("#{<", "#{<"),
    ],
)
def test_escapes_that_are_read(written: str, path: str) -> None:
    assert path_of(f'model_checkpoint_path: "{written}"') == path


@pytest.mark.parametrize(
    "text",
    [
        "model_checkpoint_path: 'a\"b'",
        'model_checkpoint_path : "a\\"b" ;',
        '# "\\q {{{\nmodel_checkpoint_path: "a" # "\\u12\n  \'"\' "b"\n#',
        '\r\nmodel_checkpoint_path:\r\n"a\\"b"\r\n',
    ],
    ids=["single quotes", "spaces", "comments", "carriage returns"],
)
def test_forms_that_are_read(text: str) -> None:
    assert path_of(text) == 'a"b'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('\nmodel_path: "a"', "line 2, column 1: .*no field named"),
        ('model_checkpoint_path: "a', "line 1, column 24: .*ending quote"),
        ('model_checkpoint_path: "a\nb"', "line 1, column 24: .*ending quote"),
        ("model_checkpoint_path: ckpt-1", "line 1, column 24: .*Expected string"),
        ('model_checkpoint_path: "a"\nmodel_checkpoint_path: "b"', "line 2, .*multiple"),
        ("last_preserved_timestamp: now", "line 1, column 27"),
        ('\n\nmodel_checkpoint_path: "\\q"', r"line 3: \\\\q is not an escape"),
        ('model_checkpoint_path: "\\', "line 1, column 24"),
        ('model_checkpoint_path: "\\N{BULLET}"', "line 1: .*N is not an escape"),
        ('model_checkpoint_path: "\\777"', "line 1: .*777 is not a byte"),
        ('model_checkpoint_path: "\\ud800"', "line 1: .*ud800 is not a character"),
        ('model_checkpoint_path: "\\U00110000"', "line 1: .*is not a character"),
        ('model_checkpoint_path: "\\u12"', "line 1: .*u is not an escape"),
        ('model_checkpoint_path: "\\x"', "line 1: .*x is not an escape"),
        ('model_checkpoint_path: "\\377"', "line 1, column 30: .*utf-8"),
        ('model_checkpoint_path: "\udcff"', "line 1, column 24"),
        ("1: 2", "line 1"),
        ("\x00", "line 1"),
        ("}", "line 1"),
        ("[a.b/c] {}", "line 1"),
    ],
)
def test_bad_text(text: str, problem: str) -> None:
    with pytest.raises(CorruptError, match=problem) as raised:
        from_text(pb.CheckpointState, text, path="checkpoint")
    assert raised.value.path == "checkpoint"
    assert str(raised.value).startswith("checkpoint: not the text of a tensorflow.CheckpointState:")
    assert str(raised.value).isprintable()


@pytest.mark.parametrize(
    "text",
    [
        "args {" * 5000,
        "args {" * 101 + "}" * 101,
        "args <" * 101 + ">" * 101,
        '"' * 50_001,
        's: "' + '\\"' * 50_000,
        's: "' + "\\111" * 50_000 + '\\q"',
        "a" * 100_000,
        "\\" * 100_000,
        "s: " + '"x"' * 20_000 + "'",
    ],
    ids=["open", "deep", "pointed", "quotes", "escapes", "octal", "name", "backslashes", "pieces"],
)
def test_hostile_text_is_refused(text: str) -> None:
    with pytest.raises(CorruptError) as raised:
        from_text(pb.FullTypeDef, text, path=None)
    assert len(str(raised.value)) < 1000


def test_nesting_that_is_allowed() -> None:
    message = from_text(pb.FullTypeDef, "args {" * 100 + "}" * 100, path=None)
    assert from_text(pb.FullTypeDef, to_text(message), path=None) == message
    assert parse(pb.FullTypeDef, message.SerializeToString(), path=None) == message


@given(st.text())
def test_any_string_comes_back(path: str) -> None:
    assert path_of(to_text(pb.CheckpointState(model_checkpoint_path=path))) == path


@given(st.text(alphabet="model_checkpoint_path:\"'\\{}<>[]#/.,; \n01uUx\x00é中", max_size=60))
def test_random_text(text: str) -> None:
    try:
        state = from_text(pb.CheckpointState, text, path=None)
    except CorruptError:
        return
    assert from_text(pb.CheckpointState, to_text(state), path=None) == state


def test_bytes_are_octal_outside_of_ascii() -> None:
    value = pb.AttrValue(s=bytes(range(256)))
    text = to_text(value)
    assert text.isascii()
    assert r"\176~\177\200" not in text
    assert r"}~\177\200\201" in text
    assert from_text(pb.AttrValue, text, path=None) == value
    assert to_text(pb.AttrValue(s="é".encode())) == 's: "\\303\\251"\n'


def test_maps_are_sorted_and_enums_named() -> None:
    message = pb.NameAttrList(name="f")
    message.attr["b"].i = 2
    message.attr["a"].type = 1
    assert to_text(message) == (
        'name: "f"\n'
        'attr {\n  key: "a"\n  value {\n    type: DT_FLOAT\n  }\n}\n'
        'attr {\n  key: "b"\n  value {\n    i: 2\n  }\n}\n'
    )
    assert from_text(pb.NameAttrList, to_text(message), path=None) == message


def same(one: pb.CollectionDef, other: pb.CollectionDef) -> bool:
    return one.SerializeToString() == other.SerializeToString()


def any_list(type_url: str, value: bytes) -> pb.CollectionDef:
    message = pb.CollectionDef()
    message.any_list.value.add(type_url=type_url, value=value)
    return message


ASSET = pb.AssetFileDef(filename="vocab.txt")
ASSET_URL = "type.googleapis.com/tensorflow.AssetFileDef"


def test_any_of_a_known_type_is_spelled_out() -> None:
    message = any_list(ASSET_URL, ASSET.SerializeToString())
    text = to_text(message)
    assert text == (
        "any_list {\n"
        "  value {\n"
        "    [type.googleapis.com/tensorflow.AssetFileDef] {\n"
        '      filename: "vocab.txt"\n'
        "    }\n"
        "  }\n"
        "}\n"
    )
    assert same(from_text(pb.CollectionDef, text, path=None), message)


@pytest.mark.parametrize(
    ("type_url", "value"),
    [
        ("type.googleapis.com/some.Other", b"\x0a\x01x"),
        ("no-slash", b"\xff"),
        ("", b"\xff"),
        (ASSET_URL, b"\x0a\xff"),
        (ASSET_URL, ASSET.SerializeToString() + varint_field(99, 1)),
        ('"evil\n] { }/tensorflow.AssetFileDef', ASSET.SerializeToString()),
        ("a-b/c/tensorflow.AssetFileDef", ASSET.SerializeToString()),
    ],
    ids=["unknown", "no slash", "empty", "damaged", "newer", "injection", "odd"],
)
def test_other_any_keeps_its_bytes(type_url: str, value: bytes) -> None:
    message = any_list(type_url, value)
    text = to_text(message)
    assert text.startswith("any_list {\n  value {\n    ")
    assert "\n    value: " in text or not type_url
    assert same(from_text(pb.CollectionDef, text, path=None), message)


def test_any_within_any_ends_in_bytes() -> None:
    value = b""
    for _ in range(1000):
        url = bytes_field(1, b"type.googleapis.com/google.protobuf.Any")
        value = url + bytes_field(2, value)
    message = any_list("type.googleapis.com/google.protobuf.Any", value)
    text = to_text(message)
    assert "[type.googleapis.com/google.protobuf.Any]" in text
    assert "value: " in text
    assert same(from_text(pb.CollectionDef, text, path=None), message)
