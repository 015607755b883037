"""The line of a tensor in a lock, however that is laid out."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from ckpttool.query.check.lines import find_lines
from ckpttool.query.check.lock import read_lock
from tests.support.limits import time_limit

RAW = b"\xffbytes"
ODD = RAW.decode("utf-8", "surrogateescape")
KEYS = ['say "key": now', "\\", "é/ü", "tab\t", "plain", '"key"', "key", 'x\\"key": "plain', ODD]


def tensor(key: object) -> dict[str, object]:
    return {
        "object_path": "key",
        "key": key,
        "dtype": "float32",
        "shape": [],
        "kind": "other",
        "slices": [],
    }


def document() -> dict[str, object]:
    spelled = [*KEYS[:-1], {"base64": base64.b64encode(RAW).decode()}]
    return {
        "schema": "ckpt.ls/1",
        "source": {"key": "plain", "prefix": '"tensors"'},
        "tensors": [tensor(key) for key in spelled],
    }


def test_one_tensor_a_line() -> None:
    text = json.dumps(document()).replace('{"object_path"', '\n{"object_path"')
    assert find_lines(text, KEYS) == {key: number for number, key in enumerate(KEYS, 2)}


@pytest.mark.parametrize("plain", [False, True])
def test_one_member_a_line(plain: bool, tmp_path: Path) -> None:
    text = json.dumps(document(), indent=2, ensure_ascii=plain)
    path = tmp_path / "lock.json"
    path.write_text(text, encoding="utf-8")
    found = find_lines(text, set(read_lock(str(path)).tensors))
    assert found.keys() == set(KEYS)
    lines = text.splitlines()
    for key, number in found.items():
        assert lines[number - 1].strip().startswith('"key": ')
        if key != ODD:
            assert json.loads(lines[number - 1].strip()[7:-1]) == key


def test_all_on_one_line() -> None:
    assert find_lines(json.dumps(document()), {"plain", ODD}) == {"plain": 1, ODD: 1}


def test_what_is_not_there_has_no_line() -> None:
    text = json.dumps(document(), indent=1)
    assert find_lines(text, {"absent"}) == {}
    assert find_lines(text, set()) == {}
    assert find_lines('"tensors" "key": {"base64": "a"} "key": "\\x"', {"a"}) == {}


def test_a_name_that_ends_like_a_key_is_none() -> None:
    text = '{"tensors": [{\n"x\\"key": "plain",\n"key": "plain"}]}'
    assert find_lines(text, {"plain"}) == {"plain": 3}


@pytest.mark.parametrize("text", ['"key":"' * 100_000, '"key": {' * 100_000, '"key"' + " " * 10**6])
def test_it_takes_no_longer_than_the_text_is_long(text: str) -> None:
    with time_limit(5):
        assert find_lines(text, {"w"}) == {}
