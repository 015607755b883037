"""Verifying a whole table, bad blocks skipped.

`table.reader` stops at the first bad block, because its entries are used. Here all damage is
reported, and the other blocks are read too.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from ckpttool.coding.text import decode_text, encode_text
from ckpttool.errors import ChecksumError, CkptError, CorruptError
from ckpttool.printable import shortened
from ckpttool.query.verify.findings import Finding, finding, finding_of
from ckpttool.storage.source import RandomAccessFile
from ckpttool.table.block import read_entries
from ckpttool.table.format import (
    FOOTER_SIZE,
    HANDLES_SIZE,
    TRAILER_SIZE,
    BlockHandle,
    Footer,
)
from ckpttool.table.reader import read_footer
from ckpttool.tensor.slices import decode_slice_key


@dataclass(slots=True)
class Survey:
    """The readable contents of a table.

    Attributes:
        keys: of all entries in readable blocks.
        entries: key -> value and its block.
        findings: about the table.
        complete: whether every block could be read, so that there are no other entries.
    """

    keys: set[bytes] = field(default_factory=set)
    entries: dict[bytes, tuple[bytes, BlockHandle]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    complete: bool = True


class TakeBlock(Protocol):
    """Verifies a data block; it must call `take_keys`."""

    def __call__(
        self, file: RandomAccessFile, handle: BlockHandle, low: bytes | None, separator: bytes
    ) -> None:
        """Take the block at `handle`, with keys above `low` up to `separator`.

        Raises:
            CkptError: it cannot be read.
        """


def survey_table(file: RandomAccessFile) -> Survey:
    """Read all readable blocks of a table."""
    survey = Survey()

    def take(
        file: RandomAccessFile, handle: BlockHandle, low: bytes | None, separator: bytes
    ) -> None:
        entries = read_entries(file, handle)
        new = take_keys(file, handle, low, separator, [key for key, _ in entries], survey)
        survey.entries.update((key, (value, handle)) for key, value in entries if key in new)

    survey_blocks(file, survey, take)
    return survey


def survey_blocks(file: RandomAccessFile, survey: Survey, take: TakeBlock) -> None:
    """Verify a table; `take` verifies its data blocks."""
    footer = _footer(file, survey)
    if footer is None:
        survey.complete = False
        return
    blocks = _index(file, footer.index, survey)
    low: bytes | None = None
    for separator, handle in blocks:
        try:
            take(file, handle, low, separator)
        except CkptError as error:
            last = shortened(decode_text(separator))
            up_to = f"up to '{last}'"
            if low is not None:
                up_to = f"between '{shortened(decode_text(low))}' and '{last}'"
            survey.findings.append(_of_block(error, file, handle, f"the block of keys {up_to}"))
            survey.complete = False
        low = separator
    try:
        read_entries(file, footer.metaindex)
    except CkptError as error:
        survey.findings.append(_of_block(error, file, footer.metaindex, "the metaindex block"))
        return
    if survey.complete:
        _check_cover(file, [footer.metaindex, footer.index, *(each for _, each in blocks)], survey)


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
    """Return a footer with a damaged magic number, if its handles can be read."""
    try:
        handles = file.read_at(file.size - FOOTER_SIZE, HANDLES_SIZE)
        metaindex, pos = BlockHandle.decode(handles)
        return Footer(metaindex, BlockHandle.decode(handles, pos)[0])
    except CkptError:
        return None


def _index(
    file: RandomAccessFile, handle: BlockHandle, survey: Survey
) -> list[tuple[bytes, BlockHandle]]:
    """Return separator and handle of each data block, also from a damaged index block."""
    try:
        entries = read_entries(file, handle)
    except CkptError as error:
        survey.findings.append(_of_block(error, file, handle, "the index block"))
        survey.complete = False
        if not isinstance(error, ChecksumError):
            return []
        try:
            # Each data block has its own checksum, so a wrong handle does no harm.
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


def take_keys(
    file: RandomAccessFile,
    handle: BlockHandle,
    low: bytes | None,
    separator: bytes,
    keys: Sequence[bytes],
    survey: Survey,
) -> set[bytes]:
    """Check the rising keys of a block; return those that no earlier block had."""

    def tell(message: str, key: str | None = None) -> None:
        place = {"offset": handle.offset, "size": handle.size}
        survey.findings.append(finding("bad-table", message, file.path, key=key, **place))

    if keys and ((low is not None and keys[0] <= low) or keys[-1] > separator):
        tell("the keys of a table block lie outside what the index says of it")
    for key in keys:
        if key in survey.keys:
            tell("the key is in the table twice", decode_text(key))
    new = set(keys).difference(survey.keys)
    survey.keys |= new
    return new


def _check_cover(file: RandomAccessFile, handles: list[BlockHandle], survey: Survey) -> None:
    """Find bytes in several blocks, or in none."""
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
    """Return the finding for an unreadable block."""
    error.message = f"{what}: {error.message}"
    if error.key is not None and error.key.startswith("\0"):
        with suppress(CorruptError):
            raw = encode_text(error.key)
            error.key = decode_text(decode_slice_key(raw)[0])
    return finding_of(
        error, "bad-table", file.path, offset=handle.offset, size=handle.size + TRAILER_SIZE
    )


def _slack(message: str, file: RandomAccessFile, handle: BlockHandle) -> Finding:
    return finding("table-slack", message, file.path, offset=handle.offset, size=handle.size)
