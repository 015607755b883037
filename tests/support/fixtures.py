"""What MANIFEST.json says of the files in fixtures/."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import os
from dataclasses import dataclass
from typing import Any

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
FIXTURES = os.path.normpath(os.path.join(ROOT, "fixtures"))


@dataclass(frozen=True)
class TensorFacts:
    """What TensorFlow says of a tensor.

    Attributes:
        dtype: TensorFlow's name.
        shape: of the whole tensor.
        sha256: digest of its value; None where TensorFlow cannot return it.
        reason: why it has no digest.
    """

    dtype: str
    shape: tuple[int, ...]
    sha256: str | None
    reason: str | None


@dataclass(frozen=True)
class BundleFixture:
    """A tensor bundle among the fixtures.

    Attributes:
        name: in MANIFEST.json.
        prefix: path without `.index`.
        producer: which TensorFlow wrote it.
        tensors: by key; bytes that are not UTF-8 as surrogate escapes.
    """

    name: str
    prefix: str
    producer: str
    tensors: dict[str, TensorFacts]

    @property
    def index(self) -> bytes:
        """The bytes of the index."""
        return read_bytes(self.prefix + ".index")


@functools.cache
def manifest() -> tuple[dict[str, Any], ...]:
    """Return the rows of MANIFEST.json."""
    with open(os.path.join(FIXTURES, "MANIFEST.json"), encoding="utf-8") as file:
        return tuple(json.load(file)["fixtures"])


@functools.cache
def bundles() -> tuple[BundleFixture, ...]:
    """Return every fixture that holds a tensor bundle."""
    out = []
    for row in manifest():
        indexes = [path for path in row["files"] if path.endswith(".index")]
        if row["format"] not in ("V2", "SavedModel") or not indexes:
            continue
        (index,) = indexes
        prefix = os.path.join(FIXTURES, index[: -len(".index")])
        tensors = {key: _facts(facts) for key, facts in row["tensors"].items()}
        for key, facts in row.get("base64_keys", {}).items():
            raw = base64.b64decode(key)
            tensors[raw.decode("utf-8", "surrogateescape")] = _facts(facts)
        out.append(BundleFixture(row["name"], prefix, row["producer"], tensors))
    return tuple(out)


def bundle(name: str) -> BundleFixture:
    """Return the fixture of this name."""
    (found,) = (fixture for fixture in bundles() if fixture.name == name)
    return found


def read_bytes(path: str) -> bytes:
    """Return all bytes of a file."""
    with open(path, "rb") as file:
        return file.read()


def folder_contents(folder: str | os.PathLike[str]) -> dict[str, bytes]:
    """Return the bytes of every file in a folder, by name."""
    names = os.listdir(folder)
    paths = {name: os.path.join(folder, name) for name in names}
    return {name: read_bytes(path) for name, path in paths.items() if os.path.isfile(path)}


def sha256_of_file(path: str) -> str:
    """Return the digest of a file."""
    return hashlib.sha256(read_bytes(path)).hexdigest()


def digest(array: Any) -> str:
    """Return the digest of a value as MANIFEST.json has it.

    Fixed-size elements: their little-endian bytes in C order. Strings: each as its length in eight
    bytes, little-endian, and its bytes.
    """
    if array.dtype != object:
        return hashlib.sha256(array.tobytes()).hexdigest()
    total = hashlib.sha256()
    for element in array.reshape(-1).tolist():
        total.update(len(element).to_bytes(8, "little") + element)
    return total.hexdigest()


def _facts(row: dict[str, Any]) -> TensorFacts:
    return TensorFacts(row["dtype"], tuple(row["shape"]), row["sha256"], row.get("unreadable"))
