"""A lock is what anybody may have made of it: all that is wrong is named."""

from __future__ import annotations

import base64
import io
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ckpttool import open_checkpoint
from ckpttool.errors import CkptError, CorruptError, MissingFileError, UnsupportedError
from ckpttool.query.check import lock as lock_file
from ckpttool.query.check.lock import read_lock
from ckpttool.query.listing import list_tensors
from ckpttool.render.console import Terminal
from ckpttool.render.listing import SCHEMA, write_listing
from tests.support.fixtures import BundleFixture
from tests.support.limits import time_limit
from tests.support.sweeps import each_bundle

TENSOR = {
    "key": "w",
    "object_path": None,
    "dtype": "float32",
    "shape": [2, 3],
    "kind": "weight",
    "crc32c": "0123abcd",
    "slices": [],
}
SLICE = {"spec": "0,1:-", "shard": 0, "offset": 0, "bytes": 8, "crc32c": "00000001"}


def written(folder: Path, text: str | bytes) -> str:
    path = folder / "x.lock.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def document(*tensors: object, **more: object) -> str:
    return json.dumps({"schema": "ckpt.ls/1", "tensors": tensors, **more})


def tensor(**changes: object) -> dict[str, object]:
    return {**TENSOR, **changes}


def without(name: str) -> dict[str, object]:
    return {other: value for other, value in TENSOR.items() if other != name}


@each_bundle
def test_what_ls_prints_is_a_lock(fixture: BundleFixture, tmp_path: Path) -> None:
    out = io.StringIO()
    with open_checkpoint(fixture.prefix) as ckpt:
        listing = list_tensors(ckpt)
    write_listing(listing, "json", out, Terminal())
    lock = read_lock(written(tmp_path, out.getvalue()))
    rows = {row.key: row for row in listing.rows}
    assert list(lock.tensors) == list(rows)
    for key, row in lock.tensors.items():
        wanted = rows[key]
        assert row[:6] == wanted[:6] and row.crc32c == wanted.crc32c
        sums = [(part.spec, part.crc32c) for part in row.slices]
        assert sums == [(part.spec, part.crc32c) for part in wanted.slices]


def test_the_schema_is_that_of_ls() -> None:
    assert lock_file.SCHEMA == SCHEMA


def test_only_what_is_compared_has_to_be_there(tmp_path: Path) -> None:
    bare = {name: TENSOR[name] for name in ("key", "object_path", "dtype", "shape", "kind")}
    lock = read_lock(written(tmp_path, document(bare)))
    assert lock.tensors["w"].crc32c is None and lock.tensors["w"].slices == ()
    partitioned = tensor(crc32c=None, slices=[SLICE, {**SLICE, "spec": "1,1:-"}])
    (row,) = read_lock(written(tmp_path, document(partitioned))).tensors.values()
    assert [part.spec for part in row.slices] == ["0,1:-", "1,1:-"]
    unsummed = tensor(slices=[SLICE, {**SLICE, "crc32c": None}])
    (row,) = read_lock(written(tmp_path, document(unsummed))).tensors.values()
    assert row.slices == ()


def test_totals_and_order_do_not_matter(tmp_path: Path) -> None:
    """Lines are merged and removed by hand."""
    text = document(tensor(key="b"), tensor(key="a"), totals={"tensors": 7})
    assert list(read_lock(written(tmp_path, text)).tensors) == ["b", "a"]


def test_keys_of_any_bytes(tmp_path: Path) -> None:
    raw = b"\xff/\x00"
    keys = [{"base64": base64.b64encode(raw).decode()}, "é\n"]
    lock = read_lock(written(tmp_path, document(*(tensor(key=key) for key in keys))))
    assert list(lock.tensors) == [raw.decode("utf-8", "surrogateescape"), "é\n"]


def test_a_mark_of_byte_order_is_no_harm(tmp_path: Path) -> None:
    assert read_lock(written(tmp_path, b"\xef\xbb\xbf" + document(TENSOR).encode())).tensors


def test_a_pipe_is_welcome(tmp_path: Path) -> None:
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    text = document(TENSOR)
    writer = threading.Thread(target=lambda: Path(path).write_text(text, encoding="utf-8"))
    writer.start()
    try:
        assert list(read_lock(path).tensors) == ["w"]
    finally:
        writer.join()


