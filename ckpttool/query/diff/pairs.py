"""Finding the pairs of tensors whose stored bytes are the same, without an object for any of them.

There may be millions of small ones, nearly all equal. They are read in the order in which they are
stored.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from hashlib import blake2b

import numpy as np

from ckpttool.bundle.reader import BundleReader
from ckpttool.coding.checksum import crc32c, mask
from ckpttool.errors import CkptError
from ckpttool.query.rows import BundleRows
from ckpttool.tensor.dtypes import DTYPES
from ckpttool.tensor.verifier import make_verifier

# Larger ones are compared one by one.
_SMALL = 1 << 16
# Dtypes whose elements have a fixed size.
_PLAIN = frozenset(dtype.name for dtype in DTYPES.values() if dtype.size is not None)
# Bytes read at once of a large one.
_CHUNK = 1 << 20
# How often progress is told.
_STEP = 1 << 12
# Dimensions that an array of every NumPy may have.
_ANY_NUMPY = 32


def equal_bytes(
    a: tuple[BundleReader, BundleRows],
    b: tuple[BundleReader, BundleRows],
    places: tuple[Sequence[int], Sequence[int]],
    on_progress: Callable[[int], None],
) -> bytearray:
    """Return a flag for each pair: 1 if the bytes are the same, and sound.

    Pairs without a flag may be equal, too: those of large tensors, of slices, and of elements of
    no fixed size are not looked at, and what cannot be read is left for others to tell.

    Args:
        a: one side, and its tensors.
        b: the other; of the same byte order.
        places: positions in the rows of A, and in those of B.
        on_progress: called with the bytes that were read of both sides.
    """
    (reader_a, rows_a), (reader_b, rows_b) = a, b
    alike = rows_a.comparer(rows_b)
    shards_a, offsets_a, sizes, crcs = rows_a.extents()
    shards_b, offsets_b, _, _ = rows_b.extents()
    dtypes, shapes = rows_a.dtypes, rows_a.shapes
    read_a, read_b = reader_a.read_ahead().read, reader_b.read_ahead().read
    of_a, of_b = places
    flags = bytearray(len(of_a))
    done = 0
    for count, number in enumerate(_in_stored_order(shards_a, offsets_a, of_a)):
        at, other = of_a[number], of_b[number]
        size = sizes[at]
        if size > _SMALL or dtypes[at] not in _PLAIN or len(shapes[at]) > _ANY_NUMPY:
            continue
        if not alike(at, other):
            continue
        try:
            data = read_a(shards_a[at], offsets_a[at], size)
            same = data == read_b(shards_b[other], offsets_b[other], size)
        except CkptError:
            continue
        if same and mask(crc32c(data)) == crcs[at]:
            flags[number] = 1
            done += 2 * size
        if not count % _STEP:
            on_progress(done)
    on_progress(done)
    return flags


def stored_digest(reader: BundleReader, key: str) -> bytes | None:
    """Return a digest of the stored bytes of a tensor without slices; None unless they are sound.

    They are never held as a whole.
    """
    entry = reader.entries[key]
    digest = blake2b()
    read = reader.read_ahead().read
    try:
        verifier = make_verifier(entry.dtype, entry.elements, big_endian=reader.big_endian)
        for at in range(0, entry.size, _CHUNK):
            piece = read(entry.shard_id, entry.offset + at, min(_CHUNK, entry.size - at))
            verifier.feed(piece)
            digest.update(piece)
        sound = mask(verifier.finish()) == entry.crc32c
    except CkptError:
        return None
    return digest.digest() if sound else None


def _in_stored_order(
    shards: Sequence[int], offsets: Sequence[int], places: Sequence[int]
) -> Sequence[int]:
    """Return the numbers of some places, in the order of the bytes there."""
    at = np.asarray(places, np.int64)
    order = np.lexsort((np.asarray(offsets)[at], np.asarray(shards)[at]))
    return array("q", order.astype(np.int64).tobytes())
