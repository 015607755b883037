"""Verifying every checkpoint that an address means, and the other files of their folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Literal

from ckpttool.bundle.naming import index_path
from ckpttool.checkpoint.folder import file_status, is_regular, list_checkpoints
from ckpttool.checkpoint.locate import EXPORT_META, graph_file_of, locate
from ckpttool.checkpoint.state import STATE_NAME, state_bytes
from ckpttool.errors import CkptError, MissingFileError
from ckpttool.query.verify.checkpoint import RetryTime, verify_checkpoint
from ckpttool.query.verify.findings import Finding, finding
from ckpttool.query.verify.folder import check_folder, diagnose_folder
from ckpttool.query.verify.names import FolderNames
from ckpttool.query.verify.repair import (
    SeenCheckpoint,
    check_latest,
    folder_health,
    repair_state,
)
from ckpttool.query.verify.report import Report, Subject
from ckpttool.storage.paths import StrPath, path_text
from ckpttool.storage.work import Progress

_MAX_LOOKS = 5

StateTreatment = Literal["keep", "plan", "write"]


def state_treatment(*, repair: bool, dry_run: bool) -> StateTreatment:
    """Return what to do with the state file of a folder.

    Raises:
        ValueError: a dry run of nothing.
    """
    if dry_run and not repair:
        raise ValueError("only repair_state has a dry run; all else reads files")
    return ("plan" if dry_run else "write") if repair else "keep"


def find_subjects(path: StrPath) -> list[Subject]:
    """Return one checkpoint, or those of a folder and last the folder.

    Args:
        path: anything that names a checkpoint, or a folder: then all checkpoints and other files in
            it. Also a SavedModel, with or without variables.

    Raises:
        MissingFileError: there is nothing.
        FileAccessError: a folder cannot be read.
    """
    typed = path_text(path)
    subjects = _in_folder(typed)
    if subjects:
        return subjects
    try:
        location = locate(typed)
    except MissingFileError:
        graph = graph_file_of(typed)  # whose index is missing: a finding
        if graph is None:
            raise
        return [Subject(typed, graph, kind="graph")]
    if location.bare and location.meta_path is not None:
        return [Subject(typed, location.meta_path, kind="graph")]
    return [Subject(typed, location.prefix, location=location)]


def find_folder(path: StrPath) -> list[Subject]:
    """Do as `find_subjects` for a folder whose state file is to be repaired.

    Raises:
        MissingFileError: it is not a folder with checkpoints of its own.
        FileAccessError: it cannot be read.
    """
    subjects = find_subjects(path)
    if not any(each.kind == "folder" for each in subjects):
        raise MissingFileError(
            "not a folder with checkpoints of its own, so it has no state file to repair",
            path=path_text(path),
        )
    return subjects


def verify_each(
    subjects: Iterable[Subject],
    *,
    fast: bool = False,
    jobs: int | None = None,
    on_progress: Progress | None = None,
    repair: StateTreatment = "keep",
    on_wait: Callable[[str], None] | None = None,
) -> Iterator[Report]:
    """Verify what `find_subjects` found, one after the other.

    Args:
        subjects: what was found.
        fast: look at the indexes and at the sizes of the data shards alone; in files of format V1
            at what describes the tensors.
        jobs: how many threads may read; as many as there are processors by default.
        on_progress: called now and then with the bytes that were read of one checkpoint, and how
            many it will be.
        repair: what to do with the state file of a folder: "keep" it, "plan" what to write, or
            "write" it anew if it is missing or wrong.
        on_wait: told, once, if another process has the lock of a folder.

    Raises:
        FileAccessError: a checkpoint that was typed itself cannot be read.
        UnsupportedError: likewise, it cannot be verified.
        MissingFileError: likewise, it was removed.
    """
    run = _Run(fast, jobs, on_progress, repair, on_wait)
    for subject in subjects:
        if subject.kind == "graph":
            yield run.graph(subject)
        elif subject.kind == "folder":
            yield from run.folder(subject)
        else:
            yield from run.checkpoint(subject)


class _Run:
    """Verifies one subject after the other, those of a folder before the folder."""

    def __init__(
        self,
        fast: bool,
        jobs: int | None,
        on_progress: Progress | None,
        repair: StateTreatment,
        on_wait: Callable[[str], None] | None,
    ) -> None:
        self._fast = fast
        self._jobs = jobs
        self._on_progress = on_progress
        self._repair = repair
        self._on_wait = on_wait
        self._patience = RetryTime()
        self._names: FolderNames | None = None
        # Of the folder: shard count by checkpoint, and the number of checkpoints removed meanwhile.
        self._counts: dict[str, int | None] = {}
        self._gone = 0
        # Of the folder, too: its checkpoints, and its state file before they were verified.
        self._seen: list[SeenCheckpoint] = []
        self._before: bytes | None = None

    def graph(self, subject: Subject) -> Report:
        """Verify a graph that has no checkpoint."""
        findings: tuple[Finding, ...] = ()
        if not self._fast:
            from ckpttool.query.verify.metagraph import check_alone

            findings = tuple(check_alone(subject.prefix))
        return Report(subject.path, subject.prefix, "graph", None, 0, 0, self._fast, findings)

    def folder(self, subject: Subject) -> Iterator[Report]:
        """Check the other files of a folder whose checkpoints were verified."""
        for _ in range(_MAX_LOOKS):
            if self._counts or not self._gone:
                break
            # A trainer removed all of them; there are others now.
            self._gone, self._names = 0, None
            for each in _in_folder(subject.path):
                if each.kind == "checkpoint":
                    yield from self.checkpoint(each)
        found, repair = self._check_folder(subject.prefix), None
        if self._repair != "keep":
            dry_run = self._repair == "plan"
            repair = repair_state(
                *(subject.prefix, self._seen, found, self._before),
                dry_run=dry_run,
                on_wait=self._on_wait,
            )
            if repair.done:  # what is left
                found = check_folder(subject.prefix, self._counts)
        yield Report(
            subject.path,
            subject.prefix,
            "folder",
            None,
            0,
            0,
            self._fast,
            tuple(found),
            diagnose_folder(found),
            folder_health(subject.prefix, self._seen, found, repair),
        )
        self._counts, self._names, self._gone = {}, None, 0
        self._seen = []

    def _check_folder(self, folder: str) -> list[Finding]:
        found = check_folder(folder, self._counts)
        found += check_latest(folder, self._seen)
        if not self._counts:
            found.append(_no_checkpoint(folder))
        return found

    def checkpoint(self, subject: Subject) -> Iterator[Report]:
        """Verify a checkpoint; one of a folder that was removed meanwhile is skipped."""
        report = self._look(subject)
        typed = subject.location is not None
        for _ in range(_MAX_LOOKS):
            if report is not None or not typed:
                break
            # The typed path may mean another checkpoint now.
            location = locate(subject.path)
            subject = Subject(subject.path, location.prefix, location=location)
            report = self._look(subject)
        if report is not None:
            yield report
        elif typed:
            raise MissingFileError("removed while it was looked at", path=subject.prefix)
        if typed:
            return
        if report is None:
            self._gone += 1
            return
        if subject.files is not None:
            codes = frozenset(each.code for each in report.findings)
            self._seen.append(SeenCheckpoint(subject.files, report.verdict, codes))
        base = os.path.basename(subject.prefix)
        if subject.place.generation == "V1":
            self._counts.setdefault(base, None)
        else:
            self._counts[base] = report.source.shards if report.source else None

    def _look(self, subject: Subject) -> Report | None:
        folder = os.path.dirname(subject.prefix)
        if self._names is None or self._names.folder != folder:
            self._names = FolderNames(folder)
            if self._repair != "keep":
                self._before = state_bytes(os.path.join(folder, STATE_NAME))
        return verify_checkpoint(
            subject,
            self._names,
            self._patience,
            fast=self._fast,
            jobs=self._jobs,
            on_progress=self._on_progress,
        )


def _in_folder(typed: str) -> list[Subject]:
    """Return the checkpoints of a folder and the folder; nothing if the path means a checkpoint."""
    clash = not typed.endswith(os.sep) and file_status(index_path(typed)) is not None
    if clash or not os.path.isdir(typed) or is_regular(os.path.join(typed, EXPORT_META)):
        return []
    found = [
        Subject(typed, files.prefix, files=files) for files in reversed(list_checkpoints(typed))
    ]
    if not found and (graph_file_of(typed) or not check_folder(typed, {})):
        return []
    if not found:
        with suppress(CkptError):
            locate(typed)  # the state file names a checkpoint elsewhere
            return []
    return [*found, Subject(typed, typed, kind="folder")]


def _no_checkpoint(folder: str) -> Finding:
    return finding("no-checkpoint", "no checkpoint in the folder", folder)
