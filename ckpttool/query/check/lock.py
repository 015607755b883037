"""Reading a lock: the listing of a checkpoint, kept to hold later checkpoints against.

It is what `ckpt ls --json` prints, but anybody may have changed it since: all that is used of it
is checked first. What it says of places and sizes is not used.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from ckpttool.errors import CorruptError, FileAccessError, UnsupportedError
from ckpttool.query.listing import SliceRow, TensorRow
from ckpttool.storage.source import file_error
from ckpttool.tensor.shape import element_count

SCHEMA = "ckpt.ls/1"
MAX_SIZE = 256 << 20
_FAMILY = SCHEMA.partition("/")[0]
_HINT = f"a lock is what 'ckpt ls PATH --json' prints, of schema {SCHEMA}"
_VIEWS = ("scopes", "folded", "tree", "checkpoints")
_MAX_DIGITS = 19  # those of the largest dimension
_MAX_DIMENSION = (1 << 63) - 1
_MAX_RANK = 254
_MAX_WORD = 64
_CRC32C = re.compile(r"[0-9a-f]{8}\Z")


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock.

    Attributes:
        path: where it was read from.
        text: all of it.
        tensors: by key, without places and sizes; a crc32c is None where the lock has none.
    """

    path: str
    text: str
    tensors: Mapping[str, TensorRow]


class _FaultError(ValueError):
    """What is wrong with a lock, with the way to it from the top of the document."""


