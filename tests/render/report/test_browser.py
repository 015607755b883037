"""The page of a report in a browser, where there is Chromium."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ckpttool

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")


def shown(page: Path) -> str:
    """Return the document as it is when the script of the page has run."""
    assert CHROMIUM is not None
    words = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
    profile = f"--user-data-dir={page.parent / 'profile'}"
    done = subprocess.run(
        [CHROMIUM, *words, profile, "--virtual-time-budget=4000", "--dump-dom", page.as_uri()],
        capture_output=True,
        timeout=120,
        check=True,
        env={**os.environ, "HOME": str(page.parent)},
    )
    return done.stdout.decode("utf-8")


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("page")
    tensors: dict[str, Any] = {}
    for layer in range(30):
        for name in ("w", "w/Adam", "w/Adam_1"):
            tensors[f"net/h{layer}/{name}"] = np.linspace(-1, layer, 600, dtype=np.float32)
    tensors["<img src=x onerror=alert(1)>"] = np.arange(600.0)
    tensors["</script><script>document.title = 'taken'</script>"] = np.array([np.nan, 1])
    ckpttool.save_checkpoint(str(folder / "m"), tensors)
    ckpttool.report(str(folder / "m"), title="A title").save(folder / "report.html")
    return shown(folder / "report.html")


def test_script_runs_without_errors(document: str) -> None:
    assert 'data-errors="[]"' in document
    assert "<title>A title</title>" in document


def test_only_rows_in_view_exist(document: str) -> None:
    assert "92 of 92 tensors" in document
    assert 'aria-rowcount="93"' in document
    assert 30 < document.count('<tr tabindex="') <= 60


def test_map_and_layers_are_drawn(document: str) -> None:
    cells = re.findall(r'<g tabindex="(?:0|-1)" role="button" aria-label="([^"]*)"', document)
    assert len(cells) > 90 and any(cell.startswith("net") for cell in cells)
    assert "Standard deviations of 1 names in 30 layers" in document


def test_hostile_names_are_text(document: str) -> None:
    assert "<img" not in document
    assert "&lt;img src=x onerror=alert(1)&gt;" in document