WRONG: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "line 1, column 1: it is not JSON"),
    "text": ("{\n  nothing\n}", "line 2, column 3: it is not JSON"),
    "two values": (document(TENSOR) + "\n" + document(TENSOR), "line 2, column 1: it is not JSON"),
    "merge marks": ("<<<<<<< HEAD\n" + document(TENSOR), "line 1, column 1: it is not JSON"),
    "half": (document(TENSOR)[:-20], "it is not JSON"),
    "not UTF-8": (b'{"schema": "\xff"}', "x.lock.json:12: it is not UTF-8"),
    "UTF-16": (document(TENSOR).encode("utf-16"), "x.lock.json:0: it is not UTF-8"),
    "NaN": ('{"schema": NaN}', "NaN is not JSON"),
    "deep": ("[" * 200_000, "it is nested too deeply"),
    "deep in a tensor": (
        '{"schema": "ckpt.ls/1", "tensors": ' + '{"a":' * 100_000,
        "it is nested too deeply",
    ),
    "array": ("[]", "it is an array; a lock is what 'ckpt ls PATH --json' prints"),
    "null": ("null", "it is null"),
    "number": ("3", "it is a number"),
    "fraction": ("3.5", "it is a fraction"),
    "no schema": ("{}", "it has no member schema"),
    "schema no text": ('{"schema": 1}', "it has no member schema"),
    "member twice": ('{"schema": "ckpt.ls/1", "a": {"b": 1, "c": 2, "b": 1}}', "member 'b' twice"),
    "no tensors": ('{"schema": "ckpt.ls/1"}', "it has no tensors; a lock"),
    "a tree": ('{"schema": "ckpt.ls/1", "tree": []}', "it has no tensors, but tree; a lock"),
    "a folder": ('{"schema": "ckpt.ls/1", "checkpoints": []}', "no tensors, but checkpoints"),
    "tensors no array": ('{"schema": "ckpt.ls/1", "tensors": {}}', "tensors: expected an array"),
    "tensor no object": (document(TENSOR, 3), "tensors[1]: expected an object, not a number"),
    "digits": (document(tensor(shape=[10**30])), "a number of 31 digits"),
    "very many digits": (
        document(tensor(shape=["@"])).replace('"@"', "9" * 100_000),
        "a number of 100000 digits",
    ),
    "dimension too large": (document(tensor(shape=[2**63])), "tensors[0].shape[0]: 9223372036854"),
    "negative": (document(tensor(shape=[1, -1])), "tensors[0].shape[1]: -1 is out of range"),
    "bool": (document(tensor(shape=[True])), "tensors[0].shape[0]: expected a whole number, not"),
    "dimension 2.0": (document(tensor(shape=[2.0])), "expected a whole number, not a fraction"),
    "shape null": (document(tensor(shape=None)), "tensors[0].shape: expected an array, not null"),
    "rank": (document(tensor(shape=[1] * 255)), "tensors[0].shape: 255 dimensions"),
    "dtype number": (document(tensor(dtype=1)), "tensors[0].dtype: expected text, not a number"),
    "dtype long": (document(tensor(dtype="x" * 65)), "tensors[0].dtype: a text of 65 characters"),
    "dtype empty": (document(tensor(dtype="")), "tensors[0].dtype: a text of 0 characters"),
    "kind list": (document(tensor(kind=["weight"])), "tensors[0].kind: expected text, not an"),
    "key number": (document(tensor(key=7)), "tensors[0].key: expected text or base64"),
    "key object": (document(tensor(key={"base64": "", "x": 1})), "expected text or base64"),
    "base64 number": (document(tensor(key={"base64": 1})), "expected text or base64"),
    "bad base64": (document(tensor(key={"base64": "a"})), "tensors[0].key: it is not base64"),
    "odd base64": (document(tensor(key={"base64": "ü==="})), "tensors[0].key: it is not base64"),
    "half a pair": (document(tensor(key="\ud800")), "tensors[0].key: half a surrogate pair"),
    "a byte in disguise": (document(tensor(key="\udcff")), "tensors[0].key: half a surrogate"),
    "object path": (
        document(tensor(object_path=1)),
        "tensors[0].object_path: expected text or base64",
    ),
    "key twice": (document(TENSOR, TENSOR), "key 'w': tensors[1]: the key occurs twice"),
    "key twice, spelled": (
        document(TENSOR, tensor(key={"base64": "dw=="})),
        "key 'w': tensors[1]: the key occurs twice",
    ),
    "crc32c short": (document(tensor(crc32c="123")), "tensors[0].crc32c: eight hexadecimal digits"),
    "crc32c number": (document(tensor(crc32c=123)), "tensors[0].crc32c: eight hexadecimal digits"),
    "slices text": (document(tensor(slices="x")), "tensors[0].slices: expected an array"),
    "slice text": (document(tensor(slices=["x"])), "tensors[0].slices[0]: expected an object"),
    "slice bare": (document(tensor(slices=[{}])), "tensors[0].slices[0]: it has no member spec"),
    "dtype with escapes": (document(tensor(dtype="\x1b[2J")), "dtype: '\\x1b[2J' is not a word"),
    "kind with half a pair": (document(tensor(kind="\ud800")), "kind: '\\ud800' is not a word"),
}
for missing in ("key", "object_path", "dtype", "shape", "kind"):
    told = f"tensors[0]: it has no member {missing}"
    WRONG[f"no {missing}"] = (document(without(missing)), told)


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named(name: str, tmp_path: Path) -> None:
    text, message = WRONG[name]
    path = written(tmp_path, text)
    with time_limit(10), pytest.raises(CorruptError) as caught:
        read_lock(path)
    told = str(caught.value)
    assert told.startswith(path) and message in told
    assert told.isprintable() and len(told) < 2500


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("ckpt.ls/2", "a lock of schema 'ckpt.ls/2'; this version of ckpt reads ckpt.ls/1"),
        ("ckpt.ls/10", "a lock of schema 'ckpt.ls/10'; this version of ckpt reads ckpt.ls/1"),
        ("ckpt.ls", "a lock of schema 'ckpt.ls'; this version of ckpt reads ckpt.ls/1"),
        ("ckpt.show/1", "a document of schema 'ckpt.show/1'; a lock is what 'ckpt ls PATH --json'"),
        ("x" * 100_000, "a document of schema 'xxx"),
    ],
)
def test_another_schema(schema: str, message: str, tmp_path: Path) -> None:
    path = written(tmp_path, json.dumps({"schema": schema, "tensors": []}))
    with pytest.raises(UnsupportedError) as caught:
        read_lock(path)
    assert message in str(caught.value)
    assert str(caught.value).startswith(path)


