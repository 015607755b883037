"""Verifying one checkpoint with its graph, again while somebody saves it."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Mapping
from contextlib import suppress

from ckpttool.bundle.naming import index_path
from ckpttool.errors import CkptError, MissingFileError
from ckpttool.query.verify.bundle import CheckpointResult, changed_files, verify_bundle
from ckpttool.query.verify.findings import UNSETTLED, finding, finding_of
from ckpttool.query.verify.folder import check_siblings
from ckpttool.query.verify.names import FolderNames
from ckpttool.query.verify.report import Report, Subject
from ckpttool.storage.source import Identity
from ckpttool.storage.work import Progress

# Seconds to wait, in all, for running saves.
_PATIENCE = 5.0
_SHORTEST, _LONGEST = 0.02, 0.5
# A running save has written within these seconds.
_FRESH = 60.0
_LISTING = 0.02
_Looks = Mapping[str, Identity | None]


class RetryTime:
    """The time left for verifying checkpoints again."""

    def __init__(self) -> None:
        self.left = _PATIENCE
        self._listed: tuple[str, float, list[str]] = ("", 0.0, [])

    def spend(self, seconds: float) -> None:
        """Subtract from it."""
        self.left -= seconds

    def is_being_saved(self, prefix: str) -> bool:
        """Tell whether TensorFlow's temporary folder for a checkpoint exists, or did just now.

        It moves new data to its place before it writes the index; for a moment they disagree.
        """
        folder, base = os.path.split(prefix)
        for name in self._temporary(folder):
            if name == f"{base}_temp" or name.startswith(f"{base}_temp_"):
                with suppress(OSError):
                    status = os.stat(os.path.join(folder, name))
                    if stat.S_ISDIR(status.st_mode) and time.time() - status.st_mtime < _FRESH:
                        return True
        return False

    def _temporary(self, folder: str) -> list[str]:
        """Return possible names of such folders, from a recent listing."""
        of, when, names = self._listed
        if of != folder or not when or time.monotonic() - when > _LISTING:
            with suppress(OSError, ValueError):
                names = [name for name in os.listdir(folder or os.curdir) if "_temp" in name]
            self._listed = (folder, time.monotonic(), names)
        return names


def verify_checkpoint(
    subject: Subject,
    names: FolderNames,
    patience: RetryTime,
    *,
    fast: bool,
    jobs: int | None,
    on_progress: Progress | None,
) -> Report | None:
    """Verify a checkpoint, again if somebody writes to it; the last three arguments as in `verify`.

    Returns:
        The report; None if the checkpoint was removed.

    Raises:
        CkptError: it was typed itself and cannot be read.
    """
    pause = _SHORTEST
    report, looked_at = _look(subject, names, fast, jobs, on_progress)
    while report is None or _is_unsettled(report, looked_at, subject, patience):
        if _is_gone(subject):
            return None
        if patience.left <= 0:
            break
        start = time.monotonic()
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST)
        names = FolderNames(names.folder)
        report, looked_at = _look(subject, names, fast, jobs, on_progress)
        patience.spend(time.monotonic() - start)
    return report


def _look(
    subject: Subject,
    names: FolderNames,
    fast: bool,
    jobs: int | None,
    on_progress: Progress | None,
) -> tuple[Report | None, _Looks]:
    """Verify a checkpoint once; return the report, None if it is gone, and the files before."""
    prefix, place = subject.prefix, subject.place
    try:
        result = _look_at_files(subject, names, fast, jobs, on_progress)
    except MissingFileError:
        return None, {}
    except CkptError as error:
        if subject.location is not None:
            raise
        # The others of the folder are still verified.
        failed = (finding_of(error, "unreadable", prefix),)
        return Report(subject.path, prefix, "checkpoint", None, 0, 0, fast, failed), {}
    findings = result.findings
    if place.generation == "V1" and os.path.lexists(index_path(prefix)):
        message = "there is a V2 checkpoint of the same name, which TensorFlow reads"
        findings += (finding("same-name", message, index_path(prefix)),)
    if place.meta_path is not None and not fast:
        # Imported late: few checkpoints have a graph.
        from ckpttool.query.verify.metagraph import check_beside

        findings += tuple(
            check_beside(place, sound=all(each.severity == "warning" for each in result.findings))
        )
    if subject.location is not None:
        num_shards = None
        if result.source and place.generation == "V2":
            num_shards = result.source.shards
        findings += tuple(check_siblings(prefix, num_shards))
    report = Report(
        subject.path,
        prefix,
        "checkpoint",
        result.source,
        result.tensors,
        result.bytes_read,
        fast or not result.comparable,
        findings,
        result.diagnosis,
    )
    return report, result.looked_at


def _look_at_files(
    subject: Subject,
    names: FolderNames,
    fast: bool,
    jobs: int | None,
    on_progress: Progress | None,
) -> CheckpointResult:
    place = subject.place
    if place.generation == "V2":
        return verify_bundle(
            subject.prefix,
            typed=subject.path,
            names=names,
            fast=fast,
            jobs=jobs,
            on_progress=on_progress,
        )
    if place.generation != "V1":
        from ckpttool.query.verify.arrays import verify_arrays

        return verify_arrays(place, place.generation, fast=fast, on_progress=on_progress)
    from ckpttool.query.verify.legacy import verify_legacy

    return verify_legacy(
        subject.prefix,
        place.files,
        typed=subject.path,
        names=names,
        fast=fast,
        on_progress=on_progress,
    )


def _is_unsettled(report: Report, looked_at: _Looks, subject: Subject, patience: RetryTime) -> bool:
    """Tell whether verifying again may give another result."""
    if any(each.code in UNSETTLED for each in report.findings):
        return True
    if not report.count("damage") or patience.left <= 0:
        return False
    # In this order: a save that has just ended has changed the files.
    return patience.is_being_saved(subject.prefix) or bool(changed_files(looked_at))


def _is_gone(subject: Subject) -> bool:
    place = subject.place
    paths = place.files if place.generation != "V2" else (index_path(subject.prefix),)
    return not any(map(os.path.lexists, paths))
