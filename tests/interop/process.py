"""TensorFlow in another process: `oracle.py`, which reads, and scripts that save and restore."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.interop.values import as_array
from tests.support.fixtures import digest

ORACLE = Path(__file__).with_name("oracle.py")
OLDER = "CKPT_TF115_PYTHON"

Values = dict[str, Any]
# A TensorFlow: what it does with an action, a prefix and what belongs to it.
Saver = Callable[[str, str, Values], Values]


class Oracle:
    """TensorFlow behind a pipe.

    Args:
        python: an interpreter that has TensorFlow.
        script: what it runs, `oracle.py` or another that answers lines of JSON.
    """

    def __init__(self, python: str, script: Path = ORACLE) -> None:
        self._process = subprocess.Popen(
            [python, str(script)],
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

    def ask(self, question: str | Sequence[str | int]) -> dict[str, Any]:
        """Return the answer to a question, such as a prefix or a slice."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"TensorFlow did not survive {question}"
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def asking(python: str, script: str) -> Iterator[Saver]:
    """Run a script that answers lines of JSON with lines of JSON."""
    process = subprocess.Popen(
        [python, script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )

    def ask(action: str, prefix: str, what: Values) -> Values:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps([action, prefix, what]) + "\n")
        process.stdin.flush()
        answer: Values = json.loads(process.stdout.readline())
        return answer

    yield ask
    process.communicate()


def summary(value: Any) -> dict[str, Any]:
    """Return what the oracle says of a value equal to this one."""
    array = as_array(value)
    return {"dtype": array.dtype.name, "shape": list(array.shape), "sha256": digest(array)}
