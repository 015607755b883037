"""Reading bytes into memory together with their crc32c.

That is computed piece by piece, while the processor's cache still has what was read. Most of the
time goes into giving the process its memory and copying, which several threads do faster.
"""

from __future__ import annotations

from ckpttool.coding.checksum import crc32c, joined_crc
from ckpttool.storage.source import CHUNK_SIZE, RandomAccessFile
from ckpttool.storage.work import start_threads, thread_count

# Of less, starting a thread is not worth it; more threads than that wait for the memory.
_PER_THREAD = 1 << 25
_MAX_THREADS = 4


def read_checked(file: RandomAccessFile, offset: int, buffer: memoryview) -> int:
    """Fill a buffer of bytes from a file; return their crc32c.

    Args:
        file: what to read.
        offset: where to begin.
        buffer: as long as what is wanted.

    Raises:
        TruncatedError: the file ends before.
        FileAccessError: the bytes cannot be read.
    """
    if len(buffer) <= CHUNK_SIZE:
        file.read_into(buffer, offset)
        return crc32c(buffer)
    return _in_parts(file, offset, len(buffer), buffer)


def stored_crc(file: RandomAccessFile, offset: int, size: int) -> int:
    """Return the crc32c of bytes of a file, without keeping them.

    Raises:
        TruncatedError: the file ends before.
        FileAccessError: the bytes cannot be read.
    """
    return _in_parts(file, offset, size, None)


def _in_parts(file: RandomAccessFile, offset: int, size: int, buffer: memoryview | None) -> int:
    file.check_range(offset, size)
    count = max(1, min(size // _PER_THREAD, thread_count(None, _MAX_THREADS)))
    step = -(-size // count)
    step += -step % CHUNK_SIZE
    parts = [
        _Part(file, offset, range(at, min(at + step, size)), buffer)
        for at in range(0, size, step or 1)
    ]
    # Where fewer threads than parts can be had, the rest is read here.
    threads = list(start_threads([part.read_quietly for part in parts[1:]]))
    try:
        for part in (*parts[:1], *parts[1 + len(threads) :]):
            part.read()
    except BaseException:
        for part in parts:
            part.stopped = True
        raise
    finally:
        for thread in threads:
            thread.join()
    crc = 0
    for part in parts:
        if part.failure is not None:
            raise part.failure
        crc = joined_crc(crc, part.crc, len(part.places))
    return crc


class _Part:
    """What one thread reads: into the buffer, or only to look at it."""

    def __init__(
        self, file: RandomAccessFile, offset: int, places: range, buffer: memoryview | None
    ) -> None:
        self.places = places
        self.crc = 0
        self.failure: BaseException | None = None
        self.stopped = False
        self._file = file
        self._offset = offset
        self._buffer = buffer

    def read(self) -> None:
        places = self.places
        whole = self._buffer
        scratch = memoryview(bytearray(0 if whole is not None else min(CHUNK_SIZE, len(places))))
        for at in range(places.start, places.stop, CHUNK_SIZE):
            if self.stopped:
                return
            end = min(at + CHUNK_SIZE, places.stop)
            piece = scratch[: end - at] if whole is None else whole[at:end]
            self._file.read_into(piece, self._offset + at)
            self.crc = crc32c(piece, self.crc)

    def read_quietly(self) -> None:
        try:
            self.read()
        except BaseException as error:  # for the thread that waits
            self.failure = error
