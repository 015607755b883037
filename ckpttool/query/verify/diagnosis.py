"""One sentence on what happened to a checkpoint, from all of its findings.

Findings say which bytes are wrong; people ask why, and what to do. Files are looked at again only
where there is damage, and only as much of them as `_LOOK` says.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from contextlib import suppress

from ckpttool.bundle.naming import index_path
from ckpttool.errors import CkptError
from ckpttool.query.verify.checksums import fits, flipped_bit, is_wrong
from ckpttool.query.verify.extents import Extent, Shard, ShardLayout
from ckpttool.query.verify.findings import Diagnosis, Finding
from ckpttool.query.verify.index import IndexSurvey
from ckpttool.storage.foreign import foreign_file
from ckpttool.storage.source import RandomAccessFile
from ckpttool.table.format import FOOTER_SIZE

_LOOK = 4 << 20
_ZEROS = re.compile(rb"\0{512,}|\A\0+\Z")
_ZERO_SPAN = 64 << 20
# Text has so many line ends, or characters beyond ASCII, before it is taken for converted text.
_FEW = 2
_SOME = 8
_DEAD = ("trailing-bytes", "gap-nonzero")
_OF_INDEX = ("bad-table", "bad-header", "bad-entry")
_OF_GRAPH = ("graph-unreadable", "graph-key-missing")


def diagnose_bundle(
    prefix: str,
    survey: IndexSurvey,
    layout: ShardLayout,
    findings: Sequence[Finding],
    shard_counts: Collection[int],
) -> Diagnosis | None:
    """Return what happened to a bundle; None if nothing explains its findings.

    Args:
        prefix: of the bundle.
        survey: its index.
        layout: its data shards; their extents know the checksums that were computed.
        findings: all of them.
        shard_counts: the counts in the names of the data shards in the folder.
    """
    codes = {each.code for each in findings}
    if not any(each.severity == "damage" for each in findings):
        return _sound(findings)
    if codes & set(_OF_INDEX):
        return _bad_index(index_path(prefix), findings)
    shards = layout.shards
    return (
        _missing(survey, findings, shard_counts)
        or _swapped(shards)
        or next(filter(None, (_cut(shard, shards) for shard in shards)), None)
        or _flipped(shards)
        or next(filter(None, map(converted, shards)), None)
        or next(filter(None, map(_mixed, findings)), None)
        or _some_tensors(shards)
        or _other(findings)
    )


def diagnose_files(paths: Sequence[str], findings: Sequence[Finding]) -> Diagnosis | None:
    """Return what happened to a V1 checkpoint of these files."""
    if not any(each.severity == "damage" for each in findings):
        return _sound(findings)
    for path in paths:
        if any(each.path == path and each.severity == "damage" for each in findings):
            if not os.path.lexists(path):
                return Diagnosis("missing", "a file is missing: an incomplete copy or download")
            found = converted_file(path)
            if found is not None:
                return found
    return _other(findings)


def _sound(findings: Sequence[Finding]) -> Diagnosis | None:
    dead = [each for each in findings if each.code in _DEAD]
    if not dead or len(dead) < len(findings):
        return None
    size = sum(each.size or 0 for each in dead if each.code == "trailing-bytes")
    amount = f"{size} bytes" if all(each.code == "trailing-bytes" for each in dead) else "bytes"
    return Diagnosis(
        "dead-bytes",
        f"{amount} of no tensor, such as `ckpt prune` and `rename` leave: not damage;"
        " `ckpt prune --compact` frees them",
    )


def _missing(
    survey: IndexSurvey, findings: Sequence[Finding], shard_counts: Collection[int]
) -> Diagnosis | None:
    gone = [each.path for each in findings if each.code == "shard-missing"]
    if not gone or survey.header is None:
        return None
    for path in gone:
        instead = foreign_file(path) if os.path.isfile(path) else None
        if instead is not None:
            return Diagnosis("pointer", f"in place of the data is {instead}")
    count = survey.header.num_shards
    others = sorted(set(shard_counts) - {count})
    if len(gone) == count and others:
        return Diagnosis(
            "mixed-saves",
            "data and index are from different saves: the index is of a set of"
            f" {count} data shards, the files are of a set of {others[0]}",
        )
    are = "data shard is" if count == 1 else "data shards are"
    which = "the" if count == 1 else "all" if len(gone) == count else f"{len(gone)} of {count}"
    return Diagnosis("missing", f"{which} {are} missing: an incomplete copy or download")


def _swapped(shards: Sequence[Shard]) -> Diagnosis | None:
    """Tell whether each wrong data shard has the bytes of another one."""
    wrong = {each.path: _wrong(each, cut=True) for each in shards}
    bad = [shard for shard in shards if wrong[shard.path]]
    if len(bad) < _FEW:
        return None
    names = []
    for shard in bad:
        others = (other for other in bad if other is not shard)
        owner = next((other for other in others if fits(other.path, wrong[shard.path])), None)
        if owner is None:
            return None
        names.append(os.path.basename(shard.path))
    return Diagnosis("swapped", f"data shards have each other's names: {' and '.join(names)}")


def _cut(shard: Shard, shards: Sequence[Shard]) -> Diagnosis | None:
    end = max((each.stop for each in shard.tensors if each.size), default=0)
    if end <= shard.size:
        return None
    lost = sum(each.cut for each in shard.tensors)
    which = "the data shard" if len(shards) == 1 else f"'{os.path.basename(shard.path)}'"
    if not shard.size:
        return Diagnosis("cut", f"{which} is empty: an interrupted copy, or a full disk")
    wrong, whole = _wrong(shard), sum(e.size > 0 and not e.cut for e in shard.tensors)
    text = _converted_text(shard.path, shorter=end - shard.size) if wrong else None
    if text is not None:
        return text
    if len(wrong) >= _FEW and 2 * len(wrong) > whole:
        return Diagnosis(
            "mixed-saves",
            f"data and index are from different saves: {which} has {shard.size} of {end} bytes,"
            f" and {len(wrong)} of {whole} tensors in them are others",
        )
    tensors = "one tensor lies" if lost == 1 else f"{lost} tensors lie"
    return Diagnosis(
        "cut",
        f"{which} is cut at {shard.size} of {end} bytes: an interrupted copy, or a full disk;"
        f" {tensors} in what is gone",
    )


def _flipped(shards: Sequence[Shard]) -> Diagnosis | None:
    wrong = [(shard, extent) for shard in shards for extent in _wrong(shard)]
    found = flipped_bit(wrong[0][0].path, wrong[0][1]) if len(wrong) == 1 else None
    if found is None:
        return None
    at, bit, byte = found
    return Diagnosis(
        "flipped-bit",
        f"one bit is flipped: byte {at} of '{os.path.basename(wrong[0][0].path)}' is {byte:#04x},"
        f" and the checksum is that of {byte ^ 1 << bit:#04x}",
    )


def converted(shard: Shard) -> Diagnosis | None:
    """Return how the bytes of a wrong data shard were altered as a whole, if they were.

    Args:
        shard: the shard, with computed checksums.
    """
    wrong = _wrong(shard)
    if not wrong:
        return None
    return _converted_text(shard.path) or _zeros(shard, wrong)


def converted_file(path: str) -> Diagnosis | None:
    """Return how a damaged file was altered as a whole, if it was."""
    instead = foreign_file(path)
    if instead is not None:
        return Diagnosis("pointer", f"'{os.path.basename(path)}' is {instead}")
    return _converted_text(path) or _zero_end(path)


def _converted_text(path: str, *, shorter: int = 0) -> Diagnosis | None:
    """Tell whether a file was treated as text.

    Args:
        path: of the file.
        shorter: by how many bytes it is too short.
    """
    name = os.path.basename(path)
    with suppress(CkptError), RandomAccessFile(path) as file:
        data = file.read_at(0, min(file.size, _LOOK))
        ends, pairs = data.count(b"\n"), data.count(b"\r\n")
        advice = "copy it again in binary mode"
        if ends == pairs >= _FEW:
            text = f"'{name}' was copied as text: every line feed became CR LF; {advice}"
            return Diagnosis("text-mode", text)
        # One pair in 65,536 is expected, and each takes away a byte.
        if not pairs and 0 < shorter <= file.size >> 12 and len(data) >> 16 >= _SOME:
            text = f"'{name}' was copied as text: every CR LF became a line feed; {advice}"
            return Diagnosis("text-mode", text)
        beyond = sum(map(data.count, _LEADS))
        if beyond >= _SOME and _is_utf8(data):
            text = f"'{name}' was converted to UTF-8, as text is; {advice}"
            return Diagnosis("text-mode", text)
    return None


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.start > len(data) - 4 and len(data) == _LOOK  # the last one is cut
    return True


# The first bytes of characters of UTF-8 beyond ASCII.
_LEADS = tuple(bytes([first]) for first in range(0xC2, 0xF5))


def _zeros(shard: Shard, wrong: Sequence[Extent]) -> Diagnosis | None:
    """Tell whether the wrong bytes of a data shard lie in one run of zeros."""
    with suppress(CkptError), RandomAccessFile(shard.path) as file:
        first, last = wrong[0], max(wrong, key=lambda extent: extent.stop)
        if last.stop - first.offset > _ZERO_SPAN:
            return None
        data = file.read_at(first.offset, last.stop - first.offset)
        runs = list(_ZEROS.finditer(data))
        run = max(runs, key=lambda run: run.end() - run.start(), default=None)
        if run is None:
            return None
        start, stop = first.offset + run.start(), first.offset + run.end()
        if any(each.stop <= start or each.offset >= stop for each in wrong):
            return None
        name = os.path.basename(shard.path)
        where = f"'{name}' is zero from byte {start} to {stop - 1}"
        if stop >= shard.size:
            where = f"'{name}' is zero from byte {start} on" if start else f"'{name}' is all zeros"
        return Diagnosis(
            "zeros", f"{where}: written only in part, as by a crash or a copy with holes"
        )
    return None


def _zero_end(path: str) -> Diagnosis | None:
    with suppress(CkptError), RandomAccessFile(path) as file:
        end = file.read_at(max(file.size - FOOTER_SIZE, 0), min(file.size, FOOTER_SIZE))
        name = os.path.basename(path)
        if not file.size:
            return Diagnosis("cut", f"'{name}' is empty: an interrupted copy, or a full disk")
        if not any(end):
            return Diagnosis(
                "zeros", f"'{name}' ends in zeros: written only in part, as by a crash"
            )
    return None


def _bad_index(path: str, findings: Sequence[Finding]) -> Diagnosis:
    found = converted_file(path)
    if found is not None:
        return found
    whole = [each for each in findings if each.code == "bad-table"]
    if any("magic number" in each.message or "too short" in each.message for each in whole):
        return Diagnosis("cut", "the end of the index is missing: an interrupted copy, or no index")
    return Diagnosis(
        "bad-index", "the index is damaged, so that some tensors cannot be found in the data"
    )


def _mixed(finding: Finding) -> Diagnosis | None:
    if finding.code != "mixed-saves":
        return None
    _, marked, sibling = finding.message.rpartition("; the index fits ")
    more = f"; the index fits {sibling}" if marked else ""
    return Diagnosis("mixed-saves", f"data and index are from different saves{more}")


def _some_tensors(shards: Sequence[Shard]) -> Diagnosis | None:
    wrong = [(shard, extent) for shard in shards for extent in _wrong(shard)]
    if not wrong:
        return None
    checked = sum(1 for shard in shards for each in shard.tensors if each.size)
    shard, first = wrong[0]
    stop = max(extent.stop for _, extent in wrong)
    name = os.path.basename(shard.path)
    between = [each for each in shard.tensors if first.offset < each.offset < stop and each.size]
    if len(wrong) == 1:
        place = f"bytes {first.offset} to {stop - 1} of '{name}'"
        rest = "the only tensor" if checked == 1 else f"one of {checked} tensors"
        return Diagnosis("one-place", f"{rest} is damaged, in {place}: a bad block or flipped bits")
    if {id(each) for each, _ in wrong} == {id(shard)} and len(between) < len(wrong):
        place = f"bytes {first.offset} to {stop - 1} of '{name}'"
        return Diagnosis(
            "one-place",
            f"{len(wrong)} of {checked} tensors, all side by side in {place}, are damaged:"
            " a bad block",
        )
    return Diagnosis(
        "scattered",
        f"{len(wrong)} of {checked} tensors are damaged, in different places: failing memory or"
        " storage, or bytes that were edited",
    )


def _other(findings: Sequence[Finding]) -> Diagnosis | None:
    damage = [each for each in findings if each.severity == "damage"]
    if all(each.code in _OF_GRAPH for each in damage):
        return Diagnosis(
            "graph", "the tensors are sound, but the object graph and the index do not agree"
        )
    return None


def _wrong(shard: Shard, *, cut: bool = False) -> list[Extent]:
    found = (e for e in shard.tensors if e.size and (is_wrong(e) or (cut and e.cut)))
    return sorted(found, key=lambda extent: extent.offset)
