"""Many changes in few rows."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

import ckpttool
from ckpttool import surgery
from ckpttool.query.diff.results import ScopeMove
from ckpttool.query.grouping import fold_scopes
from ckpttool.render.console import Terminal
from ckpttool.render.diff.text import write_diff
from ckpttool.render.folded import MOST, drop_rows, fold_moves, plan_moves


def groups(names: list[str], limit: int) -> list[tuple[str, int]]:
    return [(group.name, len(group.members)) for group in fold_scopes(names, limit)]


LAYERS = [
    f"encoder/layer_{at}/{part}/{name}"
    for at in range(200)
    for part in ("attention", "mlp")
    for name in ("kernel", "bias")
]


def test_names_by_scope() -> None:
    assert groups(["a", "b/c", "b/d"], 3) == [("a", 1), ("b/c", 1), ("b/d", 1)]
    assert groups(["a", "b/c", "b/d"], 2) == [("a", 1), ("b", 2)]
    assert groups([*LAYERS, "head/kernel", "step"], 20) == [
        ("encoder/layer_#/attention/kernel", 200),
        ("encoder/layer_#/attention/bias", 200),
        ("encoder/layer_#/mlp/kernel", 200),
        ("encoder/layer_#/mlp/bias", 200),
        ("head/kernel", 1),
        ("step", 1),
    ]
    assert groups(LAYERS, 3) == [
        ("encoder/layer_#/attention/kernel", 200),
        ("encoder/layer_#/attention/bias", 200),
        ("encoder/layer_#/mlp", 400),
    ]
    assert groups([f"w_{at}" for at in range(300)], 20) == [("w_#", 300)]
    assert groups([chr(97 + at) * 3 for at in range(26)], 20) == [("**", 26)]
    assert groups([], 20) == []


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 20])
def test_every_name_is_in_one_group(limit: int) -> None:
    odd = ["", "/", "//", "a", "a/", "a/b", "a//b", "a/b/c", "x1", "x2", "x1/y", *LAYERS[:50]]
    found = fold_scopes(odd, limit)
    assert len(found) <= limit
    assert sorted(at for group in found for at in group.members) == list(range(len(odd)))


def test_many_renames() -> None:
    few = [ScopeMove("net", "model", 6, 0)]
    assert fold_moves(few) == (few, 0)
    many = [ScopeMove(f"l{at}", f"layer_{at}", 2, at % 2) for at in range(200)]
    alone = ScopeMove("head", "top", 1, 0)
    assert fold_moves([*many, alone]) == ([ScopeMove("l#", "layer_#", 400, 100), alone], 0)
    others = [ScopeMove("x" * at, "y" * at, 1, 0) for at in range(1, 31)]
    rows, left_out = fold_moves(others)
    assert (list(rows), left_out) == (others[:MOST], 10)


def test_a_plan_of_many_layers(tmp_path: Path) -> None:
    arrays = {name: np.zeros(2, np.float32) for name in [*LAYERS, "head/kernel"]}
    arrays |= {f"{name}/Adam": value for name, value in arrays.items()}
    ckpttool.save_checkpoint(tmp_path / "a", arrays)
    with ckpttool.open_checkpoint(tmp_path / "a") as ckpt:
        plan = surgery.Plan.of(ckpt)
        (move,) = plan_moves(surgery.rename(plan, {"encoder": "tower"}))
        assert move == ScopeMove("encoder", "tower", 1600, 0)
        pruned = surgery.prune(plan, slots=True)
        assert list(drop_rows(pruned)) == [("**/Adam", "slot", 801, 801 * 8)]
        pruned = surgery.prune(plan, drop=["encoder/layer_1*/**", "head"])
        rows = list(drop_rows(pruned))
        assert sum(row[2] for row in rows) == len(pruned.changes)
        assert ("head", "weight", 1, 8) in rows and len(rows) < 10


def test_a_diff_of_many_layers(tmp_path: Path) -> None:
    """One screen, with the largest error; `-v` has every tensor."""
    arrays = {name: np.zeros(4, np.float32) for name in [*LAYERS, "same"]}
    ckpttool.save_checkpoint(tmp_path / "a", arrays | {f"old_{at}/w": LOW for at in range(30)})
    for at, name in enumerate(LAYERS):
        arrays[name] = np.full(4, at + 1, np.float32)
    ckpttool.save_checkpoint(tmp_path / "b", arrays | {f"new_{at}/w": HIGH for at in range(30)})
    found = ckpttool.diff(tmp_path / "a", tmp_path / "b")
    lines = str(found).splitlines()
    assert len(lines) < 24
    assert ["+", "new_#/w", "30", "weight", "240", "B"] in [line.split() for line in lines]
    (kernel,) = (line.split() for line in lines if "mlp/bias" in line)
    assert kernel[:6] == ["~", "encoder/layer_#/mlp/bias", "200", "800", "of", "800"]
    assert kernel[6] == "800" and kernel[-1] == "encoder/layer_199/mlp/bias"
    assert lines[-1].endswith("; -v lists every tensor")
    stream = io.StringIO()
    write_diff(found, "table", stream, Terminal(), everything=True)
    assert all(name in stream.getvalue() for name in LAYERS)


LOW, HIGH = np.arange(2, dtype=np.float32), np.arange(2, 4, dtype=np.float32)
