"""What the tests of this folder write anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.checkpoints import small_checkpoint


@pytest.fixture
def small(tmp_path: Path) -> str:
    """Return the prefix of a checkpoint of two shards, in a folder of its own."""
    return small_checkpoint(tmp_path / "src")
