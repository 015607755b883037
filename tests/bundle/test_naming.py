from __future__ import annotations

from pathlib import Path

import pytest

from ckpttool.bundle.naming import find_shards, index_path, shard_path, split_shard_path

SHARDS = [
    ("m.data-00000-of-00001", ("m", 0, 1)),
    ("a/b/m.data-00001-of-00002", ("a/b/m", 1, 2)),
    ("m.data-99998-of-99999", ("m", 99998, 99999)),
    ("m.data-100000-of-123456", ("m", 100000, 123456)),
    ("m.data-00000-of-00001.data-00000-of-00002", ("m.data-00000-of-00001", 0, 2)),
    ("modèle [1]*.data-00000-of-00001", ("modèle [1]*", 0, 1)),
    (".data-00000-of-00001", ("", 0, 1)),
]


@pytest.mark.parametrize(("path", "parts"), SHARDS, ids=[row[0] for row in SHARDS])
def test_shards_both_ways(path: str, parts: tuple[str, int, int]) -> None:
    assert shard_path(*parts) == path
    assert split_shard_path(path) == parts


@pytest.mark.parametrize(
    "path",
    [
        "m.index",
        "m",
        "",
        "m.data-0000-of-0001",
        "m.data-00000-of-00001.tempstate123",
        "m.data-00000-of-00001\n",
        "m.data-0000a-of-00001",
        "m.data-00000-00001",
        "m-00000-of-00001",
        "m.data--0001-of-00001",
    ],
)
def test_what_is_no_shard(path: str) -> None:
    assert split_shard_path(path) is None


def test_index() -> None:
    assert index_path("a/m-1") == "a/m-1.index"


@pytest.mark.parametrize("base", ["m", "m[1]", "m*", "m?", "{a,b}", ".hidden", "with space"])
def test_finding_shards(tmp_path: Path, base: str) -> None:
    wanted = [shard_path(base, at, 2) for at in range(2)] + [shard_path(base, 0, 3)]
    others = [base + ".index", base + ".data-0-of-1", base + "x.data-00000-of-00001"]
    others += [shard_path(base, 0, 1) + ".tempstate1", "m1.data-00000-of-00001"]
    for name in (*wanted, *others):
        (tmp_path / name).touch()
    assert find_shards(str(tmp_path / base)) == sorted(str(tmp_path / name) for name in wanted)
