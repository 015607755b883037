"""The findings from computed checksums."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice

from ckpttool.bundle.naming import shard_path, split_shard_path
from ckpttool.coding.checksum import crc32c, unmask
from ckpttool.errors import CkptError
from ckpttool.query.verify.extents import Extent, Shard
from ckpttool.query.verify.findings import Finding, finding, finding_of
from ckpttool.query.verify.index import Stored
from ckpttool.query.verify.names import FolderNames
from ckpttool.storage.source import RandomAccessFile
from ckpttool.tensor.dtypes import STRING, VARIANT

# How much of a sibling is read to find out whether an index belongs to its data.
_MAX_SIBLINGS = 20
_MAX_SAMPLES = 8
_MAX_SAMPLE = 1 << 20


def judge(shard: Shard) -> list[Finding]:
    """Return the findings for the bytes of a data shard."""
    findings: list[Finding] = []
    told: set[int] = set()
    unread = 0
    for extent in shard.tensors:
        if extent.error is not None:
            if extent.error.path is None:
                findings += _bad_inside(shard, extent)
            elif id(extent.error) not in told:
                # All extents of a file that cannot be opened share one error.
                told.add(id(extent.error))
                findings.append(_unreadable(shard, extent, extent.error))
        elif extent.crc is not None:
            findings += _compare(shard, extent, extent.crc)
        elif (extent.size or extent.count) and not extent.cut:
            unread += 1
    if unread:
        message = f"{unread} tensors that share bytes with others were not read"
        findings.append(finding("not-read", message, shard.path))
    findings += _holes(shard, told)
    return findings


def mixed_saves(prefix: str, shard: Shard, names: FolderNames) -> Finding | None:
    """Return a finding if a data shard is probably from another save than the index.

    That is if most of its tensors have wrong checksums, though all lie within the file.
    """
    checked = [extent for extent in shard.tensors if extent.size]
    wrong = [extent for extent in checked if is_wrong(extent)]
    if len(wrong) < 2 or 2 * len(wrong) <= len(checked):
        return None
    message = (
        f"{len(wrong)} of the {len(checked)} tensors in the data shard do not have the checksums"
        " in the index, though all fit in: the two are probably from different saves"
    )
    for sibling, path in _siblings(prefix, shard, names):
        if fits(path, wrong):
            message += f"; the index fits the data of '{sibling}'"
            break
    return finding("mixed-saves", message, shard.path)


def _compare(shard: Shard, extent: Extent, crc: int) -> Iterator[Finding]:
    for claim in extent.claims:
        stored = unmask(claim.entry.crc32c)
        known = extent.dtype is not None and extent.dtype.known
        if stored == crc and known:
            continue
        if known:
            code = "bad-crc"
            message = f"the bytes are damaged: crc32c {crc:#010x}, stored {stored:#010x}"
        else:
            code = "unknown-dtype"
            told = "have" if stored == crc else "do not have"
            message = f"dtype {extent.dtype} is not known here; its bytes {told} the stored crc32c"
        yield _of_claim(code, message, shard, extent, claim)


def _bad_inside(shard: Shard, extent: Extent) -> Iterator[Finding]:
    error = extent.error
    if error is not None:
        at = f" (at byte {extent.offset + error.offset})" if error.offset is not None else ""
        for claim in extent.claims:
            yield _of_claim("bad-strings", f"{error.message}{at}", shard, extent, claim)


def _unreadable(shard: Shard, extent: Extent, error: CkptError) -> Finding:
    if error.offset is None:
        return finding_of(error, "unreadable", shard.path)
    key = extent.claims[0].key if extent.claims else None
    return finding_of(
        error, "unreadable", shard.path, offset=extent.offset, size=extent.size, key=key
    )


def _is_adopted(shard: Shard, start: int) -> bool:
    """Tell whether a data shard is a safetensors file, as `ckpt import` adopts it.

    Args:
        shard: each of its tensors has to be one of that file, with the same dtype and shape.
        start: where the first of them begins, and the header ends.
    """
    from ckpttool.interchange.safetensors import read_header  # hardly any shard is one

    try:
        with RandomAccessFile(shard.path) as file:
            header = read_header(file)
    except CkptError:
        return False
    known = {(each.offset, each.size, each.dtype, each.shape) for each in header.tensors}
    return header.data_start == start and all(
        (claim.entry.offset, claim.entry.size, claim.entry.dtype, claim.entry.shape) in known
        for extent in shard.tensors
        for claim in extent.claims
    )


def _holes(shard: Shard, told: set[int]) -> Iterator[Finding]:
    """Return one finding for all holes that are not zero: after dropping tensors there are many."""
    holes = [extent for extent in shard.extents if extent.dtype is None]
    for hole in holes:
        if hole.error is not None and id(hole.error) not in told:
            told.add(id(hole.error))
            yield _unreadable(shard, hole, hole.error)
    filled = [hole for hole in holes if hole.nonzero is not None]
    if filled and not filled[0].offset and _is_adopted(shard, filled[0].stop):
        del filled[0]
    if filled:
        total = sum(hole.size for hole in filled)
        message = f"{total} bytes between tensors belong to none and are not zero"
        if len(filled) > 1:
            message += f"; they lie in {len(filled)} places"
        first = filled[0]
        yield finding("gap-nonzero", message, shard.path, offset=first.offset, size=first.size)


def _of_claim(code: str, message: str, shard: Shard, extent: Extent, claim: Stored) -> Finding:
    return finding(
        code,
        claim.what + message,
        shard.path,
        offset=extent.offset,
        size=extent.size,
        key=claim.key,
    )


def is_wrong(extent: Extent) -> bool:
    """Tell whether the bytes of an extent are damaged, as far as they were read."""
    if extent.error is not None:
        return extent.error.path is None
    return extent.crc is not None and extent.crc != unmask(extent.claims[0].entry.crc32c)


def _siblings(prefix: str, shard: Shard, names: FolderNames) -> Iterator[tuple[str, str]]:
    """Yield the names of the folder's other checkpoints, and their shards of the same number."""
    folder, base = os.path.split(prefix)
    split = split_shard_path(shard.path)
    for name in islice((name for name in names.bundles if name != base), _MAX_SIBLINGS):
        if split is not None:
            yield name, shard_path(os.path.join(folder, name), split[1], split[2])


