"""JSON of strangers, and the lines of what is wrong with it."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpttool.coding.json_text import (
    JsonError,
    line_of,
    line_of_depth,
    load_json,
    repeated_name,
    strict_decoder,
)

TEXT = """{
  "a": [
    {"b": 1, "c\\"": {"a": 2}},
    "x: {[,",
    [3,
     4]
  ],
  "d": {}
}"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ((), 1),
        (("a",), 2),
        (("a", 0), 3),
        (("a", 0, 'c"', "a"), 3),
        (("a", 1), 4),
        (("a", 2, 0), 5),
        (("a", 2, 1), 6),
        (("d",), 8),
        (("d", "gone"), 8),
    ],
)
def test_lines(path: tuple[str | int, ...], line: int) -> None:
    assert line_of(TEXT, path) == line


def test_names_twice() -> None:
    assert repeated_name(TEXT) is None
    assert repeated_name('{"a": {"a": [{"a": 1},\n{"a": 1,\n"b": {}, "a": 1}]}}') == ("a", 3)
    assert repeated_name('{"a": 1, "b": {"a": 1},\n"\\u0061": 2}') == ("a", 2)


def test_lines_of_depth() -> None:
    assert line_of_depth("[\n[1],\n[[\n[2]]]]", 3) == 4


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.large
@given(VALUES)
def test_what_python_writes_is_read(value: object) -> None:
    assert load_json(json.dumps(value)) == value


@pytest.mark.parametrize(
    ("text", "line", "column", "problem"),
    [
        ("", 1, 1, "expecting value"),
        ('{"a":\n  x}', 2, 3, "expecting value"),
        ("{}\n{}", 2, 1, "extra data"),
        ('{"a": 1,\n"b": {"c": 1,\n"c": 2}}', 3, None, "an object has the member 'c' twice"),
        ('{"NaN": "NaN",\n"b": [NaN]}', 2, None, "NaN is not JSON"),
        ("[1,\n-Infinity]", 2, None, "-Infinity is not JSON"),
        ("[\n" * 100_000, 401, None, "nested too deep"),
    ],
)
def test_faults(text: str, line: int, column: int | None, problem: str) -> None:
    with pytest.raises(JsonError) as caught:
        load_json(text)
    error = caught.value
    assert (error.line, error.column, error.problem) == (line, column, problem)
    assert error.place == f"line {line}" + (f", column {column}" if column else "")


def test_numbers_too_long_for_anything() -> None:
    assert load_json("9" * 399) == 10**399 - 1
    assert load_json("9" * 100_000) == math.inf


def test_a_decoder_for_values_one_by_one() -> None:
    decoder = strict_decoder(lambda digits: f"int {digits}")
    assert decoder.raw_decode('{"a": 12} rest') == ({"a": "int 12"}, 9)
    with pytest.raises(JsonError) as caught:
        decoder.raw_decode('{"a": 1, "a": 2}')
    assert caught.value.name == "a"
    with pytest.raises(JsonError) as caught:
        decoder.raw_decode("Infinity")
    assert caught.value.word == "Infinity"
