"""Looking over a table as a whole, past what is damaged in it.

`table.reader` ends at the first bad block, as everything must that uses the entries. Here all that
is bad is to be told, and what other blocks hold is to be looked at as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ckpttool.errors import ChecksumError, CkptError, CorruptError
from ckpttool.query.integrity_findings import Finding, finding, finding_of, text_of
from ckpttool.storage.source import RandomAccessFile
from ckpttool.table.format import (
    FOOTER_SIZE,
    HANDLES_SIZE,
    TRAILER_SIZE,
    BlockHandle,
    Footer,
)
from ckpttool.table.stored import read_entries, read_footer

_MAX_SHOWN = 100


@dataclass(slots=True)
class Survey:
    """What there is in a table.

    Attributes:
        entries: value by key, and the block it lies in.
        findings: what is wrong.
        complete: whether every block could be read, so that what is not among the entries is not
            in the table.
    """

    entries: dict[bytes, tuple[bytes, BlockHandle]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    complete: bool = True


def survey_table(file: RandomAccessFile) -> Survey:
    """Read all blocks of a table that can be read."""
    survey = Survey()
    footer = _footer(file, survey)
    if footer is None:
        survey.complete = False
        return survey
    blocks = _index(file, footer.index, survey)
    low: bytes | None = None
    for separator, handle in blocks:
        _take_block(file, handle, low, separator, survey)
        low = separator
    try:
        read_entries(file, footer.metaindex)
    except CkptError as error:
        survey.findings.append(_of_block(error, file, footer.metaindex, "the metaindex block"))
        return survey
    if survey.complete:
        _check_cover(file, [footer.metaindex, footer.index, *(each for _, each in blocks)], survey)
    return survey


def _footer(file: RandomAccessFile, survey: Survey) -> Footer | None:
    at = file.size - FOOTER_SIZE
    try:
        footer = read_footer(file)
    except CkptError as error:
        survey.findings.append(
            finding_of(
                error,
                "bad-table",
                file.path,
                offset=max(at, 0),
                size=min(file.size, FOOTER_SIZE),
            )
        )
        return _footer_without_magic(file)
    handles = file.read_at(at, HANDLES_SIZE)
    used = len(footer.metaindex.encode() + footer.index.encode())
    if any(handles[used:]):
        survey.findings.append(
            finding(
                "table-slack",
                "the padding in the footer of the table is not zero",
                file.path,
                offset=at + used,
                size=HANDLES_SIZE - used,
            )
        )
    return footer


def _footer_without_magic(file: RandomAccessFile) -> Footer | None:
    """Return the handles of a footer whose magic number is damaged, if they can be read."""
    try:
        handles = file.read_at(file.size - FOOTER_SIZE, HANDLES_SIZE)
        metaindex, pos = BlockHandle.decode(handles)
        return Footer(metaindex, BlockHandle.decode(handles, pos)[0])
    except CkptError:
        return None


def _index(
    file: RandomAccessFile, handle: BlockHandle, survey: Survey
) -> list[tuple[bytes, BlockHandle]]:
    """Return separator and place of each data block; those of a damaged index block as well."""
    try:
        entries = read_entries(file, handle)
    except CkptError as error:
        survey.findings.append(_of_block(error, file, handle, "the index block"))
        survey.complete = False
        if not isinstance(error, ChecksumError):
            return []
        try:
            # Each data block has a checksum of its own, so a wrong place does no harm.
            entries = read_entries(file, handle, verify=False)
        except CkptError:
            return []
    blocks = []
    for separator, value in entries:
        try:
            block, end = BlockHandle.decode(value)
        except CorruptError as error:
            survey.findings.append(_of_block(error, file, handle, "the index block"))
            survey.complete = False
            continue
        if end < len(value):
            message = "an entry of the index block has bytes after the place of the block"
            survey.findings.append(_slack(message, file, handle))
        blocks.append((separator, block))
    return blocks


def _take_block(
    file: RandomAccessFile,
    handle: BlockHandle,
    low: bytes | None,
    separator: bytes,
    survey: Survey,
) -> None:
    try:
        entries = read_entries(file, handle)
    except CkptError as error:
        up_to = f"up to '{_shown(separator)}'"
        if low is not None:
            up_to = f"between '{_shown(low)}' and '{_shown(separator)}'"
        survey.findings.append(_of_block(error, file, handle, f"the block of keys {up_to}"))
        survey.complete = False
        return
    if entries and ((low is not None and entries[0][0] <= low) or entries[-1][0] > separator):
        survey.findings.append(
            finding(
                "bad-table",
                "the keys of a table block lie outside what the index says of it",
                file.path,
                offset=handle.offset,
                size=handle.size,
            )
        )
    for key, value in entries:
        if key in survey.entries:
            survey.findings.append(
                finding(
                    "bad-table",
                    "the key is in the table twice",
                    file.path,
                    offset=handle.offset,
                    size=handle.size,
                    key=text_of(key),
                )
            )
        else:
            survey.entries[key] = (value, handle)


def _check_cover(file: RandomAccessFile, handles: list[BlockHandle], survey: Survey) -> None:
    """Look for bytes that several blocks have in common, or none has."""
    spans = sorted((each.offset, each.offset + each.size + TRAILER_SIZE) for each in handles)
    covered = 0
    for start, stop in [*spans, (file.size - FOOTER_SIZE, file.size)]:
        if start < covered:
            survey.findings.append(
                finding(
                    "bad-table",
                    "table blocks overlap",
                    file.path,
                    offset=start,
                    size=min(covered, stop) - start,
                )
            )
        elif start > covered:
            message = "no block of the table has these bytes"
            survey.findings.append(_slack(message, file, BlockHandle(covered, start - covered)))
        covered = max(covered, stop)


def _of_block(error: CkptError, file: RandomAccessFile, handle: BlockHandle, what: str) -> Finding:
    """Return the finding for a block that cannot be read; its place is that of the block."""
    error.message = f"{what}: {error.message}"
    return finding_of(
        error, "bad-table", file.path, offset=handle.offset, size=handle.size + TRAILER_SIZE
    )


def _slack(message: str, file: RandomAccessFile, handle: BlockHandle) -> Finding:
    return finding("table-slack", message, file.path, offset=handle.offset, size=handle.size)


def _shown(key: bytes) -> str:
    text = text_of(key)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
