"""Telling a file of format V1 from the index of a V2 checkpoint, and from any other table."""

from __future__ import annotations

from contextlib import suppress
from typing import Literal

from ckpttool.coding.varint import decode_varint
from ckpttool.errors import CkptError, CorruptError
from ckpttool.storage.source import RandomAccessFile
from ckpttool.table.format import FOOTER_SIZE, MAGIC

Generation = Literal["V1", "V2"]
# What a checkpoint is read from.
SourceFormat = Literal["V1", "V2", "safetensors", "npz", "npy", "h5"]
_V1_TAG = 0x0A  # SavedTensorSlices.meta
_V2_TAGS = (0x08, 0x10, 0x1A)  # BundleHeaderProto: num_shards, endianness, version
# All keys of format V1 begin with a zero byte; this is the shortest key above them. (LevelDB's own
# keys have eight bytes more.)
_V1_LAST_SEPARATOR = b"\1"


def table_generation(path: str) -> Generation | None:
    """Tell a V1 file from the index of a V2 checkpoint; None for anything else.

    Both are tables whose first key is empty; its value is a SavedTensorSlices in V1 and a
    BundleHeaderProto in V2, which differ in the first byte. A file that only begins or only ends
    like V1, and is damaged elsewhere, counts as V1: its reader will report the damage.
    """
    with RandomAccessFile(path) as file:
        at_end = file.size - len(MAGIC)
        whole = file.size >= FOOTER_SIZE and file.read_at(at_end, len(MAGIC)) == MAGIC
        head = file.read_at(0, min(file.size, 16))
        if not whole:
            return "V1" if _begins_like_v1(head) else None
        first = _first_value_byte(head)
        if first is None:  # the first block is compressed, damaged, or no block of ours
            return _generation_in_table(file)
    return "V1" if first == _V1_TAG else "V2"


def _first_value_byte(head: bytes) -> int | None:
    """Return the first byte of the first value of a table whose first key is empty."""
    at = 2  # shared and unshared key length, both zero
    while at < 7 and head[at] & 0x80:
        at += 1
    found = head[at + 1]
    plain = head[:2] == b"\0\0" and any(head[2 : at + 1])
    return found if plain and found in (_V1_TAG, *_V2_TAGS) else None


def _generation_in_table(file: RandomAccessFile) -> Generation | None:
    from ckpttool.table.reader import TableLookup

    try:
        table = TableLookup(file)
    except CkptError:
        return None
    with suppress(CkptError):
        value = table.find(b"")
        if value is not None and value.size:
            tag = value.read_at(0, 1)[0]
            if tag in (_V1_TAG, *_V2_TAGS):
                return "V1" if tag == _V1_TAG else "V2"
    return "V1" if table.last_separator == _V1_LAST_SEPARATOR else None


def _begins_like_v1(head: bytes) -> bool:
    """Tell whether bytes begin with a message in a message of matching lengths."""
    with suppress(CorruptError):
        size, at = decode_varint(head, 2, len(head))
        if head[:2] == b"\0\0" and head[at : at + 1] == bytes([_V1_TAG]):
            inner, start = decode_varint(head, at + 1, len(head))
            return inner > 0 and start + inner == at + size
    return False
