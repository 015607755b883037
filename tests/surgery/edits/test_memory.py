"""Values are computed in pieces, however large the tensor is."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ckpttool import save_checkpoint
from tests.support.limits import run_python

MIB = 1 << 20
SIZE = 160 * MIB
# The peak of all that the process had, less what it had after importing what it needs.
MEASURE = """
import json, os, sys
import numpy, ml_dtypes
import ckpttool
from tests.support.limits import resident
folder = sys.argv[1]
first, second, out = (os.path.join(folder, name) for name in ("a", "b", "out"))
tiny = os.path.join(folder, "tiny")
ckpttool.save_checkpoint(tiny, {{"w": numpy.ones(1, numpy.float32)}}, force=True)
ckpttool.edit(tiny, cast={{"w": "bfloat16"}}, dry_run=True)
ckpttool.edit(tiny, set={{"w": 1}}, dry_run=True)
before = resident()
{code}
status = open("/proc/self/status", encoding="ascii").read()
peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
print(json.dumps(peak - before))
"""
CASES = {
    "cast": 'ckpttool.edit(first, cast={"w": "bfloat16"}, dry_run=True)',
    "set": 'ckpttool.edit(first, set={"w": 2}, dry_run=True)',
    "file": "import pathlib\n"
    'ckpttool.edit(first, set={"w": pathlib.Path(folder, "w.npy")}, dry_run=True)',
    "graft": 'ckpttool.edit(first, graft=[(second, "w", "w")], dry_run=True)',
    "average": "ckpttool.average([first, second], dry_run=True)",
    "write": "ckpttool.average([first, second], out, weights=[1, 2])",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two checkpoints of one large tensor, and an array."""
    folder = tmp_path_factory.mktemp("memory")
    values = np.arange(SIZE // 4, dtype=np.float32)
    save_checkpoint(folder / "a", {"w": values})
    save_checkpoint(folder / "b", {"w": values + 1})
    np.save(folder / "w.npy", values)
    return folder


@pytest.mark.large
@pytest.mark.parametrize("name", CASES)
def test_values_take_a_piece_of_memory(name: str, folder: Path) -> None:
    done = run_python(MEASURE.format(code=CASES[name]), str(folder), timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) < 24 * MIB
