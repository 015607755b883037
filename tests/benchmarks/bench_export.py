"""Exporting a large tensor beside safetensors' own writer, and importing it beside verifying it.

    python -m tests.benchmarks.bench_export --tensorflow PYTHON

Everything is in the page cache, and is read and written on the same disk. Ours are whole processes;
the library times `save_file` alone, and has the tensor in memory before. PYTHON makes the
checkpoint; this interpreter has safetensors.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks.measure import Row, Usage, in_turn, inside, make, options, report, run

MIB = 1 << 20
SAVE = """
import sys, time
import ckpttool
from safetensors.numpy import save_file
with ckpttool.open_checkpoint(sys.argv[1]) as ckpt:
    tensors = {name: ckpt[name] for name in ckpt}
start = time.perf_counter()
save_file(tensors, sys.argv[2])
print(time.perf_counter() - start)
"""


def ckpt(done: list[Usage], folder: Path, *words: str) -> Callable[[], float]:
    """Return a measurement of a command that writes to a folder; what it took goes to `done`."""

    def measure() -> float:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        done.append(run([sys.executable, "-m", "ckpttool", *words]))
        return done[-1].seconds

    return measure


def main() -> None:
    """Measure and print."""
    with options(__doc__.splitlines()[0], runs=3) as chosen:
        prefix = make(chosen, "large", chosen.size)
        out, back, theirs = (chosen.scratch / name for name in ("out", "back", "theirs"))
        theirs.mkdir(exist_ok=True)
        whole, numpy, adopted, linked, verified = (list[Usage]() for _ in range(5))
        export = ("export", prefix, "--all-kinds", "-o")
        first, second, third = in_turn(
            chosen.runs,
            ckpt(numpy, out, *export, f"{out}/x.npz"),
            ckpt(whole, out, *export, f"{out}/x.safetensors"),
            inside(sys.executable, SAVE, prefix, f"{theirs}/x.safetensors"),
        )
        words = ("import", f"{out}/x.safetensors", "-o", f"{back}/ckpt-1")
        copies, links, verifies = in_turn(
            chosen.runs,
            ckpt(adopted, back, *words),
            ckpt(linked, back, *words, "--data", "hardlink"),
            ckpt(verified, chosen.scratch / "none", "verify", prefix),
        )
        rows = [
            Row("export to safetensors; save_file", second, third, "s", ">= 1"),
            Row("export to npz; save_file", first, third, "s", ""),
            Row("import by copy; verify", copies, verifies, "s", ""),
            Row("import by link; verify", links, verifies, "s", ">= 0.67"),
        ]
        for what, done in (("safetensors", whole), ("npz", numpy), ("import", adopted)):
            peak = max(usage.memory for usage in done) / MIB
            rows.append(Row(f"{what}: peak memory", peak, None, "MiB", "<= 64"))
        report(rows, "the other")


if __name__ == "__main__":
    main()
