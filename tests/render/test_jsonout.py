from __future__ import annotations

import base64
import io
import json
import math
from collections.abc import Iterator
from typing import Any, NoReturn

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpttool.render.jsonout import encode, write_json, write_jsonl


def refuse(constant: str) -> NoReturn:
    raise AssertionError(f"{constant} is not JSON")


def parse(text: str) -> Any:
    assert text.isascii()
    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (2**63, 2**63),
        (-(2**200), -(2**200)),
        (0.1, 0.1),
        (math.nan, "NaN"),
        ([math.inf, -math.inf], ["Infinity", "-Infinity"]),
        ({"a": {"b": [1.5, math.nan]}}, {"a": {"b": [1.5, "NaN"]}}),
        ("é日\U0001f642\u202e\x1b", "é日\U0001f642\u202e\x1b"),
        ("\\ud800", "\\ud800"),
        ("bad\udcff", {"base64": base64.b64encode(b"bad\xff").decode()}),
        ("\ud800", {"base64": base64.b64encode(b"\xed\xa0\x80").decode()}),
        (b"text \xc3\xa9", "text é"),
        (b"\xff\x00", {"base64": "/wA="}),
        (bytearray(b"ab"), "ab"),
        (memoryview(b"ab"), "ab"),
        ((1, (2, 3)), [1, [2, 3]]),
        ({1: 2}, {"1": 2}),
        ({"bad\udcff": 1, b"\xfe": 2}, {"bad\\xff": 1, "\\xfe": 2}),
        (range(3), [0, 1, 2]),
        (np.float32(0.5), 0.5),
        (np.float64(math.nan), "NaN"),
        (np.int64(7), 7),
        (np.array([[1, 2], [3, 4]], np.uint8), [[1, 2], [3, 4]]),
        (np.array([1.0, math.inf], ml_dtypes.bfloat16), [1.0, "Infinity"]),
        (ml_dtypes.bfloat16(1.5), 1.5),
        (np.array([b"a", b"\xff"], object), ["a", {"base64": "/w=="}]),
        (np.bool_(True), True),
    ],
)
def test_values(value: object, expected: object) -> None:
    assert parse(encode(value)) == expected
    stream = io.StringIO()
    write_json({"value": value}, stream)
    assert parse(stream.getvalue()) == {"value": expected}


def test_what_json_cannot_hold() -> None:
    with pytest.raises(TypeError, match="no JSON for a object"):
        encode([object()])
    nested: Any = []
    for _ in range(200_000):
        nested = [nested]
    with pytest.raises(ValueError, match="nested deeper"):
        encode(nested)


def test_layout() -> None:
    def tensors() -> Iterator[dict[str, object]]:
        yield {"key": "b", "shape": (1, 2)}
        yield {"key": "a", "shape": ()}

    stream = io.StringIO()
    document = {
        "schema": "ckpt.ls/1",
        "source": {"prefix": "m", "shards": [1, 2]},
        "tensors": tensors(),
        "checkpoints": [],
        "none": iter(()),
        "totals": {"tensors": 2},
    }
    write_json(document, stream)
    assert stream.getvalue() == (
        "{\n"
        '  "schema": "ckpt.ls/1",\n'
        '  "source": {"prefix": "m", "shards": [1, 2]},\n'
        '  "tensors": [\n'
        '    {"key": "b", "shape": [1, 2]},\n'
        '    {"key": "a", "shape": []}\n'
        "  ],\n"
        '  "checkpoints": [],\n'
        '  "none": [],\n'
        '  "totals": {"tensors": 2}\n'
        "}\n"
    )


def test_an_empty_object() -> None:
    stream = io.StringIO()
    write_json({}, stream)
    assert parse(stream.getvalue()) == {}


def test_json_lines() -> None:
    stream = io.StringIO()
    write_jsonl(({"n": n, "text": "a\nb"} for n in range(5000)), stream)
    lines = stream.getvalue().splitlines()
    assert [parse(line) for line in lines] == [{"n": n, "text": "a\nb"} for n in range(5000)]
    assert stream.getvalue().endswith("}\n")
    stream = io.StringIO()
    write_jsonl([], stream)
    assert stream.getvalue() == ""


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=10,
    )
)
def test_anything_gives_strict_ascii_json(value: object) -> None:
    assert "\n" not in encode(value)
    parse(encode(value))


@given(st.binary())
def test_names_from_files_come_back_exactly(raw: bytes) -> None:
    found = parse(encode(raw.decode("utf-8", "surrogateescape")))
    back = base64.b64decode(found["base64"]) if isinstance(found, dict) else found.encode()
    assert back == raw


class Trickle:
    """Counts what has been written while the document is still being made."""

    def __init__(self) -> None:
        self.written = 0

    def write(self, text: str) -> int:
        self.written += len(text)
        return len(text)


def test_long_lists_are_written_while_they_are_made() -> None:
    stream = Trickle()
    seen: list[int] = []

    def elements() -> Iterator[int]:
        for number in range(10_000):
            seen.append(stream.written)
            yield number

    write_json({"tensors": elements()}, stream)  # type: ignore[arg-type]
    assert seen[0] < 50 < 10_000 < seen[-1]
