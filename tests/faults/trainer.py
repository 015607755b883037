"""A trainer that saves checkpoints with the very calls that TensorFlow makes, without TensorFlow.

    python -m tests.faults.trainer FOLDER SECONDS

saves `ckpt-1`, `ckpt-2`, ... in the folder, keeps the last two, and fails if anybody touches what
is its own. Every tensor of a checkpoint tells by its value which one it is from.
"""

from __future__ import annotations

import functools
import itertools
import os
import random
import struct
import sys
import time
from collections.abc import Iterator

import crc32c

from tests.support import encoder
from tests.support.handmade import Bundle, shard_path

KEPT = 2
SMALL = tuple(f"net/layer_{at}/kernel" for at in range(12))
# Large enough to be mapped by whoever reads it.
LARGE = "net/embedding"
_LARGE_SIZE = 40_000


@functools.cache
def contents(step: int) -> tuple[bytes, bytes]:
    """Return the bytes of the data shard and of the index of a checkpoint."""
    made = Bundle()
    for at, key in enumerate(SMALL):
        value = struct.pack("<f", step) * (at + 1)
        made.add(key.encode(), 1, [at + 1], value)
    value = struct.pack("<f", step) * _LARGE_SIZE
    made.add(LARGE.encode(), 1, [_LARGE_SIZE], value, crc=encoder.mask(crc32c.crc32c(value)))
    return made.shards[0], encoder.table(made.sorted_records())


def saving(prefix: str, step: int) -> Iterator[str]:
    """Save a checkpoint, over an older one if there is one; pause after every call.

    Yields:
        What was done last.
    """
    data, index = contents(step)
    folder = prefix + "_temp"
    os.mkdir(folder)
    yield "mkdir"
    part = os.path.join(folder, "part")
    data_part, index_part = shard_path(part), part + ".index"
    for path, written in ((data_part, data), (index_part, index)):
        temporary = f"{path}.tempstate{random.getrandbits(63)}"
        with open(temporary, "wb") as file:
            file.write(written)
        yield "part"
        os.rename(temporary, path)
        yield "part renamed"
    os.rename(data_part, shard_path(prefix))
    yield "data"
    fd = os.open(prefix + ".index", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    yield "index opened"
    half = len(index) // 2
    os.write(fd, index[:half])
    yield "half the index"
    os.write(fd, index[half:])
    os.close(fd)
    yield "index"
    os.unlink(index_part)
    yield "part removed"
    os.rmdir(folder)
    yield "folder removed"


def retiring(prefix: str) -> Iterator[str]:
    """Remove a checkpoint that is too old; pause after every call."""
    os.unlink(prefix + ".index")
    yield "index removed"
    os.unlink(shard_path(prefix))
    yield "data removed"


def telling(folder: str, names: list[str]) -> Iterator[str]:
    """Write the state file, twice, as a CheckpointManager does; pause after every call."""
    lines = [f'model_checkpoint_path: "{names[-1]}"\n']
    lines += [f'all_model_checkpoint_paths: "{name}"\n' for name in names]
    for _ in range(2):
        temporary = os.path.join(folder, f"checkpoint.tmp{random.getrandbits(64):016x}")
        with open(temporary, "w", encoding="utf-8") as file:
            file.write("".join(lines))
        yield "state"
        os.rename(temporary, os.path.join(folder, "checkpoint"))
        yield "state renamed"


def run(steps: Iterator[str], *, until: str = "") -> None:
    """Take steps to the end, or until after the one of a name."""
    for step in steps:
        if step == until:
            return


def expected(step: int, scope: str = "net") -> dict[str, bytes]:
    """Return the values of all tensors of a checkpoint."""
    found = {key: struct.pack("<f", step) * (at + 1) for at, key in enumerate(SMALL)}
    found[LARGE] = struct.pack("<f", step) * _LARGE_SIZE
    return {scope + key[len("net") :]: value for key, value in found.items()}


def main() -> None:
    """Train."""
    folder, seconds = sys.argv[1], float(sys.argv[2])
    pause = random.Random(1)
    end = time.monotonic() + seconds
    names: list[str] = []
    step = 0
    while time.monotonic() < end:
        step += 1
        name = f"ckpt-{step}"
        names.append(name)
        old = names[:-KEPT]
        names = names[-KEPT:]
        prefix = os.path.join(folder, name)
        retired = (retiring(os.path.join(folder, each)) for each in old)
        for _ in itertools.chain(saving(prefix, step), telling(folder, names), *retired):
            time.sleep(pause.random() * 0.003)
        for each in names:
            check(os.path.join(folder, each), int(each[len("ckpt-") :]))
    sys.stdout.write(f"{step}\n")


def check(prefix: str, step: int) -> None:
    """Fail unless a checkpoint is as it was saved."""
    data, index = contents(step)
    for path, written in ((shard_path(prefix), data), (prefix + ".index", index)):
        with open(path, "rb") as file:
            if file.read() != written:
                raise SystemExit(f"somebody wrote to {path}")
        if os.stat(path).st_mode & 0o777 != 0o666 & ~_mask():
            raise SystemExit(f"somebody changed the mode of {path}")
    with open(os.path.join(os.path.dirname(prefix), "checkpoint"), encoding="utf-8") as file:
        if os.path.basename(prefix) not in file.read():
            raise SystemExit(f"the state file does not name {prefix} any more")


def _mask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


if __name__ == "__main__":
    main()
