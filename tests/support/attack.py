"""What an attack on a bundle is, and the good bundle from which every one of them starts.

The attacks themselves are in `attacks_index` and `attacks_entries`. `RULES` names what is broken;
where reading does not depend on a rule, the attack says that the answers stay right.
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Callable
from dataclasses import dataclass

from ckpttool.errors import (
    CkptError,
)
from tests.support import encoder
from tests.support.handmade import Bundle

F32, I32, U8, STRING, RESOURCE = 1, 3, 4, 7, 20
ROWS = (((0, 2), (0, -1)), ((2, 1), (0, -1)))
FLOATS = struct.pack("<6f", *range(6))
WORDS = (b"one", b"", b"three")

RULES = {
    "I1": "footer",
    "I2": "places of blocks",
    "I3": "checksums of blocks",
    "I4": "compression",
    "I5": "restarts",
    "I6": "lengths of entries",
    "I7": "order of keys",
    "I8": "separators",
    "I9": "bytes between blocks",
    "I14": "header",
    "I15": "dtype",
    "I16": "shape",
    "I17": "size",
    "I18": "shard and offset",
    "I19": "extents of tensors",
    "I20": "checksum of a tensor",
    "I21": "strings",
    "I22": "slices",
    "I23": "data shards",
}

Change = Callable[[Bundle], "bytes | None"]


@dataclass(frozen=True)
class Attack:
    """A bad bundle and what to say of it.

    Attributes:
        rule: which rule it breaks.
        name: how.
        change: changes the good bundle; returns an index to write instead of the usual one.
        error: the class of the refusal; None if the answers must be those of the good bundle.
        message: a part of it.
        key: the tensor that is lost; None if the whole bundle is.
    """

    rule: str
    name: str
    change: Change
    error: type[CkptError] | None
    message: str = ""
    key: str | None = None

    def __str__(self) -> str:
        return f"{self.rule} {self.name}"


def good() -> Bundle:
    """Return the bundle that all attacks start from."""
    made = Bundle(header=encoder.header(2), shards=[b"", b""])
    made.add(b"f", F32, (2, 3), FLOATS)
    made.add_strings(b"s", (3,), WORDS)
    made.add(b"x", U8, (32,), bytes(range(32)), shard=1)
    return made.add_slices(
        b"p", I32, (3, 2), [(ROWS[0], bytes(range(16))), (ROWS[1], bytes(range(16, 24)))]
    )


_ATTACKS: list[Attack] = []


def all_attacks() -> list[Attack]:
    """Return every attack there is."""
    for module in ("attacks_index", "attacks_entries"):
        importlib.import_module(f"tests.support.{module}")  # which enters its attacks
    return _ATTACKS


def attack(
    rule: str,
    name: str,
    error: type[CkptError] | None,
    message: str = "",
    *,
    key: str | None = None,
) -> Callable[[Change], Change]:
    """Enter a change into the table."""

    def enter(change: Change) -> Change:
        _ATTACKS.append(Attack(rule, name, change, error, message, key))
        return change

    return enter


def index_attack(
    rule: str,
    name: str,
    error: type[CkptError] | None,
    message: str,
    change: Callable[[list[tuple[bytes, bytes]]], bytes],
) -> None:
    """Enter a change that makes the index file from the records."""
    attack(rule, name, error, message)(lambda made: change(made.sorted_records()))


def record_attack(
    rule: str,
    name: str,
    error: type[CkptError] | None,
    message: str,
    record: bytes | Callable[[bytes], bytes],
    key: str = "f",
    record_key: bytes | None = None,
) -> None:
    """Enter a change of one record; `key` is the tensor that is lost by it."""

    def change(made: Bundle) -> None:
        at = key.encode() if record_key is None else record_key
        made.records[at] = record if isinstance(record, bytes) else record(made.records[at])

    attack(rule, name, error, message, key=key)(change)
