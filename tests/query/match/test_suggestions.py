"""Rules by which more of a checkpoint would find its place."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ckpttool
from ckpttool import train
from ckpttool.checkpoint.save import save_checkpoint
from ckpttool.query.match.restore import restore_plan

KERNEL, BIAS = [[1.0, 2.0]], [1.0, 2.0]


def tree(spec: dict[str, Any]) -> Any:
    """Return modules for dicts, and variables for everything else."""
    made: Any = train.Module()
    for name, value in spec.items():
        setattr(made, name, tree(value) if isinstance(value, dict) else train.Variable(value))
    return made


def dense(size: int = 2) -> dict[str, Any]:
    return {"kernel": np.ones((3, size), np.float32), "bias": np.ones(size, np.float32)}


CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, str]]] = {
    "one scope": ({"net": {"l": dense()}}, {"model": {"l": dense()}}, {"net": "model"}),
    "a scope inside": (
        {"net": {"dense": dense(), "out": dense(3)}},
        {"net": {"l1": dense(), "out": dense(3)}},
        {"net/dense": "net/l1"},
    ),
    "the same in all blocks": (
        {f"b{n}": {"dense": dense()} for n in range(3)},
        {f"b{n}": {"fc": dense()} for n in range(3)},
        {f"b{n}/dense": f"b{n}/fc" for n in range(3)},
    ),
    "a leaf": (
        {"net": {"w": BIAS, "b": 1.0}},
        {"net": {"weight": BIAS, "b": 1.0}},
        {"net/w": "net/weight"},
    ),
    "all but one below": (
        {"net": {"l1": dense(), "l2": dense(), "head": dense(5)}},
        {"model": {"l1": dense(), "l2": dense(), "top": dense(5)}},
        {"net": "model", "net/head": "model/top"},
    ),
    "into an object that is there": (
        {"net": {"l1": dense()}, "model": {"x": 1}},
        {"model": {"x": 1, "l1": dense()}},
        {"net/l1": "model/l1"},
    ),
    "out of an object that stays": (
        {"net": {"a": {"l": dense()}, "x": 1}},
        {"net": {"x": 1}, "b": {"l": dense()}},
        {"net/a": "b"},
    ),
    "up to the root": (
        {"model": {"d1": dense(), "d2": dense(4)}},
        {"d1": dense(), "d2": dense(4)},
        {"model/d1": "d1", "model/d2": "d2"},
    ),
    "down from the root": (
        {"d1": dense(), "d2": dense(4)},
        {"model": {"d1": dense(), "d2": dense(4)}},
        {"d1": "model/d1", "d2": "model/d2"},
    ),
    "two alike cannot be told apart": (
        {"net": {"a": dense(), "b": dense()}},
        {"net": {"c": dense(), "d": dense()}},
        {},
    ),
    "optimizers of two generations": (
        {"opt": {"iter": np.int64(1), "decay": 0.5}},
        {"opt": {"_iterations": np.int64(1), "_learning_rate": [0.5]}},
        {},
    ),
    "other shapes": ({"net": {"l": dense()}}, {"model": {"l": dense(3)}}, {}),
    "other dtypes": ({"net": {"l": {"w": [1.0]}}}, {"model": {"l": {"w": [1]}}}, {}),
    "leaves of one shape": (
        {"net": {"kernel": KERNEL, "bias": BIAS}},
        {"model": {"w": KERNEL, "b": BIAS}},
        {"net/kernel": "model/w", "net/bias": "model/b"},
    ),
    "names with dots": ({"a.b": {"l": dense()}}, {"c.d": {"l": dense()}}, {"a..b": "c..d"}),
}


@pytest.mark.parametrize("name", CASES)
def test_rules(name: str, tmp_path: Path) -> None:
    before, after, expected = CASES[name]
    source = train.Checkpoint(**tree(before).__dict__["_ckpttool_tracking"].edges).save(
        tmp_path / "a"
    )
    target = train.Checkpoint(**tree(after).__dict__["_ckpttool_tracking"].edges).write(
        tmp_path / "b"
    )
    plan = restore_plan(source, target)
    assert {rule.old: rule.new for rule in plan.suggestions} == expected
    if not expected:
        return
    # The rules in the order given are those of the command, and all is found then.
    ckpttool.rename(source, tmp_path / "c", {rule.old: rule.new for rule in plan.suggestions})
    after_them = restore_plan(tmp_path / "c", target)
    assert after_them.verdict.consumed, after_them
    assert sum(rule.tensors for rule in plan.suggestions) == len(plan.unresolved)


@pytest.mark.parametrize("optimizer", ["opt", "adam"])
def test_slot_variables_follow(optimizer: str, tmp_path: Path) -> None:
    def program(scope: str, owner: str) -> train.Checkpoint:
        net = tree(dense())
        slots = train.SlotOwner()
        slots.add_slot(net.kernel, "m")
        return train.Checkpoint(**{scope: net, owner: slots})

    source = program("net", "opt").save(tmp_path / "a")
    target = program("model", optimizer).write(tmp_path / "b")
    plan = restore_plan(source, target)
    rules = {rule.old: rule.new for rule in plan.suggestions}
    assert rules == {"net": "model"} | ({} if optimizer == "opt" else {"opt": "adam"})
    ckpttool.rename(source, tmp_path / "c", rules)
    assert restore_plan(tmp_path / "c", target).verdict.consumed


def test_names(tmp_path: Path) -> None:
    source, target = str(tmp_path / "a"), tmp_path / "b"
    values = {"w": np.ones((2, 3)), "b": np.ones(3)}
    save_checkpoint(source, {f"net/{name}": value for name, value in values.items()})
    variables = {name: train.Variable(each, name=f"model/{name}") for name, each in values.items()}
    train.Checkpoint(**variables).write(target)
    plan = restore_plan(source, target)
    assert [(rule.old, rule.new, rule.tensors) for rule in plan.suggestions] == [
        ("net", "model", 2)
    ]
    ckpttool.rename(source, tmp_path / "c", {"net": "model"})
    assert restore_plan(tmp_path / "c", target).verdict.consumed


NAMES, SHAPES = "abcdefg", [(), (2,), (3,), (2, 2), (2,)]


def random_tree(chance: random.Random, depth: int) -> dict[str, Any]:
    return {
        name: random_tree(chance, depth - 1)
        if depth and chance.random() < 0.55
        else np.zeros(chance.choice(SHAPES), np.float32)
        for name in chance.sample(NAMES, chance.randint(1, 4))
    }


def changed(chance: random.Random, before: dict[str, Any]) -> dict[str, Any]:
    """Return a tree with other names, and things added, dropped, wrapped and lifted."""
    after: dict[str, Any] = {}
    for name, value in before.items():
        if chance.random() < 0.12:
            continue
        new = chance.choice("xyzuvw") + name if chance.random() < 0.25 else name
        after[new] = changed(chance, value) if isinstance(value, dict) else value
    if chance.random() < 0.2:
        after["new"] = np.zeros(2, np.float32)
    if chance.random() < 0.15:
        return {"wrap": after}
    scopes = [name for name, value in after.items() if isinstance(value, dict)]
    if scopes and chance.random() < 0.15:
        for name, value in after.pop(scopes[0]).items():
            after.setdefault(name, value)
    return after


def random_program(spec: dict[str, Any], optimizer: str | None) -> train.Checkpoint:
    root = tree(spec)
    objects = dict(train.TrackableView(root).children(root))
    if optimizer:
        slots = objects[optimizer] = train.SlotOwner()
        for each in train.TrackableView(root).descendants():
            if isinstance(each, train.Variable):
                slots.add_slot(each, "m")
    return train.Checkpoint(**objects)


def check_rules(seed: int, folder: Path) -> None:
    """They can be applied, match as many tensors more as they tell, and lose none."""
    chance = random.Random(seed)
    before = random_tree(chance, 3)
    after = changed(chance, before)
    slots = chance.random() < 0.5
    source = random_program(before, "opt" if slots else None).save(folder / "a")
    target = random_program(after, chance.choice(["opt", "optim"]) if slots else None)
    fresh = target.write(folder / "b")
    plan = restore_plan(source, fresh)
    if not plan.suggestions:
        return
    ckpttool.rename(source, folder / "c", {rule.old: rule.new for rule in plan.suggestions})
    then = restore_plan(folder / "c", fresh)
    assert {row.target_path for row in then.matched} >= {row.target_path for row in plan.matched}
    assert len(then.matched) - len(plan.matched) >= sum(rule.tensors for rule in plan.suggestions)
    assert plan.verdict.raises or not then.verdict.raises


# Each has shown a fault: rules that met at one path, or brought along what did not fit.
@pytest.mark.parametrize("seed", [3, 45, 47, 84, 87, 143, 229, 344])
def test_rules_keep_what_they_say(seed: int, tmp_path: Path) -> None:
    check_rules(seed, tmp_path)


@pytest.mark.sweep(100)
@pytest.mark.parametrize("seed", range(1000, 1300))
def test_rules_of_random_programs(seed: int, tmp_path: Path) -> None:
    check_rules(seed, tmp_path)
