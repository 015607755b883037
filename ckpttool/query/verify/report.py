"""What is verified, and the report about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from ckpttool.checkpoint.folder import CheckpointFiles
from ckpttool.checkpoint.locate import Location, location_of
from ckpttool.query.source import Source
from ckpttool.query.verify.findings import Diagnosis, Finding, Severity
from ckpttool.query.verify.repair import FolderHealth

ReportKind = Literal["checkpoint", "folder", "graph"]
VerifyVerdict = Literal["ok", "structure-ok", "unchecked", "damaged"]
# From the best to the worst.
VERIFY_VERDICTS: tuple[VerifyVerdict, ...] = ("ok", "structure-ok", "unchecked", "damaged")


@dataclass(frozen=True, slots=True)
class Subject:
    """Something to verify.

    Attributes:
        path: what was typed.
        prefix: of the checkpoint, or the path of the folder, or of a graph without a checkpoint.
        kind: which of these.
        location: of the checkpoint, if it was typed itself and not its folder.
        files: of the checkpoint, if its folder was typed.
    """

    path: str
    prefix: str
    kind: ReportKind = "checkpoint"
    location: Location | None = None
    files: CheckpointFiles | None = None

    @property
    def place(self) -> Location:
        """Where the checkpoint is.

        Raises:
            ValueError: it is no checkpoint.
        """
        if self.location is not None:
            return self.location
        if self.files is None:
            raise ValueError(f"'{self.prefix}' is not a checkpoint")
        return location_of(self.files)


@dataclass(frozen=True, slots=True)
class Report:
    """All findings for one checkpoint, for the other files of a folder, or for a graph.

    Attributes:
        path: what was typed.
        prefix: the checkpoint, the folder, or the file of the graph.
        kind: which of these.
        source: the checkpoint; None for others and if its index is unreadable.
        tensors: how many the checkpoint has, as far as its index can be read.
        bytes_read: bytes of the data shards that were read.
        fast: whether the data were left unread.
        findings: all of them.
        diagnosis: what happened, if the findings tell.
        health: of a folder, what can be mended.
    """

    path: str
    prefix: str
    kind: ReportKind
    source: Source | None
    tensors: int
    bytes_read: int
    fast: bool
    findings: tuple[Finding, ...]
    diagnosis: Diagnosis | None = None
    health: FolderHealth | None = None

    def count(self, severity: Severity) -> int:
        """Return how many findings are of a severity."""
        return sum(each.severity == severity for each in self.findings)

    @property
    def verdict(self) -> VerifyVerdict:
        """The findings in a word, warnings left out."""
        return self.judged()

    def judged(self, *, strict: bool = False) -> VerifyVerdict:
        """Sum the findings up.

        Damage counts before "unchecked". A checkpoint or a graph is "ok" only if its data were
        read, else "structure-ok".

        Args:
            strict: count warnings as damage.
        """
        if self.count("damage") or (strict and self.count("warning")):
            return "damaged"
        if self.count("unchecked"):
            return "unchecked"
        return "structure-ok" if self.fast and self.kind != "folder" else "ok"


def worst_verdict(reports: Iterable[Report], *, strict: bool = False) -> VerifyVerdict:
    """Return the verdict on all of several reports; "unchecked" if there are none."""
    verdicts = (each.judged(strict=strict) for each in reports)
    return max(verdicts, key=VERIFY_VERDICTS.index, default="unchecked")
