"""Rules for names: what each says, and how they are read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpttool.errors import CkptError, FileAccessError, MissingFileError, SelectionError
from ckpttool.printable import printable
from ckpttool.surgery.rules import (
    MoveRule,
    PrefixRule,
    RenameRule,
    StripPrefixRule,
    parse_move,
    parse_substitution,
    read_map,
)


@pytest.mark.parametrize(
    ("rule", "name", "new"),
    [
        (MoveRule("a", "b"), "a", "b"),
        (MoveRule("a", "b"), "a/w", "b/w"),
        (MoveRule("a", "b/c"), "a/a/a", "b/c/a/a"),
        (MoveRule("a", "b"), "ab", None),
        (MoveRule("a", "b"), "x/a", None),
        (MoveRule("a/w", "w"), "a", None),
        (MoveRule("a.b", "c"), "aXb", None),
        (PrefixRule("t/"), "a", "t/a"),
        (PrefixRule("t_"), "t_a", "t_t_a"),
        (StripPrefixRule("t/"), "t/a/w", "a/w"),
        (StripPrefixRule("t/"), "t/t/a", "t/a"),
        (StripPrefixRule("t"), "tower", "ower"),
        (StripPrefixRule("t/"), "t/", None),
        (StripPrefixRule("t/"), "t", None),
        (StripPrefixRule("t/"), "a/t/b", None),
        (parse_substitution("l", "m"), "all/l", "amm/m"),
        (parse_substitution(r"l(\d+)", r"layer_\1"), "net/l1/l22", "net/layer_1/layer_22"),
        (parse_substitution(r"(?P<x>a)(b)?", r"\g<x>\2!"), "ab-a", "ab!-a!"),
        (parse_substitution("^a$", "b"), "a/w", None),
        (parse_substitution("a", "a"), "a", "a"),
        (parse_substitution("a", ""), "a", ""),
        (parse_substitution("", "x"), "ab", "xaxbx"),
        (parse_substitution(r"\.", r"\\"), "a.b", "a\\b"),
    ],
)
def test_rules(rule: RenameRule, name: str, new: str | None) -> None:
    assert rule.rename(name) == new


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (MoveRule("a", "b"), "a=b"),
        (PrefixRule("t/"), "--prefix t/"),
        (StripPrefixRule("t/"), "--strip-prefix t/"),
        (parse_substitution("a+", r"\g<0>b"), r"--sub a+ \g<0>b"),
    ],
)
def test_texts(rule: RenameRule, text: str) -> None:
    assert rule.text == text


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("a=b", "a", "b"),
        ("a/b=c/d/e", "a/b", "c/d/e"),
        ("a=b=c", "a", "b=c"),
        (r"a\x3db=c", "a=b", "c"),
        (r"a\x1b[31m=b\n", "a\x1b[31m", "b\n"),
        (r"a\\=b", "a\\", "b"),
        ("größe=日本 語", "größe", "日本 語"),
        ("a = b", "a ", " b"),
    ],
)
def test_moves_as_they_are_typed(text: str, old: str, new: str) -> None:
    assert parse_move(text) == MoveRule(old, new)


@pytest.mark.parametrize("text", ["", "=", "a", "a=", "=b", "a/b", "\x1b[31m"])
def test_no_move(text: str) -> None:
    with pytest.raises(SelectionError, match="is not a rule of the form OLD=NEW") as caught:
        parse_move(text)
    assert "\x1b" not in str(caught.value)


@given(st.text(min_size=1), st.text(min_size=1))
def test_names_may_be_typed_as_they_are_printed(old: str, new: str) -> None:
    typed = printable(old).replace("=", r"\x3d") + "=" + printable(new)
    assert parse_move(typed) == MoveRule(old, new)


@pytest.mark.parametrize(
    ("regex", "replacement", "message"),
    [
        ("(", "x", "unterminated subpattern"),
        ("[", "x", "unterminated character set"),
        ("*", "x", "nothing to repeat"),
        ("a", r"\1", "invalid group reference"),
        ("(a)", r"\2", "invalid group reference"),
        ("a", r"\g<no>", "unknown group name"),
        ("a", r"\q", "bad escape"),
        ("a", "\\", "bad escape"),
        ("(" * 10_000 + ")" * 10_000, "x", "recursion"),
        ("a{99999999999999999999}", "x", "too large"),
        ("(?<=a+)b", "x", "look-behind"),
    ],
)
def test_malformed_substitutions(regex: str, replacement: str, message: str) -> None:
    with pytest.raises(SelectionError, match=message) as caught:
        parse_substitution(regex, replacement)
    assert "--sub" in str(caught.value)


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
