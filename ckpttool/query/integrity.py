"""Whether checkpoints are sound: every one that an address means, and what lies beside them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from ckpttool.bundle.naming import index_path
from ckpttool.checkpoint.folder import (
    file_status,
    find_checkpoint,
    is_regular,
    list_checkpoints,
)
from ckpttool.checkpoint.locate import EXPORT_META, Location, has_metagraph, locate
from ckpttool.errors import CkptError, MissingFileError
from ckpttool.query.integrity_bundle import CheckpointResult, verify_bundle
from ckpttool.query.integrity_data import Progress
from ckpttool.query.integrity_findings import Finding, Severity, finding, finding_of
from ckpttool.query.integrity_folder import check_folder, check_siblings
from ckpttool.query.source import Source

Kind = Literal["checkpoint", "folder"]
Verdict = Literal["ok", "structure-ok", "unchecked", "damaged"]
# From the best to the worst.
VERDICTS: tuple[Verdict, ...] = ("ok", "structure-ok", "unchecked", "damaged")


@dataclass(frozen=True, slots=True)
class Subject:
    """Something to verify.

    Attributes:
        path: what was typed.
        prefix: of the checkpoint; the path of a folder that is looked at beside its checkpoints.
        kind: which of the two.
        generation: format of the checkpoint.
        location: how the checkpoint was found, where it was typed itself and not its folder.
    """

    path: str
    prefix: str
    kind: Kind = "checkpoint"
    generation: str = "V2"
    location: Location | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """All that was found in one checkpoint, or in a folder beside its checkpoints.

    Attributes:
        path: what was typed.
        prefix: the checkpoint, or the folder.
        kind: which of the two.
        source: the checkpoint as its index tells; None for a folder and where it does not tell.
        tensors: how many the checkpoint has, as far as its index can be read.
        bytes_read: bytes of the data shards that were read.
        fast: whether the data were left unread.
        findings: what is wrong.
    """

    path: str
    prefix: str
    kind: Kind
    source: Source | None
    tensors: int
    bytes_read: int
    fast: bool
    findings: tuple[Finding, ...]

    def count(self, severity: Severity) -> int:
        """Return how many findings are of a severity."""
        return sum(each.severity == severity for each in self.findings)

    def verdict(self, *, strict: bool = False) -> Verdict:
        """Sum the findings up.

        Damage counts before what could not be looked at. A checkpoint is only "ok" if its data
        were read, else it is "structure-ok".

        Args:
            strict: take warnings for damage.
        """
        if self.count("damage") or (strict and self.count("warning")):
            return "damaged"
        if self.count("unchecked"):
            return "unchecked"
        return "structure-ok" if self.fast and self.kind == "checkpoint" else "ok"


def verify(
    path: str | os.PathLike[str],
    *,
    fast: bool = False,
    jobs: int | None = None,
    on_progress: Progress | None = None,
) -> list[Report]:
    """Verify every checkpoint that an address means.

    Args:
        path: anything that names a checkpoint, or a folder: then all checkpoints in it, and what
            lies beside them.
        fast: look at the indexes and at the sizes of the data shards alone; in files of format V1
            at what describes the tensors.
        jobs: how many threads may read; as many as there are processors by default.
        on_progress: called now and then with the bytes that were read of one checkpoint, and how
            many it will be.

    Raises:
        MissingFileError: there is no such checkpoint.
        FileAccessError: the checkpoint cannot be read.
        UnsupportedError: it is of a version that cannot be verified.
    """
    subjects = find_subjects(path)
    return list(verify_each(subjects, fast=fast, jobs=jobs, on_progress=on_progress))


def find_subjects(path: str | os.PathLike[str]) -> list[Subject]:
    """Return what an address means: one checkpoint, or those of a folder and last the folder.

    Raises:
        MissingFileError: there is nothing.
        FileAccessError: a folder cannot be read.
    """
    typed = os.fspath(path)
    subjects = _in_folder(typed)
    if subjects:
        return subjects
    location = locate(typed)
    return [Subject(typed, location.prefix, generation=location.generation, location=location)]


def verify_each(
    subjects: Iterable[Subject],
    *,
    fast: bool = False,
    jobs: int | None = None,
    on_progress: Progress | None = None,
) -> Iterator[Report]:
    """Verify what `find_subjects` found, one after the other; the arguments are those of `verify`.

    Raises:
        FileAccessError: a checkpoint that was typed itself cannot be read.
        UnsupportedError: likewise, it is beyond what can be verified.
    """
    counts: dict[str, int | None] = {}
    for subject in subjects:
        if subject.kind == "folder":
            findings = check_folder(subject.prefix, counts)
            if not counts:
                findings.append(_no_checkpoint(subject.prefix))
            yield Report(subject.path, subject.prefix, "folder", None, 0, 0, fast, tuple(findings))
            counts = {}
            continue
        report = _verify_checkpoint(subject, fast, jobs, on_progress)
        source = report.source if subject.generation == "V2" else None
        counts[os.path.basename(subject.prefix)] = source.shards if source else None
        yield report


def _verify_checkpoint(
    subject: Subject, fast: bool, jobs: int | None, on_progress: Progress | None
) -> Report:
    prefix = subject.prefix
    try:
        result = _verify_files(subject, fast, jobs, on_progress)
    except CkptError as error:
        if subject.location is not None:
            raise
        # Others of the folder can be looked at all the same. One that is gone was dropped.
        code = "changed-while-reading" if isinstance(error, MissingFileError) else "unreadable"
        failed = (finding_of(error, code, prefix),)
        return Report(subject.path, prefix, "checkpoint", None, 0, 0, fast, failed)
    findings = result.findings
    sound = all(each.severity == "warning" for each in findings)
    if sound and not fast and has_metagraph(prefix):
        # Few checkpoints have a graph beside them; only those need what reads one.
        from ckpttool.query.integrity_metagraph import check_metagraph

        findings += tuple(check_metagraph(prefix))
    if subject.location is not None:
        num_shards = None
        if result.source and subject.generation == "V2":
            num_shards = result.source.shards
        findings += tuple(check_siblings(prefix, num_shards))
    return Report(
        subject.path,
        prefix,
        "checkpoint",
        result.source,
        result.tensors,
        result.bytes_read,
        fast,
        findings,
    )


def _verify_files(
    subject: Subject, fast: bool, jobs: int | None, on_progress: Progress | None
) -> CheckpointResult:
    if subject.generation == "V2":
        return verify_bundle(
            subject.prefix, typed=subject.path, fast=fast, jobs=jobs, on_progress=on_progress
        )
    from ckpttool.query.integrity_legacy import verify_legacy

    found = subject.location or find_checkpoint(subject.prefix)
    if found is None:
        raise MissingFileError("the checkpoint is gone", path=subject.prefix)
    return verify_legacy(
        subject.prefix, found.files, typed=subject.path, fast=fast, on_progress=on_progress
    )


def _in_folder(typed: str) -> list[Subject]:
    """Return the checkpoints of a folder and the folder; nothing if it stands for a checkpoint."""
    clash = not typed.endswith(os.sep) and file_status(index_path(typed)) is not None
    if clash or not os.path.isdir(typed) or is_regular(os.path.join(typed, EXPORT_META)):
        return []
    found = [
        Subject(typed, files.prefix, generation=files.generation)
        for files in reversed(list_checkpoints(typed))
    ]
    if not found and not check_folder(typed, {}):
        return []
    if not found:
        with suppress(CkptError):
            locate(typed)  # a SavedModel, or the state file names a checkpoint elsewhere
            return []
    return [*found, Subject(typed, typed, kind="folder")]


def _no_checkpoint(folder: str) -> Finding:
    return finding("no-checkpoint", "there is no checkpoint in the folder", folder)
