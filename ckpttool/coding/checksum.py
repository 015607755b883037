"""crc32c (Castagnoli), and the masked form in which files store it.

A crc over bytes that themselves hold crcs is weak, so what is stored is rotated right by 15 bits
and has a constant added. The crc of nothing, 0, is stored as d8 ea 82 a2 (little-endian).
"""

from __future__ import annotations

from crc32c import crc32c as _crc32c

from ckpttool.coding.varint import Buffer

_MASK_DELTA = 0xA282EAD8
_U32 = 0xFFFFFFFF


def crc32c(data: Buffer, crc: int = 0) -> int:
    """Return the crc32c of `data`, continuing from the finished value `crc`."""
    return int(_crc32c(data, crc))


def mask(crc: int) -> int:
    """Return the form in which `crc` is stored."""
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & _U32


def unmask(stored: int) -> int:
    """Return the crc for its stored form."""
    rotated = (stored - _MASK_DELTA) & _U32
    return ((rotated >> 17) | (rotated << 15)) & _U32
