"""Verifying files of arrays: safetensors, an archive of NumPy, or one array."""

from __future__ import annotations

from collections.abc import Iterator

from ckpttool.checkpoint.locate import Location
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.errors import (
    ChecksumError,
    CkptError,
    CorruptError,
    MissingFileError,
    UnsupportedError,
)
from ckpttool.interchange.naming import ArrayFormat
from ckpttool.interchange.reader import ArrayReader
from ckpttool.query.source import Source
from ckpttool.query.verify.bundle import (
    CheckpointResult,
    changed_files,
    changed_message,
    identity_now,
    links_outside,
)
from ckpttool.query.verify.findings import Finding, finding, finding_of
from ckpttool.storage.work import Progress

_NO_CHECKSUMS = "the format has no checksums: changed values cannot be told from others"


def verify_arrays(
    place: Location,
    format: ArrayFormat,
    *,
    fast: bool = False,
    on_progress: Progress | None = None,
) -> CheckpointResult:
    """Verify files of arrays: the headers, where tensors lie, and the CRC-32 of an archive.

    Args:
        place: where they are.
        format: what they are.
        fast: read the headers alone.
        on_progress: called now and then with the bytes read and their total.

    Raises:
        MissingFileError: the file is gone.
        FileAccessError: it cannot be read.
    """
    before = {place.prefix: identity_now(place.prefix)}
    checked = format == "npz"
    try:
        ckpt = Checkpoint(place)
    except (CorruptError, UnsupportedError) as error:
        found = (finding_of(error, "bad-header", place.prefix),)
        return CheckpointResult(None, 0, 0, found, before, comparable=checked)
    findings: list[Finding] = []
    done = 0
    with ckpt:
        reader = ckpt.reader
        if isinstance(reader, ArrayReader):
            before |= reader.identities
            findings += _of_entries(reader)
            if checked and not fast:
                total = sum(entry.size for _, entry in reader.entries.sound())
                for key, _ in reader.entries.sound():
                    try:
                        done += reader.check(key)
                    except CkptError as error:
                        code = "bad-crc" if isinstance(error, ChecksumError) else "bad-entry"
                        findings.append(finding_of(error, code, place.prefix, key=key))
                    if on_progress is not None:
                        on_progress(done, total)
        source = Source.of(ckpt)
        tensors = len(ckpt)
    findings += links_outside(before)
    if not checked:
        findings.append(finding("no-checksums", _NO_CHECKSUMS, place.prefix))
    changed = changed_files(before)
    if changed:
        findings = [finding("changed-while-reading", changed_message(changed[0]), changed[0])]
    return CheckpointResult(source, tensors, done, tuple(findings), before, comparable=checked)


def _of_entries(reader: ArrayReader) -> Iterator[Finding]:
    """Yield a finding for each missing file, and each tensor that the headers do not describe."""
    for path in reader.missing_files:
        yield finding("shard-missing", "a file of the list is missing", path)
    for key, error in reader.damaged.items():
        if not isinstance(error, MissingFileError):
            yield finding_of(error, "bad-entry", reader.path, key=key)
