"""What was looked at, and what was found in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ckpttool.checkpoint.folder import CheckpointFiles
from ckpttool.checkpoint.locate import Location, location_of
from ckpttool.query.source import Source
from ckpttool.query.verify.findings import Finding, Severity

ReportKind = Literal["checkpoint", "folder", "graph"]
VerifyVerdict = Literal["ok", "structure-ok", "unchecked", "damaged"]
# From the best to the worst.
VERIFY_VERDICTS: tuple[VerifyVerdict, ...] = ("ok", "structure-ok", "unchecked", "damaged")


@dataclass(frozen=True, slots=True)
class Subject:
    """Something to verify.

    Attributes:
        path: what was typed.
        prefix: of the checkpoint; the path of a folder that is looked at beside its checkpoints, or
            of a graph that has no checkpoint.
        kind: which of these.
        location: how the checkpoint was found, where it was typed itself and not its folder.
        files: the checkpoint, where its folder was typed.
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
            raise ValueError(f"'{self.prefix}' is no checkpoint")
        return location_of(self.files)


@dataclass(frozen=True, slots=True)
class Report:
    """All that was found in one checkpoint, in a folder beside its checkpoints, or in a graph.

    Attributes:
        path: what was typed.
        prefix: the checkpoint, the folder, or the file of the graph.
        kind: which of these.
        source: the checkpoint as its index tells; None for others and where it does not tell.
        tensors: how many the checkpoint has, as far as its index can be read.
        bytes_read: bytes of the data shards that were read.
        fast: whether the data were left unread.
        findings: what is wrong.
    """

    path: str
    prefix: str
    kind: ReportKind
    source: Source | None
    tensors: int
    bytes_read: int
    fast: bool
    findings: tuple[Finding, ...]

    def count(self, severity: Severity) -> int:
        """Return how many findings are of a severity."""
        return sum(each.severity == severity for each in self.findings)

    def verdict(self, *, strict: bool = False) -> VerifyVerdict:
        """Sum the findings up.

        Damage counts before what could not be looked at. A checkpoint or a graph is only "ok" if
        its data were read, else it is "structure-ok".

        Args:
            strict: take warnings for damage.
        """
        if self.count("damage") or (strict and self.count("warning")):
            return "damaged"
        if self.count("unchecked"):
            return "unchecked"
        return "structure-ok" if self.fast and self.kind != "folder" else "ok"