def fits(path: str, wrong: Sequence[Extent]) -> bool:
    """Tell whether a file has the bytes for these extents, as far as some of them tell."""
    samples = [
        extent
        for extent in wrong
        if extent.dtype not in (STRING, VARIANT) and extent.size <= _MAX_SAMPLE
    ]
    samples = sorted(samples, key=lambda extent: -extent.size)[:_MAX_SAMPLES]
    try:
        with RandomAccessFile(path) as file:
            return bool(samples) and all(
                crc32c(file.read_at(extent.offset, extent.size))
                == unmask(extent.claims[0].entry.crc32c)
                for extent in samples
            )
    except CkptError:
        return False


def flipped_bit(path: str, extent: Extent) -> tuple[int, int, int] | None:
    """Return the one bit of a damaged tensor that explains its checksum.

    A crc is linear: what a wrong byte adds to it depends only on that byte and on how many bytes
    follow. Going back from the end, each step undoes one byte that follows.

    Returns:
        The place of the byte in the file, the number of the bit in it, and the byte as it is; None
        if no single bit explains it, or the tensor is large.
    """
    if extent.crc is None or extent.dtype in (STRING, VARIANT) or extent.size > _MAX_SAMPLE:
        return None
    found = extent.crc ^ unmask(extent.claims[0].entry.crc32c)
    single = {_added(1 << bit): bit for bit in range(8)}
    table = [_added(byte) for byte in range(256)]
    undo = {value >> 24: (at, value) for at, value in enumerate(table)}
    for at in range(extent.stop - 1, extent.offset - 1, -1):
        if found in single:
            with suppress(CkptError), RandomAccessFile(path) as file:
                return at, single[found], file.read_at(at, 1)[0]
            return None
        low, value = undo[found >> 24]
        found = (found ^ value) << 8 | low
    return None


def _added(byte: int) -> int:
    """Return what a change of the last byte by this much changes in a crc."""
    return crc32c(bytes([byte])) ^ crc32c(b"\0")
