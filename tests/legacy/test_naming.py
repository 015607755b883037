"""Names of the files of a V1 checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckpttool.legacy.naming import (
    find_sets,
    sets_among,
    shard_pattern,
    shard_stem,
    split_shard_pattern,
    split_v1_shard_path,
    v1_shard_path,
)


@pytest.mark.parametrize(
    ("name", "split", "stem"),
    [
        ("m-00001-of-00002", ("m", 1, 2), "m"),
        ("a/m-00000-of-00001-00000-of-00001", ("a/m-00000-of-00001", 0, 1), "a/m-00000-of-00001"),
        ("m-00002-of-00002", None, "m"),  # no set has such a number
        ("m-1-of-2", None, "m-1-of-2"),
        ("m-00001-of-00002x", None, "m-00001-of-00002x"),
        ("m-?????-of-00002", None, "m-?????-of-00002"),
        ("m", None, "m"),
    ],
)
def test_one_file_of_several(name: str, split: tuple[str, int, int] | None, stem: str) -> None:
    assert split_v1_shard_path(name) == split
    assert shard_stem(name) == stem
    if split is not None:
        assert v1_shard_path(*split) == name


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("m-?????-of-00002", ("m", 2)),
        ("m-?????-of-?????", ("m", None)),
        ("m-????-of-00002", None),
        ("m-00001-of-00002", None),
    ],
)
def test_all_files_together(name: str, split: tuple[str, int | None] | None) -> None:
    assert split_shard_pattern(name) == split
    if split is not None and split[1] is not None:
        assert shard_pattern(split[0], split[1]) == name


def test_sets_in_a_folder(tmp_path: Path) -> None:
    names = ["m-00001-of-00002", "m-00000-of-00002", "m-00002-of-00003", "n-00000-of-00001", "m"]
    assert sets_among(names) == {
        "m": {2: {0: names[1], 1: names[0]}, 3: {2: names[2]}},
        "n": {1: {0: names[3]}},
    }
    for name in names:
        (tmp_path / name).touch()
    prefix = str(tmp_path / "m")
    assert find_sets(prefix) == {
        2: (f"{prefix}-00000-of-00002", f"{prefix}-00001-of-00002"),
        3: (f"{prefix}-00002-of-00003",),
    }
    assert find_sets(str(tmp_path / "gone" / "m")) == {}
