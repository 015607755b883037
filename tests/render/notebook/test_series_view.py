"""The checkpoints of a folder in a notebook, and the numbers in the charts."""

from __future__ import annotations

from math import sqrt
from pathlib import Path

import numpy as np
import pytest

import ckpttool as ct
from ckpttool.query.diff.curves import curves_of
from tests.support.notebooks import HOSTILE, page_of


def save(folder: Path, step: int, **values: np.ndarray | float) -> None:
    ct.save_checkpoint(folder / f"ckpt-{step}", {k: np.asarray(v) for k, v in values.items()})


def train(folder: Path, steps: int) -> None:
    for step in range(1, steps + 1):
        v, w = np.full(4, float(step)), np.full(9, 2.0 * step)
        names = {"layer/v": v, "layer/w": w, "layer/w/Adam": w / 2, "layer/w/Adam_1": w * 0}
        save(folder, step, **names, learning_rate=np.float32(0.5 / step))


def test_charts(tmp_path: Path) -> None:
    train(tmp_path, 3)
    found = ct.diff_series(tmp_path)
    curves = curves_of(found)
    one = sqrt(4 + 9 * 4)  # the norm of all weights in the first checkpoint
    assert curves.weights == pytest.approx([one, 2 * one, 3 * one])
    assert curves.update[0] is None
    assert curves.update[1:] == pytest.approx([1, 0.5])
    assert curves.rate == pytest.approx([0.5, 0.25, 0.5 / 3])
    assert curves.slots == pytest.approx([3, 6, 9])
    page = page_of(found)
    assert page.tags["svg"] == page.tags["path"] == 4
    assert "3 checkpoints · 5 tensors" in page.text
    assert page.rows == [
        ["", "first", "through training", "last"],
        ["norm of all weights", "6.325", "", "18.97"],
        ["update ratio of all weights (log)", "1", "", "0.5"],
        ["learning rate", "0.5", "", "0.1667"],
        ["norm of slot variables", "3", "", "9"],
    ]
    assert "\n" not in repr(found)


def test_many_checkpoints(tmp_path: Path) -> None:
    train(tmp_path, 60)
    page = page_of(ct.diff_series(tmp_path))
    assert "60 checkpoints" in page.text and page.tags["path"] == 4


def test_one_checkpoint_and_none_of_numbers(tmp_path: Path) -> None:
    save(tmp_path, 1, w=np.ones(4))
    assert [row[0] for row in page_of(ct.diff_series(tmp_path)).rows] == ["", "norm of all weights"]
    ct.save_checkpoint(tmp_path / "words" / "ckpt-1", {"text": np.array(b"text", object)})
    assert page_of(ct.diff_series(tmp_path / "words")).tags["table"] == 0


def test_not_finite(tmp_path: Path) -> None:
    for step, value in enumerate((1.0, np.nan, np.inf, 2.0), 1):
        save(tmp_path, step, w=np.full(3, value))
    found = ct.diff_series(tmp_path)
    assert [norm is None for norm in curves_of(found).weights] == [False, True, True, False]
    assert page_of(found).rows[1][::3] == ["norm of all weights", "3.464"]


def test_what_cannot_be_read(tmp_path: Path) -> None:
    train(tmp_path, 3)
    path = tmp_path / "ckpt-2.data-00000-of-00001"
    path.write_bytes(bytes(path.stat().st_size))
    found = ct.diff_series(tmp_path)
    curves = curves_of(found)
    assert curves.weights[1] is None and curves.slots[1] is None
    assert curves.weights[0] is not None
    assert "problems" in page_of(found).text


@pytest.mark.parametrize("name", HOSTILE[:4], ids=range(4))
def test_hostile_folders(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name.replace("/", "_")
    train(folder, 2)
    assert page_of(ct.diff_series(folder)).tags["table"] == 1
