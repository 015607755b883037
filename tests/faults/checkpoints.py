"""Checkpoints to operate on, and what they store: bytes and checksums, right or wrong."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NamedTuple

from ckpttool import open_checkpoint
from ckpttool.bundle.entry import BundleEntry
from ckpttool.bundle.reader import BundleReader
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.pruning import drop_tensors
from ckpttool.surgery.renaming import rename
from ckpttool.surgery.rules import parse_move
from ckpttool.surgery.writing.bundle.carry import DataMode
from ckpttool.surgery.writing.prepare import WriteOptions, prepare
from ckpttool.surgery.writing.receipt import Receipt
from tests.support import encoder
from tests.support.fixtures import bundle
from tests.support.handmade import Bundle

OBJECTS = "v2/tf2.21/guide_legacy_adam/tf_ckpts/ckpt-5"
NAMES = "v2/tf2.21/saver_v2/model.ckpt-3"
SHARDS = "v2/tf2.21/max_shard_size_64/ckpt-1"
SLICES = "v2/tf2.21/partitioned_sharded/model"
MODES: tuple[DataMode, ...] = ("auto", "hardlink", "copy")


class Stored(NamedTuple):
    """A tensor, or a slice of one.

    Attributes:
        dtype: number of the dtype.
        shape: of the tensor or slice.
        data: its bytes.
        crc32c: the checksum that is stored for them, masked.
        unknown: fields of its entry that nobody knows.
    """

    dtype: int
    shape: tuple[int, ...]
    data: bytes
    crc32c: int
    unknown: bytes


def stored(prefix: str) -> dict[tuple[str, str], Stored]:
    """Return all that a bundle stores, by key and slice; the checksums are not looked at."""
    found = {}
    with BundleReader(prefix) as reader:
        for key, entry in reader.entries.items():
            if entry.slices:
                whole = [str(part) for part in entry.slices]
                found[key, ""] = _of(entry, repr(whole).encode())
                for part, each in reader.index.slice_entries(key):
                    found[key, str(part)] = _of(each, bytes(reader.stored_bytes(key, each)))
            else:
                found[key, ""] = _of(entry, bytes(reader.stored_bytes(key, entry)))
    return found


def names(folder: str | os.PathLike[str]) -> list[str]:
    """Return all names in a folder."""
    return sorted(os.listdir(folder))


def _of(entry: BundleEntry, data: bytes) -> Stored:
    return Stored(entry.dtype.number, tuple(entry.shape), data, entry.crc32c, entry.unknown)


def small_checkpoint(folder: Path) -> str:
    """Make a checkpoint of two shards in a folder that is not there; return its prefix."""
    folder.mkdir()
    made = Bundle(header=encoder.header(2), shards=[b"", b""])
    made.add(b"a", 1, [2], b"AAAAaaaa").add(b"b", 1, [1], b"BBBB", shard=1)
    made.add(b"c", 1, [1], b"CCCC").add_strings(b"s", [2], [b"one", b""])
    return made.write(folder / "m")


def copy_of(name: str, folder: Path) -> str:
    """Copy a fixture into a folder; return its prefix."""
    given, base = os.path.split(bundle(name).prefix)
    folder.mkdir(exist_ok=True)
    for each in sorted(os.listdir(given)):
        if each.startswith(base + ".") or each == "checkpoint":
            shutil.copyfile(os.path.join(given, each), folder / each)
    return str(folder / base)


def write(prefix: str, target: str, options: WriteOptions | None = None, *moves: str) -> Receipt:
    """Write a checkpoint under another prefix, with some names changed."""
    with open_checkpoint(prefix) as ckpt:
        plan = Plan.of(ckpt)
        if moves:
            plan = rename(plan, [parse_move(move) for move in moves])
        return prepare(plan, target, options).write()


def change(prefix: str, *moves: str, options: WriteOptions | None = None) -> Receipt:
    """Change names in place."""
    with open_checkpoint(prefix) as ckpt:
        return prepare(rename(Plan.of(ckpt), [parse_move(m) for m in moves]), None, options).write()


def drop(prefix: str, target: str, *keys: str, options: WriteOptions | None = None) -> Receipt:
    """Write a checkpoint without some tensors."""
    with open_checkpoint(prefix) as ckpt:
        return prepare(drop_tensors(Plan.of(ckpt), set(keys)), target, options).write()


def inode(path: str) -> int:
    """Return which file it is."""
    return os.stat(path).st_ino


def damage(path: str, at: int) -> None:
    """Turn a byte; the file stays as old as it was."""
    before = os.stat(path)
    with open(path, "r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes((byte ^ 0x10,)))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