@pytest.mark.large
def test_many_members_of_which_one_comes_twice(tmp_path: Path) -> None:
    members = ",".join(f'"{number}":0' for number in range(200_000))
    path = written(tmp_path, '{"schema": "ckpt.ls/1", ' + members + ', "199999":0}')
    with time_limit(10), pytest.raises(CorruptError, match="member '199999' twice"):
        read_lock(path)


def test_size_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = document(TENSOR)
    path = written(tmp_path, text)
    monkeypatch.setattr(lock_file, "MAX_SIZE", len(text))
    assert read_lock(path).tensors
    monkeypatch.setattr(lock_file, "MAX_SIZE", len(text) - 1)
    with pytest.raises(CorruptError, match="larger than"):
        read_lock(path)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda folder: str(folder / "nowhere.json"), MissingFileError),
        (lambda folder: str(folder), CkptError),
        (lambda folder: str(folder / "a\0b"), CkptError),
        (lambda folder: "/dev/null/x", CkptError),
    ],
)
def test_what_cannot_be_read(
    make: Callable[[Path], str], kind: type[CkptError], tmp_path: Path
) -> None:
    with pytest.raises(kind):
        read_lock(make(tmp_path))


@pytest.mark.sweep(8)
@pytest.mark.parametrize("seed", range(200))
def test_damage_anywhere_is_an_error_or_harmless(seed: int, tmp_path: Path) -> None:
    import random

    chance = random.Random(seed)
    text = bytearray(document(TENSOR, tensor(key="v", slices=[SLICE])).encode())
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(text))
        match: Any = chance.choice(["flip", "drop", "copy"])
        if match == "flip":
            text[at] ^= 1 << chance.randrange(8)
        elif match == "drop":
            del text[at : at + chance.randint(1, 9)]
        else:
            text[at:at] = text[at : at + chance.randint(1, 9)]
    path = written(tmp_path, bytes(text))
    try:
        lock = read_lock(path)
    except CkptError as error:
        assert str(error).startswith(path)
        return
    for key, row in lock.tensors.items():
        assert key == row.key and isinstance(row.dtype, str)
        assert all(type(dim) is int and dim >= 0 for dim in row.shape)
