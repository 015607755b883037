"""The Saver of TensorFlow 1 restores what was renamed and pruned in name-based checkpoints.

CKPT_TF115_PYTHON names an interpreter that has TensorFlow 1.15, Python 3.7.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from ckpttool.checkpoint.kinds.rules import OPTIMIZER_KINDS, SLOT_KINDS
from ckpttool.surgery.pruning import WEIGHT_KINDS
from ckpttool.surgery.renaming import promote_averages
from ckpttool.surgery.rules import (
    PrefixRule,
    RenameRule,
    StripPrefixRule,
    parse_move,
    parse_substitution,
)
from tests.interop import surgery_saver
from tests.interop.process import Saver
from tests.interop.surgery_compare import operate, pruning, renaming, stored
from tests.support.command import ckpt
from tests.support.fixtures import folder_contents

# What the fixture `saver` runs.
ACTIONS_OF_SAVER = surgery_saver
W = [1.0, -2.0, 3.0]
E = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
AVERAGE = "/ExponentialMovingAverage"

Values = dict[str, Any]


@pytest.fixture(scope="module")
def first(saver: Saver, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Values]:
    """A checkpoint with slots, averages and a partitioned variable: its prefix, and its values."""
    prefix = str(tmp_path_factory.mktemp("trained") / "model.ckpt-2")
    values = saver("train", prefix, {"w": W, "e": parted(E, 2)})
    assert len(values) == 11
    return prefix, values


@pytest.fixture
def trained(first: tuple[str, Values], tmp_path: Path) -> tuple[str, Values]:
    """A copy of that checkpoint."""
    source, values = first
    prefix = tmp_path / "source" / os.path.basename(source)
    shutil.copytree(os.path.dirname(source), prefix.parent)
    return str(prefix), values


def parted(value: Any, parts: int) -> Values:
    """Return how the saver is asked for a variable in parts."""
    return {"value": value, "parts": parts}


RULES: dict[str, tuple[list[RenameRule], dict[str, str]]] = {
    "scopes": (
        [parse_move("w=layer/kernel"), parse_move("e=embed/table")],
        {"w": "layer/kernel", "e": "embed/table"},
    ),
    "swap": ([parse_move("w=e"), parse_move("e=w")], {"w": "e", "e": "w"}),
    "prefix": ([PrefixRule("tower/")], {"w": "tower/w", "e": "tower/e"}),
    "sub": ([parse_substitution(r"^(.)\b", r"net/\1_0")], {"w": "net/w_0", "e": "net/e_0"}),
    "longer": ([parse_move("e=" + "deep/" * 40 + "e")], {"w": "w", "e": "deep/" * 40 + "e"}),
}
WAYS = pytest.mark.parametrize("how", ["linked", "copied", "compact", "in place"])


def change(prefix: str, how: str, *changes: Any) -> str:
    """Make changes in one of the ways there are; return the prefix of the result."""
    if how == "in place":
        operate(prefix, None, *changes)
        return prefix
    target = str(Path(prefix).parent.parent / "out" / "model.ckpt-9")
    data = "copy" if how == "copied" else "auto"
    operate(prefix, target, *changes, compact=how == "compact", data=data)
    return target


@WAYS
@pytest.mark.parametrize("name", RULES)
def test_renamed(saver: Saver, trained: tuple[str, Values], name: str, how: str) -> None:
    source, values = trained
    before = stored(source)
    rules, names = RULES[name]
    target = change(source, how, renaming(rules))
    after = stored(target)
    for old, new in names.items():
        for ending in ("", "/Adam", "/Adam_1", AVERAGE):
            assert after[new + ending] == before[old + ending]
    assert len(after) == len(before)
    for parts in (1, 2, 3) if how == "linked" else (3,):
        wanted = {
            new + ending: parted(values[old + ending], parts if old == "e" else 1)
            for old, new in names.items()
            for ending in ("", "/Adam", AVERAGE)
        }
        found = saver("restore", target, wanted)
        assert found == {name: asked["value"] for name, asked in wanted.items()}


def test_old_names_are_gone(saver: Saver, tf: Any, trained: tuple[str, Values]) -> None:
    source, values = trained
    target = change(source, "linked", renaming([parse_move("w=v")]))
    try:
        answer = saver("restore", target, {"w": W})
    except tf.errors.NotFoundError as error:
        answer = {"error": str(error)}
    assert "error" in answer
    assert saver("restore", source, {"w": W}) == {"w": values["w"]}
    assert not os.path.exists(target + ".meta")


def test_prefix_there_and_back(trained: tuple[str, Values]) -> None:
    source, _ = trained
    files = folder_contents(os.path.dirname(source))
    rules: list[RenameRule] = [PrefixRule("tower/")]
    operate(source, None, renaming(rules))
    operate(source, None, renaming([StripPrefixRule("tower/")]))
    assert folder_contents(os.path.dirname(source)) == files


KEPT: dict[str, tuple[dict[str, Any], set[str]]] = {
    "slots": (
        {"drop_kinds": SLOT_KINDS},
        {"w", "e", "w" + AVERAGE, "e" + AVERAGE, "global_step", "beta1_power", "beta2_power"},
    ),
    "optimizer": (
        {"drop_kinds": OPTIMIZER_KINDS},
        {"w", "e", "w" + AVERAGE, "e" + AVERAGE, "global_step"},
    ),
    "weights": ({"only_kinds": WEIGHT_KINDS}, {"w", "e"}),
    "drop": ({"drop": ("e", "e/", "w/*")}, {"w", "global_step", "beta1_power", "beta2_power"}),
    "keep": ({"keep": ("=w", "=e")}, {"w", "e"}),
}


@WAYS
@pytest.mark.parametrize("name", KEPT)
def test_pruned(saver: Saver, trained: tuple[str, Values], name: str, how: str) -> None:
    source, values = trained
    before = stored(source)
    what, kept = KEPT[name]
    target = change(source, how, pruning(**what))
    assert stored(target) == {key: before[key] for key in kept}
    floats = {key: parted(values[key], 3 if key[0] == "e" else 1) for key in kept - {"global_step"}}
    found = saver("restore", target, floats)
    assert found == {key: values[key] for key in floats}


@WAYS
def test_pruned_and_renamed(saver: Saver, trained: tuple[str, Values], how: str) -> None:
    source, values = trained
    rules = [parse_move("e=embed"), parse_move("w=layer/w")]
    target = change(source, how, pruning(drop_kinds=OPTIMIZER_KINDS), renaming(rules))
    found = saver("restore", target, {"embed": parted(E, 2), "layer/w": W})
    assert found == {"embed": values["e"], "layer/w": values["w"]}


@WAYS
def test_promoted_averages(saver: Saver, trained: tuple[str, Values], how: str) -> None:
    source, values = trained
    target = change(source, how, promote_averages)
    wanted = {"w": W, "e": parted(E, 3), "w" + AVERAGE: W, "e" + AVERAGE: parted(E, 2)}
    assert saver("restore", target, wanted) == {
        "w": values["w" + AVERAGE],
        "e": values["e" + AVERAGE],
        "w" + AVERAGE: values["w"],
        "e" + AVERAGE: values["e"],
    }


def test_the_commands(saver: Saver, trained: tuple[str, Values], tmp_path: Path) -> None:
    source, values = trained
    target, last = str(tmp_path / "averaged-1"), str(tmp_path / "last")
    outcome = ckpt("rename", source, "--promote-ema", "--prefix", "net/", "-o", target)
    assert outcome.code == 0, outcome.err
    outcome = ckpt("prune", target, "--weights-only", "--compact", "-o", last)
    assert outcome.code == 0, outcome.err
    found = saver("restore", last, {"net/w": W, "net/e": parted(E, 2)})
    assert found == {"net/w": values["w" + AVERAGE], "net/e": values["e" + AVERAGE]}
    assert set(stored(last)) == {"net/w", "net/e"}
