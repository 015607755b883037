"""Measuring side by side: fresh processes that take turns, and the median of each.

Keep whoever imports this small: the peak memory that the kernel reports for a process starts from
that of its parent.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.support import encoder

ROOT = Path(__file__).resolve().parents[2]
MAKER = Path(__file__).with_name("make_checkpoints.py")


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line of every benchmark says.

    Attributes:
        tensorflow: an interpreter that has TensorFlow.
        runs: how often each side is measured.
        scratch: a folder on the disk to measure; what is made there stays if it was given.
        size: bytes of the large tensor.
    """

    tensorflow: str
    runs: int
    scratch: Path
    size: int


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process took: wall time in seconds, peak memory in bytes, and what it printed."""

    seconds: float
    memory: int
    output: str


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table; `unit` is "s" or "MiB", `goal` is about theirs / ours or ours alone."""

    what: str
    ours: float
    theirs: float | None
    unit: str
    goal: str


@contextmanager
def options(description: str, *, runs: int, size: int = 1024) -> Iterator[Options]:
    """Parse the command line; the scratch folder goes away at the end unless it was named."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--tensorflow", required=True, metavar="PYTHON", help="has TensorFlow")
    parser.add_argument("--runs", type=int, default=runs, help="how often, each (%(default)s)")
    parser.add_argument("--scratch", type=Path, help="a folder that stays, to use again")
    parser.add_argument("--size", type=int, default=size, help="of the tensor, MiB (%(default)s)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ckpt-bench-") as temporary:
        scratch = (given.scratch or Path(temporary)).resolve()
        scratch.mkdir(parents=True, exist_ok=True)
        yield Options(given.tensorflow, given.runs, scratch, given.size << 20)


def run(command: Sequence[str]) -> Usage:
    """Run a command to its end.

    Raises:
        RuntimeError: it failed; its messages are in the text.
    """
    environment = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")
    # The first turn, which does not count, leaves bytecode behind, as an installation does.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as messages:
        start = time.perf_counter()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=messages,
            cwd=ROOT,
            env=environment,
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        messages.seek(0)
        if process.returncode:
            text = messages.read().decode(errors="replace")
            raise RuntimeError(f"{command}: status {process.returncode}\n{text}")
        return Usage(seconds, usage.ru_maxrss * 1024, out.read().decode(errors="replace"))


def inside(python: str, program: str, *arguments: str) -> Callable[[], float]:
    """Return a measurement: a process whose program prints the seconds that it measured itself."""
    return lambda: float(run([python, "-c", program, *arguments]).output.split()[-1])


def whole(*command: str) -> Callable[[], float]:
    """Return a measurement: the wall time of a process from start to end."""
    return lambda: run(command).seconds


def in_turn(runs: int, *measurements: Callable[[], float]) -> list[float]:
    """Take each measurement in turn, again and again, after one turn that does not count.

    Returns:
        The median of each.
    """
    turns = [[measure() for measure in measurements] for _ in range(runs + 1)]
    return [median(column) for column in zip(*turns[1:], strict=True)]


def make(chosen: Options, kind: str, number: int) -> str:
    """Have TensorFlow make a checkpoint in the scratch folder, unless it is there.

    Args:
        chosen: the options.
        kind: "names", "objects" or "large"; see `make_checkpoints.py`.
        number: how many keys, or how many bytes.

    Returns:
        Its prefix.
    """
    prefix = chosen.scratch / f"{kind}-{number}" / "ckpt"
    if not prefix.with_name("ckpt.index").exists():
        prefix.parent.mkdir(exist_ok=True)
        run([chosen.tensorflow, str(MAKER), kind, str(number), str(prefix)])
    return str(prefix)


def sparse(chosen: Options, name: str) -> str:
    """Write a checkpoint of a tensor of 4 GiB, whose file is a hole, and return its prefix."""
    from ckpttool.coding.checksum import joined_crc

    prefix = str(chosen.scratch / name)
    size = 4 << 30
    crc, half = encoder.crc32c(b"\0"), 1
    while half < size:
        crc = joined_crc(crc, crc, half)
        half *= 2
    record = encoder.entry(1, (size // 4,), size=size, crc=encoder.mask(crc))
    Path(f"{prefix}.index").write_bytes(encoder.table([(b"", encoder.header()), (b"w", record)]))
    with open(f"{prefix}.data-00000-of-00001", "wb") as file:
        file.truncate(size)
    return prefix


def report(rows: Sequence[Row], theirs: str = "TensorFlow") -> None:
    """Print the table.

    Args:
        rows: its lines.
        theirs: what we are held against.
    """
    lines = [("what", "ours", theirs, "ratio", "goal")]
    for row in rows:
        ratio = f"{row.theirs / row.ours:.2f}" if row.theirs is not None else ""
        other = f"{row.theirs:.3f} {row.unit}" if row.theirs is not None else ""
        lines.append((row.what, f"{row.ours:.3f} {row.unit}", other, ratio, row.goal))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [text.ljust(width) for text, width in zip(line, widths, strict=True)]
        sys.stdout.write("  ".join(cells).rstrip() + "\n")
