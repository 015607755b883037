"""Converting a large V1 file, beside TensorFlow that only reads it.

    python -m tests.benchmarks.bench_convert --tensorflow PYTHON

The file is in the page cache, and is read and written on the same disk. Converting is measured as
a whole process; TensorFlow's process times itself, imports left out. A partitioned tensor is one
that TensorFlow's own reader refuses; what is measured there is the op that restores it.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median

from tests.benchmarks.measure import Options, Row, Usage, in_turn, inside, options, report, run

MIB = 1 << 20
# What is in the files: dtype, how many tensors, and how many slices each is stored in.
FILES = {
    "one tensor of float32": ("float32", 1, 1),
    "16 tensors of float32": ("float32", 16, 1),
    "16 tensors of int32, small numbers": ("int32", 16, 1),
    "16 tensors of int64, large numbers": ("int64", 16, 1),
    "4 tensors of float32 in 4 slices each": ("float32", 4, 4),
}
MAKE = """
import sys
import numpy as np
import tensorflow as tf
path, dtype, count, slices, size = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
dtype = np.dtype(dtype)
rows, columns = size // count // dtype.itemsize // 1024, 1024
names, specs, tensors = [], [], []
for at in range(count):
    random = np.random.default_rng(at)
    if dtype.kind == "f":
        matrix = random.random((rows, columns), dtype)
    else:
        most = 1 << (14 if dtype.itemsize == 4 else 62)
        matrix = random.integers(-most, most, (rows, columns), dtype)
    step = rows // slices
    for start in range(0, rows, step):
        names.append(f"w_{at}")
        specs.append(f"{rows} {columns} {start},{step}:0,{columns}" if slices > 1 else "")
        tensors.append(matrix[start : start + step])
tf.raw_ops.SaveSlices(filename=path, tensor_names=names, shapes_and_slices=specs, data=tensors)
"""
READ = """
import sys, time
import tensorflow as tf
start = time.perf_counter()
reader = tf.train.load_checkpoint(sys.argv[1])
dtypes = reader.get_variable_to_dtype_map()
for name in dtypes:
    if sys.argv[2] == "1":
        reader.get_tensor(name)
    else:
        tf.raw_ops.RestoreV2(
            prefix=sys.argv[1], tensor_names=[name], shape_and_slices=[""], dtypes=[dtypes[name]]
        )
print(time.perf_counter() - start)
"""


def made(chosen: Options, what: str) -> Path:
    """Have TensorFlow make a V1 file in the scratch folder, unless it is there; return it."""
    dtype, count, slices = FILES[what]
    path = chosen.scratch / f"v1-{dtype}-{count}-{slices}-{chosen.size}" / "model"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        words = [str(path), dtype, str(count), str(slices), str(chosen.size)]
        run([chosen.tensorflow, "-c", MAKE, *words])
    return path


def converting(chosen: Options, source: Path, done: list[Usage], *more: str) -> Callable[[], float]:
    """Return a measurement of a conversion; what each took is put into `done`."""
    out = chosen.scratch / "out"

    def measure() -> float:
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        command = [sys.executable, "-m", "ckpttool", "convert-legacy", str(source)]
        done.append(run([*command, "-o", str(out / "model"), *more]))
        shutil.rmtree(out)
        return done[-1].seconds

    return measure


def main() -> None:
    """Measure and print."""
    rows = []
    with options(__doc__.splitlines()[0], runs=3) as chosen:
        for what, (_, count, slices) in FILES.items():
            file = made(chosen, what)
            size = os.path.getsize(file) / MIB
            bundle = file.with_name("bundle")
            if not file.with_name("bundle.index").exists():
                run(
                    [
                        sys.executable,
                        "-m",
                        "ckpttool",
                        "convert-legacy",
                        str(file),
                        "-o",
                        str(bundle),
                    ]
                )
            ways = [("to V2", file, []), ("back to V1", bundle, ["--to", "v1"])]
            if slices > 1:
                ways.insert(1, ("to V2, slices joined", file, ["--join-slices"]))
            measured: list[list[Usage]] = [[] for _ in ways]
            theirs, *times = in_turn(
                chosen.runs,
                inside(chosen.tensorflow, READ, str(file), str(slices)),
                *(
                    converting(chosen, source, done, *more)
                    for (_, source, more), done in zip(ways, measured, strict=True)
                ),
            )
            limit = 3 * chosen.size // count // MIB + 100
            for (way, _, _), seconds, done in zip(ways, times, measured, strict=True):
                rows.append(Row(f"{what}, {way}", seconds, theirs, "s", ""))
                title = f"  {size:.0f} MiB of V1"
                rows.append(Row(title, size / seconds, size / theirs, "MiB/s", ""))
                memory = median(usage.memory for usage in done) / MIB
                rows.append(Row("  peak memory", memory, None, "MiB", f"<= {limit}"))
        report(rows)


if __name__ == "__main__":
    main()
