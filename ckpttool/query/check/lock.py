"""Reading a lock: the listing of a checkpoint, kept to check later checkpoints against it.

A lock is the output of `ckpt ls --json`, but anybody may have changed it since: everything used is
validated first. Places and sizes in it are not used. It is read tensor by tensor and held by
columns, because a lock can list as many tensors as an index.
"""

from __future__ import annotations

import base64
import json
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from ckpttool.coding.json_text import JsonError
from ckpttool.coding.text import decode_text
from ckpttool.errors import CorruptError, UnsupportedError
from ckpttool.objects.keys import object_path
from ckpttool.query.check.stream import JsonStream, NoUtf8Error, TooLargeError
from ckpttool.query.rows import BundleRows, SliceRow, TensorRow
from ckpttool.storage.source import open_input
from ckpttool.tensor.shape import element_count

SCHEMA = "ckpt.ls/1"
# A line of a lock is about four times as long as the record in an index, of which 1 GiB is read.
MAX_SIZE = 4 << 30
_FAMILY = SCHEMA.partition("/")[0]
_HINT = f"a lock is what 'ckpt ls PATH --json' prints, of schema {SCHEMA}"
_VIEWS = ("scopes", "folded", "tree", "checkpoints")
_MAX_DIMENSION = (1 << 63) - 1
_MAX_RANK = 254
_MAX_WORD = 64
_CRC32C = re.compile(r"[0-9a-f]{8}\Z")
_NO_SUM = -1
# Whether a tensor has an object path; most follow from the key.
_NO_PATH, _PATH_OF_KEY, _OTHER_PATH = range(3)
# A key is text, or an object with its bytes. The name is not the end of an escaped one.
_KEY = re.compile(
    r'(?<!\\)"key"\s*:\s*'
    r'(?P<value>"[^"\\]*(?:\\.[^"\\]*)*"|\{\s*"base64"\s*:\s*"(?P<bytes>[^"\\]*)"\s*\})'
)


