"""Comparing: `ckpt diff` against `ckpt ls` and against NumPy on mapped files, whole processes.

    python -m tests.benchmarks.bench_diff --tensorflow PYTHON

The files are in the page cache. Equal checkpoints are compared by their indexes: the goal is three
times the time of a listing, a ratio of 0.33. Where every tensor changed the other side is a process
that maps both data shards and takes the largest distance: the goal is 1.5 times its time, a ratio
of 0.67.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.benchmarks.measure import (
    Options,
    Row,
    in_turn,
    make,
    options,
    report,
    run,
    sparse,
    whole,
)

LEAST = """
import numpy as np, sys
a, b = (np.memmap(path, np.float32, "r") for path in sys.argv[1:])
print(np.abs(a - b).max())
"""
CHANGE = """
import sys
import numpy as np
import ckpttool
with ckpttool.open_checkpoint(sys.argv[1]) as ckpt:
    changed = {key: ckpt[key] + np.float32(1e-3) for key in ckpt}
ckpttool.save_checkpoint(sys.argv[2], changed, force=True)
"""
# A difference is an answer, not a failure; what is left is the time and the memory.
DIFF = (
    "import sys\n"
    "from ckpttool.cli.main import main\n"
    "code = main(['diff', *sys.argv[1:]])\n"
    "sys.exit(code if code > 1 else 0)"
)
LIST = (sys.executable, "-m", "ckpttool", "ls")


def compared(*words: str) -> tuple[str, ...]:
    """Return the command that compares."""
    return (sys.executable, "-c", DIFF, *words)


def equal(chosen: Options, what: str, prefix: str) -> Row:
    """Measure the comparison of a checkpoint with itself against a listing of it."""
    ours, listing = in_turn(chosen.runs, whole(*compared(prefix, prefix)), whole(*LIST, prefix))
    return Row(what, ours, listing, "s", ">= 0.33")


def changed(chosen: Options, what: str, prefix: str, *words: str, goal: str = "") -> Row:
    """Measure the comparison with a checkpoint of which every element is another."""
    other = str(chosen.scratch / f"changed-{chosen.size}")
    if not Path(f"{other}.index").exists():
        subprocess.run([sys.executable, "-c", CHANGE, prefix, other], check=True)
    shards = [f"{each}.data-00000-of-00001" for each in (prefix, other)]
    ours, least = in_turn(
        chosen.runs,
        whole(*compared(prefix, other, *words)),
        whole(sys.executable, "-c", LEAST, *shards),
    )
    return Row(what, ours, least, "s", goal)


def memory(chosen: Options) -> Row:
    """Measure the peak memory that a tensor of 4 GiB takes; its files are full of holes."""
    made = [sparse(chosen, name) for name in ("sparse-a", "sparse-b")]
    # Equal checksums would be enough otherwise.
    ours = run(compared(*made, "--exact")).memory
    return Row("peak memory, a tensor of 4 GiB", ours / 2**20, None, "MiB", "<= 200 MiB")


def main() -> None:
    """Measure and print."""
    with options(__doc__.splitlines()[0], runs=5) as chosen:
        large = make(chosen, "large", chosen.size)
        many = make(chosen, "names", 200_000)
        size = f"{chosen.size >> 20} MiB"
        report(
            [
                equal(chosen, f"equal, {size}, against ckpt ls", large),
                equal(chosen, "equal, 200,000 keys, against ckpt ls", many),
                changed(chosen, f"all changed, {size}, against NumPy", large, goal=">= 0.67"),
                changed(chosen, f"the same with one thread, {size}", large, "--jobs", "1"),
                changed(chosen, f"the same with --rtol 1e-6, {size}", large, "--rtol", "1e-6"),
                memory(chosen),
            ],
            theirs="the other",
        )


if __name__ == "__main__":
    main()
