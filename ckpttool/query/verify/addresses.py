"""Verifying every checkpoint that an address means, and the other files of their folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress

from ckpttool.bundle.naming import index_path
from ckpttool.checkpoint.folder import file_status, is_regular, list_checkpoints
from ckpttool.checkpoint.locate import EXPORT_META, graph_file_of, locate
from ckpttool.errors import CkptError, MissingFileError
from ckpttool.query.verify.checkpoint import RetryTime, verify_checkpoint
from ckpttool.query.verify.findings import Finding, finding
from ckpttool.query.verify.folder import check_folder, diagnose_folder
from ckpttool.query.verify.names import FolderNames
from ckpttool.query.verify.report import Report, Subject
from ckpttool.storage.paths import StrPath, path_text
from ckpttool.storage.work import Progress

_MAX_LOOKS = 5


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


def verify_each(
    subjects: Iterable[Subject],
    *,
    fast: bool = False,
    jobs: int | None = None,
    on_progress: Progress | None = None,
) -> Iterator[Report]:
    """Verify what `find_subjects` found, one after the other.

    Args:
        subjects: what was found.
        fast: look at the indexes and at the sizes of the data shards alone; in files of format V1
            at what describes the tensors.
        jobs: how many threads may read; as many as there are processors by default.
        on_progress: called now and then with the bytes that were read of one checkpoint, and how
            many it will be.

    Raises:
        FileAccessError: a checkpoint that was typed itself cannot be read.
        UnsupportedError: likewise, it cannot be verified.
        MissingFileError: likewise, it was removed.
    """
    run = _Run(fast, jobs, on_progress)
    for subject in subjects:
        if subject.kind == "graph":
            yield run.graph(subject)
        elif subject.kind == "folder":
            yield from run.folder(subject)
        else:
            yield from run.checkpoint(subject)


class _Run:
    """Verifies one subject after the other, those of a folder before the folder."""

    def __init__(self, fast: bool, jobs: int | None, on_progress: Progress | None) -> None:
        self._fast = fast
        self._jobs = jobs
        self._on_progress = on_progress
        self._patience = RetryTime()
        self._names: FolderNames | None = None
        # Of the folder: shard count by checkpoint, and the number of checkpoints removed meanwhile.
        self._counts: dict[str, int | None] = {}
        self._gone = 0

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
        found = check_folder(subject.prefix, self._counts)
        if not self._counts:
            found.append(_no_checkpoint(subject.prefix))
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
        )
        self._counts, self._names, self._gone = {}, None, 0

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
        base = os.path.basename(subject.prefix)
        if subject.place.generation == "V1":
            self._counts.setdefault(base, None)
        else:
            self._counts[base] = report.source.shards if report.source else None

    def _look(self, subject: Subject) -> Report | None:
        folder = os.path.dirname(subject.prefix)
        if self._names is None or self._names.folder != folder:
            self._names = FolderNames(folder)
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
