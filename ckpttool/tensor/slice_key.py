"""The key under which a slice's entry lies in the index.

    num(0)  str(name)  num(rank)  per dimension: snum(start) snum(length)

    "p", slice 0,2:-   00 | 70 00 01 | 01 02 | 80 82 | 80 7f

The codes are those of `coding.ordered`. The leading 00 sorts all slices before ordinary names.
"""

from __future__ import annotations

from ckpttool.coding import ordered
from ckpttool.errors import CorruptError
from ckpttool.tensor.slices import TensorSlice


def encode_slice_key(name: bytes, part: TensorSlice) -> bytes:
    """Return the key of a slice of the tensor called `name`."""
    out = [b"\0", ordered.encode_str(name), ordered.encode_num(len(part.extents))]
    for start, length in part.extents:
        out += (ordered.encode_signed(start), ordered.encode_signed(length))
    return b"".join(out)


def decode_slice_key(key: bytes) -> tuple[bytes, TensorSlice]:
    """Return the name and the slice that a key stands for.

    Raises:
        CorruptError: it is not the key of a slice.
    """
    zero, pos = ordered.decode_num(key, 0)
    if zero:
        raise CorruptError("a slice key starts with another number than 0")
    name, pos = ordered.decode_str(key, pos)
    rank, pos = ordered.decode_num(key, pos)
    extents = []
    for _ in range(min(rank, len(key))):
        start, pos = ordered.decode_signed(key, pos)
        length, pos = ordered.decode_signed(key, pos)
        extents.append((start, -1 if length < 0 else length))
    if pos != len(key) or rank != len(extents):
        raise CorruptError("a slice key has bytes after its end", offset=pos)
    return name, TensorSlice(tuple(extents))
