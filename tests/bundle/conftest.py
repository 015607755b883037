from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    """Return the prefix of a bundle that does not exist yet, in a folder of its own."""
    return str(tmp_path / "m")