def read_lock(path: str) -> Lock:
    """Read a lock.

    Args:
        path: a file or a pipe; "-" is standard input.

    Raises:
        MissingFileError, FileAccessError: it cannot be read.
        UnsupportedError: it is of another version or another kind of document.
        CorruptError: it is no lock; the message says where and why.
    """
    data = _read(path)
    if len(data) > MAX_SIZE:
        raise CorruptError(f"the lock is larger than {MAX_SIZE} bytes", path=path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CorruptError(f"it is not UTF-8; {_HINT}", path=path, offset=error.start) from error
    try:
        document = _parse(text)
        return Lock(path, text, _tensors(document, path))
    except _FaultError as error:
        raise CorruptError(str(error), path=path) from error


def _read(path: str) -> bytes:
    # The user names this file, so a pipe is welcome here: `--against <(...)`.
    try:
        with open(0 if path == "-" else path, "rb", closefd=path != "-") as file:
            return file.read(MAX_SIZE + 1)
    except OSError as error:
        raise file_error(error, path) from error
    except ValueError as error:  # a NUL in the path
        raise FileAccessError(str(error), path=path) from error


def _parse(text: str) -> object:
    try:
        return json.loads(
            text,
            object_pairs_hook=_members,
            parse_int=_integer,
            parse_constant=_no_constant,
        )
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise _FaultError(f"{place}: it is not JSON: {error.msg}; {_HINT}") from error
    except RecursionError as error:
        raise _FaultError(f"it is nested too deeply; {_HINT}") from error


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        ((name, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise _FaultError(f"an object has the member '{name}' twice")
    return members


def _integer(digits: str) -> int:
    # Reading a number takes longer than the number is long.
    if len(digits.lstrip("-")) > _MAX_DIGITS:
        raise _FaultError(f"a number of {len(digits)} digits")
    return int(digits)


def _no_constant(name: str) -> NoReturn:
    raise _FaultError(f"it is not JSON: {name}")


def _tensors(document: object, path: str) -> dict[str, TensorRow]:
    if not isinstance(document, dict):
        raise _FaultError(f"it is {_called(document)}; {_HINT}")
    _check_schema(document.get("schema"), path)
    rows = document.get("tensors")
    if rows is None:
        view = next((f", but {name}" for name in _VIEWS if name in document), "")
        raise _FaultError(f"it has no tensors{view}; {_HINT}")
    tensors: dict[str, TensorRow] = {}
    for number, value in enumerate(_array(rows, "tensors")):
        where = f"tensors[{number}]"
        row = _tensor(value, where)
        if row.key in tensors:
            raise CorruptError(f"{where}: the key comes a second time", path=path, key=row.key)
        tensors[row.key] = row
    return tensors


def _check_schema(schema: object, path: str) -> None:
    if schema == SCHEMA:
        return
    if not isinstance(schema, str):
        raise _FaultError(f"it has no member schema; {_HINT}")
    name = schema[:_MAX_WORD]
    if schema.partition("/")[0] == _FAMILY:
        problem = f"a lock of schema '{name}'; this version of ckpt reads {SCHEMA}"
    else:
        problem = f"a document of schema '{name}'; {_HINT}"
    raise UnsupportedError(problem, path=path)


def _tensor(value: object, where: str) -> TensorRow:
    if not isinstance(value, dict):
        raise _FaultError(f"{where}: an object is wanted, not {_called(value)}")
    shape = _shape(_member(value, "shape", where), f"{where}.shape")
    path = _member(value, "object_path", where)
    slices = value.get("slices")
    return TensorRow(
        key=_text(_member(value, "key", where), f"{where}.key"),
        object_path=None if path is None else _text(path, f"{where}.object_path"),
        dtype=_word(_member(value, "dtype", where), f"{where}.dtype"),
        shape=shape,
        kind=_word(_member(value, "kind", where), f"{where}.kind"),
        elements=element_count(shape),
        bytes=None,
        shard=None,
        offset=None,
        crc32c=_crc32c(value.get("crc32c"), f"{where}.crc32c"),
        slices=() if slices is None else _slices(slices, f"{where}.slices"),
    )


def _slices(value: object, where: str) -> tuple[SliceRow, ...]:
    """Return the slices; none where one of them has no crc32c, which is all they are for."""
    slices = []
    for number, each in enumerate(_array(value, where)):
        place = f"{where}[{number}]"
        if not isinstance(each, dict):
            raise _FaultError(f"{place}: an object is wanted, not {_called(each)}")
        spec = _text(_member(each, "spec", place), f"{place}.spec")
        crc = _crc32c(each.get("crc32c"), f"{place}.crc32c")
        if crc is None:
            return ()
        slices.append(SliceRow(spec, 0, None, None, crc))
    return tuple(slices)


def _member(value: dict[str, object], name: str, where: str) -> object:
    try:
        return value[name]
    except KeyError:
        raise _FaultError(f"{where}: it has no member {name}") from None


def _array(value: object, where: str) -> Sequence[object]:
    if not isinstance(value, list):
        raise _FaultError(f"{where}: an array is wanted, not {_called(value)}")
    return value


def _shape(value: object, where: str) -> tuple[int, ...]:
    dims = _array(value, where)
    if len(dims) > _MAX_RANK:
        raise _FaultError(f"{where}: {len(dims)} dimensions are more than {_MAX_RANK}")
    return tuple(_count(dim, f"{where}[{axis}]") for axis, dim in enumerate(dims))


def _count(value: object, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _FaultError(f"{where}: a whole number is wanted, not {_called(value)}")
    if not 0 <= value <= _MAX_DIMENSION:
        raise _FaultError(f"{where}: {value} is out of range")
    return value


def _word(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise _FaultError(f"{where}: text is wanted, not {_called(value)}")
    if not 0 < len(value) <= _MAX_WORD:
        raise _FaultError(f"{where}: a text of {len(value)} characters")
    if not (value.isascii() and value.isprintable()):
        raise _FaultError(f"{where}: '{value}' is no word")
    return value


def _text(value: object, where: str) -> str:
    """Return text, or bytes that are no UTF-8 as surrogate escapes."""
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise _FaultError(f"{where}: half a surrogate pair is no character") from error
        return value
    encoded = value.get("base64") if isinstance(value, dict) and len(value) == 1 else None
    if not isinstance(encoded, str):
        raise _FaultError(f"{where}: text or base64 is wanted, not {_called(value)}")
    try:
        return base64.b64decode(encoded, validate=True).decode("utf-8", "surrogateescape")
    except ValueError as error:
        raise _FaultError(f"{where}: it is not base64: {error}") from error


def _crc32c(value: object, where: str) -> int | None:
    if value is None:
        return None
    if not isinstance(value, str) or not _CRC32C.match(value):
        raise _FaultError(f"{where}: eight hexadecimal digits or null are wanted")
    return int(value, 16)


def _called(value: object) -> str:
    """Return what JSON calls a value."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    names = {dict: "an object", list: "an array", str: "text", int: "a number"}
    return names.get(type(value), "a fraction")