class LockRows(Mapping[str, TensorRow]):
    """The tensors of a lock by key, in its order, without places and sizes."""

    def __init__(self) -> None:
        self._positions: dict[str, int] = {}
        self._dtypes: list[str] = []
        self._shapes: list[tuple[int, ...]] = []
        self._kinds: list[str] = []
        self._crcs = array("q")
        self._lines = array("q")
        self._named = bytearray()
        # By position: object paths that do not follow from the key, and slices.
        self._paths: dict[int, str] = {}
        self._slices: dict[int, tuple[SliceRow, ...]] = {}
        # Likewise, the full names of variables.
        self._full_names: dict[int, str] = {}
        # Tensors share a few words and shapes.
        self._words: dict[str, str] = {}
        self._known: dict[tuple[int, ...], tuple[int, ...]] = {}

    def add(self, value: object, number: int) -> str:
        """Add the JSON of a tensor, not yet validated, and return its key.

        Args:
            value: the JSON.
            number: its position.

        Raises:
            CorruptError: the key occurs twice.
            _FaultError: it is no tensor of a lock.
        """
        if not isinstance(value, dict):
            raise _FaultError(f"tensors[{number}]: expected an object, not {_called(value)}")
        try:
            return self._take(value, number)
        except _FaultError as error:
            raise _FaultError(f"tensors[{number}]{error}") from error

    def place(self, line: int) -> None:
        """Note the line of the tensor added last."""
        self._lines.append(line)

    def line(self, key: str) -> int | None:
        """Return the line of a tensor, from 1; None if unknown."""
        at = self._positions.get(key)
        return None if at is None else self._lines[at] or None

    def __getitem__(self, key: str) -> TensorRow:
        at = self._positions[key]
        shape, crc = self._shapes[at], self._crcs[at]
        return TensorRow(
            key=key,
            object_path=self._path(key, at),
            dtype=self._dtypes[at],
            shape=shape,
            kind=self._kinds[at],
            elements=element_count(shape),
            bytes=None,
            shard=None,
            offset=None,
            crc32c=None if crc == _NO_SUM else crc,
            slices=self._slices.get(at, ()),
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._positions)

    def __len__(self) -> int:
        return len(self._positions)

    def __contains__(self, key: object) -> bool:
        return key in self._positions

    def variable_name(self, key: str) -> str | None:
        """Return the full name of a variable in its program, if the lock tells it."""
        return self._full_names.get(self._positions[key])

    def described(self) -> Iterator[tuple[str, str, tuple[int, ...]]]:
        """Yield key, dtype and shape of all tensors."""
        return zip(self._positions, self._dtypes, self._shapes, strict=True)

    def has_checksums(self) -> bool:
        """Tell whether any tensor or slice has a crc32c."""
        return bool(self._slices) or any(crc != _NO_SUM for crc in self._crcs)

    def news(self, rows: Iterable[TensorRow]) -> list[str]:
        """Return the keys that a pattern may select in the lock but not in a checkpoint.

        The checkpoint lacks the tensor, or it has another kind or object path there.

        Args:
            rows: of the checkpoint.
        """
        new = bytearray(b"\1") * len(self)
        for row in rows:
            at = self._positions.get(row.key)
            if at is not None and self._kinds[at] == row.kind:
                new[at] = self._path(row.key, at) != row.object_path
        return [key for key, at in self._positions.items() if new[at]]

    def unlike(self, rows: BundleRows, *, crc: bool) -> Iterator[str]:
        """Yield the keys of a bundle's tensors that are missing here or may differ."""
        ats = map(self._positions.get, rows.keys)
        dtypes, shapes, crcs, slices = self._dtypes, self._shapes, self._crcs, self._slices
        described = zip(rows.keys, ats, rows.dtypes, rows.shapes, strict=True)
        if not crc:
            for key, at, dtype, shape in described:
                if at is None or dtypes[at] != dtype or shapes[at] != shape:
                    yield key
            return
        for (key, at, dtype, shape), found in zip(described, rows.checksums(), strict=True):
            if (
                at is None
                or dtypes[at] != dtype
                or shapes[at] != shape
                or crcs[at] != found
                or at in slices
            ):
                yield key

    def _take(self, value: dict[str, object], number: int) -> str:
        for name in ("shape", "object_path", "key", "dtype", "kind"):
            if name not in value:
                raise _FaultError(f": it has no member {name}")
        key = _text(value["key"], ".key")
        if self._positions.setdefault(key, number) != number:
            raise CorruptError(f"tensors[{number}]: the key occurs twice", key=key)
        path = value["object_path"]
        if path is None:
            self._named.append(_NO_PATH)
        elif path == object_path(key):
            self._named.append(_PATH_OF_KEY)
        else:
            self._named.append(_OTHER_PATH)
            self._paths[number] = _text(path, ".object_path")
        self._shapes.append(self._shape(value["shape"]))
        self._dtypes.append(self._word(value["dtype"], ".dtype"))
        self._kinds.append(self._word(value["kind"], ".kind"))
        crc = _crc32c(value.get("crc32c"), ".crc32c")
        self._crcs.append(_NO_SUM if crc is None else crc)
        full_name = value.get("name")
        if isinstance(full_name, str):
            self._full_names[number] = full_name
        listed = value.get("slices")
        if listed is not None and (slices := _slices(listed, ".slices")):
            self._slices[number] = slices
        return key

    def _word(self, value: object, where: str) -> str:
        known = self._words.get(value) if isinstance(value, str) else None
        if known is None:
            word = _word(value, where)
            known = self._words.setdefault(word, word)
        return known

    def _path(self, key: str, at: int) -> str | None:
        if self._named[at] == _OTHER_PATH:
            return self._paths[at]
        return object_path(key) if self._named[at] == _PATH_OF_KEY else None

    def _shape(self, value: object) -> tuple[int, ...]:
        # Known shapes are validated; True would equal 1.
        if isinstance(value, list) and {*map(type, value)} <= {int}:
            known = self._known.get(tuple(value))
            if known is not None:
                return known
        shape = _shape(value, ".shape")
        return self._known.setdefault(shape, shape)


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock.

    Attributes:
        path: where it was read from.
        digest: SHA-256 of its text, without a mark of byte order.
        tensors: what it lists.
    """

    path: str
    digest: bytes
    tensors: LockRows


class _FaultError(ValueError):
    """A fault of a lock, with its path from the top of the document."""


def read_lock(path: str) -> Lock:
    """Read a lock.

    Args:
        path: a file or a pipe; "-" is standard input.

    Raises:
        MissingFileError, FileAccessError: it cannot be read.
        UnsupportedError: it is of another version or another kind of document.
        CorruptError: it is no lock; the message says where and why.
    """
    try:
        with open_input(path) as file:
            return _read(file, path)
    except JsonError as error:
        raise CorruptError(f"{error}; {_HINT}", path=path) from error
    except NoUtf8Error as error:
        raise CorruptError(f"{error}; {_HINT}", path=path, offset=error.offset) from error
    except TooLargeError as error:
        raise CorruptError(f"the lock is larger than {MAX_SIZE} bytes", path=path) from error
    except _FaultError as error:
        raise CorruptError(str(error), path=path) from error
    except CorruptError as error:
        error.locate(path=path)
        raise


def _read(file: BinaryIO, path: str) -> Lock:
    stream = JsonStream(file, MAX_SIZE)
    if stream.next() != "{":
        value = stream.value()
        stream.end()
        raise _FaultError(f"it is {_called(value)}; {_HINT}")
    schema: object = None
    tensors: LockRows | None = None
    view = ""
    for name in stream.members():
        if name == "tensors" and stream.next() == "[":
            tensors = _tensors(stream)
            continue
        value = stream.value()
        if name == "schema":
            schema = value
            _check_schema(schema, path)
        elif name == "tensors" and value is not None:
            raise _FaultError(f"tensors: expected an array, not {_called(value)}")
        elif name in _VIEWS and not view:
            view = f", but {name}"
    stream.end()
    _check_schema(schema, path)
    if tensors is None:
        raise _FaultError(f"it has no tensors{view}; {_HINT}")
    return Lock(path, stream.digest(), tensors)


def _tensors(stream: JsonStream) -> LockRows:
    tensors = LockRows()
    for number, value in enumerate(stream.elements()):
        key = tensors.add(value, number)
        line = stream.line()
        tensors.place(line if stream.one_line() else line + _lines_before(key, stream.last()))
    return tensors


def _lines_before(key: str, text: str) -> int:
    """Return how many lines of the text of a tensor precede that with its key."""
    for match in _KEY.finditer(text):
        if _decoded(match) == key:
            return text.count("\n", 0, match.start())
    return 0


def _decoded(match: re.Match[str]) -> str | None:
    try:
        if match["bytes"] is not None:
            return decode_text(base64.b64decode(match["bytes"]))
        return str(json.loads(match["value"]))
    except ValueError:  # some other member of this name, which nobody has checked
        return None


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


def _slices(value: object, where: str) -> tuple[SliceRow, ...]:
    """Return the slices; none where one of them has no crc32c, which is all they are for."""
    slices = []
    for number, each in enumerate(_array(value, where)):
        place = f"{where}[{number}]"
        if not isinstance(each, dict):
            raise _FaultError(f"{place}: expected an object, not {_called(each)}")
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
        raise _FaultError(f"{where}: expected an array, not {_called(value)}")
    return value


def _shape(value: object, where: str) -> tuple[int, ...]:
    dims = _array(value, where)
    if len(dims) > _MAX_RANK:
        raise _FaultError(f"{where}: {len(dims)} dimensions are more than {_MAX_RANK}")
    return tuple(_count(dim, f"{where}[{axis}]") for axis, dim in enumerate(dims))


def _count(value: object, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _FaultError(f"{where}: expected a whole number, not {_called(value)}")
    if not 0 <= value <= _MAX_DIMENSION:
        raise _FaultError(f"{where}: {value} is out of range")
    return value


def _word(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise _FaultError(f"{where}: expected text, not {_called(value)}")
    if not 0 < len(value) <= _MAX_WORD:
        raise _FaultError(f"{where}: a text of {len(value)} characters")
    if not (value.isascii() and value.isprintable()):
        raise _FaultError(f"{where}: '{value}' is not a word")
    return value


def _text(value: object, where: str) -> str:
    """Return text, or bytes that are no UTF-8 as surrogate escapes."""
    if isinstance(value, str):
        if value.isascii():
            return value
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise _FaultError(f"{where}: half a surrogate pair is no character") from error
        return value
    encoded = value.get("base64") if isinstance(value, dict) and len(value) == 1 else None
    if not isinstance(encoded, str):
        raise _FaultError(f"{where}: expected text or base64, not {_called(value)}")
    try:
        return decode_text(base64.b64decode(encoded, validate=True))
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
