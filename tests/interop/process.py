"""Talking to `oracle.py`, which reads checkpoints with TensorFlow in another process."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.interop.values import as_array
from tests.support.fixtures import digest

ORACLE = Path(__file__).with_name("oracle.py")


class Oracle:
    """TensorFlow behind a pipe.

    Args:
        python: an interpreter that has TensorFlow.
    """

    def __init__(self, python: str) -> None:
        self._process = subprocess.Popen(
            [python, str(ORACLE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __enter__(self) -> Oracle:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate()

    def ask(self, question: str | list[str | int]) -> dict[str, Any]:
        """Return the answer to a prefix or a slice."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"TensorFlow did not survive {question}"
        answer: dict[str, Any] = json.loads(line)
        return answer


def summary(value: Any) -> dict[str, Any]:
    """Return what the oracle says of a value equal to this one."""
    array = as_array(value)
    return {"dtype": array.dtype.name, "shape": list(array.shape), "sha256": digest(array)}
