"""Ceilings of memory and time, so that a test shows what would otherwise only be felt."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from types import FrameType

from tests.support.fixtures import ROOT


class TooSlowError(Exception):
    """More time was taken than allowed; no OSError, so that nobody takes it for one."""


@contextlib.contextmanager
def memory_limit(extra: int) -> Iterator[None]:
    """Let this process have at most `extra` bytes of address space more than now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (address_space() + extra, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TooSlowError when the block takes longer."""

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise TooSlowError(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def address_space() -> int:
    """Return how many bytes of address space this process has."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGESIZE")


def resident() -> int:
    """Return how many bytes of memory this process takes."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def run_python(code: str, *arguments: str, timeout: float = 20) -> subprocess.CompletedProcess[str]:
    """Run code in a new interpreter that finds this source tree."""
    environment = {**os.environ, "PYTHONPATH": os.path.normpath(ROOT), "PYTHONWARNINGS": "error"}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
