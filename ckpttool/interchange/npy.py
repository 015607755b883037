"""The header of an array as NumPy writes it.

    magic     93 "NUMPY", then major and minor version
    length    2 bytes in version 1, else 4; little-endian
    header    a literal of Python: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
    data      the elements

It is taken apart by an expression: nothing in it is evaluated.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ckpttool.errors import CorruptError, TruncatedError, UnsupportedError
from ckpttool.printable import printable, shortened
from ckpttool.tensor.dtypes import STRING, DType, dtype_of_name
from ckpttool.tensor.shape import Shape, check_shape, element_count

MAGIC = b"\x93NUMPY"
# As NumPy: a longer header could only be that of a structure.
MAX_NPY_HEADER = 10_000
_LENGTHS = {1: 2, 2: 4, 3: 4}
# Bytes from the start that hold any header that can be read.
MOST_NPY_HEAD = 8 + 4 + MAX_NPY_HEADER
_MEMBER = re.compile(
    r"""\s*(?P<quote>['"])(?P<name>descr|fortran_order|shape)(?P=quote)\s*:\s*"""
    r"""(?:(?P<mark>['"])(?P<text>[^'"\\\n]*)(?P=mark)|(?P<flag>True|False)"""
    r"""|\((?P<dims>[0-9L,\s]*)\)|(?P<list>\[))\s*(?P<end>,|(?=\}))"""
)
_DIMS = re.compile(r"\s*(?:[0-9]+L?\s*,\s*)*(?:[0-9]+L?\s*)?\Z")
_DESCR = re.compile(r"(?P<order>[<>|=]?)(?P<kind>[a-zA-Z?])(?P<size>[0-9]{0,9})(?:\[[^\]]*\])?\Z")
_MAX_DIGITS = 20
_KINDS = {"b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex"}
_SIZES = {"b": (1,), "i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (2, 4, 8), "c": (8, 16)}
# Bytes of a character, and how Python calls the spelling.
_TEXTS = {"S": 1, "a": 1, "U": 4}
OBJECTS = "unknown(object)"
_WHY = {
    "O": "an array of Python objects is a pickle, and pickles are never opened",
    "V": "NumPy did not record what its elements are (bfloat16 and float8 look like this)",
}


class NpyHeader(NamedTuple):
    """What the header of an array says.

    Attributes:
        dtype: TensorFlow's; `unknown(…)` where it has none.
        shape: of the array.
        width: bytes of an element; 0 if they are not of a fixed size.
        fortran: whether the first index runs fastest.
        big_endian: byte order of the elements.
        characters: bytes of a character of text, else 0.
        data_start: where the elements begin.
        unreadable: why the elements cannot be read; "" if they can.
    """

    dtype: DType
    shape: Shape
    width: int
    fortran: bool
    big_endian: bool
    characters: int
    data_start: int
    unreadable: str = ""

    @property
    def size(self) -> int:
        """Bytes of all elements."""
        return element_count(self.shape) * self.width


def parse_npy(head: bytes) -> NpyHeader:
    """Read the header of an array.

    Args:
        head: the first bytes, `MOST_NPY_HEAD` of them or all.

    Raises:
        CorruptError: it is no such header.
        UnsupportedError: the version is not known, or the elements are structures.
    """
    if not head.startswith(MAGIC):
        raise CorruptError("not an array of NumPy: it does not begin as one", offset=0)
    if len(head) < 8 or head[6] not in _LENGTHS:
        version = f"{head[6]}.{head[7]}" if len(head) >= 8 else "none"
        raise UnsupportedError(f"version {version} of NumPy's format is not known", offset=6)
    start = 8 + _LENGTHS[head[6]]
    length = int.from_bytes(head[8:start], "little")
    if length > MAX_NPY_HEADER:
        message = f"a header of {length} bytes is more than {MAX_NPY_HEADER}"
        raise UnsupportedError(message, offset=8)
    if start + length > len(head):
        raise TruncatedError(f"a header of {length} bytes goes beyond the end", offset=8)
    try:
        text = str(head[start : start + length], "utf-8" if head[6] == 3 else "latin-1")
    except UnicodeDecodeError as error:
        raise CorruptError("the header is not UTF-8", offset=start + error.start) from error
    members = _members(text, start)
    return _header(members, start, start + length)


def _members(text: str, start: int) -> dict[str, re.Match[str]]:
    """Return the three members of a header."""
    found: dict[str, re.Match[str]] = {}
    at = len(text) - len(text.lstrip())
    if not text.startswith("{", at):
        raise CorruptError("in the header: '{' is expected", offset=start + at)
    at += 1
    while match := _MEMBER.match(text, at):
        if match["name"] in found:
            raise CorruptError(f"in the header: '{match['name']}' twice", offset=start + at)
        if match["list"]:
            raise UnsupportedError("its elements are structures", offset=start + at)
        found[match["name"]] = match
        at = match.end()
        if not match["end"]:
            break
    rest = text[at:].strip()
    if rest != "}":
        if _MEMBER.match(text, at) is None and re.match(r"""\s*['"]descr['"]\s*:\s*\[""", rest):
            raise UnsupportedError("its elements are structures", offset=start + at)
        raise CorruptError("the header is not one that NumPy writes", offset=start + at)
    return found


def _header(members: dict[str, re.Match[str]], start: int, end: int) -> NpyHeader:
    descr = members["descr"]["text"] if "descr" in members else None
    flag = members["fortran_order"]["flag"] if "fortran_order" in members else None
    dims = members["shape"]["dims"] if "shape" in members else None
    if descr is None or flag is None or dims is None or not _DIMS.match(dims):
        raise CorruptError("the header lacks a dtype, an order or a shape", offset=start)
    digits = re.findall("[0-9]+", dims)
    if any(len(each) > _MAX_DIGITS for each in digits):
        raise CorruptError("a dimension in the header has too many digits", offset=start)
    shape = tuple(map(int, digits))
    if len(shape) == 1 and "," not in dims:
        raise CorruptError("the shape in the header is no tuple", offset=start)
    try:
        check_shape(shape)
    except CorruptError as error:
        raise error.locate(offset=start) from None
    parts = _DESCR.match(descr)
    if parts is None:
        raise CorruptError(
            f"the dtype '{shortened(printable(descr))}' in the header is none of NumPy's",
            offset=start,
        )
    kind, size = parts["kind"], int(parts["size"] or 0)
    fortran = flag == "True" and len(shape) > 1
    big_endian = parts["order"] == ">"
    if size in _SIZES.get(kind, ()):
        name = "bool" if kind == "b" else f"{_KINDS[kind]}{8 * size}"
        dtype = dtype_of_name(name)
        return NpyHeader(dtype, shape, size, fortran, big_endian, 0, end)
    if kind in _TEXTS and size:
        width = size * _TEXTS[kind]
        return NpyHeader(STRING, shape, width, fortran, big_endian, _TEXTS[kind], end)
    shown = "object" if kind == "O" else descr
    why = _WHY.get(kind, f"TensorFlow has no dtype for NumPy's {descr}")
    width = 0 if kind == "O" else size
    dtype = DType(0, f"unknown({shown})", None)
    return NpyHeader(dtype, shape, width, fortran, big_endian, 0, end, why)
