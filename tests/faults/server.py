"""Processes that do an operation and get a signal at a call of their own choosing.

Starting an interpreter for each would take most of the time. So one process, started by `Server`,
has everything imported and forks for each request; what it forks is a process like any other.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from types import TracebackType

from ckpttool.cli.failures import run as run_cli
from ckpttool.cli.main import main as ckpt
from ckpttool.cli.options import Settings
from tests.faults.exports import ALL
from tests.faults.operations import Operation
from tests.support.command import environment
from tests.support.faults import Call, Fault

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Ended:
    """How a process ended.

    Attributes:
        code: exit status; the number of the signal that killed it, negative.
        out: standard output.
        err: standard error.
        calls: names of the calls that were made.
    """

    code: int
    out: str
    err: str
    calls: list[str]


class Server:
    """A process that forks others; as a context manager it is ended at the end.

    Args:
        launcher: words in front of the command, such as those that give it its own mounts.
    """

    def __init__(self, *launcher: str) -> None:
        self._process = subprocess.Popen(
            [*launcher, sys.executable, "-m", "tests.faults.server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment({"OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}),
            text=True,
        )

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def run(
        self,
        operation: Operation,
        root: str,
        *,
        number: int = 0,
        at: int = 0,
        after: bool = False,
        force: bool = False,
        file_size: int | None = None,
    ) -> Ended:
        """Do an operation in a process of its own.

        Args:
            operation: one of `ALL`.
            root: its folder.
            number: of a signal that the process sends itself, 0 for none.
            at: at which call.
            after: after the call was made, not before.
            force: replace what is there.
            file_size: limit of the size of files.
        """
        request = [ALL.index(operation), root, number, at, after, force, file_size]
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return Ended(**json.loads(self._process.stdout.readline()))


def main() -> None:
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    with open(os.devnull, "wb") as null:
        os.dup2(null.fileno(), 1)
        error = os.dup(2)
        os.dup2(null.fileno(), 2)
        _warm()
        os.dup2(error, 2)
    # What is never collected is not touched, so the forked ones need no copy of it.
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        answers.write(json.dumps(_serve(json.loads(line))) + "\n")
        answers.flush()


def _warm() -> None:
    """Have all modules loaded that any operation needs."""
    with tempfile.TemporaryDirectory() as folder:
        for at, operation in enumerate(ALL):
            root = os.path.join(folder, str(at))
            operation.build(root)
            with operation.system(root):
                _work(operation, root, force=False)
    for number in _SIGNALS[1:]:
        signal.signal(number, signal.SIG_DFL)


def _serve(request: list[object]) -> dict[str, object]:
    # Pipes, since the size of files may be limited; all that is written fits into one.
    pipes = [os.pipe() for _ in range(3)]
    child = os.fork()
    if not child:
        os.dup2(pipes[0][1], 1)
        os.dup2(pipes[1][1], 2)
        code = 99
        try:
            code = _child(request, pipes[2][1])
        finally:
            os._exit(code)
    texts = []
    for reading, writing in pipes:
        os.close(writing)
        with os.fdopen(reading, encoding="utf-8") as file:
            texts.append(file.read())
    _, status = os.waitpid(child, 0)
    return {
        "code": os.waitstatus_to_exitcode(status),
        "out": texts[0],
        "err": texts[1],
        "calls": texts[2].split(),
    }


def _child(request: list[object], log: int) -> int:
    which, root, number, at, after, force, file_size = request
    assert isinstance(which, int)
    assert isinstance(root, str)
    assert isinstance(number, int)
    operation = ALL[which]
    if isinstance(file_size, int):
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))

    def strike(call: Call) -> None:
        if call.number == at:
            os.kill(os.getpid(), number)

    def before(call: Call) -> Fault | None:
        if number and not after:
            strike(call)
        return None

    def then(call: Call) -> None:
        if number and after:
            strike(call)

    with operation.system(root, before=before, after=then) as system:
        code = _work(operation, root, force=bool(force))
    sys.stdout.flush()
    sys.stderr.flush()
    if not number and file_size is None:
        os.write(log, " ".join(call.name for call in system.calls).encode())
    return code


def _work(operation: Operation, root: str, *, force: bool) -> int:
    if operation.words:
        return ckpt(operation.command(root, force=force))
    return run_cli(lambda: operation.run(root, force=force), Settings())


if __name__ == "__main__":
    main()
