"""The crc32c of bytes in a row, from the crcs of the parts.

A crc is the remainder of a polynomial over the field of two elements, and each byte that follows
multiplies it by x**8. So parts can be summed up in any order, by several processors at once. As in
the crc itself, the highest bit of a number stands for x**0.
"""

from __future__ import annotations

from functools import lru_cache

_POLYNOMIAL = 0x82F63B78
_ONE = 1 << 31
_X_TO_8 = 1 << 23


def joined_crc(first: int, second: int, second_size: int) -> int:
    """Return the crc32c of two parts, one behind the other.

    Args:
        first: crc32c of the first part.
        second: crc32c of the second part.
        second_size: how many bytes the second part has.
    """
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
