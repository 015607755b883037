"""The full names of variables name tensors where no key and no path does."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import ckpttool
from ckpttool import surgery
from ckpttool.errors import MissingKeyError, SelectionError
from ckpttool.objects.keys import GRAPH_KEY
from tests.support.fixtures import FIXTURES

KERAS = os.path.join(FIXTURES, "v2", "tf2.21", "keras3_adam")
KERNEL = "optimizer/_trainable_variables/0"


def names(*patterns: str) -> list[str]:
    with ckpttool.open_checkpoint(KERAS) as ckpt:
        return [tensor.name for tensor in ckpt.select(patterns)]


@pytest.mark.parametrize(
    ("pattern", "count"),
    [
        ("sequential/dense/kernel", 1),
        ("=sequential/dense/kernel", 1),
        ("sequential/dense", 2),
        ("sequential", 4),
        ("sequential/*/kernel", 2),
        ("re:^sequential/.*bias$", 2),
        ("adam/*_momentum", 4),
    ],
)
def test_patterns(pattern: str, count: int) -> None:
    assert len(names(pattern)) == count


def test_a_path_comes_first() -> None:
    """The pattern of the manual drops an optimizer, not what its program calls so too."""
    with ckpttool.open_checkpoint(KERAS) as ckpt:
        assert ckpt.graph_names is not None
        known = ckpt.graph_names.variable_names.values()
        assert any(name.startswith("adam/") for name in known)
    assert all(name.startswith("optimizer/") for name in names("optimizer"))


def test_values_entries_and_rules() -> None:
    with ckpttool.open_checkpoint(KERAS) as ckpt:
        assert ckpt["sequential/dense/kernel"].tolist() == ckpt[KERNEL].tolist()
        assert ckpt.entries["sequential/dense/kernel"] == ckpt.entries[KERNEL]
        assert "sequential/dense/kernel" in ckpt and "sequential/dense" not in ckpt
        with pytest.raises(MissingKeyError, match="nearest: 'sequential/dense/kernel'"):
            ckpt["sequential/dense/kernle"]
        plan = surgery.rename(surgery.Plan.of(ckpt), {"sequential/dense/kernel": "w"})
        assert [(each.key, each.new_key) for each in plan.changes] == [
            (f"{KERNEL}/.ATTRIBUTES/VARIABLE_VALUE", "w/.ATTRIBUTES/VARIABLE_VALUE")
        ]


def test_a_name_of_several_variables(tmp_path: Path) -> None:
    with ckpttool.open_checkpoint(KERAS) as ckpt:
        tensors = dict(ckpt)
    graph: bytes = tensors[GRAPH_KEY].item()
    # Of the same length, so that no length around it changes.
    other = b"adam/sequential_dense_1_bias_velocity"
    tensors[GRAPH_KEY] = np.array(
        graph.replace(b"adam/sequential_dense_1_bias_momentum", other), object
    )
    ckpttool.save_checkpoint(tmp_path / "m", tensors)
    with ckpttool.open_checkpoint(tmp_path / "m") as ckpt:
        keys = "'optimizer/_variables/8/.ATTRIBUTES/VARIABLE_VALUE', 'optimizer/_variables/9/"
        with pytest.raises(SelectionError, match=f"several variables.*{keys}"):
            ckpt.select(other.decode())
        with pytest.raises(MissingKeyError, match="several variables"):
            ckpt[other.decode()]
        assert other.decode() not in ckpt
        with pytest.raises(SelectionError, match="several variables"):
            surgery.rename(surgery.Plan.of(ckpt), {other.decode(): "w"})
