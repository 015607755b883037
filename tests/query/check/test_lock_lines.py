"""The line of a tensor in a lock, however that is laid out."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from ckpttool.query.check.lock import LockRows, read_lock
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


def rows(text: str, folder: Path) -> LockRows:
    path = folder / "lock.json"
    path.write_text(text, encoding="utf-8")
    return read_lock(str(path)).tensors


def test_one_tensor_a_line(tmp_path: Path) -> None:
    text = json.dumps(document()).replace('{"object_path"', '\n{"object_path"')
    read = rows(text, tmp_path)
    assert {key: read.line(key) for key in read} == {key: at for at, key in enumerate(KEYS, 2)}


@pytest.mark.parametrize("plain", [False, True])
def test_one_member_a_line(plain: bool, tmp_path: Path) -> None:
    text = json.dumps(document(), indent=2, ensure_ascii=plain)
    read = rows(text, tmp_path)
    assert read.keys() == set(KEYS)
    lines = text.splitlines()
    for key in read:
        number = read.line(key)
        assert number is not None and lines[number - 1].strip().startswith('"key": ')
        if key != ODD:
            assert json.loads(lines[number - 1].strip()[7:-1]) == key


def test_all_on_one_line(tmp_path: Path) -> None:
    read = rows(json.dumps(document()), tmp_path)
    assert {read.line(key) for key in read} == {1}


def test_what_is_not_there_has_no_line(tmp_path: Path) -> None:
    assert rows(json.dumps(document(), indent=1), tmp_path).line("absent") is None


def test_a_name_that_ends_like_a_key_is_none(tmp_path: Path) -> None:
    more = json.dumps(tensor("plain"), indent=0)
    text = '{"schema": "ckpt.ls/1", "tensors": [{\n"x\\"key": "plain",\n' + more[1:] + "]}"
    assert rows(text, tmp_path).line("plain") == 5


@pytest.mark.parametrize("part", ['"key":"', '"key": {', '"key"' + " " * 20])
def test_it_takes_no_longer_than_the_text_is_long(part: str, tmp_path: Path) -> None:
    odd = {"more": part * 50_000, **tensor("w")}
    with time_limit(10):
        read = rows(json.dumps({"schema": "ckpt.ls/1", "tensors": [odd]}, indent=0), tmp_path)
    assert read.line("w") == 7
