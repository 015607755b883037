"""The findings of `verify` and their codes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ckpttool.errors import CkptError, FileAccessError, UnsupportedError, printable_line

Severity = Literal["damage", "unchecked", "warning", "note"]

DiagnosisCode = Literal[
    "pointer",
    "missing",
    "cut",
    "text-mode",
    "swapped",
    "mixed-saves",
    "zeros",
    "flipped-bit",
    "one-place",
    "scattered",
    "bad-index",
    "graph",
    "state",
    "unfinished",
    "moved",
    "dead-bytes",
]

# Programs rely on these codes: none is ever renamed or reused.
CODES: Mapping[str, Severity] = {
    "bad-table": "damage",
    "bad-header": "damage",
    "bad-entry": "damage",
    "bad-slice": "damage",
    "slice-missing": "damage",
    "slice-gap": "damage",
    "slice-overlap": "damage",
    "slice-orphan": "damage",
    "shard-missing": "damage",
    "shard-short": "damage",
    "shards-disagree": "damage",
    "extent-overlap": "damage",
    "bad-crc": "damage",
    "bad-strings": "damage",
    "mixed-saves": "damage",
    "graph-unreadable": "damage",
    "graph-key-missing": "damage",
    "index-missing": "damage",
    "metagraph-unreadable": "damage",
    "graph-node-twice": "damage",
    "graph-input-missing": "damage",
    "graph-constant": "damage",
    "asset-missing": "damage",
    "asset-outside": "damage",
    "state-unreadable": "damage",
    "state-stale": "damage",
    "unreadable": "unchecked",
    "unsupported": "unchecked",
    "unknown-dtype": "unchecked",
    "not-read": "unchecked",
    "metagraph-not-read": "unchecked",
    "no-checkpoint": "unchecked",
    "being-written": "unchecked",
    "changed-while-reading": "unchecked",
    "table-slack": "warning",
    "extent-alias": "warning",
    "extent-outside": "warning",
    "shard-unused": "warning",
    "foreign-shard": "warning",
    "link-outside": "warning",
    "graph-key-unclaimed": "warning",
    "graph-key-disputed": "warning",
    "graph-empty": "warning",
    "graph-both-forms": "warning",
    "asset-unread": "warning",
    "graph-tags-twice": "warning",
    "graph-variable-missing": "warning",
    "graph-variable-unclaimed": "warning",
    "graph-variable-differs": "warning",
    "orphan": "warning",
    "leftover": "warning",
    "same-name": "warning",
    "state-gone": "warning",
    "state-moved": "warning",
    "state-damaged": "warning",
    "state-marked": "warning",
    "state-not-a-file": "warning",
    "state-absolute": "warning",
    "state-outside": "warning",
    # Bytes of no tensor cannot damage any; `ckpt prune` leaves them.
    "no-checksums": "note",
    "gap-nonzero": "note",
    "trailing-bytes": "note",
}


# With one of these, what was found is of no checkpoint that stays.
UNSETTLED = ("changed-while-reading", "being-written")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or odd.

    Attributes:
        code: one of `CODES`.
        message: one printable line.
        path: the file or folder concerned.
        offset: first byte concerned; None for the whole file.
        size: how many bytes from there.
        key: the tensor concerned.
    """

    code: str
    message: str
    path: str
    offset: int | None = None
    size: int | None = None
    key: str | None = None

    @property
    def severity(self) -> Severity:
        """`"damage"`, `"unchecked"` for what could not be verified, `"warning"` or `"note"`."""
        return CODES[self.code]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What happened to a checkpoint.

    Attributes:
        code: the same in a word, for programs.
        message: one sentence.
    """

    code: DiagnosisCode
    message: str


def finding(
    code: str,
    message: str,
    path: str,
    *,
    offset: int | None = None,
    size: int | None = None,
    key: str | None = None,
) -> Finding:
    """Return a finding with a printable message."""
    return Finding(code, printable_line(message), path, offset, size, key)


def finding_of(
    error: CkptError,
    code: str,
    path: str,
    *,
    offset: int | None = None,
    size: int | None = None,
    key: str | None = None,
) -> Finding:
    """Return the finding for an error.

    Args:
        error: the error.
        code: the code, unless the error means that nothing could be verified.
        path: the file, if the error names none.
        offset: of the bytes concerned, in place of the error's.
        size: of the bytes concerned.
        key: the tensor, if the error names none.
    """
    if isinstance(error, UnsupportedError):
        code = "unsupported"
    elif isinstance(error, FileAccessError):
        code = "unreadable"
    return finding(
        code,
        error.message,
        error.path or path,
        offset=error.offset if offset is None else offset,
        size=size,
        key=error.key or key,
    )
