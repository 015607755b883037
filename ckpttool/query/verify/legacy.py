"""Verifying one V1 checkpoint, from the first block of its files to the last."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from ckpttool.coding.text import decode_text, encode_text
from ckpttool.errors import CkptError, CorruptError, MissingFileError, UnsupportedError
from ckpttool.legacy.files import MAX_META_SIZE
from ckpttool.legacy.records import SliceMeta, decode_meta, find_values
from ckpttool.query.source import Source
from ckpttool.query.verify.bundle import (
    CheckpointResult,
    changed_files,
    changed_message,
    identity_now,
    links_outside,
)
from ckpttool.query.verify.findings import Finding, finding, finding_of
from ckpttool.query.verify.names import FolderNames
from ckpttool.query.verify.slices import coverage_problems
from ckpttool.query.verify.table import Survey, survey_blocks, take_keys
from ckpttool.storage.source import RandomAccessFile
from ckpttool.storage.work import Progress
from ckpttool.table.block import check_place
from ckpttool.table.format import BlockHandle
from ckpttool.table.values import TableValue, load_block
from ckpttool.tensor.dtypes import DType
from ckpttool.tensor.proto_values import check_proto, value_field
from ckpttool.tensor.shape import Shape, element_count
from ckpttool.tensor.slices import TensorSlice, decode_slice_key, encode_slice_key


@dataclass(slots=True)
class _Slice:
    """A slice in the description of a file, and whether its record was found."""

    tensor: SliceMeta
    part: TensorSlice
    found: bool = False

    def __str__(self) -> str:
        return "it" if self.part.covers(self.tensor.shape) else f"slice {self.part}"


@dataclass(slots=True)
class _File:
    """The result for one file; `tensors` is its description, None if unreadable."""

    path: str
    size: int = 0
    tensors: list[SliceMeta] | None = None
    findings: list[Finding] = field(default_factory=list)


def verify_legacy(
    prefix: str,
    paths: Sequence[str],
    *,
    typed: str,
    names: FolderNames,
    fast: bool = False,
    on_progress: Progress | None = None,
) -> CheckpointResult:
    """Verify a V1 checkpoint.

    Args:
        prefix: common to its files.
        paths: of all files in shard order, missing ones included.
        typed: its address.
        names: the names in its folder.
        fast: read only the description of the tensors.
        on_progress: called now and then with the bytes read and their total.

    Raises:
        FileAccessError: the only file cannot be read.
    """
    before = {path: identity_now(path) for path in paths}
    total = sum(identity[2] for identity in before.values() if identity)
    files: list[_File] = []
    missing: list[str] = []
    findings: list[Finding] = []
    done = 0
    for path in paths:
        try:
            with RandomAccessFile(path) as file:
                found = _FileCheck(file, done, total, None if fast else on_progress).run(fast=fast)
        except MissingFileError:
            missing.append(path)
            findings.append(finding("shard-missing", "a file of the checkpoint is missing", path))
            continue
        except CkptError as error:
            if len(paths) == 1:
                raise
            findings.append(finding_of(error, "unreadable", path))
            continue
        files.append(found)
        findings += found.findings
        done += found.size
    if not files and len(missing) == len(paths):
        raise MissingFileError("no file of the checkpoint exists", path=prefix)
    known = len(files) == len(paths) and all(each.tensors is not None for each in files)
    tensors, problems = _compare(files, known=known)
    findings += problems
    findings += links_outside(path for path in paths if path not in missing)
    findings += _foreign(prefix, paths, names)
    changed = changed_files(before)
    if changed:
        findings = [finding("changed-while-reading", changed_message(changed[0]), changed[0])]
    source = None
    if any(each.tensors is not None for each in files):
        source = Source(
            path=typed,
            prefix=prefix,
            generation="V1",
            style="name",
            shards=len(paths),
            byte_order=None,
            index_bytes=None,
            data_bytes=sum(each.size for each in files),
            missing_shards=tuple(map(os.path.basename, missing)),
        )
    diagnosis = None
    if findings and not changed:
        from ckpttool.query.verify.diagnosis import diagnose_files

        diagnosis = diagnose_files(paths, findings)
    read = 0 if fast else done
    return CheckpointResult(source, tensors, read, tuple(findings), before, diagnosis)


class _FileCheck:
    """Verifies one open file, after `done` of `total` bytes in other files."""

    def __init__(
        self, file: RandomAccessFile, done: int, total: int, on_progress: Progress | None
    ) -> None:
        self._file = file
        self._done = done
        self._total = total
        self._on_progress = on_progress
        self._survey = Survey()
        self._out = _File(file.path, file.size, findings=self._survey.findings)
        self._slices: dict[bytes, _Slice] = {}

    def run(self, *, fast: bool) -> _File:
        """Verify all blocks; if `fast`, only the one that describes the tensors."""
        survey_blocks(self._file, self._survey, self._take_first if fast else self._take)
        described = self._out.tensors is not None
        if self._survey.complete and not described and not self._survey.keys & {b""}:
            self._tell("bad-header", "no record describes the tensors: no key is empty", 0)
        if not fast and self._survey.complete:
            for each in self._slices.values():
                if not each.found:
                    self._tell("slice-missing", f"{each} has no record", key=each.tensor.name)
        return self._out

    def _take_first(
        self, file: RandomAccessFile, handle: BlockHandle, low: bytes | None, separator: bytes
    ) -> None:
        if low is None:
            self._take(file, handle, low, separator)
        else:
            check_place(file, handle)

    def _take(
        self, file: RandomAccessFile, handle: BlockHandle, low: bytes | None, separator: bytes
    ) -> None:
        entries = load_block(file, handle)
        new = take_keys(file, handle, low, separator, [key for key, _ in entries], self._survey)
        for raw, value in entries:
            if raw not in new:
                continue
            if raw:
                self._take_record(raw, value)
            else:
                self._take_description(value)
        if self._on_progress is not None:
            self._on_progress(self._done + handle.offset + handle.size, self._total)

    def _take_description(self, value: TableValue) -> None:
        try:
            if value.size > MAX_META_SIZE:
                raise UnsupportedError(
                    f"a description of {value.size} bytes is more than {MAX_META_SIZE}"
                )
            tensors = decode_meta(value.read_at(0, value.size))
        except CkptError as error:
            error.offset = value.offset
            self._out.findings.append(finding_of(error, "bad-header", self._file.path))
            return
        self._out.tensors = tensors
        for tensor in tensors:
            name = encode_text(tensor.name)
            for part in tensor.slices:
                self._slices[encode_slice_key(name, part)] = _Slice(tensor, part)

    def _take_record(self, raw: bytes, value: TableValue) -> None:
        each = self._slices.get(raw)
        if each is None:
            if self._out.tensors is not None:
                self._tell("slice-orphan", "no tensor has this record", value.offset, _name(raw))
            return
        each.found = True
        name, dtype = each.tensor.name, each.tensor.dtype
        try:
            start, stop = find_values(value, name, each.part)
        except CkptError as error:
            self._tell_of(error, "bad-slice", value, name)
            return
        try:
            value_field(dtype)
        except UnsupportedError as error:
            self._tell("unknown-dtype", error.message, value.offset, name)
            return
        count = element_count(each.part.shape(each.tensor.shape))
        try:
            check_proto(dtype, count, value, start, stop)
        except CkptError as error:
            self._tell_of(error, "bad-entry", value, name)

    def _tell(
        self, code: str, message: str, offset: int | None = None, key: str | None = None
    ) -> None:
        self._out.findings.append(finding(code, message, self._file.path, offset=offset, key=key))

    def _tell_of(self, error: CkptError, code: str, value: TableValue, key: str) -> None:
        inside = 0 if value.in_memory else error.offset or 0
        place = {"offset": value.offset + inside, "size": None}
        self._out.findings.append(finding_of(error, code, self._file.path, key=key, **place))


def _compare(files: Sequence[_File], *, known: bool) -> tuple[int, list[Finding]]:
    """Return how many tensors the files have together, and findings; gaps only if `known`."""
    findings: list[Finding] = []
    first: dict[str, tuple[DType, Shape, str]] = {}
    parts: dict[str, list[TensorSlice]] = {}
    for file in files:
        for name, dtype, shape, slices in file.tensors or ():
            before = first.setdefault(name, (dtype, shape, file.path))
            if before[:2] != (dtype, shape):
                message = (
                    f"{dtype} {list(shape)} here, but {before[0]} {list(before[1])} in "
                    f"'{os.path.basename(before[2])}'"
                )
                findings.append(finding("shards-disagree", message, file.path, key=name))
                continue
            parts.setdefault(name, []).extend(slices)
    for name, (_, shape, path) in first.items():
        try:
            problems = coverage_problems(shape, parts[name])
        except (CorruptError, UnsupportedError) as error:
            findings.append(finding_of(error, "bad-slice", path, key=name))
            continue
        for code, message in problems:
            if known or code != "slice-gap":
                findings.append(finding(code, message, path, key=name))
    return len(first), findings


def _foreign(prefix: str, paths: Sequence[str], names: FolderNames) -> list[Finding]:
    """Return findings for files with the name of the checkpoint that are not of its set."""
    message = f"it is not of the checkpoint's set of {len(paths)}"
    own = frozenset(paths)
    found = (path for path in names.legacy(os.path.basename(prefix)) if path not in own)
    return [finding("foreign-shard", message, path) for path in found]


def _name(raw: bytes) -> str:
    """Return the tensor in a record's key, or the key itself."""
    try:
        return decode_text(decode_slice_key(raw)[0])
    except CorruptError:
        return decode_text(raw)
