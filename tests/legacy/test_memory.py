"""Memory stays in proportion to the largest tensor, not to the file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ckpttool.legacy.writer import LegacyWriter
from ckpttool.tensor.dtypes import dtype_of_name
from tests.support.limits import run_python

MIB = 1 << 20
LARGEST = 64 * MIB

# The peak of all that the process had, less what it had after importing what it needs.
MEASURE = """
import json, sys
import numpy, ml_dtypes
import ckpttool, ckpttool.query.values.statistics, ckpttool.query.values.detail
import ckpttool.api.verify
import ckpttool.tensor.proto_values, ckpttool.legacy.writer, ckpttool.query.verify.legacy
from ckpttool.query.values.parts import Part
from ckpttool.query.values.statistics import statistics
from tests.support.limits import resident
before = resident()
{code}
status = open("/proc/self/status", encoding="ascii").read()
peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
print(json.dumps(peak - before))
"""


def floats() -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.arange(LARGEST // 4, dtype=np.float32)


def numbers() -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.arange(-(4 * MIB), 4 * MIB, dtype=np.int32)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file of 240 MiB with tensors of 64 MiB at most."""
    path = tmp_path_factory.mktemp("memory") / "model"
    with LegacyWriter(str(path)) as writer:
        for key in ("a", "b", "c"):
            writer.add(key, dtype_of_name("float32"), (LARGEST // 4,), floats)
        writer.add("i", dtype_of_name("int32"), (8 * MIB,), numbers)
    assert path.stat().st_size > 3.5 * LARGEST
    return path


CASES: dict[str, tuple[str, float]] = {
    "open": ("list(ckpttool.open_checkpoint(sys.argv[1]).entries)", 8 * MIB),
    "read": (
        "ckpt = ckpttool.open_checkpoint(sys.argv[1])\nfor key in ckpt:\n    value = ckpt[key]",
        2.2 * LARGEST,
    ),
    "statistics": (
        "ckpt = ckpttool.open_checkpoint(sys.argv[1])\n"
        "for key in ckpt:\n    statistics(Part(ckpt, key))",
        48 * MIB,
    ),
    "region": (
        "ckpt = ckpttool.open_checkpoint(sys.argv[1])\nckpt.read_region('b', (slice(5, 9),))",
        8 * MIB,
    ),
    "verify": (
        "assert ckpttool.api.verify.verify(sys.argv[1])[0].verdict == 'ok'",
        48 * MIB,
    ),
}


@pytest.mark.large
@pytest.mark.parametrize("name", CASES)
def test_peaks(name: str, path: Path) -> None:
    code, most = CASES[name]
    done = run_python(MEASURE.format(code=code), str(path), timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) <= most


WRITE = """
from ckpttool.tensor.dtypes import dtype_of_name
with ckpttool.legacy.writer.LegacyWriter(sys.argv[1]) as writer:
    for key in "abc":
        writer.add(key, dtype_of_name("float32"), (1 << 24,), lambda: numpy.ones(1 << 24, "f4"))
"""


def test_peak_of_writing(tmp_path: Path) -> None:
    done = run_python(MEASURE.format(code=WRITE), str(tmp_path / "model"), timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) <= 2.2 * LARGEST
