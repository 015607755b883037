"""The header of a safetensors file.

length   8 bytes, little-endian
header   JSON: name -> {"dtype", "shape", "data_offsets": [begin, end]}, and "__metadata__",
         text -> text; spaces may follow
data     the tensors, back to back to the end of the file; offsets count from its start
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from math import prod
from typing import NamedTuple

from ckpttool.coding.foreign import HEAD_SIZE, foreign_bytes
from ckpttool.coding.json_text import JsonError, strict_decoder
from ckpttool.coding.text import encode_text
from ckpttool.errors import (
    CkptError,
    CorruptError,
    InvalidTensorError,
    KeyCollisionError,
    TruncatedError,
    UnsupportedError,
)
from ckpttool.printable import printable, shortened
from ckpttool.storage.source import RandomAccessFile
from ckpttool.tensor.dtypes import DType, dtype_of_name
from ckpttool.tensor.shape import Shape, check_shape

# Readers take no longer header.
MAX_HEADER = 100_000_000
METADATA = "__metadata__"
_LENGTH = 8
# Where data begin in what is written here.
_ALIGNMENT = 64
_SPACE = re.compile(r"[ \t\n\r]*")
_MEMBERS = ("dtype", "shape", "data_offsets")
_MAX_DIGITS = 20
# What takes more characters is refused before it is decoded: it could only be meant to take long.
_MAX_NAME = 1 << 16
_MAX_DESCRIPTION = 1 << 14
_MAX_METADATA = 1 << 24
_COUNT = "(?:0|[1-9][0-9]{0,18})"
# A member as nearly every writer spells it; others are decoded as JSON, at several times the cost.
_USUAL = re.compile(
    r'"([^"\\\x00-\x1f]{0,500})":\{"dtype":"([A-Z0-9_]{1,20})",'
    rf'"shape":\[((?:{_COUNT}(?:,{_COUNT}){{0,253}})?)\],"data_offsets":\[({_COUNT}),({_COUNT})\]\}}'
)

# Name in the header -> TensorFlow's name.
_NAMES: Mapping[str, str] = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
    "C64": "complex64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
}
# Bits of what TensorFlow does not have. Its float4 takes a byte, not half of one.
_OTHERS = {"F8_E8M0": 8, "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4}
_DTYPES: Mapping[str, tuple[int, DType]] = {
    **{
        code: (8 * (dtype_of_name(name).size or 0), dtype_of_name(name))
        for code, name in _NAMES.items()
    },
    **{code: (bits, DType(0, f"unknown({code})", None)) for code, bits in _OTHERS.items()},
}
# TensorFlow's name -> name in the header.
SAFETENSORS_CODES: Mapping[str, str] = {name: code for code, name in _NAMES.items()}
# Names that older readers do not know.
YOUNG_CODES = frozenset({"C64", "F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ"})


class StoredTensor(NamedTuple):
    """A tensor in a safetensors file.

    Attributes:
        name: its name.
        dtype: TensorFlow's; `unknown(F4)` and the like where it has none.
        shape: its shape.
        offset: where its bytes begin, from the start of the file.
        size: how many bytes it has.
    """

    name: str
    dtype: DType
    shape: Shape
    offset: int
    size: int


class SafetensorsHeader(NamedTuple):
    """What the header of a safetensors file says.

    Attributes:
        tensors: in the order of their bytes.
        metadata: text by name, as the writer left it.
        data_start: where the data begin.
    """

    tensors: tuple[StoredTensor, ...]
    metadata: Mapping[str, str]
    data_start: int


class BuiltHeader(NamedTuple):
    """The beginning of a safetensors file to be written.

    Attributes:
        data: all bytes before those of the first tensor.
        tensors: in the order in which their bytes have to follow.
    """

    data: bytes
    tensors: tuple[StoredTensor, ...]


def safetensors_code(dtype: DType) -> str:
    """Return the name of a dtype in a header.

    Raises:
        UnsupportedError: the format has none.
    """
    code = SAFETENSORS_CODES.get(dtype.name)
    if code is None:
        raise UnsupportedError(f"safetensors has no dtype for {dtype}")
    return code


def read_header(file: RandomAccessFile) -> SafetensorsHeader:
    """Read the header of a safetensors file, and check it against the size of the file.

    Every byte of the data belongs to one tensor: there are no holes, no overlaps, and nothing
    after the last one.

    Raises:
        CorruptError: it is not the header of such a file.
        UnsupportedError: it has a dtype that is not known.
    """
    try:
        length = _header_length(file)
        raw = file.read_at(_LENGTH, length)
        try:
            text = str(raw, "utf-8")
        except UnicodeDecodeError as error:
            raise CorruptError("the header is not UTF-8", offset=_LENGTH + error.start) from error
        del raw
        scan = _Scan(text, _LENGTH + length, file.size)
        scan.run()
    except CkptError as error:
        error.locate(path=file.path)
        raise
    return SafetensorsHeader(tuple(scan.tensors), scan.metadata, _LENGTH + length)


def build_header(
    tensors: Iterable[tuple[str, DType, Shape]], metadata: Mapping[str, str] | None = None
) -> BuiltHeader:
    """Return the header of a new file: equal tensors give equal bytes, in whatever order they come.

    The largest elements come first, so that all are aligned; among those of one size, tensors are
    in the order of their names' bytes.

    Args:
        tensors: name, dtype and shape of each.
        metadata: text by name.

    Raises:
        KeyCollisionError: two tensors have one name.
        InvalidTensorError: a name cannot be written, or the header would be too long.
        UnsupportedError: the format has no such dtype.
    """
    described = sorted(tensors, key=lambda each: (-(each[1].size or 0), encode_text(each[0])))
    members: dict[str, object] = {}
    if metadata:
        members[METADATA] = {name: metadata[name] for name in sorted(metadata)}
    stored: list[StoredTensor] = []
    at = 0
    for name, dtype, shape in described:
        if name == METADATA:
            raise InvalidTensorError(f"no tensor of safetensors can be called '{name}'", key=name)
        if name in members:
            raise KeyCollisionError("two tensors of this name", key=name)
        try:
            code = safetensors_code(dtype)
        except UnsupportedError as error:
            raise error.locate(key=name) from None
        size = prod(shape) * (dtype.size or 0)
        members[name] = dict(zip(_MEMBERS, (code, shape, (at, at + size)), strict=True))
        stored.append(StoredTensor(name, dtype, shape, at, size))
        at += size
    try:
        data = json.dumps(members, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError as error:
        odd = next((name for name in members if not _is_unicode(name)), None)
        raise InvalidTensorError("safetensors holds only names in UTF-8", key=odd) from error
    data += b" " * (-(_LENGTH + len(data)) % _ALIGNMENT)
    if len(data) > MAX_HEADER:
        raise InvalidTensorError(f"a header of {len(data)} bytes is more than {MAX_HEADER}")
    start = _LENGTH + len(data)
    return BuiltHeader(
        len(data).to_bytes(_LENGTH, "little") + data,
        tuple(each._replace(offset=start + each.offset) for each in stored),
    )


def _header_length(file: RandomAccessFile) -> int:
    """Return the length of the JSON, which the file can hold."""
    if file.size < _LENGTH + 2:
        message = f"a file of {file.size} bytes is too short for safetensors"
        raise TruncatedError(message + _instead(file), offset=0)
    length = int.from_bytes(file.read_at(0, _LENGTH), "little")
    if length > MAX_HEADER:
        message = f"not safetensors: a header of {length} bytes is more than {MAX_HEADER}"
        raise CorruptError(message + _instead(file), offset=0)
    if length < 2 or _LENGTH + length > file.size:
        message = f"a header of {length} bytes in a file of {file.size}"
        raise TruncatedError(message + _instead(file), offset=0)
    return length


def _instead(file: RandomAccessFile) -> str:
    """Say what the file is, if it is something else that is known."""
    found = foreign_bytes(file.read_at(0, min(file.size, HEAD_SIZE)), file.size)
    return f"; it is {found}" if found else ""


class _Scan:
    """Goes through the JSON member by member, so that only the result is in memory.

    Args:
        text: the JSON.
        data_start: where the data begin in the file.
        size: of the file.
    """

    def __init__(self, text: str, data_start: int, size: int) -> None:
        self._text = text
        self._start = data_start
        self._size = size
        self._decode = strict_decoder(_integer).raw_decode
        self._at = 0
        self.tensors: list[StoredTensor] = []
        self.metadata: Mapping[str, str] = {}

    def run(self) -> None:
        """Read all members."""
        names: set[str] = set()
        self._take("{", "the header does not begin with '{'", skip=False)
        more = self._next() != "}"
        while more:
            began = self._at
            usual = _USUAL.match(self._text, self._at)
            name = self._name() if usual is None else usual[1]
            if name in names:
                raise self._error(f"the name '{shortened(printable(name))}' twice", began)
            names.add(name)
            if usual is not None:
                began = usual.end(1) + 2
                self._at = usual.end()
            try:
                if usual is not None:
                    self._take_usual(usual)
                else:
                    began = self._at
                    self._take_value(name)
            except CkptError as error:
                error.locate(offset=self._offset(began), key=name)
                raise
            more = self._next() == ","
            if more:
                self._at += 1
                self._next()
        self._take("}", "',' or '}' is expected")
        if self._text[self._at :].strip(" "):
            raise self._error("only spaces may follow the JSON", self._at)
        self._check_extents()

    def _name(self) -> str:
        """Pass a name and the colon after it; return the name."""
        began = self._at
        name = self._value(_MAX_NAME, "a name")
        if not isinstance(name, str):
            raise self._error("a name is expected", began)
        if not _is_unicode(name):
            raise self._error("a name is not Unicode", began)
        self._take(":", "':' is expected")
        self._next()
        return name

    def _take_usual(self, found: re.Match[str]) -> None:
        """Take a tensor that is described in the usual way."""
        name, code, dims, begin, end = found.groups()
        shape = tuple(map(int, dims.split(","))) if dims else ()
        self.tensors.append(_checked(name, code, shape, int(begin), int(end), self._start))

    def _take_value(self, name: str) -> None:
        """Pass the value of a member, and take it."""
        if name == METADATA:
            self.metadata = _metadata(self._value(_MAX_METADATA, "the metadata"))
        else:
            value = self._value(_MAX_DESCRIPTION, "a description")
            self.tensors.append(_tensor(name, value, self._start))

    def _check_extents(self) -> None:
        """Check that the tensors lie back to back and fill the data."""
        self.tensors.sort(key=lambda each: (each.offset, each.size))
        end, last = self._start, "the header"
        for tensor in self.tensors:
            if tensor.offset != end:
                what = "a hole after" if tensor.offset > end else "an overlap with"
                raise CorruptError(
                    f"its bytes begin at {tensor.offset}, and {last} ends at {end}: {what} that",
                    offset=tensor.offset,
                    key=tensor.name,
                )
            end, last = tensor.offset + tensor.size, f"'{shortened(printable(tensor.name))}'"
        if end > self._size:
            message = f"the tensors take {end} bytes, but the file has {self._size} in all"
            raise TruncatedError(message, offset=self._size, key=self.tensors[-1].name)
        if end < self._size:
            message = f"{self._size - end} bytes at the end of the file belong to no tensor"
            raise CorruptError(message, offset=end)

    def _value(self, limit: int, what: str) -> object:
        """Pass a value of so many characters at most, and return it."""
        began = self._at
        text = self._text[began : began + limit]
        try:
            value, end = self._decode(text)
            self._at += end
        except json.JSONDecodeError as error:
            if began + limit < len(self._text):
                raise self._error(f"{what} of more than {limit} characters", began) from error
            raise self._error(error.msg.lower(), began + min(error.pos, len(text))) from error
        except JsonError as error:
            raise self._error(error.problem, self._at) from error
        except RecursionError as error:
            raise self._error("nested too deep", self._at) from error
        return value

    def _next(self) -> str:
        """Return the next character that is no space, without passing it; "" at the end."""
        found = _SPACE.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return self._text[self._at : self._at + 1]

    def _take(self, char: str, message: str, *, skip: bool = True) -> None:
        """Pass a character, which has to be the next one."""
        if skip:
            self._next()
        if not self._text.startswith(char, self._at):
            raise self._error(message, self._at)
        self._at += 1

    def _error(self, problem: str, at: int) -> CorruptError:
        return CorruptError(f"in the header: {problem}", offset=self._offset(at))

    def _offset(self, at: int) -> int:
        """Return the offset in the file of a character of the JSON."""
        return _LENGTH + len(self._text[:at].encode())


def _tensor(name: str, value: object, data_start: int) -> StoredTensor:
    """Return the tensor that a member describes."""
    if not isinstance(value, dict):
        raise CorruptError("its description is no object")
    for member in value:
        if member not in _MEMBERS:
            raise UnsupportedError(f"its description has '{shortened(printable(member))}'")
    code, dims, offsets = map(value.get, _MEMBERS)
    if not isinstance(code, str):
        raise UnsupportedError("its dtype is not known")
    shape, extent = _counts(dims), _counts(offsets)
    if shape is None:
        raise CorruptError("its shape is no list of whole numbers from 0")
    if extent is None or len(extent) != 2:
        raise CorruptError("its data_offsets are not two rising numbers")
    return _checked(name, code, shape, *extent, data_start)


def _checked(
    name: str, code: str, shape: Shape, begin: int, end: int, data_start: int
) -> StoredTensor:
    """Return a tensor whose extent fits its dtype and shape."""
    found = _DTYPES.get(code)
    if found is None:
        raise UnsupportedError(f"its dtype '{shortened(printable(code))}' is not known")
    bits, dtype = found
    check_shape(shape)
    if begin > end:
        raise CorruptError("its data_offsets are not two rising numbers")
    if prod(shape) * bits != 8 * (end - begin):
        raise CorruptError(
            f"{code} {list(shape)} does not fit the {end - begin} bytes of its data_offsets"
        )
    return StoredTensor(name, dtype, shape, data_start + begin, end - begin)


def _metadata(value: object) -> Mapping[str, str]:
    if not isinstance(value, dict):
        raise CorruptError("it is no object")
    for name, text in value.items():
        if not isinstance(text, str):
            raise CorruptError(f"'{shortened(printable(name))}' is no text")
    return value


def _counts(value: object) -> tuple[int, ...] | None:
    """Return a list of whole numbers from 0; None for anything else."""
    if isinstance(value, list) and all(type(each) is int and each >= 0 for each in value):
        return tuple(value)
    return None


def _is_unicode(name: str) -> bool:
    """Tell whether a name has no half of a surrogate pair, which JSON can spell."""
    if name.isascii():
        return True
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise JsonError(f"a number of {len(digits)} digits")
    return int(digits)
