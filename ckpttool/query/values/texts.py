"""Elements of tensors as exact text, aligned as in NumPy.

    float16, float32, float64   the shortest decimal that reads back as the same element; whole
                                numbers in full
    smaller floats              the value itself: the shortest decimal that float64 reads as it
    whole numbers, bools        as they are; quantised numbers as the integers that are stored
    complex                     both parts as floats
    strings                     in quotes; b'...' with escapes for bytes that are not UTF-8

Floats of one tensor are all written with or without an exponent: with one if any is as large as
1e8, smaller than 1e-4, or more than a thousand times as large as another.

Hand-written in place of `np.array2string`, which rounds to 8 digits by default, needs the whole
array in memory, and takes 3.6 s for 100,000 float32; this and `render.layout` take 1.2 s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import inf

import numpy as np

from ckpttool.printable import printable
from ckpttool.query.values.parts import SMALL_FLOATS
from ckpttool.tensor.dtypes import STRING, DType
from ckpttool.tensor.values import Array

# NumPy's own floats, and from where on they have no fractions.
_OWN = {"float16": 1 << 11, "float32": 1 << 24, "float64": 1 << 53}
_LARGE, _SMALL, _SPREAD = 1e8, 1e-4, 1e3
# How much of a string is shown: of one by itself, and of one among others.
_LONGEST_ALONE, _LONGEST = 2000, 120

Blocks = Callable[[], Iterable[Array]]


class Formatter:
    """Writes the elements of one tensor.

    Args:
        dtype: what they are; a dtype with a size, or string.
        blocks: gives the elements that will be written, as often as it is called.
        precision: digits behind the point at most; as many as it takes by default.
        full: whether to write strings out, however long they are.
    """

    def __init__(
        self, dtype: DType, blocks: Blocks, *, precision: int | None = None, full: bool = False
    ) -> None:
        self._write: Callable[[Array], Iterator[str]]
        self._width = 0

        def flat() -> Iterator[Array]:
            return (block.reshape(-1) for block in blocks())

        numpy_dtype = dtype.numpy_dtype
        if dtype == STRING:
            count = sum(block.size for block in flat())
            limit = None if full else _LONGEST_ALONE if count == 1 else _LONGEST
            self._write = lambda block: (_quote(item, limit) for item in block.tolist())
        elif numpy_dtype.kind == "c":
            real = _Floats(lambda: (block.real for block in flat()), precision)
            imaginary = _Floats(lambda: (block.imag for block in flat()), precision, signed=True)
            width = real.width + imaginary.width + 1
            self._write = lambda block: (
                f"{first.rstrip()}{second.strip()}j".ljust(width)
                for first, second in zip(
                    real.texts(block.real), imaginary.texts(block.imag), strict=True
                )
            )
        elif numpy_dtype.kind == "f" or dtype.name in SMALL_FLOATS:
            self._write = _Floats(flat, precision).texts
        else:
            self._write = _whole_numbers
            self._width = max(
                (len(text) for block in flat() for text in _whole_numbers(block)), default=0
            )

    def texts(self, block: Array) -> Iterator[str]:
        """Yield the texts of the elements of an array in C order."""
        width = self._width
        for text in self._write(block.reshape(-1)):
            yield text.rjust(width)


class _Floats:
    """Writes floats, all with or without an exponent and with their points in one column."""

    def __init__(self, blocks: Blocks, precision: int | None, *, signed: bool = False) -> None:
        self._precision = precision
        self._signed = signed
        self._range = _Range()
        for block in blocks():
            self._range.add(_exact(block))
        # Widths: up to the point, behind it, and of a word such as "nan".
        self._head = self._tail = self._word = 0
        for block in blocks():
            self._measure(block)
        self.width = max(self._head + self._tail, self._word)

    def texts(self, block: Array) -> Iterator[str]:
        """Yield the texts of the elements of an array."""
        for text in self._plain(block):
            head = _split(text)[0]
            if head:
                yield f"{' ' * (self._head - len(head))}{text}".ljust(self.width)
            else:
                yield text.rjust(self.width)

    def _measure(self, block: Array) -> None:
        for text in self._plain(block):
            head, tail = _split(text)
            if head:
                self._head = max(self._head, len(head))
                self._tail = max(self._tail, len(tail))
            else:
                self._word = max(self._word, len(text))

    def _plain(self, block: Array) -> Iterator[str]:
        exact = _exact(block)
        whole_from = _OWN[exact.dtype.name]
        write: Callable[..., str] = np.format_float_positional
        if self._range.wants_exponent:
            write, whole_from = np.format_float_scientific, 0
        for item in exact:
            if whole_from and whole_from <= abs(float(item)) < _LARGE:
                # NumPy fills up with zeros what a shorter number suffices to tell apart.
                text = f"{int(item):{'+' if self._signed else ''}}."
            else:
                text = write(
                    item, precision=self._precision, unique=True, trim=".", sign=self._signed
                )
            # NumPy gives no sign to nan.
            yield f"+{text}" if self._signed and text[0] not in "+-" else text


class _Range:
    """The least and greatest magnitude of numbers other than zero."""

    def __init__(self) -> None:
        self._least, self._greatest = inf, 0.0

    def add(self, block: Array) -> None:
        magnitudes = np.abs(block[np.isfinite(block) & (block != 0)])
        if len(magnitudes):
            self._least = min(self._least, float(magnitudes.min()))
            self._greatest = max(self._greatest, float(magnitudes.max()))

    @property
    def wants_exponent(self) -> bool:
        least, greatest = self._least, self._greatest
        if not greatest:
            return False
        return greatest >= _LARGE or least < _SMALL or greatest / least > _SPREAD


def _split(text: str) -> tuple[str, str]:
    """Return a number up to its point and what is behind that; nothing for a word such as nan."""
    head, point, tail = text.partition(".")
    return (head + point, tail) if point else ("", "")


def nested(array: Array) -> object:
    """Return an array as nested lists of numbers, bools and bytes, exactly.

    A complex number is `{"re": ..., "im": ...}`.
    """
    if array.dtype.names is not None:
        array = array[array.dtype.names[0]]
    if array.dtype.kind == "c":
        flat = [{"re": item.real, "im": item.imag} for item in array.reshape(-1).tolist()]
        pairs = np.empty(len(flat), object)
        pairs[:] = flat
        return pairs.reshape(array.shape).tolist()
    return array.tolist()


def _exact(block: Array) -> Array:
    """Return floats as a type that NumPy writes; float64 holds each of the smaller ones."""
    if block.dtype.name in _OWN:
        return block
    with np.errstate(invalid="ignore"):  # the processor complains of NaNs of the signalling sort
        exact: Array = block.astype(np.float64)
    return exact


def _whole_numbers(block: Array) -> Iterator[str]:
    return map(str, nested(block))  # type: ignore[call-overload, no-any-return]


def _quote(item: bytes, limit: int | None) -> str:
    """Return bytes as text in quotes, cut at `limit` characters."""
    try:
        text = item.decode("utf-8")
    except UnicodeDecodeError:
        if limit is None or len(item) <= limit:
            return repr(item)
        return f"{item[:limit]!r}… ({len(item):,} bytes)"
    mark = '"' if "'" in text and '"' not in text else "'"
    cut = limit is not None and len(text) > limit
    shown = printable(text[:limit] if cut else text).replace(mark, f"\\{mark}")
    return f"{mark}{shown}{mark}… ({len(item):,} bytes)" if cut else f"{mark}{shown}{mark}"
