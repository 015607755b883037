"""Comparing under a map: other names, other layouts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import ckpttool
from ckpttool.api.diff import CheckpointDiff
from ckpttool.errors import SelectionError
from ckpttool.tensor import layout as layouts
from tests.support import fixtures
from tests.support.wild import run

KERNEL = np.arange(60, dtype=np.float32).reshape(5, 12)
BIAS = np.array([0.0, np.nan, -0.0, 3.0])
LINES: list[dict[str, object]] = [
    {"from": "net/kernel", "to": "net.weight", "shape": [5, 12], "permute": [1, 0]},
    {"from": "net/bias", "to": "net.bias", "shape": [4], "reshape": [2, 2]},
]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    arrays = {"net/kernel": KERNEL, "net/bias": BIAS, "same": np.ones(3)}
    ckpttool.save_checkpoint(str(tmp_path / "a"), arrays)
    other = {"net.weight": KERNEL.T.copy(), "net.bias": BIAS.reshape(2, 2), "same": np.ones(3)}
    ckpttool.save_checkpoint(str(tmp_path / "b"), other)
    write_map(tmp_path, LINES)
    return tmp_path


def write_map(home: Path, lines: list[dict[str, object]]) -> None:
    (home / "m.json").write_text(json.dumps({"schema": "ckpt.map/2", "tensors": lines}))


def compare(
    home: Path, other: str = "b", *, exact: bool = False, equal_nan: bool = False
) -> CheckpointDiff:
    return ckpttool.diff(
        *(str(home / "a"), str(home / other)),
        map=home / "m.json",
        everything=True,
        exact=exact,
        equal_nan=equal_nan,
    )


@pytest.mark.parametrize("small", [8, 64, 1 << 25])
def test_layouts_are_compared_element_by_element(
    home: Path, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layouts, "_SMALL", small)
    found = compare(home, exact=True)
    assert found.verdict == "equal"
    assert [(each.row.key, each.matched) for each in found.tensors] == [
        ("net.bias", "map"),
        ("net.weight", "map"),
        ("same", "key"),
    ]
    assert compare(home, equal_nan=True).verdict == "equal"
    changed = KERNEL.T.copy()
    changed[7, 2] += 0.5
    arrays = {"net.weight": changed, "net.bias": BIAS.reshape(2, 2), "same": np.ones(3)}
    ckpttool.save_checkpoint(str(home / "c"), arrays)
    found = compare(home, "c", equal_nan=True)
    (each,) = (each for each in found.tensors if each.change != "equal")
    assert (each.change, each.row.key) == ("value", "net.weight")
    assert each.values is not None and each.values.worst is not None
    assert (each.values.differing, each.values.worst.index) == (1, (7, 2))
    assert found.to_dict()["tensors"]


def test_the_layout_decides_on_the_shape(home: Path) -> None:
    write_map(home, [{**LINES[0], "permute": [0, 1]}, LINES[1]])
    found = compare(home)
    assert {each.change for each in found.tensors if each.row.key == "net.weight"} == {"shape"}


def test_a_tensor_that_b_has_not_is_removed(home: Path) -> None:
    write_map(home, [{"from": "net/kernel", "to": "elsewhere"}])
    counts = compare(home).counts
    assert (counts["removed"], counts["added"], counts["equal"]) == (2, 2, 1)


def test_damage_is_found_under_a_layout(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ckpttool.open_checkpoint(str(home / "a")) as ckpt:
        offset = ckpt.bundle.entries["net/kernel"].offset
    shard = home / "a.data-00000-of-00001"
    data = bytearray(shard.read_bytes())
    data[offset + 5] ^= 1
    shard.write_bytes(data)
    for small in (8, 1 << 25):
        monkeypatch.setattr(layouts, "_SMALL", small)
        found = compare(home)
        assert found.verdict == "unknown"
        assert [problem.key for problem in found.problems] == ["net/kernel"]


def test_a_map_must_fit(home: Path) -> None:
    write_map(home, [{**LINES[0], "shape": [12, 5]}])
    with pytest.raises(SelectionError, match="states the shape") as caught:
        compare(home)
    assert caught.value.key == "net/kernel"
    write_map(home, [{"from": "net/kern", "to": "x"}])
    with pytest.raises(SelectionError, match="matches nothing; nearest: 'net/kernel'"):
        compare(home)
    write_map(home, LINES)
    with pytest.raises(SelectionError, match="the map leads to names of this checkpoint"):
        ckpttool.diff(str(home / "b"), str(home / "a"), map=home / "m.json")


def test_objects_against_names(tmp_path: Path) -> None:
    objects = fixtures.bundle("v2/tf2.21/keras3_adam/ckpt-1").prefix
    with ckpttool.open_checkpoint(objects) as ckpt:
        key = next(
            key
            for key, kind in ckpt.kinds.items()
            if kind == "weight" and len(ckpt.entries[key].shape) == 2
        )
        value = ckpt[key]
        name = ckpt.variable_names[key]
    ckpttool.save_checkpoint(str(tmp_path / "b"), {"w": value.T.copy()})
    line = {"from": name, "to": "w", "shape": list(value.shape), "permute": [1, 0]}
    path = tmp_path / "m.json"
    path.write_text(json.dumps({"schema": "ckpt.map/2", "tensors": [line]}))
    found = ckpttool.diff(objects, str(tmp_path / "b"), f"={key}", map=path, everything=True)
    assert (found.verdict, [each.change for each in found.tensors]) == ("equal", ["equal"])


def test_the_command(home: Path) -> None:
    words = ["diff", str(home / "a"), str(home / "b"), "--map", str(home / "m.json")]
    done = run(*words, "--exact", "--format", "table")
    assert (done.code, done.out.splitlines()[-1]) == (0, "equal: 3 tensors")
    done = run(*words, "--rename-map", "-")
    assert done.code == 2
    assert "--map cannot be combined with --rename-map" in done.err
