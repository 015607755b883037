"""The index of a bundle: its header, its entries, and whether slices and tensors agree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ckpttool.bundle.entry import BundleEntry, BundleHeader, EntryDecoder, decode_header
from ckpttool.bundle.index import MAX_INDEX_SIZE
from ckpttool.coding.text import decode_text
from ckpttool.errors import CkptError, CorruptError, UnsupportedError
from ckpttool.query.verify.findings import Finding, finding, finding_of
from ckpttool.query.verify.slices import coverage_problems
from ckpttool.query.verify.table import Survey, survey_table
from ckpttool.storage.source import RandomAccessFile
from ckpttool.table.format import BlockHandle
from ckpttool.tensor.slices import TensorSlice, decode_slice_key, encode_slice_key


class Stored(NamedTuple):
    """The stored bytes of a tensor, or of one slice of it: key, slice or None, index entry."""

    key: str
    part: TensorSlice | None
    entry: BundleEntry

    @property
    def what(self) -> str:
        """The beginning of a message: empty for a whole tensor, else "slice 0,2:-: "."""
        return "" if self.part is None else f"slice {self.part}: "


@dataclass(slots=True)
class IndexSurvey:
    """The readable contents of an index.

    Attributes:
        path: of the index.
        header: None if lost.
        tensors: the entries, those of slices left out.
        stored: all stored bytes, of tensors and slices.
        findings: about the index.
        complete: whether all entries could be read, so that anything else does not exist.
    """

    path: str
    header: BundleHeader | None = None
    tensors: dict[str, BundleEntry] = field(default_factory=dict)
    stored: list[Stored] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    complete: bool = True


# Tensor -> slice -> its entry and the entry's block.
_Slices = dict[str, dict[TensorSlice, tuple[BundleEntry, BlockHandle]]]


def survey_index(file: RandomAccessFile, shard_counts: set[int]) -> IndexSurvey:
    """Verify an index.

    Args:
        file: the open index.
        shard_counts: the counts in the names of the data shards, used if the header is lost and
            they agree.

    Raises:
        UnsupportedError: the index is too large.
    """
    if file.size > MAX_INDEX_SIZE:
        raise UnsupportedError(
            f"an index of {file.size} bytes is more than {MAX_INDEX_SIZE}", path=file.path
        )
    table = survey_table(file)
    survey = IndexSurvey(file.path, findings=table.findings, complete=table.complete)
    survey.header = _header(table, survey, shard_counts)
    if survey.header is None:
        survey.complete = False
        return survey
    slices: _Slices = {}
    unknown: set[str] = set()  # tensors with an unreadable entry, or one of a slice
    decoder = EntryDecoder(survey.header.num_shards)
    blocks: dict[str, BlockHandle] = {}  # of partitioned tensors
    table.keys.clear()
    # The records go as their entries come: of millions, both together take much memory.
    for raw in [*table.entries]:
        value, block = table.entries.pop(raw)
        key, part = _name(raw)
        try:
            entry = decoder.decode(value)
            if not entry.dtype.number:
                raise CorruptError("the entry has no dtype")
        except CkptError as error:
            error.offset = None
            survey.findings.append(_of_block(error, "bad-entry", file.path, block, key))
            survey.complete = False
            unknown.add(key)
            continue
        if part is None:
            survey.tensors[key] = entry
            if entry.slices:
                blocks[key] = block
        else:
            slices.setdefault(key, {})[part] = (entry, block)
    for key, entry in survey.tensors.items():
        if not entry.slices:
            survey.stored.append(Stored(key, None, entry))
            continue
        known = table.complete and key not in unknown
        _check_partitioned(survey, key, entry, slices.pop(key, {}), blocks[key], known=known)
    for key, parts in slices.items():
        _take_orphans(survey, key, parts, known=table.complete and key not in unknown)
    return survey


def _header(table: Survey, survey: IndexSurvey, shard_counts: set[int]) -> BundleHeader | None:
    """Take the header out of the entries; if lost, guess it from the data shards."""
    record = table.entries.pop(b"", None)
    if record is not None:
        try:
            return decode_header(record[0])
        except CkptError as error:
            error.offset = None
            survey.findings.append(_of_block(error, "bad-header", survey.path, record[1]))
            if isinstance(error, UnsupportedError):
                return None
    elif table.complete:
        survey.findings.append(
            finding(
                "bad-header",
                "the index has no header: its first key is not empty",
                survey.path,
                offset=0,
            )
        )
    return BundleHeader(num_shards=min(shard_counts)) if len(shard_counts) == 1 else None


def _name(raw: bytes) -> tuple[str, TensorSlice | None]:
    """Return the tensor of a key of the table, and the slice if it is that of one."""
    if raw[:1] == b"\0":
        try:
            name, part = decode_slice_key(raw)
        except CorruptError:
            return decode_text(raw), None
        if encode_slice_key(name, part) == raw:
            return decode_text(name), part
    return decode_text(raw), None


def _check_partitioned(
    survey: IndexSurvey,
    key: str,
    entry: BundleEntry,
    slices: dict[TensorSlice, tuple[BundleEntry, BlockHandle]],
    block: BlockHandle,
    *,
    known: bool,
) -> None:
    def tell(code: str, message: str) -> None:
        survey.findings.append(
            finding(code, message, survey.path, offset=block.offset, size=block.size, key=key)
        )

    if entry.size or entry.offset or entry.crc32c:
        tell("bad-entry", "the entry lists slices and has bytes of its own")
    for part in dict.fromkeys(entry.slices):
        found = slices.pop(part, None)
        if part.is_full:
            tell("bad-slice", f"slice {part} is no part, but the whole tensor")
        elif found is None:
            if known:
                tell("slice-missing", f"slice {part} has no entry")
        elif found[0].slices:
            tell("bad-slice", f"slice {part} is stored in slices itself")
        else:
            stored = found[0]
            if stored.dtype != entry.dtype or stored.shape != part.shape(entry.shape):
                tell(
                    "bad-slice",
                    f"slice {part} of {entry.dtype} {list(entry.shape)} is stored as "
                    f"{stored.dtype} {list(stored.shape)}",
                )
            survey.stored.append(Stored(key, part, stored))
    try:
        for code, message in coverage_problems(entry.shape, entry.slices):
            tell(code, message)
    except UnsupportedError as error:
        tell("unsupported", error.message)
    _take_orphans(survey, key, slices, known=known)


def _take_orphans(
    survey: IndexSurvey,
    key: str,
    slices: Mapping[TensorSlice, tuple[BundleEntry, BlockHandle]],
    *,
    known: bool,
) -> None:
    """Add slices that no tensor lists; with all entries known that is damage."""
    for part, (entry, block) in slices.items():
        if known:
            survey.findings.append(
                finding(
                    "slice-orphan",
                    f"slice {part} is stored, but no tensor lists it",
                    survey.path,
                    offset=block.offset,
                    size=block.size,
                    key=key,
                )
            )
        if not entry.slices:
            survey.stored.append(Stored(key, part, entry))


def _of_block(
    error: CkptError, code: str, path: str, block: BlockHandle, key: str | None = None
) -> Finding:
    return finding_of(error, code, path, offset=block.offset, size=block.size, key=key)
