"""The card of a report in a notebook."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import ckpttool as ct
from tests.support.notebooks import page_of


def test_card(tmp_path: Path) -> None:
    values = {"net/w": np.zeros((3, 4), np.float32), "net/w/Adam": np.ones(3, np.float32)}
    ct.save_checkpoint(tmp_path / "<b>ckpt", values)
    found = ct.report(tmp_path / "<b>ckpt")
    page = page_of(found)
    assert page.tags["table"] == 0 and page.tags["svg"] == 1
    assert "2 tensors · 12 parameters · 60 B · all finite" in page.text
    assert "<b>ckpt" in page.text and 'report.save("report.html")' in page.text
    assert "\n" not in repr(found)


def test_what_is_wrong(tmp_path: Path) -> None:
    ct.save_checkpoint(tmp_path / "ckpt", {"w": np.array([1, np.nan]), "v": np.ones(5)})
    assert "NaN or Inf in 1 tensor" in page_of(ct.report(tmp_path / "ckpt")).text
    (tmp_path / "ckpt.data-00000-of-00001").write_bytes(bytes(56))
    page = page_of(ct.report(tmp_path / "ckpt"))
    assert "2 problems, the first is: " in page.text and "finite" not in page.text
    assert "all finite" not in page_of(ct.report(tmp_path / "ckpt", values=False)).text
