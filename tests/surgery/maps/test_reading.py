"""Maps: the three forms, what they give tensors, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ckpttool
from ckpttool.errors import (
    CkptError,
    FileAccessError,
    KeyCollisionError,
    MissingFileError,
    SelectionError,
    SurgeryError,
    UnsupportedError,
)
from ckpttool.printable import printable
from ckpttool.surgery.maps.reading import inverted, map_tensors, map_text, read_map
from ckpttool.surgery.rules import FirstOf, MoveRule, TensorRule
from ckpttool.tensor.layout import TensorLayout
from tests.support import fixtures


def map_file(folder: Path, content: str | bytes) -> str:
    path = folder / "map"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


COLUMNS: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "empty": ("", []),
    "tabs": ("a\tb\nc d\te f\n", [("a", "b"), ("c d", "e f")]),
    "spaces": ("a b\n  c    d  \n", [("a", "b"), ("c", "d")]),
    "comments": ("# old new\n\na b\n   \n#a\tb\n", [("a", "b")]),
    "no end of line": ("a\tb\nc\td", [("a", "b"), ("c", "d")]),
    "carriage returns": ("a\tb\r\nc d\r\n", [("a", "b"), ("c", "d")]),
    "byte order mark": ("\ufeffa\tb\n", [("a", "b")]),
    "escapes": ("a\\n\tb\\x1b\nc\\x20d e\n", [("a\n", "b\x1b"), ("c d", "e")]),
    "equals signs": ("a=b c=d\n", [("a=b", "c=d")]),
    "not ASCII": ("größe\t日本\n", [("größe", "日本")]),
    "order": ("z\ta\na\tz\n", [("z", "a"), ("a", "z")]),
    "to the same": ("a\ta\n", [("a", "a")]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns(tmp_path: Path, name: str) -> None:
    content, pairs = COLUMNS[name]
    assert read_map(map_file(tmp_path, content)) == [MoveRule(*pair) for pair in pairs]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\n", "line 1 does not have two columns"),
        ("a\tb\n\n# c\na b c\n", "line 4 does not have two columns"),
        ("a\tb\tc\n", "line 1 does not have two columns"),
        ("a\t\n", "line 1 does not have two columns"),
        ("\tb\n", "line 1 does not have two columns"),
        ("a\tb\na\tc\n", "line 2: the name occurs twice"),
        ("a\tb\n\\x61\tc\n", "line 2: the name occurs twice"),
        (b"a\tb\n\xff\tc\n", "the map is not UTF-8"),
        ("[1]", "line 1 does not have two columns"),
        ("{", "the map is not JSON"),
        ('{"a": "b"', "the map is not JSON"),
        ('{"a": "b"} x', "the map is not JSON"),
        ('{"a": 1}', "map names to names"),
        ('{"a": null}', "map names to names"),
        ('{"a": {"b": "c"}}', "map names to names"),
        ('{"a": ["b"]}', "map names to names"),
        ('{"a": ""}', "map names to names"),
        ('{"": "a"}', "map names to names"),
        ('{"a": "b", "a": "c"}', "the name occurs twice"),
        ('{"a": ' + "[" * 100_000, "the map is not JSON"),
    ],
)
def test_malformed_maps(tmp_path: Path, content: str | bytes, message: str) -> None:
    path = map_file(tmp_path, content)
    with pytest.raises(SelectionError, match=message) as caught:
        read_map(path)
    assert caught.value.path == path


def test_offset_of_what_is_not_utf8(tmp_path: Path) -> None:
    with pytest.raises(SelectionError) as caught:
        read_map(map_file(tmp_path, b"a\tb\n\xff\tc\n"))
    assert caught.value.offset == 4


@given(st.dictionaries(st.text(min_size=1), st.text(min_size=1), max_size=5))
def test_json(tmp_path: Path, names: dict[str, str]) -> None:
    path = map_file(tmp_path, "\n " + json.dumps(names, indent=1))
    assert read_map(path) == [MoveRule(*pair) for pair in names.items()]


@given(
    st.dictionaries(
        st.text(min_size=1)
        .map(printable)
        .filter(lambda name: name.strip() == name and name[:1] != "#"),
        st.text(min_size=1).map(printable).filter(lambda name: name.strip() == name),
        max_size=5,
    )
)
def test_printed_names_in_columns(tmp_path: Path, names: dict[str, str]) -> None:
    lines = "".join(f"{old}\t{new}\n" for old, new in names.items())
    if lines.lstrip()[:1] == "{" or len({parse(old) for old in names}) < len(names):
        return
    pairs = [MoveRule(parse(old), parse(new)) for old, new in names.items()]
    assert read_map(map_file(tmp_path, lines)) == pairs


def parse(name: str) -> str:
    """Return the name that is printed so."""
    from ckpttool.printable import unprintable

    return unprintable(name)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError):
        read_map(str(tmp_path / "nowhere"))
    with pytest.raises(FileAccessError):
        read_map(str(tmp_path))
    with pytest.raises(CkptError):
        read_map("map\x00")


def test_a_map_that_is_too_large(tmp_path: Path) -> None:
    path = tmp_path / "map"
    with path.open("wb") as file:
        file.truncate((64 << 20) + 1)
    with pytest.raises(SelectionError, match="too large"):
        read_map(str(path))


@pytest.mark.parametrize("text", ['{"a\\ud800": "b"}', '{"a": "\\udfff"}', '{"a": "\\ud83d"}'])
def test_half_of_a_surrogate_pair_is_no_name(text: str, tmp_path: Path) -> None:
    path = tmp_path / "map.json"
    path.write_text(text)
    with pytest.raises(SelectionError, match="lone surrogate") as caught:
        read_map(str(path))
    assert caught.value.path == str(path)


def test_names_of_any_bytes_are_names(tmp_path: Path) -> None:
    path = tmp_path / "map.json"
    path.write_text('{"a\\udcff": "\\ud83d\\ude00"}')
    assert read_map(str(path)) == [MoveRule("a\udcff", "\U0001f600")]


def lines(*tensors: object, **more: object) -> str:
    return json.dumps({"schema": "ckpt.map/2", "tensors": list(tensors), **more}, indent=1)


def test_tensors_with_layouts(tmp_path: Path) -> None:
    one = {"from": "a/kernel", "to": "a.weight", "shape": [2, 3], "permute": [1, 0]}
    two = {"from": "b", "to": "a/kernel", "shape": [2, 3], "reshape": [6], "rule": "x", "note": "y"}
    three = {"from": "c", "to": "c"}
    path = map_file(tmp_path, lines(one, two, three, unmatched=["d"]))
    assert read_map(path) == [
        TensorRule("a/kernel", "a.weight", TensorLayout((2, 3), (2, 3), (1, 0), (3, 2))),
        TensorRule("b", "a/kernel", TensorLayout((2, 3), (2, 3), (0, 1), (6,))),
        TensorRule("c", "c"),
    ]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    tensors: list[dict[str, object]] = [
        {"from": "größe\n", "to": "\udcff", "shape": [], "permute": []},
        {"from": "b", "to": "c"},
    ]
    path = map_file(tmp_path, map_text(tensors, unmatched=["x"]))
    assert json.loads(Path(path).read_text()) == {
        "schema": "ckpt.map/2",
        "tensors": tensors,
        "unmatched": ["x"],
    }
    assert [rule.old for rule in read_map(path)] == ["größe\n", "b"]
    assert read_map(map_file(tmp_path, map_text([]))) == []


AB = {"from": "a", "to": "b"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"schema": "ckpt.map/3", "tensors": []}', "line 1: the schema of a map is 'ckpt.map/2'"),
        ('{"schema": "ckpt.map/2"}', "'tensors' must be a list"),
        ('{"schema": "ckpt.map/2", "tensors": {}}', "'tensors' must be a list"),
        ('{"tensors": []}', "not null"),
        (lines(apply=1), "a map has no 'apply'"),
        (lines(7), "line 4: a tensor of a map is an object"),
        (lines({**AB, "transpose": True}), "line 4: a tensor of a map has no 'transpose'"),
        (lines({"to": "b"}), "'from' must be a name"),
        (lines({"from": "a", "to": ""}), "'to' must be a name"),
        (lines({"from": "a", "to": ["b"]}), "'to' must be a name"),
        (lines({"from": "a\ud800", "to": "b"}), "'from' contains a lone surrogate"),
        (lines(AB, {"from": "a", "to": "c"}), "line 8: two tensors have 'a' in 'from'"),
        (lines(AB, {"from": "c", "to": "b"}), "two tensors have 'b' in 'to'"),
        (lines({**AB, "permute": [1, 0]}), "need the 'shape'"),
        (lines({**AB, "reshape": [1]}), "need the 'shape'"),
        (lines({**AB, "shape": 3}), "'a': 'shape' must be a list of whole numbers"),
        (lines({**AB, "shape": "23"}), "'shape' must be a list"),
        (lines({**AB, "shape": [2, -1]}), "'shape' must be a list"),
        (lines({**AB, "shape": [2.0]}), "'shape' must be a list"),
        (lines({**AB, "shape": [True]}), "'shape' must be a list"),
        (lines({**AB, "shape": [1] * 33}), "'shape' has 33 dimensions, more than 32"),
        (lines({**AB, "shape": [1 << 40, 1 << 40]}), "more elements than any file could hold"),
        (
            '{"schema": "ckpt.map/2", "tensors": [{"from": "a", "to": "b", "shape": [1'
            + "0" * 500
            + "]}]}",
            "must be a list",
        ),
        (lines({**AB, "shape": [2, 3], "permute": [0]}), r"\[0\] is no permutation of the 2"),
        (lines({**AB, "shape": [2, 3], "permute": [0, 0]}), "is no permutation"),
        (lines({**AB, "shape": [2, 3], "permute": [1, 2]}), "is no permutation"),
        (lines({**AB, "shape": [2, 3], "permute": [0, 1, 2]}), "is no permutation"),
        (lines({**AB, "shape": [2, 3], "permute": "10"}), "'permute' must be a list"),
        (
            lines({**AB, "shape": [2, 3], "reshape": [5]}),
            "has 5 elements, 'shape' \\[2, 3\\] has 6",
        ),
        (lines({**AB, "shape": [2, 3], "reshape": [-1]}), "'reshape' must be a list"),
    ],
)
def test_hostile_maps(tmp_path: Path, content: str, message: str) -> None:
    path = map_file(tmp_path, content)
    with pytest.raises(SelectionError, match=message) as caught:
        read_map(path)
    assert caught.value.path == path


def test_inverted() -> None:
    rules = [MoveRule("a", "b"), TensorRule("c", "d", TensorLayout.of((2, 3), (1, 0), (6,)))]
    back = inverted(rules)
    assert [(rule.old, rule.new) for rule in back] == [("b", "a"), ("d", "c")]
    assert inverted(back) == rules
    with pytest.raises(SelectionError, match="'a' and 'c' both become 'b'"):
        inverted([MoveRule("a", "b"), MoveRule("c", "b")])


def test_a_line_for_a_tensor_takes_nothing_below_it() -> None:
    first = FirstOf([TensorRule("w", "x"), MoveRule("w", "y")])
    assert first.rename("w") == (0, "x")
    assert first.rename("w/Adam") == (1, "y/Adam")
    assert FirstOf([MoveRule("w", "y"), TensorRule("w", "x")]).rename("w") == (0, "y")


OBJECTS = fixtures.bundle("v2/tf2.21/keras3_adam/ckpt-1").prefix


def test_a_map_names_tensors_by_any_name(tmp_path: Path) -> None:
    with ckpttool.open_checkpoint(OBJECTS) as ckpt:
        keys = [key for key, kind in ckpt.kinds.items() if kind == "weight"]
        named = {key: ckpt.names_of(key) for key in keys}
        key = next(key for key in keys if len(ckpt.entries[key].shape) == 2)
        shape = ckpt.entries[key].shape
        for name in (*named[key], ckpt.variable_names[key]):
            rule = TensorRule(name, "w", TensorLayout.of(shape, (1, 0)))
            found = map_tensors(ckpt, [rule], keys)
            assert {each: found[each].name for each in found} == {key: "w"}
            assert found[key].layout == rule.layout
        with pytest.raises(SelectionError, match="states the shape") as caught:
            map_tensors(ckpt, [TensorRule(key, "w", TensorLayout.of((*shape, 1)))], keys)
        assert caught.value.key == key
        with pytest.raises(SelectionError, match="the rule 'nowhere=w' matches nothing"):
            map_tensors(ckpt, [TensorRule("nowhere", "w")], keys)
        with pytest.raises(KeyCollisionError, match="would both be called 'w'"):
            map_tensors(ckpt, [MoveRule(keys[0], "w"), MoveRule(keys[1], "w")], keys)


def test_strings_are_not_permuted(tmp_path: Path) -> None:
    prefix = str(tmp_path / "model")
    ckpttool.save_checkpoint(prefix, {"s": np.array([[b"a", b"bc"]], object)})
    with (
        ckpttool.open_checkpoint(prefix) as ckpt,
        pytest.raises(UnsupportedError, match="dtype string cannot be permuted"),
    ):
        map_tensors(ckpt, [TensorRule("s", "t", TensorLayout.of((1, 2), (1, 0)))], ["s"])


def test_renaming_takes_names_and_refuses_layouts(tmp_path: Path) -> None:
    prefix = str(tmp_path / "model")
    ckpttool.save_checkpoint(prefix, {"a": np.zeros((2, 3)), "a/m": np.ones(2)})
    plain = map_file(tmp_path, lines({"from": "a", "to": "b", "shape": [2, 3]}))
    done = ckpttool.rename(prefix, str(tmp_path / "out"), map=plain)
    assert [(each.key, each.new_key) for each in done.changes] == [("a", "b")]
    wrong = map_file(tmp_path, lines({"from": "a", "to": "b", "shape": [3, 2]}))
    with pytest.raises(SelectionError, match=r"states the shape \[3, 2\], the tensor has \[2, 3\]"):
        ckpttool.rename(prefix, str(tmp_path / "no"), map=wrong)
    moving = map_file(tmp_path, lines({"from": "a", "to": "b", "shape": [2, 3], "permute": [1, 0]}))
    with pytest.raises(SurgeryError, match=r"permute \[1, 0\] here, and renaming moves no bytes"):
        ckpttool.rename(prefix, str(tmp_path / "no"), map=moving)
    with pytest.raises(SurgeryError, match="moves no bytes"):
        ckpttool.convert_legacy(prefix, str(tmp_path / "no"), map=moving)
    assert not list(tmp_path.glob("no*"))
