"""Saving in a thread, seen from a whole process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BEGIN = """
import sys
from ckpttool.train.checkpoint import Checkpoint
from ckpttool.train.options import CheckpointOptions
from ckpttool.train.variable import Variable

options = CheckpointOptions(enable_async=True)
ckpt = Checkpoint(v=Variable(list(map(float, range(100000)))))
"""


def run(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BEGIN + text],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_end_of_the_interpreter_waits(tmp_path: Path) -> None:
    done = run("ckpt.save('a/ckpt', options); ckpt.save('a/ckpt', options)", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "a/ckpt-2.index").exists()
    assert 'model_checkpoint_path: "ckpt-2"' in (tmp_path / "a/checkpoint").read_text()


def test_the_end_of_the_interpreter_tells_what_went_wrong(tmp_path: Path) -> None:
    (tmp_path / "ckpt-1.index").mkdir()
    done = run("ckpt.save('ckpt', options)", tmp_path)
    assert "DestinationError" in done.stderr
    assert "ckpt-1" in done.stderr


def test_a_forked_process_can_save(tmp_path: Path) -> None:
    text = """
import os
ckpt.save('a/ckpt', options)
ckpt.sync()
child = os.fork()
if not child:
    ckpt.save('b/ckpt', options)
    ckpt.sync()
    os._exit(0)
os.waitpid(child, 0)
"""
    done = run(text, tmp_path)
    assert done.returncode == 0
    assert (tmp_path / "b/ckpt-2.index").exists()
