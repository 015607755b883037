"""A fresh interpreter, for what depends on the order of imports."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Protocol

import pytest

ROOT = Path(__file__).resolve().parents[2]


class RunPython(Protocol):
    def __call__(self, code: str) -> str: ...


@pytest.fixture
def run_python() -> RunPython:
    """Run code in a process of its own, which has imported nothing yet; return what it prints."""

    def run(code: str) -> str:
        inherited = [os.environ["PYTHONPATH"]] if "PYTHONPATH" in os.environ else []
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *inherited])},
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
