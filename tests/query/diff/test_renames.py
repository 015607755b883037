"""Renames are found by content, guesses are called so, and maps of them can be applied."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ckpttool
from ckpttool import open_checkpoint
from ckpttool.api.diff import diff
from ckpttool.query.diff.results import Diff, TensorDiff
from ckpttool.query.diff.scopes import apply_moves, find_moves, rename_map
from ckpttool.query.rows import TensorRow
from ckpttool.surgery.maps.reading import read_map
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.pruning import drop_tensors
from ckpttool.surgery.renaming import rename
from ckpttool.surgery.rules import MoveRule, parse_move
from ckpttool.surgery.writing.prepare import prepare
from tests.support.fixtures import bundle
from tests.support.limits import time_limit

GUIDE = bundle("v2/tf2.21/guide_legacy_adam_resumed/tf_ckpts/ckpt-10").prefix
KERAS = bundle("v2/tf2.21/keras3_adam/ckpt-1").prefix
LEGACY = bundle("v2/tf2.21/legacy_adam_amsgrad/ckpt-1").prefix
SAVER = bundle("v2/tf2.21/saver_v2/model.ckpt-3").prefix


def save(folder: Path, name: str, tensors: dict[str, Any]) -> str:
    ckpttool.save_checkpoint(str(folder / name), tensors)
    return str(folder / name)


def pairs(found: Diff) -> dict[str, tuple[str, bool]]:
    return {
        each.a.key: (each.b.key, each.guessed)
        for each in found.tensors
        if each.change == "renamed" and each.a is not None and each.b is not None
    }


def moves(found: Diff) -> dict[str, tuple[str, int, int]]:
    return {move.old: (move.new, move.tensors, move.guessed) for move in found.moves}


def renamed(source: str, target: Path, *rules: str) -> str:
    with open_checkpoint(source) as ckpt:
        prepare(rename(Plan.of(ckpt), [parse_move(rule) for rule in rules]), str(target)).write()
    return str(target)


def applied(source: str, rules: dict[str, str], target: Path) -> str:
    """Apply a map as `ckpt rename --map` reads it."""
    path = target.with_name(f"{target.name}.json")
    path.write_text(json.dumps(rules))
    with open_checkpoint(source) as ckpt:
        prepare(rename(Plan.of(ckpt), read_map(str(path))), str(target)).write()
    return str(target)


@pytest.mark.parametrize(
    ("source", "rules", "scopes"),
    [
        (GUIDE, ["net=model"], {"net": "model"}),
        (GUIDE, ["net/l1=net/dense"], {"net/l1": "net/dense"}),
        (GUIDE, ["net/l1=dense"], {"net/l1": "dense"}),
        (GUIDE, ["net=wide/deep/net"], {"net": "wide/deep/net"}),
        (GUIDE, ["optimizer=adam"], {"optimizer": "adam"}),
        (GUIDE, ["net=model", "optimizer=adam"], {"net": "model", "optimizer": "adam"}),
        (GUIDE, ["net/l1/kernel=net/l1/bias", "net/l1/bias=net/l1/kernel"], {}),
        (GUIDE, ["iterator=data/it"], {"iterator": "data/it"}),
        (LEGACY, ["model=net"], {"model": "net"}),
        (LEGACY, ["optimizer=opt"], {"optimizer": "opt"}),
        (KERAS, ["optimizer=opt"], {"optimizer": "opt"}),
        (SAVER, ["dense=layer"], {"dense": "layer"}),
    ],
)
def test_a_map_of_renames_gives_the_other_checkpoint(
    source: str, rules: list[str], scopes: dict[str, str], tmp_path: Path
) -> None:
    other = renamed(source, tmp_path / "other", *rules)
    found = diff(source, other)
    assert found.rename_map is not None
    assert {move.old: move.new for move in found.moves} == scopes
    if not scopes:  # two that went by each other's names: both have other values, or shapes
        assert set(found.counts) <= {"shape", "value", "equal"}
        return
    assert set(found.counts) - {"renamed", "equal"} == set()
    again = diff(applied(source, found.rename_map, tmp_path / "again"), other)
    assert again.counts.total() == again.counts["equal"]
    assert again.verdict == "equal"


def test_a_renamed_and_pruned_copy_shows_exactly_that(tmp_path: Path) -> None:
    with open_checkpoint(GUIDE) as ckpt:
        plan = rename(Plan.of(ckpt), [MoveRule("net", "model")])
        slots = {t.source_key for t in plan.tensors if ".OPTIMIZER_SLOT" in t.key}
        prepare(drop_tensors(plan, slots), str(tmp_path / "b")).write()
    found = diff(GUIDE, tmp_path / "b")
    assert found.counts == {"renamed": 2, "removed": 4, "equal": 8}
    assert moves(found) == {"net": ("model", 2, 0)}
    assert found.graph is not None
    assert {(each.part, each.change) for each in found.graph.changes} == {
        ("edge", "renamed"),
        ("slot", "removed"),
    }
    assert found.rename_map == {"net": "model"}


def test_guesses_are_called_so_and_follow_the_paths(tmp_path: Path) -> None:
    zeros, ones = np.zeros(4, np.float32), np.ones(4, np.float32)
    kernels = {f"net/l{at}/kernel": np.full(3, at, np.float32) for at in (1, 2, 10)}
    biases = {f"net/l{at}/bias": zeros for at in (1, 2, 10)}
    one = save(tmp_path, "one", {**kernels, **biases, "other/bias": ones})
    tensors = {
        key.replace("net/l", "m/layer_"): value for key, value in {**kernels, **biases}.items()
    }
    found = diff(one, save(tmp_path, "other", {**tensors, "other/bias": ones}))
    assert pairs(found) == {
        **{f"net/l{at}/kernel": (f"m/layer_{at}/kernel", False) for at in (1, 2, 10)},
        **{f"net/l{at}/bias": (f"m/layer_{at}/bias", True) for at in (1, 2, 10)},
    }
    bias = next(each for each in found.tensors if each.row.key == "m/layer_1/bias")
    assert sorted(bias.candidates) == sorted(f"m/layer_{at}/bias" for at in (1, 2, 10))
    assert moves(found) == {
        "net/l1": ("m/layer_1", 2, 1),
        "net/l2": ("m/layer_2", 2, 1),
        "net/l10": ("m/layer_10", 2, 1),
    }


def test_without_a_certain_one_order_decides(tmp_path: Path) -> None:
    zeros = np.zeros(2, np.float32)
    one = save(tmp_path, "one", {f"l{at}/bias": zeros for at in (1, 2, 9, 10)})
    other = save(tmp_path, "other", {f"layer{at}/bias": zeros for at in (1, 2, 9, 10)})
    assert pairs(diff(one, other)) == {
        f"l{at}/bias": (f"layer{at}/bias", True) for at in (1, 2, 9, 10)
    }


def test_a_copy_is_a_guess_and_the_rest_is_added(tmp_path: Path) -> None:
    value = np.array([1, 2], np.float32)
    one = save(tmp_path, "one", {"x/w": value})
    found = diff(one, save(tmp_path, "other", {"y/w": value, "z/v": value}))
    assert pairs(found) == {"x/w": ("y/w", True)}
    assert found.counts == {"renamed": 1, "added": 1}


def test_what_holds_nothing_or_something_else_is_no_rename(tmp_path: Path) -> None:
    one = save(
        tmp_path, "one", {"e": np.zeros(0, np.float32), "x": np.float32(1), "k": np.int32(2)}
    )
    other = {"f": np.zeros(0, np.float32), "y": np.float32(2), "l": np.uint32(2)}
    found = diff(one, save(tmp_path, "other", other))
    assert found.counts == {"added": 3, "removed": 3}
    assert found.rename_map == {}


def test_exact_renames_are_read(tmp_path: Path) -> None:
    value = np.arange(4.0)
    one, other = save(tmp_path, "one", {"x": value}), save(tmp_path, "other", {"y": value})
    assert diff(one, other, exact=True).counts == {"renamed": 1}
    path = tmp_path / "other.data-00000-of-00001"
    path.write_bytes(b"\1" + path.read_bytes()[1:])
    assert diff(one, other, exact=True).verdict == "unknown"


def test_names_of_any_characters_are_in_the_map(tmp_path: Path) -> None:
    odd = ["#a", "b\tc", "\udcff/x", "d=e", "ä b", '"q"', "x\ny"]
    tensors = {name: np.float32(at) for at, name in enumerate(odd)}
    one = save(tmp_path, "one", tensors)
    other = save(tmp_path, "other", {f"new/{name}!": value for name, value in tensors.items()})
    found = diff(one, other)
    assert found.rename_map == {name: f"new/{name}!" for name in odd}
    assert diff(applied(one, found.rename_map, tmp_path / "again"), other).verdict == "equal"


def row(key: str) -> TensorRow:
    return TensorRow(key, None, "float32", (1,), "weight", 1, 4, 0, 0, 0)


NAMES = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map("/".join)


@given(
    st.dictionaries(NAMES, st.none() | NAMES, max_size=8).filter(
        lambda names: len({new for new in names.values() if new}) == sum(map(bool, names.values()))
    ),
    st.sets(NAMES, max_size=4),
)
def test_maps_do_what_was_found(names: dict[str, str | None], kept: set[str]) -> None:
    """The first rule that holds gives every name its new one, and others nobody's."""
    kept -= set(names)
    kept -= {new for new in names.values() if new}
    changed = {old: new for old, new in names.items() if new and new != old}
    gone = {old for old, new in names.items() if not new}
    kept |= {old for old, new in names.items() if new == old}
    diffs = [TensorDiff("renamed", row(old), row(new), "content") for old, new in changed.items()]
    found = find_moves(diffs, map(row, kept), by_key=True)
    assert sum(move.tensors for move in found) == len(changed)
    rules = rename_map(
        found,
        [(row(old), row(new)) for old, new in changed.items()],
        map(row, kept),
        map(row, gone),
        by_key=True,
    )

    def became(name: str) -> str:
        tried = (MoveRule(old, new).rename(name) for old, new in rules.items())
        return next((new for new in tried if new is not None), name)

    for old, new in changed.items():
        assert became(old) == new
    for name in kept:
        assert became(name) == name
    taken = kept | set(changed.values())
    assert all(became(name) == name or became(name) not in taken for name in gone)


