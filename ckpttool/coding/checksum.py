"""crc32c (Castagnoli): of bytes, of parts in a row, and the masked form in which files store it.

A crc over bytes that themselves hold crcs is weak, so what is stored is rotated right by 15 bits
and has a constant added. The crc of nothing, 0, is stored as d8 ea 82 a2 (little-endian).

A crc is the remainder of a polynomial over the field of two elements, and each byte that follows
multiplies it by x**8. So the crcs of parts can be computed in any order, on several processors, and
joined. As in the crc itself, the highest bit of a number stands for x**0.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from importlib.machinery import PathFinder
from typing import cast

from ckpttool.coding.varint import Buffer

_MASK_DELTA = 0xA282EAD8
_U32 = 0xFFFFFFFF
_Function = Callable[[Buffer, int], int]


def _load() -> _Function:
    """Return the library's function, from its extension module alone.

    The library's `__init__` reads its package metadata to know its version, which takes a fifth of
    the time of `ckpt ls`. A library built in another way is imported whole.
    """
    package = None if "crc32c" in sys.modules else PathFinder.find_spec("crc32c")
    if package is not None and package.submodule_search_locations is not None:
        spec = PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
        if spec is not None and spec.loader is not None:
            module = spec.loader.create_module(spec)
            if module is not None:
                spec.loader.exec_module(module)
                function = getattr(module, "crc32c", None)
                if callable(function):
                    return cast(_Function, function)
    from crc32c import crc32c as function

    return cast(_Function, function)


_crc32c = _load()


def crc32c(data: Buffer, crc: int = 0) -> int:
    """Return the crc32c of `data`, continuing from the finished value `crc`."""
    return _crc32c(data, crc)


def mask(crc: int) -> int:
    """Return the stored form of `crc`."""
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & _U32


def unmask(stored: int) -> int:
    """Return the crc for its stored form."""
    rotated = (stored - _MASK_DELTA) & _U32
    return ((rotated >> 17) | (rotated << 15)) & _U32


_POLYNOMIAL = 0x82F63B78
_ONE = 1 << 31
_X_TO_8 = 1 << 23


def joined_crc(first: int, second: int, second_size: int) -> int:
    """Return the crc32c of two parts in a row, from those of each; `second_size` is in bytes."""
    return _multiply(first, _power(second_size)) ^ second


@lru_cache(maxsize=64)
def _power(exponent: int) -> int:
    """Return (x**8)**exponent."""
    result, factor = _ONE, _X_TO_8
    while exponent:
        if exponent & 1:
            result = _multiply(result, factor)
        factor = _multiply(factor, factor)
        exponent >>= 1
    return result


def _multiply(first: int, second: int) -> int:
    """Return the product of two polynomials, modulo that of crc32c."""
    product = 0
    for bit in range(31, -1, -1):
        if first >> bit & 1:
            product ^= second
        second = second >> 1 ^ (_POLYNOMIAL if second & 1 else 0)
    return product
