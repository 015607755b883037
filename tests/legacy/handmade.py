"""V1 files put together from their parts, by the second opinion of `support.encoder`."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support import encoder, fixtures
from tests.support.encoder import Extents, Record, bytes_field, number_field

F32, F64, I32, U8, STRING, I64, BOOL, HALF = 1, 2, 3, 4, 7, 9, 10, 19


@dataclass(frozen=True)
class LegacyFixture:
    """A V1 checkpoint among the fixtures.

    Attributes:
        name: in MANIFEST.json.
        address: the file, or the pattern for several.
        paths: of the files in shard order.
        tensors: dtype, shape and digest by key, as TensorFlow says.
    """

    name: str
    address: str
    paths: tuple[str, ...]
    tensors: dict[str, fixtures.TensorFacts]

    @property
    def prefix(self) -> str:
        """What the files have in common."""
        return self.address.partition("-?????-of-")[0]


def legacy_fixtures() -> list[LegacyFixture]:
    """Return every V1 checkpoint among the fixtures that is no part of an export."""
    out = []
    for row in fixtures.manifest():
        if row["format"] != "V1":
            continue
        address = os.path.join(fixtures.FIXTURES, row.get("pattern") or row["prefix"])
        prefix = address.partition("-?????-of-")[0]
        files = [os.path.join(fixtures.FIXTURES, path) for path in row["files"]]
        paths = sorted(path for path in files if path == prefix or path.startswith(prefix + "-0"))
        tensors = {
            key: fixtures.TensorFacts(
                facts["dtype"], tuple(facts["shape"]), facts["sha256"], facts.get("refused")
            )
            for key, facts in row["tensors"].items()
        }
        out.append(LegacyFixture(row["name"], address, tuple(paths), tensors))
    return out


def legacy_fixture(name: str) -> LegacyFixture:
    """Return the fixture of this name."""
    (found,) = (each for each in legacy_fixtures() if each.name == name)
    return found


def packed(number: int, data: bytes) -> bytes:
    """Return a packed field of a TensorProto."""
    return bytes_field(number, data)


def varints(number: int, values: Iterable[int]) -> bytes:
    """Return a packed field of numbers."""
    return packed(number, b"".join(map(encoder.varint, values)))


def strings(elements: Iterable[bytes]) -> bytes:
    """Return the field of strings of a TensorProto."""
    return b"".join(bytes_field(8, element) for element in elements)


def described(
    name: bytes, dtype: int, dims: Sequence[int], slices: Sequence[Extents] | None = None
) -> bytes:
    """Return a SavedSliceMeta; of a whole tensor unless slices are given."""
    parts = [[(0, -1)] * len(dims)] if slices is None else slices
    out = bytes_field(1, name) + bytes_field(2, encoder.shape(dims)) + number_field(3, dtype)
    return out + b"".join(bytes_field(4, encoder.slice_proto(part)) for part in parts)


def description(*tensors: bytes, version: bytes = b"\x08\x01", extra: bytes = b"") -> Record:
    """Return the record under the empty key."""
    inner = b"".join(bytes_field(1, each) for each in tensors) + bytes_field(2, version)
    return b"", bytes_field(1, inner + extra)


def record(name: bytes, part: Extents, values: bytes, *, extra: bytes = b"") -> Record:
    """Return the record of a slice; `values` is its TensorProto."""
    inner = bytes_field(1, name) + bytes_field(2, encoder.slice_proto(part))
    data = bytes_field(2, inner + bytes_field(3, values) + extra)
    return encoder.slice_key(name, part), data


def table(*records: Record) -> bytes:
    """Return a file of records in key order."""
    return encoder.table(sorted(records))


def write(path: str | os.PathLike[str], data: bytes) -> str:
    """Write a file and return its path."""
    path = os.fspath(path)
    with open(path, "wb") as file:
        file.write(data)
    return path


def sets(prefix: str) -> list[list[str]]:
    """Return the files that are called like those of one checkpoint in several, for each count."""
    found: dict[str, list[str]] = {}
    for path in sorted(glob.glob(f"{glob.escape(prefix)}-[0-9][0-9][0-9][0-9][0-9]-of-*")):
        found.setdefault(path[-5:], []).append(path)
    return list(found.values())


def readable(paths: Sequence[str]) -> bool:
    """Tell whether TensorFlow reads files as a checkpoint: if each is a table, however many."""
    return all(Path(path).read_bytes().endswith(encoder.MAGIC) for path in paths)


def torn(prefix: str) -> list[str]:
    """Return the files of sets that TensorFlow would read though some are missing."""
    return [
        path
        for paths in sets(prefix)
        if len(paths) != int(paths[0][-5:]) and readable(paths)
        for path in paths
    ]