def test_the_longest_scope_decides() -> None:
    rules = {"a": "x", "a/b": "y"}
    assert [apply_moves(rules, path) for path in ("a", "a/b", "a/b/c", "a/c", "ab")] == [
        "x",
        "y",
        "y/c",
        "x/c",
        "ab",
    ]


@pytest.mark.large
def test_many_tensors_of_one_content_take_no_time(tmp_path: Path) -> None:
    value = np.float32(1)
    one = save(
        tmp_path, "one", {f"model/block_{at // 20}/w{at % 20}": value for at in range(20_000)}
    )
    other = save(
        tmp_path, "other", {f"net/block_{at // 20}/w{at % 20}": value for at in range(20_000)}
    )
    with time_limit(20):
        found = diff(one, other)
    assert moves(found) == {"model": ("net", 20_000, 20_000)}


def test_endless_names_take_no_time(tmp_path: Path) -> None:
    long = "/".join("a" * 100_000)
    value = np.float32(1)
    one = save(tmp_path, "one", {long: value, "x": np.float32(2)})
    with time_limit(20):
        found = diff(one, save(tmp_path, "other", {f"b/{long}": value, "y": np.float32(2)}))
    assert found.counts == {"renamed": 2}


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("root_attributes/ckpt", "edge_names/ckpt-1"),
        ("containers/ckpt-1", "root_variable/ckpt"),
        ("root_variable/ckpt", "containers/ckpt-1"),
        ("edge_names/ckpt-1", "root_attributes/ckpt"),
        ("registered_saver/ckpt-1", "containers/ckpt-1"),
        ("keras3_sgd_momentum/ckpt-1", "legacy_sgd_momentum/ckpt-1"),
        ("legacy_sgd_momentum/ckpt-1", "keras3_sgd_momentum/ckpt-1"),
    ],
)
def test_rename_takes_every_map(a: str, b: str) -> None:
    one, other = (bundle(f"v2/tf2.21/{name}").prefix for name in (a, b))
    found = diff(one, other).rename_map
    assert found is not None
    with open_checkpoint(one) as ckpt:
        plan = Plan.of(ckpt)
        if found:
            rename(plan, [MoveRule(old, new) for old, new in found.items()])
