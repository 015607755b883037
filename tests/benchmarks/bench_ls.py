"""Listing: `ckpt ls` against a Python process that imports TensorFlow and lists the variables.

    python -m tests.benchmarks.bench_ls --tensorflow PYTHON

Run it with an interpreter that has what ckpttool needs.
"""

from __future__ import annotations

import sys

from tests.benchmarks.measure import (
    ROOT,
    Options,
    Row,
    in_turn,
    inside,
    make,
    options,
    report,
    run,
    whole,
)

SMALL = str(ROOT / "fixtures/v2/tf2.21/guide_legacy_adam/tf_ckpts/ckpt-5")
THEIR_LIST = """
import sys
import tensorflow as tf
for name, shape in tf.train.list_variables(sys.argv[1]):
    print(name, shape)
"""
OUR_MAP = """
import sys, time
import ckpttool
ckpttool.load_checkpoint(sys.argv[2]).get_variable_to_shape_map()
start = time.perf_counter()
shapes = ckpttool.load_checkpoint(sys.argv[1]).get_variable_to_shape_map()
print(time.perf_counter() - start)
"""
THEIR_MAP = """
import sys, time
import tensorflow as tf
tf.train.load_checkpoint(sys.argv[2]).get_variable_to_shape_map()
start = time.perf_counter()
shapes = tf.train.load_checkpoint(sys.argv[1]).get_variable_to_shape_map()
print(time.perf_counter() - start)
"""


def listing(chosen: Options, what: str, prefix: str, goal: str) -> Row:
    """Measure whole processes that print a listing."""
    ours, theirs = in_turn(
        chosen.runs,
        whole(sys.executable, "-m", "ckpttool", "ls", prefix),
        whole(chosen.tensorflow, "-c", THEIR_LIST, prefix),
    )
    return Row(what, ours, theirs, "s", goal)


def shape_map(chosen: Options, what: str, prefix: str) -> Row:
    """Measure opening a checkpoint and asking for all shapes, imports left out."""
    ours, theirs = in_turn(
        chosen.runs,
        inside(sys.executable, OUR_MAP, prefix, SMALL),
        inside(chosen.tensorflow, THEIR_MAP, prefix, SMALL),
    )
    return Row(what, ours, theirs, "s", ">= 1")


def memory(chosen: Options, prefix: str) -> Row:
    """Measure the peak memory of a listing."""
    ours = run([sys.executable, "-m", "ckpttool", "ls", prefix]).memory
    theirs = run([chosen.tensorflow, "-c", THEIR_LIST, prefix]).memory
    return Row("peak memory of ls, 200,000 keys", ours / 2**20, theirs / 2**20, "MiB", "<= 400 MiB")


def main() -> None:
    """Measure and print."""
    with options(__doc__.splitlines()[0], runs=5) as chosen:
        many = make(chosen, "names", 200_000)
        objects = make(chosen, "objects", 20_000)
        report(
            [
                listing(chosen, "ls, small checkpoint", SMALL, ">= 25"),
                listing(chosen, "ls, 20,000 variables, object-based", objects, ""),
                listing(chosen, "ls, 200,000 keys", many, ">= 5"),
                shape_map(chosen, "open + shape map, 20,000 variables", objects),
                shape_map(chosen, "open + shape map, 200,000 keys", many),
                memory(chosen, many),
            ]
        )


if __name__ == "__main__":
    main()
