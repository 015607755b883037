"""Verifying: `ckpt verify` against crc32c over the mapped data file, whole processes.

    python -m tests.benchmarks.bench_verify --tensorflow PYTHON

The files are in the page cache. The other side is not TensorFlow, which has nothing of the kind,
but a process that maps the data shard and computes one crc32c: the least that can be done. The goal
is 1.3 times its time, a ratio of 0.77.
"""

from __future__ import annotations

import sys

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
import mmap, sys
from crc32c import crc32c
with open(sys.argv[1], "rb") as file:
    print(crc32c(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)))
"""
VERIFY = (sys.executable, "-m", "ckpttool", "verify")


def reading(chosen: Options, what: str, prefix: str, *words: str, goal: str = "") -> Row:
    """Measure a verification against the least."""
    ours, least = in_turn(
        chosen.runs,
        whole(*VERIFY, *words, prefix),
        whole(sys.executable, "-c", LEAST, f"{prefix}.data-00000-of-00001"),
    )
    return Row(what, ours, least, "s", goal)


def structure(chosen: Options, what: str, prefix: str) -> Row:
    """Measure a verification of the structure alone against a listing."""
    ours, listing = in_turn(
        chosen.runs,
        whole(*VERIFY, "--fast", prefix),
        whole(sys.executable, "-m", "ckpttool", "ls", prefix),
    )
    return Row(f"{what}, against ckpt ls", ours, listing, "s", "")


def memory(chosen: Options) -> Row:
    """Measure the peak memory that a tensor of 4 GiB takes; its file is full of holes."""
    ours = run([*VERIFY, sparse(chosen, "sparse")]).memory
    return Row("peak memory, a tensor of 4 GiB", ours / 2**20, None, "MiB", "<= 200 MiB")


def main() -> None:
    """Measure and print."""
    with options(__doc__.splitlines()[0], runs=5) as chosen:
        large = make(chosen, "large", chosen.size)
        many = make(chosen, "names", 200_000)
        size = f"{chosen.size >> 20} MiB"
        report(
            [
                reading(
                    chosen, f"verify one tensor of {size}, against crc32c", large, goal=">= 0.77"
                ),
                reading(chosen, f"the same with one thread, {size}", large, "--jobs", "1"),
                structure(chosen, "verify --fast, 200,000 keys", many),
                memory(chosen),
            ],
            theirs="the other",
        )


if __name__ == "__main__":
    main()
