"""Whether checkpoints are sound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TextIO, overload

from ckpttool.api.answer import Answer
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.query.verify.addresses import (
    find_folder,
    find_subjects,
    state_treatment,
    verify_each,
)
from ckpttool.query.verify.report import Report, Subject, VerifyVerdict, worst_verdict
from ckpttool.render.console import Terminal
from ckpttool.render.verify import verify_document, write_reports
from ckpttool.storage.paths import StrPath
from ckpttool.storage.work import Progress


class Verification(Answer, Sequence[Report]):
    """The result of a verification: a report for each checkpoint, and one for its folder.

    Made by `ckpttool.verify`. `str()` is the table of `ckpt verify`.

    Args:
        reports: what was found.
        fast: whether the data were not read.
        strict: whether warnings count as damage.
    """

    def __init__(self, reports: Iterable[Report], *, fast: bool, strict: bool) -> None:
        self._reports = tuple(reports)
        self.fast = fast
        self.strict = strict

    @property
    def verdict(self) -> VerifyVerdict:
        """The worst of the reports: "ok", "structure-ok" if `fast`, "unchecked" or "damaged"."""
        return worst_verdict(self._reports, strict=self.strict)

    @overload
    def __getitem__(self, at: int) -> Report: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Report]: ...
    def __getitem__(self, at: int | slice) -> Report | Sequence[Report]:
        return self._reports[at]

    def __len__(self) -> int:
        return len(self._reports)

    def _document(self) -> Mapping[str, object]:
        return verify_document(self._reports, fast=self.fast, strict=self.strict)

    def _write_table(self, stream: TextIO, terminal: Terminal) -> None:
        reports, fast, strict = self._reports, self.fast, self.strict
        write_reports(reports, "table", stream, terminal, fast=fast, strict=strict)

    def __repr__(self) -> str:
        counts = Counter(found.severity for each in self._reports for found in each.findings)
        told = "".join(f", {count:,} {severity}" for severity, count in counts.items())
        checkpoints = sum(each.kind == "checkpoint" for each in self._reports)
        return f"<Verification {self.verdict}: {checkpoints:,} checkpoints{told}>"


def verify(
    path: StrPath | Checkpoint,
    *,
    fast: bool = False,
    strict: bool = False,
    jobs: int | None = None,
    repair_state: bool = False,
    dry_run: bool = False,
    on_progress: Progress | None = None,
) -> Verification:
    """Verify the checkpoints at a path, as `ckpt verify` does.

    All bytes of index and data are compared with their checksums; all damage is reported.

    Args:
        path: anything that names a checkpoint; an open checkpoint; a SavedModel, with or without
            variables; or a folder, for all checkpoints and other files in it.
        fast: check only the indexes and the sizes of the data shards; of a V1 checkpoint only the
            descriptions of the tensors.
        strict: count warnings as damage.
        jobs: how many threads may read; by default one for each processor.
        repair_state: write the state file of the folder anew if it is missing or wrong: its latest
            is the newest sound checkpoint, and it lists all that are sound. The `health` of the
            last report tells what was done.
        dry_run: with `repair_state`, only tell what would be written.
        on_progress: called now and then with the bytes read of one checkpoint, and their total.

    Raises:
        ChangedError: another process has changed the state file that was to be written.
        MissingFileError: there is no such checkpoint.
        FileAccessError: the checkpoint cannot be read.
        UnsupportedError: it is of a version that cannot be verified.

    >>> found = ckpttool.verify("tf_ckpts/ckpt-10")
    >>> found.verdict, found[0].tensors, found[0].findings
    ('ok', 15, ())
    """
    if isinstance(path, Checkpoint):
        if repair_state:
            raise TypeError("repair_state takes the path of a folder, not an open checkpoint")
        at = path.location
        subjects = [Subject(at.typed, at.prefix, location=at)]
    else:
        subjects = (find_folder if repair_state else find_subjects)(path)
    repair = state_treatment(repair=repair_state, dry_run=dry_run)
    reports = verify_each(subjects, fast=fast, jobs=jobs, on_progress=on_progress, repair=repair)
    return Verification(reports, fast=fast, strict=strict)
