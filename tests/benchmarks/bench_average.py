"""Averaging three large checkpoints, beside NumPy on maps of the same bytes.

    python -m tests.benchmarks.bench_average --tensorflow PYTHON [--size MIB]

Each measurement is a whole process; the files are in the page cache, and are written on the same
disk. NumPy adds the maps in float64, divides, rounds to float32 and writes a file. It verifies
nothing, but makes its file durable, as we do.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable

from tests.benchmarks.measure import Options, Row, Usage, in_turn, options, report, run

MIB = 1 << 20
MAKE = """
import sys
import numpy as np
import ckpttool
prefix, at, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
values = np.random.default_rng(at).random(size // 4, np.float32)
ckpttool.save_checkpoint(prefix, {"w": values})
"""
NUMPY = """
import os, sys
import numpy as np
*paths, out = sys.argv[1:]
first, *others = (np.memmap(path, np.float32, mode="r") for path in paths)
total = first.astype(np.float64)
for other in others:
    total += other
total /= len(paths)
with open(out, "wb") as file:
    total.astype(np.float32).tofile(file)
    os.fsync(file.fileno())
"""


def measured(chosen: Options, command: list[str], done: list[Usage]) -> Callable[[], float]:
    """Return a measurement of a process that writes to the folder "out"."""

    def measure() -> float:
        out = chosen.scratch / "out"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        done.append(run(command))
        return done[-1].seconds

    return measure


def main() -> None:
    """Measure, and print the table."""
    with options(__doc__ or "", runs=3) as chosen:
        prefixes = [str(chosen.scratch / f"average-{at}") for at in range(3)]
        for at, prefix in enumerate(prefixes):
            run([sys.executable, "-c", MAKE, prefix, str(at), str(chosen.size)])
        data = [f"{prefix}.data-00000-of-00001" for prefix in prefixes]
        out = str(chosen.scratch / "out" / "mean")
        ours: list[Usage] = []
        theirs: list[Usage] = []
        our_time, their_time = in_turn(
            chosen.runs,
            measured(
                chosen, [sys.executable, "-m", "ckpttool", "average", *prefixes, "-o", out], ours
            ),
            measured(chosen, [sys.executable, "-c", NUMPY, *data, out], theirs),
        )
        our_peak, their_peak = (max(each.memory for each in done) / MIB for done in (ours, theirs))
        rows = [
            Row(f"average of 3 × {chosen.size // MIB} MiB", our_time, their_time, "s", ">= 0.67"),
            Row("  peak memory", our_peak, their_peak, "MiB", "<= 200"),
        ]
        report(rows, "NumPy")


if __name__ == "__main__":
    main()
