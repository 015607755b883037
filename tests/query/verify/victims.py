"""Copies of good checkpoints, to be damaged."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from ckpttool.api.verify import verify
from ckpttool.bundle.entry import BundleEntry, EntryDecoder, decode_header
from ckpttool.objects.keys import GRAPH_KEY
from ckpttool.query.verify.findings import Finding
from ckpttool.query.verify.report import Report
from ckpttool.storage.source import RandomAccessFile
from ckpttool.table.reader import TableReader
from tests.support import encoder, fixtures
from tests.support.corruption import flip
from tests.support.handmade import shard_path

GUIDE = "v2/tf2.21/guide_legacy_adam/tf_ckpts"
STRING = 7


class Victim:
    """A copy of the files of a bundle.

    Attributes:
        prefix: of the copy.
        index: path of its index.
    """

    def __init__(self, name: str, folder: Path) -> None:
        source = fixtures.bundle(name).prefix
        home, base = os.path.split(source)
        self.prefix = str(folder / base)
        self.index = self.prefix + ".index"
        for each in os.listdir(home):
            if each.startswith((base + ".index", base + ".data-")):
                shutil.copy(os.path.join(home, each), folder)

    def verify(self, *, fast: bool = False) -> Report:
        """Verify the copy."""
        (report,) = verify(self.prefix, fast=fast)
        return report

    def findings(self, *, fast: bool = False) -> list[Finding]:
        """Verify the copy and return what was found."""
        return list(self.verify(fast=fast).findings)

    @property
    def num_shards(self) -> int:
        """How many data shards the index counts."""
        return decode_header(self.records()[b""]).num_shards

    def shard(self, number: int = 0) -> str:
        """Return the path of a data shard."""
        return shard_path(self.prefix, number, self.num_shards)

    def records(self) -> dict[bytes, bytes]:
        """Return what is in the index."""
        with RandomAccessFile(self.index) as file:
            return dict(TableReader(file).items())

    def entry(self, key: str | bytes) -> BundleEntry:
        """Return an entry of the index, also one of a slice."""
        raw = key.encode("utf-8", "surrogateescape") if isinstance(key, str) else key
        return EntryDecoder(self.num_shards).decode(self.records()[raw])

    def change(self, change: Callable[[dict[bytes, bytes]], object]) -> None:
        """Change the records of the index, and write it with all checksums right."""
        records = self.records()
        change(records)
        self.write(self.index, encoder.table(sorted(records.items())))

    def change_entry(self, key: str | bytes, **fields: object) -> None:
        """Change fields of an entry."""
        raw = key.encode("utf-8", "surrogateescape") if isinstance(key, str) else key
        entry = self.entry(raw)._replace(**fields)  # type: ignore[arg-type]
        self.change(lambda records: records.update({raw: entry.encode()}))

    def flip(self, path: str, at: int, bits: int = 1) -> None:
        """Turn bits of one byte of a file."""
        self.write(path, flip(fixtures.read_bytes(path), at, bits))

    def append(self, path: str, data: bytes) -> int:
        """Append to a file; return where."""
        with open(path, "ab") as file:
            at = file.tell()
            file.write(data)
        return at

    def write(self, path: str, data: bytes) -> None:
        """Replace what is in a file."""
        with open(path, "wb") as file:
            file.write(data)

    def replace_graph(self, serialized: bytes, dtype: int = STRING) -> None:
        """Store another object graph, behind all else."""
        number = self.entry(GRAPH_KEY).shard_id
        data, crc = encoder.string_data([serialized])
        offset = self.append(self.shard(number), data)
        record = encoder.entry(dtype, (), shard=number, offset=offset, size=len(data), crc=crc)
        self.change(lambda records: records.update({GRAPH_KEY.encode(): record}))


def has(found: list[Finding], code: str) -> Finding:
    """Return the one finding of a code."""
    (finding,) = (each for each in found if each.code == code)
    return finding
