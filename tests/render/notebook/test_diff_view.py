"""A comparison in a notebook."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ckpttool as ct
from ckpttool.render.notebook.layers import layer_strips
from tests.support import fixtures
from tests.support.notebooks import HOSTILE, page_of

OBJECTS = fixtures.bundle("v2/tf2.21/guide_legacy_adam/tf_ckpts/ckpt-3").prefix


def saved(path: Path, values: dict[str, np.ndarray]) -> Path:
    ct.save_checkpoint(path, values)
    return path


def test_the_guide() -> None:
    found = ct.diff(OBJECTS, OBJECTS[:-1] + "5")
    page = page_of(found)
    assert "different" in page.text
    assert page.tags["svg"] == 1
    assert page.rows[0] == ["largest changes", "", "shape", "differ", "max abs", "rel norm"]
    assert page.rows[1][1] == "changed"
    assert "\n" not in repr(found)


def test_by_size_of_change(tmp_path: Path) -> None:
    a = {f"v{number}": np.ones(4) for number in range(20)}
    b = {f"v{number}": np.ones(4) + number for number in range(20)}
    found = ct.diff(saved(tmp_path / "a", a), saved(tmp_path / "b", b))
    rows = page_of(found).rows
    assert rows[1] == ["v19", "changed", "[4]", "4 of 4", "19", "19"]
    assert [row[0] for row in rows[1:13]] == [f"v{number}" for number in range(19, 7, -1)]
    assert rows[13] == ["… 7 more"]
    assert rows[15][:2] == ["v#", "1 to 19"]
    assert len(rows[15][2]) == 19 and rows[15][2][0] == "▁" and rows[15][2][-1] == "▇"


def test_renamed_added_removed_and_of_another_shape(tmp_path: Path) -> None:
    a = {"old/w": np.arange(5.0), "gone": np.ones(3), "shape": np.ones(2), "type": np.ones(2)}
    b = {"new/w": np.arange(5.0), "more": np.zeros(4), "shape": np.ones(3)}
    b["type"] = np.ones(2, np.float32)
    page = page_of(ct.diff(saved(tmp_path / "a", a), saved(tmp_path / "b", b)))
    for word in ("added 1", "removed 1", "renamed 1", "other shape 1", "other dtype 1"):
        assert word in page.text
    assert ["old", "new", "1"] in page.rows or ["old/w", "new/w", "1"] in page.rows
    assert ["shape", "other shape", "[2] → [3]", "", "", ""] in page.rows


def test_equal() -> None:
    page = page_of(ct.diff(OBJECTS, OBJECTS))
    assert "equal" in page.text
    assert page.rows == []


def test_what_cannot_be_read(tmp_path: Path) -> None:
    for side, value in (("a", 1.0), ("b", 2.0)):
        saved(tmp_path / side, {"w": np.full(3, value)})
    (tmp_path / "b.data-00000-of-00001").write_bytes(bytes(24))
    page = page_of(ct.diff(tmp_path / "a", tmp_path / "b"))
    assert "unknown" in page.text and "1 problem, the first is: " in page.text
    assert ["w", "unreadable", "[3]", "", "", ""] in page.rows


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names(name: str, tmp_path: Path) -> None:
    names = [f"{number}{name[: 1 << 16]}" for number in range(14)]
    a = {f"a{each}": np.ones(number + 2) for number, each in enumerate(names)}
    b = {f"b{each}": np.ones(number + 2) for number, each in enumerate(names)}
    same_a = {f"c{each}": np.full((1,) * 30, 1 + 1j) for each in names}
    same_b = {f"c{each}": np.full((1,) * 30, np.nan) for each in names}
    found = ct.diff(saved(tmp_path / "a", a | same_a), saved(tmp_path / "b", b | same_b))
    assert len(page_of(found).rows) > 3


def test_layers() -> None:
    changes = [
        (f"net/h{number}/w{part}", 10.0**-number) for number in range(5) for part in range(2)
    ]
    (strip,) = layer_strips([*changes, ("net/h7/w0", 1.0), ("other", 3.0)], 4)
    assert (strip.name, strip.layers, strip.first, strip.last) == ("net/h#", 6, 0, 7)
    assert strip.strip == "▇▆▄▂▁··▇"
    assert layer_strips([("a1", 1.0), ("a2", 1.0)], 4) == []
    far = [(f"a{10**number}", 1.0) for number in range(12)]
    assert len(layer_strips(far, 4)[0].strip) == 9
