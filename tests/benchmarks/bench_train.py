"""Saving and restoring the variables of a program, against `tf.train.Checkpoint` on the same disk.

    python -m tests.benchmarks.bench_train --tensorflow PYTHON

Each measurement is a fresh process that times itself, the making of the variables and the imports
left out. We wait until the bytes are on the disk; TensorFlow does not, so its files are followed by
an fsync where one large variable is written, and taken as they are where many small ones are.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks.measure import Row, in_turn, inside, options, report

MANY = 10_000

PROGRAM = """
import os, sys, time
import numpy as np
if sys.argv[2] == "ours":
    from ckpttool.train.checkpoint import Checkpoint
    from ckpttool.train.variable import Variable
else:
    import tensorflow as tf
    Checkpoint, Variable = tf.train.Checkpoint, tf.Variable
prefix, number, size = sys.argv[1], int(sys.argv[3]), int(sys.argv[4])
value = np.random.default_rng(1).random((size // number // 4,), np.float32)
checkpoint = Checkpoint()
checkpoint.layers = [Variable(value, name=f"layer_{i}/kernel") for i in range(number)]
"""
SAVING = (
    PROGRAM
    + """
checkpoint.save_counter
start = time.perf_counter()
checkpoint.save(prefix)
if sys.argv[2] == "theirs and fsync":
    folder = os.path.dirname(prefix)
    for name in os.listdir(folder):
        fd = os.open(os.path.join(folder, name), os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
print(time.perf_counter() - start)
"""
)
RESTORING = (
    PROGRAM
    + """
start = time.perf_counter()
checkpoint.restore(prefix + "-1").assert_consumed()
print(time.perf_counter() - start)
"""
)


def saving(folder: Path, python: str, whose: str, number: int, size: int) -> Callable[[], float]:
    """Return a measurement that starts from an empty folder and a disk with nothing to write."""

    def measure() -> float:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        os.sync()
        seconds = inside(python, SAVING, str(folder / "ckpt"), whose, str(number), str(size))()
        shutil.rmtree(folder)
        return seconds

    return measure


def restoring(
    folder: Path, python: str, ours: str, number: int, size: int
) -> tuple[Callable[[], float], Callable[[], float]]:
    """Return measurements, ours and theirs, that restore the same files, read before."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    rest = str(folder / "ckpt"), "ours", str(number), str(size)
    inside(ours, SAVING, *rest)()

    def measure(python: str, whose: str) -> Callable[[], float]:
        return inside(python, RESTORING, rest[0], whose, *rest[2:])

    return measure(ours, "ours"), measure(python, "theirs")


def main() -> None:
    """Measure and print."""
    with options(__doc__.splitlines()[0], runs=3, size=256) as chosen:
        folder = chosen.scratch / "saved"
        small = MANY * 32
        many, their_many = in_turn(
            chosen.runs,
            saving(folder, sys.executable, "ours", MANY, small),
            saving(folder, chosen.tensorflow, "theirs", MANY, small),
        )
        large, their_large = in_turn(
            chosen.runs,
            saving(folder, sys.executable, "ours", 1, chosen.size),
            saving(folder, chosen.tensorflow, "theirs and fsync", 1, chosen.size),
        )
        restored, their_restored = in_turn(
            chosen.runs, *restoring(folder, chosen.tensorflow, sys.executable, MANY, small)
        )
        filled, their_filled = in_turn(
            chosen.runs, *restoring(folder, chosen.tensorflow, sys.executable, 4, chosen.size)
        )
        shutil.rmtree(folder)
        size = f"{chosen.size >> 20} MiB"
        report(
            [
                Row(f"save {MANY} variables", many, their_many, "s", "> 3"),
                Row(f"save {size}, both to stable storage", large, their_large, "s", "> 1"),
                Row(f"restore {MANY} variables", restored, their_restored, "s", "> 3"),
                Row(f"restore {size}", filled, their_filled, "s", "> 1.5"),
            ]
        )


if __name__ == "__main__":
    main()
