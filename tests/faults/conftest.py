"""Where the tests of this folder work, how much they may write there, and what they injected.

They work in memory, where there is such a file system: thousands of small files are made and
removed. No file may grow beyond a size that does no harm, whatever the code under test does.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from tests.faults import counts

_MEMORY = "/dev/shm"
_ROOM = 256 << 20
_PREFIX = "ckpt-faults-"
# A map of a file with holes fills them in memory, and no limit but the size of the file stops it.
_LARGEST_FILE = 64 << 20
_COUNTS = "faults"


@pytest.fixture(scope="session")
def above() -> str:
    """Return the folder that all folders are made in; what ended sessions left there goes."""
    found = tempfile.gettempdir()
    if os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ROOM:
        found = _MEMORY
    for name in os.listdir(found):
        process = name.removeprefix(_PREFIX).partition("-")[0]
        if name.startswith(_PREFIX) and process.isdecimal() and not _is_running(process):
            shutil.rmtree(os.path.join(found, name), ignore_errors=True)
    return found


@pytest.fixture(scope="module", autouse=True)
def _bounded() -> Iterator[None]:
    """Let neither these tests nor any process that they start make a large file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    given = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_FSIZE, (min([_LARGEST_FILE, *given]), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture(autouse=True)
def _counted(request: pytest.FixtureRequest) -> Iterator[None]:
    """Put down what a test injected."""
    counts.taken()
    yield
    request.node.user_properties.append((_COUNTS, counts.taken()))


@pytest.fixture
def tmp_path(above: str) -> Iterator[Path]:
    """Make an empty folder, which is removed even if this process is asked to end."""

    def end(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise KeyboardInterrupt("asked to end")

    before = signal.signal(signal.SIGTERM, end)
    try:
        with tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{os.getpid()}-", dir=above) as folder:
            yield Path(folder)
    finally:
        signal.signal(signal.SIGTERM, before)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell how many faults were injected."""
    total: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", "") == "teardown":
                for name, counted in report.user_properties:
                    if name == _COUNTS:
                        total.update(counted)
    if total:
        terminalreporter.write_line(f"injected: {counts.told(total)}")


def _is_running(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
