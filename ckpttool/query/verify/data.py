"""Reading the data shards, in parallel, to compute the crc32c of every tensor.

Small tensors are read many at a time, large ones in pieces whose crcs are joined. Memory holds a
few buffers per thread, whatever the size of a tensor.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator

from ckpttool.coding.checksum import crc32c, joined_crc
from ckpttool.errors import CkptError
from ckpttool.query.verify.extents import Extent, Shard
from ckpttool.storage.source import RandomAccessFile
from ckpttool.storage.work import Progress, start_threads, thread_count
from ckpttool.tensor.dtypes import STRING, VARIANT
from ckpttool.tensor.verifier import make_verifier

_WINDOW = 1 << 20
_PIECE = 1 << 23
# Starting threads takes longer than reading this much.
_ALONE = 1 << 22
_MAX_JOBS = 64
_MAX_OPEN = 32
_POLL = 0.1  # seconds
_ZEROS = bytes(_WINDOW)


def read_shards(
    shards: Iterable[Shard],
    *,
    big_endian: bool,
    jobs: int | None = None,
    on_progress: Progress | None = None,
) -> int:
    """Compute the crc of every extent, and check that holes are zero; fill in the extents.

    Args:
        shards: the data shards with their extents.
        big_endian: byte order of the writer.
        jobs: how many threads; by default the number of processors.
        on_progress: called now and then, in the caller's thread, with the bytes read and their
            total.

    Returns:
        How many bytes were read.
    """
    scan = _Scan(big_endian)
    for shard in shards:
        scan.plan(shard)
    scan.run(thread_count(jobs, min(_MAX_JOBS, len(scan.tasks))), on_progress)
    return scan.done


class _Scan:
    """The reading to do, and its progress."""

    def __init__(self, big_endian: bool) -> None:
        self.tasks: deque[Callable[[], None]] = deque()
        self.total = 0
        self.done = 0
        self._big_endian = big_endian
        self._files = ShardFiles()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._failure: BaseException | None = None

    def plan(self, shard: Shard) -> None:
        """Cut a shard into tasks."""
        window: list[Extent] = []
        stop = 0
        for extent in _affordable(shard):
            if not extent.size:
                self._take(extent, memoryview(b""))
                continue
            self.total += extent.size
            if extent.size > _WINDOW:
                self._plan_large(shard, extent)
                continue
            if window and max(extent.stop, stop) - window[0].offset > _WINDOW:
                self._plan_window(shard, window)
                window, stop = [], 0
            window.append(extent)
            stop = max(stop, extent.stop)
        if window:
            self._plan_window(shard, window)

    def run(self, jobs: int, on_progress: Progress | None) -> None:
        """Do all tasks."""
        threads: list[threading.Thread] = []
        try:
            if jobs > 1 and self.total >= _ALONE:
                for thread in start_threads([self._work] * jobs):
                    threads.append(thread)  # at once: an interrupt must find all of them
            if not threads:
                self._work_alone(on_progress)
            for thread in threads:
                while thread.is_alive():
                    thread.join(_POLL)
                    if on_progress is not None:
                        on_progress(self.done, self.total)
        finally:
            self._stopped.set()
            for thread in threads:
                if thread.is_alive():
                    thread.join()
        if self._failure is not None:
            raise self._failure
        if on_progress is not None:
            on_progress(self.done, self.total)

    def _work_alone(self, on_progress: Progress | None) -> None:
        while self.tasks:
            self.tasks.popleft()()
            if on_progress is not None:
                on_progress(self.done, self.total)

    def _work(self) -> None:
        while not self._stopped.is_set():
            try:
                task = self.tasks.popleft()
            except IndexError:
                return
            try:
                task()
            except BaseException as error:  # no fault of a file: raised in the caller's thread
                self._failure = error
                self._stopped.set()

    def _plan_window(self, shard: Shard, extents: list[Extent]) -> None:
        self.tasks.append(lambda: self._read_window(shard, extents))

    def _plan_large(self, shard: Shard, extent: Extent) -> None:
        if extent.dtype in (STRING, VARIANT):
            self.tasks.append(lambda: self._read_stream(shard, extent))
            return
        pieces = _Pieces(extent)
        for number, offset in enumerate(range(extent.offset, extent.stop, _PIECE)):
            size = min(_PIECE, extent.stop - offset)
            pieces.sizes.append(size)

            def read(number: int = number, offset: int = offset, size: int = size) -> None:
                self._read_piece(shard, pieces, number, offset, size)

            self.tasks.append(read)

    def _read_window(self, shard: Shard, extents: list[Extent]) -> None:
        start = extents[0].offset
        size = max(extent.stop for extent in extents) - start
        try:
            data = memoryview(self._files.open(shard.path).read_at(start, size))
        except CkptError as error:
            if len(extents) > 1:
                # One bad sector must not be blamed on the extents around it.
                for extent in extents:
                    self._read_window(shard, [extent])
                return
            extents[0].error = error
            self._count(size)
            return
        for extent in extents:
            at = extent.offset - start
            self._take(extent, data[at : at + extent.size])
        self._count(sum(extent.size for extent in extents))

    def _take(self, extent: Extent, data: memoryview) -> None:
        if extent.dtype is None:
            extent.nonzero = _first_nonzero(data, extent.offset)
        elif extent.dtype in (STRING, VARIANT):
            self._verify(extent, [data])
        else:
            extent.crc = crc32c(data)

    def _read_stream(self, shard: Shard, extent: Extent) -> None:
        try:
            file = self._files.open(shard.path)
            self._verify(extent, self._counted(file.chunks(extent.offset, extent.size)))
        except CkptError as error:
            extent.error = error

    def _verify(self, extent: Extent, chunks: Iterable[memoryview]) -> None:
        if extent.dtype is None or not (extent.size or extent.count):
            return  # no bytes for no elements, whatever the checksum
        verifier = make_verifier(extent.dtype, extent.count, big_endian=self._big_endian)
        try:
            for chunk in chunks:
                verifier.feed(chunk)
            extent.crc = verifier.finish()
        except CkptError as error:
            extent.error = error

    def _read_piece(
        self, shard: Shard, pieces: _Pieces, number: int, offset: int, size: int
    ) -> None:
        extent = pieces.extent
        crc, nonzero = 0, None
        try:
            for chunk in self._counted(self._files.open(shard.path).chunks(offset, size)):
                if extent.dtype is not None:
                    crc = crc32c(chunk, crc)
                elif nonzero is None:
                    nonzero = _first_nonzero(chunk, offset)
                offset += len(chunk)
        except CkptError as error:
            with self._lock:
                extent.error = extent.error or error
            return
        with self._lock:
            pieces.crcs[number] = crc
            if nonzero is not None:
                extent.nonzero = min(nonzero, extent.nonzero or nonzero)
            if len(pieces.crcs) == len(pieces.sizes) and extent.dtype is not None:
                extent.crc = pieces.join()

    def _counted(self, chunks: Iterator[memoryview]) -> Iterator[memoryview]:
        for chunk in chunks:
            if self._stopped.is_set():
                return
            yield chunk
            self._count(len(chunk))

    def _count(self, size: int) -> None:
        with self._lock:
            self.done += size


class _Pieces:
    """The crcs of a large extent, piece by piece."""

    def __init__(self, extent: Extent) -> None:
        self.extent = extent
        self.sizes: list[int] = []
        self.crcs: dict[int, int] = {}

    def join(self) -> int:
        """Return the crc of all pieces in a row."""
        crc = 0
        for number, size in enumerate(self.sizes):
            crc = joined_crc(crc, self.crcs[number], size)
        return crc


def _affordable(shard: Shard) -> Iterator[Extent]:
    """Yield the extents of a shard; of overlapping ones at most the size of the file.

    Any number of tensors may claim the same bytes; reading all of them could take forever.
    """
    budget = shard.size + _PIECE
    for extent in shard.extents:
        if extent.cut:
            continue
        if extent.overlaps:
            if extent.size > budget:
                continue
            budget -= extent.size
        yield extent


def _first_nonzero(data: memoryview, offset: int) -> int | None:
    """Return the place of the first byte that is not zero; `offset` is that of the data."""
    raw = bytes(data)
    if raw == _ZEROS[: len(raw)]:
        return None
    return offset + len(raw) - len(raw.lstrip(b"\0"))


class ShardFiles:
    """Open data shards, the most recently used ones.

    A file dropped here stays open while a thread still reads from it.
    """

    def __init__(self) -> None:
        self._open: OrderedDict[str, RandomAccessFile | CkptError] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, path: str) -> RandomAccessFile:
        """Return the open file; raise the same error each time if it cannot be opened."""
        with self._lock:
            file = self._open.pop(path, None)
            if file is None:
                try:
                    file = RandomAccessFile(path)
                except CkptError as error:
                    file = error
            self._open[path] = file
            if len(self._open) > _MAX_OPEN:
                self._open.popitem(last=False)
        if isinstance(file, CkptError):
            raise file
        return file
