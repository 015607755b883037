"""Decoding thousands of entries at once, column by column.

Decoding an index entry by entry takes longer than reading and checking its blocks. But most records
share a few forms: the same dtype, shape and length. Joined, the records of one form are a table of
bytes, and each of its columns is a slice, checked and decoded in a few steps.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from ckpttool.bundle.entry import EntryDecoder
from ckpttool.coding.varint import MAX_COLUMNS, decode_varint_columns
from ckpttool.tensor.dtypes import DType
from ckpttool.tensor.shape import Shape
from ckpttool.tensor.slices import TensorSlice

# A smaller group is decoded faster one by one.
_FEWEST = 8
_MOST_PLACE_BYTES = 3 + MAX_COLUMNS  # shard and offset, with their tags
_MOST_SHARDS = 128  # whose numbers take a byte


class EntryColumns(NamedTuple):
    """The values of many entries: the attributes of `BundleEntry`, each as a sequence.

    Attributes:
        slices: only of partitioned tensors.
    """

    dtypes: list[DType]
    shapes: list[Shape]
    shards: list[int]
    offsets: list[int]
    sizes: list[int]
    crcs: list[int]
    slices: dict[int, tuple[TensorSlice, ...]]


class _Form(NamedTuple):
    """The values that all records of one form share, and columns as in `EntryColumns`."""

    dtype: DType
    shape: Shape
    size: int
    shards: Sequence[int]
    offsets: Sequence[int]
    crcs: Sequence[int]


def decode_columns(decoder: EntryDecoder, records: Sequence[bytes]) -> EntryColumns:
    """Decode entries, and check each against itself.

    Args:
        decoder: of the bundle.
        records: the stored entries.

    Raises:
        CkptError: as in `EntryDecoder.decode`, for any of them.
    """
    count = len(records)
    blank = [0] * count
    dtypes: list[DType] = []
    shapes: list[Shape] = []
    shards, offsets, sizes, crcs = blank, blank[:], blank[:], blank[:]
    slices: dict[int, tuple[TensorSlice, ...]] = {}
    # By position: indices into the lists of dtypes and shapes that occur.
    which = blank[:]
    for positions in _forms(records):
        form = _decode_form(decoder, [records[at] for at in positions])
        if form is None:
            for at in positions:
                entry = decoder.decode(records[at])
                which[at] = len(dtypes)
                dtypes.append(entry.dtype)
                shapes.append(entry.shape)
                _, _, shards[at], offsets[at], sizes[at], crcs[at], listed, _ = entry
                if listed:
                    slices[at] = listed
            continue
        number, size = len(dtypes), form.size
        dtypes.append(form.dtype)
        shapes.append(form.shape)
        for at, offset, crc in zip(positions, form.offsets, form.crcs, strict=True):
            which[at], sizes[at], offsets[at], crcs[at] = number, size, offset, crc
        for at, shard in zip(positions, form.shards, strict=False):
            shards[at] = shard
    return EntryColumns(
        list(map(dtypes.__getitem__, which)),
        list(map(shapes.__getitem__, which)),
        shards,
        offsets,
        sizes,
        crcs,
        slices,
    )


def _forms(records: Sequence[bytes]) -> list[list[int]]:
    """Return the positions of the records of each form: of one length, dtype, shape, next tag."""
    forms: defaultdict[tuple[bytes, int], list[int]] = defaultdict(list)
    for at, data in enumerate(records):
        # A shorter record has a form of its own and is decoded alone.
        forms[data[: 5 + data[3]] if len(data) > 3 else data, len(data)].append(at)
    return list(forms.values())


def _decode_form(decoder: EntryDecoder, records: Sequence[bytes]) -> _Form | None:
    """Decode records of one form; None if they do not have the usual layout."""
    count, length = len(records), len(records[0])
    head = decoder.head(records[0]) if count >= _FEWEST else None
    if head is None or head.size is None:
        return None
    pos, end = 4 + records[0][3], length - 4 - len(head.tail)
    # Records with more fields than shard and offset vary in length, so they are not joined.
    if not pos <= end <= pos + _MOST_PLACE_BYTES:
        return None
    table = b"".join(records)
    for at, byte in enumerate(head.tail, end):
        if table[at::length].count(byte) != count:
            return None
    shards: Sequence[int] = ()
    if pos < end and records[0][pos] == 0x18:
        shards = table[pos + 1 :: length]
        pos += 2
        if pos > end or max(shards) >= min(decoder.num_shards, _MOST_SHARDS):
            return None
    offsets: Sequence[int] = (0,) * count
    if pos < end:
        found = decode_varint_columns([table[at::length] for at in range(pos + 1, end)])
        if found is None or table[pos::length].count(0x20) != count:
            return None
        offsets = found
    checksums = bytearray(4 * count)
    for at in range(4):
        checksums[at::4] = table[length - 4 + at :: length]
    crcs = struct.unpack(f"<{count}I", checksums)
    return _Form(head.dtype, head.shape, head.size, shards, offsets, crcs)
