"""Surgery on large checkpoints: rename and prune against `ckpt ls`, and the memory of copies.

    python -m tests.benchmarks.bench_surgery [--tensorflow PYTHON]

Each measurement is a whole process; the files are in the page cache. What is written besides links
is taken from what the command says and from the blocks that its files take. With TensorFlow
(and tf_keras) an object-based checkpoint is measured too.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.measure import in_turn, run

MIB = 1 << 20
# A model of 32 layers, each with the two moments of Adam.
NAMED = """
import sys
import numpy as np
import ckpttool
rows = int(sys.argv[2]) // (96 * 4 * 1024)
tensors = {"global_step": np.int64(1)}
for layer in range(32):
    for slot in ("", "/Adam", "/Adam_1"):
        matrix = np.full((rows, 1024), layer, np.float32)
        tensors[f"model/layer_{layer}/kernel{slot}"] = matrix
ckpttool.save_checkpoint(sys.argv[1], tensors)
"""
OBJECTS = """
import sys
import tensorflow as tf
from tf_keras.optimizers.legacy import Adam
rows = int(sys.argv[2]) // (96 * 4 * 1024)
root = tf.Module()
root.layers = []
for at in range(32):
    layer = tf.Module()
    layer.kernel = tf.Variable(tf.fill((rows, 1024), float(at)))
    root.layers.append(layer)
optimizer = Adam()
gradients = [(tf.zeros_like(each.kernel), each.kernel) for each in root.layers]
optimizer.apply_gradients(gradients)
tf.train.Checkpoint(model=root, optimizer=optimizer).write(sys.argv[1])
"""
# One tensor of zeros, of which the file system stores nothing.
SPARSE = """
import os, sys
import crc32c
from tests.support import encoder
from tests.support.handmade import Bundle, shard_path
size = int(sys.argv[2])
crc, zeros = 0, bytes(1 << 24)
for at in range(0, size, len(zeros)):
    crc = crc32c.crc32c(zeros, crc)
made = Bundle()
made.records[b"scope/w"] = encoder.entry(1, [size // 4], size=size, crc=encoder.mask(crc))
made.records[b"scope/z"] = encoder.entry(1, [0], crc=encoder.mask(0))
made.write(sys.argv[1])
os.truncate(shard_path(sys.argv[1]), size)
os.utime(sys.argv[1] + ".index")
"""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the table: what, the figure, what it is held against, the goal, whether met."""

    what: str
    figure: str
    against: str
    goal: str
    met: bool | None


def ckpt(*words: str) -> list[str]:
    """Return the command line of `ckpt`."""
    return [sys.executable, "-m", "ckpttool", *words]


def made(folder: Path, python: str, program: str, size: int) -> str:
    """Make a checkpoint unless it is there; return its prefix."""
    prefix = folder / "ckpt"
    if not prefix.with_name("ckpt.index").exists():
        folder.mkdir(parents=True, exist_ok=True)
        run([python, "-c", program, str(prefix), str(size)])
    return str(prefix)


def surgery(scratch: Path, words: Sequence[str]) -> Callable[[], float]:
    """Return a measurement of a command that writes into a folder that is empty before."""
    out = scratch / "out"

    def measure() -> float:
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        return run(ckpt(*words, "-o", str(out / "ckpt"))).seconds

    return measure


def against_listing(
    scratch: Path, runs: int, what: str, prefix: str, commands: Sequence[Sequence[str]]
) -> list[Line]:
    """Measure commands on a checkpoint beside `ckpt ls` on it."""
    measurements = [surgery(scratch, words) for words in commands]
    listing, *times = in_turn(runs, lambda: run(ckpt("ls", prefix)).seconds, *measurements)
    lines = []
    for words, seconds in zip(commands, times, strict=True):
        name = f"{words[0]}, {what}"
        ratio = seconds / listing
        lines.append(
            Line(
                name,
                f"{seconds:.3f} s",
                f"ls {listing:.3f} s = {ratio:.2f} x",
                "<= 3 x",
                ratio <= 3,
            )
        )
        lines += written(scratch, name, words)
    return lines


def written(scratch: Path, name: str, words: Sequence[str]) -> list[Line]:
    """Tell what a command writes besides links, and its peak memory."""
    out = scratch / "out"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    usage = run(ckpt(*words, "-o", str(out / "ckpt"), "--json"))
    told = json.loads(usage.output)["written"]["bytes_written"]
    status = [os.stat(out / each) for each in os.listdir(out)]
    taken = sum(each.st_blocks * 512 for each in status if each.st_nlink == 1)
    linked = sum(each.st_size for each in status if each.st_nlink > 1)
    return [
        Line(
            f"{name}: written",
            f"{told / 1024:.1f} KiB",
            f"on disk {taken / 1024:.1f} KiB; linked {linked / MIB:.0f} MiB",
            "< 1 MiB",
            max(told, taken) < MIB,
        ),
        Line(f"{name}: peak memory", f"{usage.memory / MIB:.0f} MiB", "", "", None),
    ]


def copies(scratch: Path, prefix: str, size: int) -> list[Line]:
    """Measure what copies a large tensor."""
    out = scratch / "out"
    lines = []
    for what in (["--data", "copy"], ["--compact"]):
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        usage = run(ckpt("rename", prefix, "scope=s", "-o", str(out / "ckpt"), *what))
        memory = usage.memory / MIB
        lines.append(
            Line(
                f"rename {' '.join(what)}, a tensor of {size / 2**30:g} GiB: peak memory",
                f"{memory:.0f} MiB",
                f"{usage.seconds:.1f} s, {size / MIB / usage.seconds:.0f} MiB/s",
                "< 200 MiB",
                memory < 200,
            )
        )
    shutil.rmtree(out)
    return lines


def report(lines: Sequence[Line]) -> None:
    """Print the table."""
    rows = [("what", "measured", "beside", "goal", "")]
    for line in lines:
        met = "" if line.met is None else "met" if line.met else "MISSED"
        rows.append((line.what, line.figure, line.against, line.goal, met))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [text.ljust(width) for text, width in zip(row, widths, strict=True)]
        sys.stdout.write("  ".join(cells).rstrip() + "\n")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tensorflow", metavar="PYTHON", help="has TensorFlow")
    parser.add_argument("--runs", type=int, default=5, help="how often, each (%(default)s)")
    parser.add_argument("--scratch", type=Path, help="a folder that stays, to use again")
    parser.add_argument("--size", type=int, default=1024, help="of a checkpoint, MiB (%(default)s)")
    given = parser.parse_args()
    size = given.size * MIB
    with tempfile.TemporaryDirectory(prefix="ckpt-bench-") as temporary:
        scratch = (given.scratch or Path(temporary)).resolve()
        named = made(scratch / f"named-{size}", sys.executable, NAMED, size)
        commands = [["rename", named, "--sub", "layer_", "block_"], ["prune", named, "--slots"]]
        lines = against_listing(
            scratch, given.runs, f"{given.size} MiB, name-based", named, commands
        )
        if given.tensorflow:
            objects = made(scratch / f"objects-{size}", given.tensorflow, OBJECTS, size)
            commands = [["rename", objects, "model=net"], ["prune", objects, "--slots"]]
            lines += against_listing(
                scratch, given.runs, f"{given.size} MiB, object-based", objects, commands
            )
        sparse = made(scratch / f"sparse-{4 * size}", sys.executable, SPARSE, 4 * size)
        lines += copies(scratch, sparse, 4 * size)
        report(lines)


if __name__ == "__main__":
    main()
