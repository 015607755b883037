"""Settings for all tests, and which cases of a sweep are run.

Hypothesis draws the same examples every time; `--hypothesis-profile=fresh` draws others.

Where a test has many cases of one kind, a normal run takes a part of them, the same every time. It
leaves out large tests: of gigabytes, or of hundreds of thousands of names. It says at its end
how much it left out; `--exhaustive` takes all.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

# A Python that keeps no bytecode compiles the tests for each worker, and the package for each
# process that a test starts, which takes longer than the tests.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# A shell starts what it puts into the background deaf to interrupts, and so would be the programs
# that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_QUIET = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]

settings.register_profile(
    "fixed", derandomize=True, database=None, deadline=None, suppress_health_check=_QUIET
)
settings.register_profile(
    "fresh", database=None, deadline=None, max_examples=1000, suppress_health_check=_QUIET
)
settings.load_profile("fixed")

_INTEROP = Path(__file__).parent / "interop"
_HAS_TENSORFLOW = importlib.util.find_spec("tensorflow") is not None
_OPTION = "--exhaustive"
_LEFT_OUT = pytest.StashKey[int]()
_PARTLY = "partly"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of these tests."""
    parser.addoption(_OPTION, action="store_true", help="run every case of every sweep")


@pytest.fixture
def exhaustive(request: pytest.FixtureRequest) -> bool:
    """Tell whether a test that sweeps by itself is to take every case."""
    every = bool(request.config.getoption(_OPTION))
    if not every:
        request.node.user_properties.append((_PARTLY, True))
    return every


@pytest.fixture(autouse=True)
def _do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no test wait for a disk; those of the waiting itself see the calls all the same."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what asks TensorFlow where it is not installed."""
    return True if collection_path == _INTEROP and not _HAS_TENSORFLOW else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out large tests and most cases of sweeps, unless they were asked for by name."""
    if addresses := [item.nodeid for item in items if " at 0x" in item.name]:
        # pytest-xdist runs nothing where two processes call a test by other names.
        raise pytest.UsageError(f"names of tests with an address in them: {addresses[:5]}")
    if config.getoption(_OPTION) or any("::" in word for word in config.args):
        return
    sweeps: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sweep"):
            sweeps.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left = {item for cases in sweeps.values() for item in _beyond_a_part(cases)}
    left |= {item for item in items if item.get_closest_marker("large")}
    items[:] = [item for item in items if item not in left]
    config.stash[_LEFT_OUT] = len(left)
    config.hook.pytest_deselected(items=list(left))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Have one worker more than processors, since many tests wait for programs that they start."""
    return (os.cpu_count() or 1) + 1


def _beyond_a_part(cases: list[pytest.Item]) -> list[pytest.Item]:
    """Return all cases of a sweep but one in n."""
    (n,) = next(cases[0].iter_markers("sweep")).args
    # Mixed, since each n-th of what two parameters make together may be of one value only.
    mixed = sorted(cases, key=lambda item: crc32(item.name.encode()))
    return mixed[-(-len(cases) // n) :]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Have a worker of xdist tell what it left out; each was given the same tests."""
    told: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if told is not None:
        told["left_out"] = session.config.stash.get(_LEFT_OUT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take down what a worker tells."""
    node.config.stash[_LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", 0)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say what was left out, and how to run it."""
    for line in _left_out(terminalreporter, config):
        terminalreporter.write_line(f"left out: {line}")


def _left_out(reporter: pytest.TerminalReporter, config: pytest.Config) -> Iterator[str]:
    if cases := config.stash.get(_LEFT_OUT, 0):
        yield f"{cases} large tests and cases of sweeps; {_OPTION} runs all"
    partly = sum(
        (_PARTLY, True) in map(tuple, report.user_properties)
        for report in reporter.getreports("passed")
        if getattr(report, "when", "") == "call"
    )
    if partly:
        yield f"some cases inside of {partly} tests; {_OPTION} runs all"
    if not _HAS_TENSORFLOW:
        yield "what asks TensorFlow (tests/interop); a Python that has TensorFlow runs it"
    if skipped := len(reporter.getreports("skipped")):
        yield f"{skipped} tests for want of something else; -rs says of what"
