"""Reading one large tensor, its crc32c checked, against TensorFlow's CheckpointReader.

    python -m tests.benchmarks.bench_read --tensorflow PYTHON

The file is in the page cache. Each measurement is a fresh process that times itself, imports left
out. Before that it touches and frees memory for three copies of the tensor: the first touch of a
page in a virtual machine may cost ten times what reading it does, and hits whoever comes first.
"""

from __future__ import annotations

import sys

from tests.benchmarks.measure import Row, in_turn, inside, make, options, report

OURS = """
import sys, time
import numpy
import ckpttool
ckpttool.load_checkpoint
numpy.ones(3 * int(sys.argv[2]), numpy.uint8)
start = time.perf_counter()
value = ckpttool.load_checkpoint(sys.argv[1]).get_tensor("w")
{more}
print(time.perf_counter() - start)
"""
THEIRS = OURS.replace("import ckpttool\n", "import tensorflow as tf\n").replace(
    "ckpttool.", "tf.train."
)


def main() -> None:
    """Measure and print."""
    with options(__doc__.splitlines()[0], runs=5) as chosen:
        prefix = make(chosen, "large", chosen.size)
        rows, size = [], str(chosen.size)
        for what, more, goal in (
            ("get_tensor", "", ">= 1.5"),
            ("get_tensor, then the sum of all values", "value.sum()", ""),
        ):
            ours, theirs = in_turn(
                chosen.runs,
                inside(sys.executable, OURS.format(more=more), prefix, size),
                inside(chosen.tensorflow, THEIRS.format(more=more), prefix, size),
            )
            rows.append(Row(f"{what}, {chosen.size >> 20} MiB", ours, theirs, "s", goal))
        report(rows)


if __name__ == "__main__":
    main()
