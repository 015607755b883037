"""Names, indices and patterns find what they should, in the order they are given."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest

from ckpttool import open_checkpoint
from ckpttool.bundle.writer import BundleWriter
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.checkpoint.selection.select import SelectionRule, Selector
from ckpttool.errors import MissingKeyError, SelectionError
from ckpttool.query.values.targets import find_targets, format_index
from ckpttool.tensor.region import fit_index, parse_index
from tests.support.fixtures import bundle

KERNEL = "net/l1/kernel/.ATTRIBUTES/VARIABLE_VALUE"
BIAS = "net/l1/bias/.ATTRIBUTES/VARIABLE_VALUE"


@pytest.fixture
def guide() -> Iterator[Checkpoint]:
    with open_checkpoint(bundle("v2/tf2.21/guide_legacy_adam/tf_ckpts/ckpt-5").prefix) as ckpt:
        yield ckpt


@pytest.fixture
def named(tmp_path: os.PathLike[str]) -> Iterator[Checkpoint]:
    prefix = os.path.join(tmp_path, "model")
    with BundleWriter(prefix) as writer:
        for key in ("w", "w[0]", "w[0:1]", "v1", "v2", "b/x", "b/y", "=x", "re:x"):
            writer.add(key, np.arange(6).reshape(2, 3))
    with open_checkpoint(prefix) as ckpt:
        yield ckpt


def found(ckpt: Checkpoint, *names: str) -> list[tuple[str, str | None]]:
    return [
        (target.key, None if target.index is None else format_index(target.index))
        for target in find_targets(ckpt, names)
    ]


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (["w"], [("w", None)]),
        (["w[1]"], [("w", "1, :")]),
        (["w[-1,::-2]"], [("w", "1, ::-2")]),
        (["w[...,0]"], [("w", ":, 0")]),
        (["v1[:]", "v1", "v1[:]"], [("v1", ":, :"), ("v1", None)]),
        # A key that ends in brackets itself is meant first, and can have an index too.
        (["w[0]"], [("w[0]", None)]),
        (["w[0:1]"], [("w[0:1]", None)]),
        (["w[0][1, 2]"], [("w[0]", "1, 2")]),
        (["w[0 ]"], [("w", "0, :")]),
        # Brackets of a glob.
        (["v[12]"], [("v1", None), ("v2", None)]),
        (["v[0-1]"], [("v1", None)]),
        (["b"], [("b/x", None), ("b/y", None)]),
        (["b/*", "w", "b/x"], [("b/x", None), ("b/y", None), ("w", None)]),
        (["w", "b"], [("w", None), ("b/x", None), ("b/y", None)]),
        (["re:^v"], [("v1", None), ("v2", None)]),
        (["=w[0]"], [("w[0]", None)]),
        (["==x"], [("=x", None)]),
        (["=re:x"], [("re:x", None)]),
    ],
)
def test_names(named: Checkpoint, names: list[str], wanted: list[tuple[str, str | None]]) -> None:
    assert found(named, *names) == wanted


def test_object_paths(guide: Checkpoint) -> None:
    assert found(guide, "net/l1/kernel[0, 1:3]") == [(KERNEL, "0, 1:3")]
    assert found(guide, "net/*/{bias,kernel}") == [(BIAS, None), (KERNEL, None)]
    assert found(guide, KERNEL, "net/l1/kernel") == [(KERNEL, None)]


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("net/l1/kernle", SelectionError, "net/l1/kernel"),
        ("net/l1/kernle[0]", MissingKeyError, "net/l1/kernel"),
        ("net/l1/kernel[5]", SelectionError, "out of bounds for axis 0 of size 1"),
        ("net/l1/kernel[0,0,0]", SelectionError, r"3 indices for a tensor of shape \[1, 5\]"),
        ("net/l1/kernel[a]", SelectionError, "'a' in \\[a\\]"),
        ("net/l1/kernel[::0]", SelectionError, "step"),
        ("nothing[x]", SelectionError, "selects nothing"),
        ("]", SelectionError, "closes nothing"),
        ("[0]", MissingKeyError, "no such tensor"),
        ("", SelectionError, "empty"),
    ],
)
def test_mistakes(guide: Checkpoint, name: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        find_targets(guide, [name])


def test_mistakes_in_an_index_name_the_tensor(guide: Checkpoint) -> None:
    with pytest.raises(SelectionError) as caught:
        find_targets(guide, ["net/l1/kernel[9]"])
    assert caught.value.key == KERNEL


def test_rules_and_kinds(guide: Checkpoint) -> None:
    keys = [target.key for target in find_targets(guide)]
    assert keys == list(guide.entries)
    weights = [target.key for target in find_targets(guide, selector=Selector(kinds=["weight"]))]
    assert weights == [BIAS, KERNEL]
    without = find_targets(guide, selector=Selector([SelectionRule("net/**", include=False)]))
    assert not any(target.key.startswith("net/") for target in without)
    assert len(without) == len(keys) - 6
    both = find_targets(guide, ["step"], Selector([SelectionRule("net/l1/kernel")]))
    assert [target.key for target in both] == ["step/.ATTRIBUTES/VARIABLE_VALUE", KERNEL]
    later = Selector([SelectionRule("**", include=False), SelectionRule("net/l1/bias")])
    assert [target.key for target in find_targets(guide, ["step"], later)] == [BIAS]
    without_net = Selector([SelectionRule("net", include=False)])
    sliced = find_targets(guide, ["net/l1/kernel[0]", "step"], without_net)
    assert [target.key for target in sliced] == ["step/.ATTRIBUTES/VARIABLE_VALUE"]
    assert find_targets(guide, ["step"], Selector(kinds=["weight"])) == []


@pytest.mark.parametrize("text", ["0", ":", "0:4, :", "::2", "3:1:-1", "-5:, -2"])
def test_an_index_reads_as_it_is_written(text: str) -> None:
    shape = (10, 10)[: text.count(",") + 1]
    index = fit_index(parse_index(text), shape)
    again = fit_index(parse_index(format_index(index)), shape)
    assert again == index
