"""JSON read piece by piece says the same as JSON read at once, wherever a piece ends."""

from __future__ import annotations

import io
import json
import random
from typing import BinaryIO

import pytest

from ckpttool.coding.json_text import JsonError
from ckpttool.query.check import stream
from ckpttool.query.check.stream import JsonStream, NoUtf8Error, TooLargeError

DOCUMENT = {
    "first": 12345,
    "list": [
        {"text": 'a "b" \\ \n é \U0001f600 \udcff', "numbers": [1, -2.5e-10, 10**18], "empty": {}},
        [],
        None,
        True,
        "x",
        [[[[]]]],
    ],
    "": {"nested": {"deeper": [0.5, False]}},
    "none": [],
    "last": -7,
}


class Slow(io.RawIOBase):
    """Bytes that come as slowly as a test wants: so many at a time."""

    def __init__(self, data: bytes, step: int) -> None:
        self._data, self._step = io.BytesIO(data), step

    def read(self, size: int = -1) -> bytes:
        return self._data.read(min(size, self._step) if size >= 0 else self._step)


def slow(data: bytes, step: int) -> BinaryIO:
    return Slow(data, step)  # type: ignore[return-value]


def read(source: JsonStream) -> dict[str, object]:
    found: dict[str, object] = {}
    for name in source.members():
        if source.next() == "[":
            found[name] = list(source.elements())
        else:
            found[name] = source.value()
    source.end()
    return found


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("step", [1, 2, 3, 7, 64, 10_000])
def test_wherever_a_piece_ends(step: int, plain: bool) -> None:
    wanted = {**DOCUMENT}
    if not plain:  # half a pair can only be spelled
        wanted["list"] = ["é \U0001f600"]
    for indent in (None, 0, 3):
        text = json.dumps(wanted, indent=indent, ensure_ascii=plain)
        assert read(JsonStream(slow(text.encode(), step), 10_000)) == wanted


@pytest.mark.parametrize("step", [1, 5, 10_000])
def test_the_line_of_each_value(step: int) -> None:
    text = '\n\n{"list": [\n"a",\n\n[1,\n2], 3\n]\n}'
    source = JsonStream(slow(text.encode(), step), 100)
    (name,) = [
        (value, source.line(), source.one_line(), source.last())
        for _ in source.members()
        for value in source.elements()
    ][1:2]
    assert name == ([1, 2], 6, False, "[1,\n2]")


@pytest.mark.parametrize("seed", range(60))
def test_an_error_is_in_the_same_place(seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(json.dumps(DOCUMENT, indent=chance.choice([None, 1])).encode())
    at = chance.randrange(len(data))
    if seed % 2:
        del data[at:]
    else:
        data[at] = chance.choice(b'"{}[],:x0')
    outcomes = set()
    for step in (1, 3, 10_000):
        try:
            outcomes.add(repr(read(JsonStream(slow(bytes(data), step), 10_000))))
        except JsonError as error:
            outcomes.add(str(error))
    assert len(outcomes) == 1
    (told,) = outcomes
    try:
        json.loads(data)
    except json.JSONDecodeError as error:
        assert f"line {error.lineno}, column" in told
    else:
        assert "not JSON" not in told


@pytest.mark.parametrize("step", [1, 2, 100])
def test_bytes_that_are_no_text(step: int) -> None:
    for mark in (b"", b"\xef\xbb\xbf"):
        data = mark + b'{"a": "\xc3\xa9 \xe2\x82 "}'
        if mark and step < 3:
            continue  # a mark comes whole: files are read by the MiB
        with pytest.raises(NoUtf8Error) as caught:
            read(JsonStream(slow(data, step), 100))
        assert caught.value.offset == data.index(b"\xe2")


def test_sizes_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b'{"a": "' + b"x" * 5000 + b'", "b": 1}'
    assert read(JsonStream(io.BytesIO(text), len(text)))["b"] == 1
    with pytest.raises(TooLargeError):
        read(JsonStream(io.BytesIO(text), len(text) - 1))
    monkeypatch.setattr(stream, "MAX_VALUE", 1000)
    with pytest.raises(JsonError, match="a value of more than 1000 characters"):
        read(JsonStream(slow(text, 100), len(text)))
