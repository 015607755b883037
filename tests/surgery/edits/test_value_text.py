"""Values as they are typed."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ckpttool.errors import SelectionError
from ckpttool.surgery.edits.value_text import parse_value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        (" -2.5e3 ", -2500.0),
        ("1_000", 1000),
        ("inf", math.inf),
        ("-Infinity", -math.inf),
        ("true", True),
        ("False", False),
        ("1+2j", 1 + 2j),
        ("[1, 2.5,[ ]]", [1, 2.5, []]),
        ('["a, b", "\\u00e9"]', ["a, b", "é"]),
        ("[[1,2],[3,4],]", [[1, 2], [3, 4]]),
    ],
)
def test_numbers_and_lists(text: str, value: Any) -> None:
    found = parse_value(text, strings=False)
    assert (found, type(found)) == (value, type(value))
    assert math.isnan(parse_value("NaN", strings=False))


def test_text_for_a_string_tensor() -> None:
    for text in ("hello", "5", "a, b", "true", " x ", ""):
        assert parse_value(text, strings=True) == text
    assert parse_value('"5"', strings=True) == "5"
    assert parse_value('["x", "y"]', strings=True) == ["x", "y"]


@pytest.mark.parametrize(
    "text",
    [
        *("", "abc", "[1", "[1 2]", "1 2", "[", "]", "[1]]", '"abc', "[,]", "1e", "--1", "0x10"),
        *("[" * 100_000, "9" * 5_000, '["\\ud"]', "__import__('os')"),
    ],
    ids=range(17),
)
def test_what_is_none(text: str) -> None:
    with pytest.raises(SelectionError, match="is no value"):
        parse_value(text, strings=text.startswith(('"', "[")))
