"""A checkpoint in a notebook: one table, a bar, and nothing that a name could break."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import ckpttool as ct
from ckpttool.render.notebook.view import html_of
from tests.support import fixtures
from tests.support.limits import run_python
from tests.support.notebooks import HOSTILE, page_of

OBJECTS = fixtures.bundle("v2/tf2.21/guide_legacy_adam/tf_ckpts/ckpt-3").prefix


def test_the_guide() -> None:
    with ct.open_checkpoint(OBJECTS) as ckpt:
        page = page_of(ckpt)
        assert page.tags["table"] == page.tags["svg"] == page.tags["details"] == 1
        assert "\n" not in repr(ckpt)
        kinds = {kind for key, kind in ckpt.kinds.items() if kind != "graph"}
        tensors = len(ckpt) - 1
    assert "V2, object-based" in page.text
    assert f"{tensors} tensors" in page.text
    assert page.tags["rect"] == page.tags["span"] == len(kinds | {"graph"})
    assert page.rows[0] == ["largest tensors", "dtype", "shape", "kind", "bytes"]
    assert ["net/l1/bias", "float32", "[5]", "weight", "20 B"] in page.rows
    assert len(page.rows) == 1 + 12 + 1
    assert page.rows[-1] == [f"… {tensors - 12} more"]


def test_the_largest_come_first(tmp_path: Path) -> None:
    values = {f"v{number}": np.zeros(number, np.float32) for number in range(1, 31)}
    ct.save_checkpoint(tmp_path / "ckpt", values)
    with ct.open_checkpoint(tmp_path / "ckpt") as ckpt:
        rows = page_of(ckpt).rows
    assert [row[0] for row in rows[1:13]] == [f"v{number}" for number in range(30, 18, -1)]
    assert rows[13] == ["… 18 more"]


def test_hostile_names(tmp_path: Path) -> None:
    ct.save_checkpoint(tmp_path / "<i>ckpt&", {name: np.zeros(3) for name in HOSTILE[:12]})
    with ct.open_checkpoint(tmp_path / "<i>ckpt&") as ckpt:
        page = page_of(ckpt)
        assert len(page.rows) == 1 + 12
        assert set(ckpt._ipython_key_completions_()) >= {"'" * 500}
        assert all(name in ckpt and name.isprintable() for name in ckpt._ipython_key_completions_())
    assert any("onerror" in row[0] for row in page.rows)


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_twelve_names_alike(name: str, tmp_path: Path) -> None:
    names = [name[: 1 << 16] + str(number) for number in range(14)]
    ct.save_checkpoint(
        tmp_path / "ckpt", {each: np.zeros((1,) * 30, np.complex128) for each in names}
    )
    with ct.open_checkpoint(tmp_path / "ckpt") as ckpt:
        assert len(page_of(ckpt).rows) == 14


def test_data_is_not_needed(tmp_path: Path) -> None:
    for ending in (".index", ".data-00000-of-00001"):
        shutil.copy(OBJECTS + ending, tmp_path / f"ckpt{ending}")
    os.remove(tmp_path / "ckpt.data-00000-of-00001")
    with ct.open_checkpoint(tmp_path / "ckpt") as ckpt:
        page = page_of(ckpt)
    assert "1 file missing: ckpt.data-00000-of-00001" in page.text


def test_a_damaged_object_graph(tmp_path: Path) -> None:
    shutil.copy(OBJECTS + ".index", tmp_path / "ckpt.index")
    size = os.path.getsize(OBJECTS + ".data-00000-of-00001")
    (tmp_path / "ckpt.data-00000-of-00001").write_bytes(b"\xff" * size)
    with ct.open_checkpoint(tmp_path / "ckpt") as ckpt:
        assert ["net/l1/bias", "float32", "[5]", "weight", "20 B"] in page_of(ckpt).rows


def test_after_it_is_closed_and_gone(tmp_path: Path) -> None:
    shutil.copytree(os.path.dirname(OBJECTS), tmp_path / "there")
    path = tmp_path / "there" / os.path.basename(OBJECTS)
    ckpt = ct.open_checkpoint(path)
    ckpt.close()
    assert page_of(ckpt).tags["table"] == 1
    ckpt.close()
    shutil.rmtree(tmp_path / "there")
    assert ckpt._repr_html_() is None or page_of(ckpt)
    assert re.fullmatch(r"<Checkpoint .*>", repr(ckpt))


def test_without_tensors(tmp_path: Path) -> None:
    ct.save_checkpoint(tmp_path / "ckpt", {})
    with ct.open_checkpoint(tmp_path / "ckpt") as ckpt:
        page = page_of(ckpt)
    assert page.tags["table"] == page.tags["svg"] == 0
    assert "0 tensors" in page.text


def test_other_formats() -> None:
    single = os.path.join(fixtures.FIXTURES, "v1/tf1.15/dtypes/vector")
    with ct.open_checkpoint(single) as ckpt:
        page = page_of(ckpt)
    assert "V1, name-based" in page.text
    assert page.tags["table"] == 1


def test_what_has_no_view() -> None:
    assert html_of(3) is None
    assert html_of(None) is None


def test_names_in_brackets() -> None:
    with ct.open_checkpoint(OBJECTS) as ckpt:
        names = ckpt._ipython_key_completions_()
        assert "net/l1/kernel" in names
        assert len(names) == len(ckpt) == len(set(map(ckpt.resolve, names)))


def test_what_is_loaded_for_it() -> None:
    code = (
        "import sys, ckpttool\n"
        "names = lambda: [name for name in sys.modules if name.startswith('ckpttool')]\n"
        "assert names() == ['ckpttool'], names()\n"
        "ckpt = ckpttool.open_checkpoint(sys.argv[1])\n"
        "assert 'ckpttool.render.notebook' not in names()\n"
        "assert ckpt._repr_html_()\n"
        "assert not {'numpy', 'google', 'rich'} & {name.split('.')[0] for name in sys.modules}"
    )
    done = run_python(code, OBJECTS)
    assert done.returncode == 0, done.stderr
