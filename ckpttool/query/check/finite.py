"""Finding NaN and infinities, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ckpttool.checkpoint.open import Checkpoint
from ckpttool.query.rows import TensorRow
from ckpttool.query.values.parts import SMALL_FLOATS, Part
from ckpttool.tensor.dtypes import dtype_of_name
from ckpttool.tensor.values import Array

_FLOATS = SMALL_FLOATS | {"float16", "float32", "float64", "complex64", "complex128"}
# NumPy is many times faster with these as float32.
_WIDENED = SMALL_FLOATS | {"float16"}
_PIECE = 1 << 18


@dataclass(frozen=True, slots=True)
class NonFinite:
    """The numbers of a tensor that are not finite.

    A complex number counts as NaN if either part is, else as infinite if either part is.

    Attributes:
        nan: how many are not a number.
        inf: how many are infinite, of either sign.
        first: the index of the first of them, in C order.
    """

    nan: int
    inf: int
    first: tuple[int, ...]


def may_hold_floats(row: TensorRow) -> bool:
    """Tell whether a tensor may hold NaN or infinities; one of an unknown dtype may."""
    try:
        return dtype_of_name(row.dtype).name in _FLOATS
    except KeyError:
        return True


def find_nonfinite(ckpt: Checkpoint, key: str, on_bytes: Callable[[int], None]) -> NonFinite | None:
    """Find numbers that are not finite; the crc32c of all bytes is checked too.

    Args:
        ckpt: the checkpoint.
        key: a tensor that `may_hold_floats`.
        on_bytes: called with the number of bytes read, after each piece.

    Returns:
        The numbers; None if all are finite.

    Raises:
        CorruptError: the stored bytes are damaged.
        UnsupportedError: the dtype is not known.
    """
    part = Part(ckpt, key)
    widen = part.dtype.name in _WIDENED
    nan = inf = done = 0
    first: int | None = None
    for block in part.blocks():
        for start in range(0, len(block), _PIECE):
            piece: Array = block[start : start + _PIECE]
            numbers = piece.astype(np.float32) if widen else piece
            finite = np.isfinite(numbers)
            if not finite.all():
                if first is None:
                    first = done + start + int(np.argmin(finite))
                bad = numbers[~finite]
                not_numbers = int(np.count_nonzero(np.isnan(bad)))
                nan += not_numbers
                inf += len(bad) - not_numbers
        done += len(block)
        on_bytes(block.nbytes)
    if first is None:
        return None
    index = np.unravel_index(first, part.shape)
    return NonFinite(nan, inf, tuple(int(at) for at in index))
