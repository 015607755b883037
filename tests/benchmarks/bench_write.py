"""Writing one large tensor, against TensorFlow's SaveV2 on the same disk.

    python -m tests.benchmarks.bench_write --tensorflow PYTHON

We wait until the bytes are on the disk before a name appears; TensorFlow does not wait at all. So
it is measured twice: as it is, and with an fsync of its files after it. Each measurement is a fresh
process that times itself, the making of the tensor and the imports left out.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks.measure import Row, in_turn, inside, options, report

MATRIX = """
import os, sys, time
import numpy as np
matrix = np.random.default_rng(1).random((int(sys.argv[2]) >> 14, 4096), np.float32)
"""
OURS = (
    MATRIX
    + """
import ckpttool
ckpttool.save_checkpoint
start = time.perf_counter()
ckpttool.save_checkpoint(sys.argv[1], {"w": matrix})
print(time.perf_counter() - start)
"""
)
THEIRS = (
    MATRIX
    + """
import tensorflow as tf
tensor = tf.constant(matrix)
start = time.perf_counter()
tf.raw_ops.SaveV2(
    prefix=sys.argv[1], tensor_names=["w"], shape_and_slices=[""], tensors=[tensor]
)
if sys.argv[3] == "sync":
    for name in os.listdir(os.path.dirname(sys.argv[1])):
        fd = os.open(os.path.join(os.path.dirname(sys.argv[1]), name), os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
print(time.perf_counter() - start)
"""
)


def writing(folder: Path, python: str, program: str, size: int, mode: str) -> Callable[[], float]:
    """Return a measurement that starts from an empty folder and a disk with nothing to write."""

    def measure() -> float:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        os.sync()
        seconds = inside(python, program, str(folder / "ckpt"), str(size), mode)()
        shutil.rmtree(folder)
        return seconds

    return measure


def main() -> None:
    """Measure and print."""
    with options(__doc__.splitlines()[0], runs=5) as chosen:
        folder = chosen.scratch / "written"
        ours, synced, theirs = in_turn(
            chosen.runs,
            writing(folder, sys.executable, OURS, chosen.size, "sync"),
            writing(folder, chosen.tensorflow, THEIRS, chosen.size, "sync"),
            writing(folder, chosen.tensorflow, THEIRS, chosen.size, "as it is"),
        )
        size = f"{chosen.size >> 20} MiB"
        report(
            [
                Row(f"write {size}, both to stable storage", ours, synced, "s", "> 1"),
                Row(f"write {size}, TensorFlow as it is", ours, theirs, "s", "> 1"),
            ]
        )


if __name__ == "__main__":
    main()
