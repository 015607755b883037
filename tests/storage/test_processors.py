"""How many threads may read."""

from __future__ import annotations

import os

from ckpttool.storage.processors import default_jobs


def test_jobs_are_the_processors() -> None:
    assert 1 <= default_jobs() <= (os.cpu_count() or 1)
