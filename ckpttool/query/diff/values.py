"""Comparing values of two checkpoints block by block, in bounded memory and in parallel.

One thread reads both sides and checks their crc32c; the others compare what it has read.
"""

from __future__ import annotations

import hashlib
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np

from ckpttool.checkpoint.open import Checkpoint
from ckpttool.errors import CkptError
from ckpttool.query.diff.elements import Comparer, Tally
from ckpttool.query.diff.results import Tolerance, ValueDifference
from ckpttool.query.rows import TensorRow
from ckpttool.query.values.parts import LaidOutPart, Part
from ckpttool.storage.work import Progress, startable_threads, thread_count
from ckpttool.tensor.dtypes import STRING, VARIANT
from ckpttool.tensor.layout import TensorLayout
from ckpttool.tensor.values import Array

# Handing fewer elements to another thread takes longer than comparing them.
_ALONE = 1 << 15
# Elements handed over at once.
_BLOCK = 1 << 18
# The reader cannot keep more threads busy.
_MAX_JOBS = 16
# Tensors that are begun before the first of them is done.
_AHEAD = 32

Pair = tuple[TensorRow, TensorRow]
# The difference of a pair; None if equal; an error if the values could not be read.
Outcome = ValueDifference | None | CkptError


def compare_values(
    a: Checkpoint,
    b: Checkpoint,
    pairs: Iterable[Pair],
    tolerance: Tolerance,
    *,
    size: int,
    layouts: Mapping[str, TensorLayout],
    done: int = 0,
    jobs: int | None = None,
    on_progress: Progress | None = None,
) -> Iterator[tuple[Pair, Outcome]]:
    """Compare tensors of the same dtype and shape; yield the result of each, in order.

    Args:
        a: the one checkpoint.
        b: the other.
        pairs: the tensors.
        tolerance: when elements are equal.
        layouts: by key, in what layout tensors of A are compared.
        size: how many bytes they have on both sides, with those that were read already.
        done: how many were.
        jobs: how many threads may compare; as many as there are processors by default.
        on_progress: called with how many of these bytes were read, and with `size`.
    """
    count = thread_count(jobs, _MAX_JOBS)
    with ExitStack() as stack:
        pool = None
        if count > 1 and size - done > _ALONE * 8 and (count := startable_threads(count)) > 1:
            pool = stack.enter_context(ThreadPoolExecutor(count))
        reader = _Reader(a, b, tolerance, layouts, pool, count + 2)
        begun: deque[tuple[Pair, _Running]] = deque()
        for pair in pairs:
            progress = _from(done, size, on_progress)
            begun.append((pair, reader.start(*pair, progress)))
            done += _size(pair)
            progress(0)
            while len(begun) > _AHEAD:
                yield _finished(*begun.popleft())
        while begun:
            yield _finished(*begun.popleft())


def content_digest(ckpt: Checkpoint, row: TensorRow) -> bytes | None:
    """Return a digest of the values of a tensor, independent of their storage; None for variants.

    Raises:
        CkptError: the tensor cannot be read.
    """
    part = Part(ckpt, row.key)
    if part.dtype == VARIANT:
        return None
    total = hashlib.blake2b(digest_size=16)
    for block in part.blocks():
        if part.dtype == STRING:
            for element in block.tolist():
                total.update(struct.pack("<Q", len(element)) + element)
        else:
            total.update(np.ascontiguousarray(block).view(np.uint8).data)
    return total.digest()


def aligned_blocks(a: Part, b: Part) -> Iterator[tuple[Array, Array]]:
    """Yield the elements of two parts of the same shape, in C order, in arrays of equal lengths.

    Both are read to their ends, where checksums are compared. An array is valid until the next
    ones are asked for.
    """
    of_a, of_b = a.blocks(), b.blocks()
    x = y = np.empty(0)
    while True:
        if not len(x):
            x = next(of_a, x)
        if not len(y):
            y = next(of_b, y)
        count = min(len(x), len(y), _BLOCK)
        if not count:
            break
        yield x[:count], y[:count]
        x, y = x[count:], y[count:]
    # Read the rest, for its checksum.
    for rest in (of_a, of_b):
        for _ in rest:
            pass


@dataclass(slots=True)
class _Running:
    """A tensor whose blocks are being compared."""

    comparer: Comparer | None = None
    tally: Tally = field(default_factory=Tally)
    futures: list[Future[Tally]] = field(default_factory=list)
    error: CkptError | None = None


class _Reader:
    """Reads pairs of tensors and has them compared."""

    def __init__(
        self,
        a: Checkpoint,
        b: Checkpoint,
        tolerance: Tolerance,
        layouts: Mapping[str, TensorLayout],
        pool: ThreadPoolExecutor | None,
        waiting: int,
    ) -> None:
        self._a = a
        self._b = b
        self._tolerance = tolerance
        self._layouts = layouts
        self._pool = pool
        self._room = threading.BoundedSemaphore(waiting)

    def start(self, a: TensorRow, b: TensorRow, progress: Callable[[int], None]) -> _Running:
        """Read a pair; the comparison may still be running afterwards."""
        running = _Running()
        try:
            layout = self._layouts.get(a.key)
            part_a = Part(self._a, a.key) if layout is None else LaidOutPart(self._a, a.key, layout)
            part_b = Part(self._b, b.key)
            comparer = running.comparer = Comparer(part_a.dtype, self._tolerance)
            # What is read at once has memory of its own, else the next block takes its place.
            shared = (not part_a.small, not part_b.small)
            width = part_a.dtype.size or 0
            at = 0
            for x, y in aligned_blocks(part_a, part_b):
                # Sums are the same with any number of threads: blocks are added in their order.
                if self._pool is None or (len(x) < _ALONE and not running.futures):
                    running.tally.merge(comparer.compare(x, y, at))
                else:
                    x, y = x.copy() if shared[0] else x, y.copy() if shared[1] else y
                    self._room.acquire()
                    running.futures.append(self._pool.submit(self._compare, comparer, x, y, at))
                at += len(x)
                progress(2 * at * width)
                while len(running.futures) > _AHEAD:
                    running.tally.merge(running.futures.pop(0).result())
        except CkptError as error:
            running.error = error.locate(key=a.key)
        return running

    def _compare(self, comparer: Comparer, x: Array, y: Array, at: int) -> Tally:
        try:
            return comparer.compare(x, y, at)
        finally:
            self._room.release()


def _finished(pair: Pair, running: _Running) -> tuple[Pair, Outcome]:
    """Wait for the running comparison."""
    for future in running.futures:
        running.tally.merge(future.result())
    if running.error is not None:
        return pair, running.error
    if running.comparer is None or not running.tally.differing:
        return pair, None
    return pair, running.comparer.values(running.tally, pair[1].shape)


def _size(pair: Pair) -> int:
    return sum(row.bytes or 0 for row in pair)


def _from(start: int, total: int, on_progress: Progress | None) -> Callable[[int], None]:
    def progress(done: int) -> None:
        if on_progress is not None:
            on_progress(min(start + done, total), total)

    return progress
