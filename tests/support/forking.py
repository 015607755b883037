"""A process that has the commands imported, and forks one that is `ckpt` for each request.

To start an interpreter and import a command takes longer than most commands do. What is forked is a
process like any other: with streams, signals and an end of its own. What Python and libraries read
when they start is as it was when the server started, so a request that asks for something else
there is not taken.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import pkgutil
import resource
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from threading import Lock
from typing import NoReturn

# Variables that are read while a command runs; any other may be read by what is imported before.
_READ_LATE = (
    "CKPT_",
    "GITHUB_",
    "PYTEST_",
    *("CLICOLOR_FORCE", "COLUMNS", "FORCE_COLOR", "LS_COLORS", "NO_COLOR", "TERM"),
)
_NUMBER = 8  # bytes of a number between the two processes


class Forker:
    """The server's client; the server ends with this process.

    Args:
        environ: of the server.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = dict(environ)
        self._free = Lock()
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={**environ, "OPENBLAS_NUM_THREADS": "1"},
            )
        atexit.register(self.close)

    def close(self) -> None:
        """End the server."""
        self._socket.close()
        self._process.wait(10)

    def run(
        self, words: Sequence[str], environ: Mapping[str, str], folder: str | None, timeout: float
    ) -> tuple[int, bytes, bytes] | None:
        """Return exit code, output and error output of `ckpt`; None where it cannot be run so.

        Args:
            words: of the command line.
            environ: the whole environment.
            folder: to work in; this process's by default.
            timeout: seconds; TimeoutError after that.
        """
        differing = dict(set(environ.items()) ^ set(self._environ.items()))
        late = all(name.startswith(_READ_LATE) for name in differing)
        if not late or self._process.poll() is not None:
            return None
        if not self._free.acquire(blocking=False):
            return None
        try:
            limit = resource.getrlimit(resource.RLIMIT_FSIZE)
            request = json.dumps([list(words), dict(environ), folder or os.getcwd(), limit])
            return self._ask(request.encode(), timeout)
        finally:
            self._free.release()

    def _ask(self, request: bytes, timeout: float) -> tuple[int, bytes, bytes]:
        reading, writing = zip(os.pipe(), os.pipe(), strict=True)
        pid = 0
        try:
            try:
                socket.send_fds(self._socket, [_number(len(request))], writing)
            finally:
                for fd in writing:
                    os.close(fd)
            self._socket.sendall(request)
            pid = _received(self._socket)
            out, err = _read(reading, timeout)
            return _received(self._socket), out, err
        except BaseException:
            # An answer may be under way that would be taken for that to the next request.
            self._process.kill()
            if pid:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            raise
        finally:
            for fd in reading:
                os.close(fd)


def _read(pipes: Sequence[int], timeout: float) -> list[bytes]:
    """Read all pipes to their ends, at the same time."""
    texts = dict.fromkeys(pipes, b"")
    end = time.monotonic() + timeout
    with selectors.DefaultSelector() as waiting:
        for fd in pipes:
            waiting.register(fd, selectors.EVENT_READ)
        while waiting.get_map():
            ready = waiting.select(end - time.monotonic())
            if not ready:
                raise TimeoutError(f"no end after {timeout} s")
            for key, _ in ready:
                part = os.read(key.fd, 1 << 16)
                texts[key.fd] += part
                if not part:
                    waiting.unregister(key.fd)
    return list(texts.values())


def _number(value: int) -> bytes:
    return value.to_bytes(_NUMBER, "little", signed=True)


def _received(from_: socket.socket) -> int:
    return int.from_bytes(from_.recv(_NUMBER, socket.MSG_WAITALL), "little", signed=True)


def serve(client: socket.socket) -> None:
    """Answer requests until the client goes away."""
    _warm()
    while True:
        head, fds, _, _ = socket.recv_fds(client, _NUMBER, 2)
        if not head:
            return
        size = int.from_bytes(head, "little")
        request = client.recv(size, socket.MSG_WAITALL)
        child = os.fork()
        if not child:
            client.close()
            _become(fds, *json.loads(request))
        for fd in fds:
            os.close(fd)
        client.sendall(_number(child))
        _, status = os.waitpid(child, 0)
        client.sendall(_number(os.waitstatus_to_exitcode(status)))


def _warm() -> None:
    """Import all that any command may need."""
    import ckpttool

    for found in pkgutil.walk_packages(ckpttool.__path__, "ckpttool."):
        import_module(found.name)
    # What is never collected is not touched, so the forked ones need no copy of it.
    gc.collect()
    gc.freeze()


def _become(
    streams: Sequence[int],
    words: Sequence[str],
    environ: Mapping[str, str],
    folder: str,
    limit: tuple[int, int],
) -> NoReturn:
    """Be `ckpt` from here on."""
    for at, fd in enumerate(streams, 1):
        os.dup2(fd, at)
        os.close(fd)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    sys.argv = ["ckpt", *words]
    from ckpttool.__main__ import script

    script()


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
