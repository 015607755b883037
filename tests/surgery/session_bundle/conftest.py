"""What the tests of this folder write anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.exports import sample_export


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """Return an export, in a folder of its own."""
    return sample_export(tmp_path / "00000123")
