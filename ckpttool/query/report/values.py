"""Statistics and histograms of many tensors, in one pass and in parallel.

One thread reads and checks the crc32c; the others count what it has read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from ckpttool.checkpoint.open import Checkpoint
from ckpttool.errors import CkptError
from ckpttool.query.rows import TensorRow
from ckpttool.query.values.parts import Part
from ckpttool.query.values.statistics import (
    Accumulator,
    Histogram,
    Statistics,
    histogram,
    statistics,
)
from ckpttool.storage.work import Progress, startable_threads, thread_count
from ckpttool.tensor.dtypes import STRING, DType
from ckpttool.tensor.values import Array

BINS = 32
# A histogram counts no more elements than about twice this many.
_SAMPLE = 1 << 20
# Elements of a sample that lie together.
_RUN = 1 << 12
_MAX_JOBS = 16
# Tensors that are kept in memory until they are counted; each has 32 MiB at most.
_AHEAD = 4


@dataclass(frozen=True, slots=True)
class Measured:
    """What was found out about the values of a tensor.

    Attributes:
        statistics: None for variants, and if the tensor could not be read.
        histogram: if there is something to draw.
        sampled: whether the histogram counts a sample only.
        verified: whether a checksum of all bytes was compared.
        error: why the tensor could not be read.
    """

    statistics: Statistics | None = None
    histogram: Histogram | None = None
    sampled: bool = False
    verified: bool = False
    error: CkptError | None = None


def measure_tensors(
    ckpt: Checkpoint,
    rows: Sequence[TensorRow],
    *,
    jobs: int | None = None,
    on_progress: Progress | None = None,
) -> Iterator[Measured]:
    """Yield what the values of tensors are, in order. Damage of one does not stop the others.

    Args:
        ckpt: the checkpoint.
        rows: which tensors.
        jobs: how many threads may work; as many as there are processors by default.
        on_progress: called with how many of the bytes were read, and with all.
    """
    total, done = sum(row.bytes or 0 for row in rows), 0
    count = thread_count(jobs, _MAX_JOBS)
    with ExitStack() as stack:
        pool = None
        if count > 1 and total > 1 << 20 and (count := startable_threads(count)) > 1:
            pool = stack.enter_context(ThreadPoolExecutor(count))
        begun: deque[Callable[[], Measured]] = deque()
        for row in rows:
            begun.append(_begin(ckpt, row, pool))
            done += row.bytes or 0
            if on_progress is not None:
                on_progress(done, total)
            while len(begun) > _AHEAD:
                yield begun.popleft()()
        while begun:
            yield begun.popleft()()


def _begin(ckpt: Checkpoint, row: TensorRow, pool: ThreadPoolExecutor | None) -> _Outcome:
    """Read a tensor; what is small is counted by another thread."""
    try:
        part = Part(ckpt, row.key)
        if part.dtype.size is None:
            summary = statistics(part)
            return _Outcome(Measured(summary, verified=part.verified))
        if not part.small:
            return _Outcome(_count(part.dtype, part.blocks(ordered=False), part))
        array = part.read().reshape(-1)
    except CkptError as error:
        return _Outcome(Measured(error=error))
    if pool is None:
        return _Outcome(_count(part.dtype, [array], part))
    return _Outcome(pool.submit(_count, part.dtype, [array], part))


class _Outcome:
    """A result that is there, or will be."""

    def __init__(self, value: Measured | Future[Measured]) -> None:
        self._value = value

    def __call__(self) -> Measured:
        value = self._value
        return value if isinstance(value, Measured) else value.result()


def _count(dtype: DType, blocks: Iterable[Array], part: Part) -> Measured:
    accumulator = Accumulator(dtype)
    sample = _Sample(part.elements)
    for block in blocks:
        accumulator.add(block)
        sample.add(block.reshape(-1))
    summary = accumulator.result()
    bars = None if dtype == STRING else histogram(dtype, sample.pieces, summary, bins=BINS)
    return Measured(summary, bars, sample.step > 1, part.verified)


class _Sample:
    """Evenly spaced runs of the elements of a tensor, all of them if they are few.

    Args:
        elements: how many it has.
    """

    def __init__(self, elements: int) -> None:
        self.step = max(1, elements // _SAMPLE)
        self.pieces: list[Array] = []
        self._copy = elements > _SAMPLE
        self._skip = 0

    def add(self, block: Array) -> None:
        """Keep what belongs to the sample of the next elements."""
        if self.step == 1:
            self.pieces.append(block.copy() if self._copy else block)
            return
        stride = self.step * _RUN
        for start in range(self._skip, len(block), stride):
            self.pieces.append(block[start : start + _RUN].copy())
        self._skip = (self._skip - len(block)) % stride


def bin_heights(bars: Histogram) -> tuple[int, ...]:
    """Return heights from 0 to 35 for the bins of a histogram; only an empty bin has 0."""
    most = max(bars.counts) or 1
    return tuple(np.ceil(np.array(bars.counts) * 35.0 / most).astype(int).tolist())
