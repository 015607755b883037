"""The members of a ZIP archive, by its directory; every number in it is checked.

    members     30 bytes, name, extra field, data
    directory   46 bytes, name, extra field and comment for each
    end         22 bytes and a comment; before it, in large archives, that of ZIP64

Only what NumPy and its like write is read: one disk, members stored or deflated.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from ckpttool.errors import CorruptError, TruncatedError, UnsupportedError
from ckpttool.printable import printable, shortened
from ckpttool.storage.source import RandomAccessFile

STORED, DEFLATED = 0, 8
_END = struct.Struct("<4s4H2LH")
_LOCATOR = struct.Struct("<4sLQL")
_END64 = struct.Struct("<4sQ2H2L4Q")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_MAX_COMMENT = 0xFFFF
_ENCRYPTED, _UTF8 = 0x0001, 0x0800
# A byte of deflate makes no more than these.
_MAX_RATIO = 1032
_CHUNK = 1 << 20


class ArchiveMember(NamedTuple):
    """A file in an archive.

    Attributes:
        name: as it is spelled there; it is never used as a path.
        offset: where its header begins; the data follow.
        stored: bytes of the data in the archive.
        size: bytes of the data when unpacked.
        crc: CRC-32 of those.
        method: `STORED`, `DEFLATED` or something else, which cannot be read.
        encrypted: whether a password is needed.
        limit: where the next member begins, or the directory.
    """

    name: str
    offset: int
    stored: int
    size: int
    crc: int
    method: int
    encrypted: bool
    limit: int = 0

    @property
    def unreadable(self) -> str:
        """Why its data cannot be read; "" if they can."""
        if self.encrypted:
            return "it is encrypted"
        if self.method not in (STORED, DEFLATED):
            return f"it is compressed by method {self.method} of ZIP, which is not known here"
        return ""


def read_directory(file: RandomAccessFile) -> list[ArchiveMember]:
    """Return the members of an archive, in the order of their bytes.

    Raises:
        CorruptError: it is no such archive, members share bytes or a name, or one claims to be
            larger than it can be.
        UnsupportedError: it is one of several disks.
    """
    start, size, count = _find_directory(file)
    members: list[ArchiveMember] = []
    names: set[str] = set()
    for at, member in _entries(file, start, size):
        if member.name in names:
            raise CorruptError("two members of this name", offset=at, key=member.name)
        names.add(member.name)
        _check_sizes(member, at)
        members.append(member)
    if len(members) != count:
        raise CorruptError(
            f"the directory has {len(members)} members, and its end counts {count}", offset=start
        )
    members.sort(key=lambda each: each.offset)
    end, last = 0, ""
    for member in members:
        if member.offset < end:
            message = f"its bytes are also those of '{shortened(printable(last))}'"
            raise CorruptError(message, offset=member.offset, key=member.name)
        end, last = member.offset + _LOCAL.size + member.stored, member.name
    if end > start:
        raise CorruptError("its bytes reach into the directory", offset=start, key=last)
    limits = [*(each.offset for each in members), start][1:]
    return [each._replace(limit=limit) for each, limit in zip(members, limits, strict=True)]


def data_offset(file: RandomAccessFile, member: ArchiveMember) -> int:
    """Return where the data of a member begin.

    Raises:
        CorruptError: its header does not fit the directory.
    """
    head = file.read_at(member.offset, _LOCAL.size)
    mark, _, _, method, _, _, _, _, _, name_size, extra_size = _LOCAL.unpack(head)
    if mark != b"PK\3\4" or method != member.method:
        raise CorruptError("no header of a member here", offset=member.offset, key=member.name)
    offset: int = member.offset + _LOCAL.size + name_size + extra_size
    if offset + member.stored > member.limit:
        message = f"its {member.stored} bytes reach into what begins at {member.limit}"
        raise CorruptError(message, offset=member.offset, key=member.name)
    return offset


def _find_directory(file: RandomAccessFile) -> tuple[int, int, int]:
    """Return where the directory begins, its size, and how many members it has."""
    tail_size = min(file.size, _END.size + _MAX_COMMENT)
    tail_start = file.size - tail_size
    tail = file.read_at(tail_start, tail_size)
    at = len(tail)
    while (at := tail.rfind(b"PK\5\6", 0, at)) >= 0:
        if at + _END.size <= len(tail):
            end = _END.unpack_from(tail, at)
            if at + _END.size + end[-1] == len(tail):
                break
    if at < 0:
        message = f"no ZIP archive, or one that was cut off: no directory ends it at {file.size}"
        raise TruncatedError(message)
    _, disk, first, here, count, size, start, _ = end
    end_at = tail_start + at
    if disk == 0xFFFF or first == 0xFFFF or 0xFFFF in (here, count) or 0xFFFFFFFF in (size, start):
        found = _end_of_zip64(file, end_at)
        if found is not None:
            end_at, disk, first, here, count, size, start = found
    if disk or first or here != count:
        raise UnsupportedError("an archive of several disks", offset=end_at)
    if start + size != end_at:
        raise CorruptError(
            f"a directory of {size} bytes at {start} does not end where {end_at} says it does",
            offset=end_at,
        )
    return start, size, count


def _end_of_zip64(
    file: RandomAccessFile, end_at: int
) -> tuple[int, int, int, int, int, int, int] | None:
    """Return what the end of a large archive says, and where it is; None if it has none."""
    at = end_at - _LOCATOR.size
    if at < 0:
        return None
    mark, _, place, _ = _LOCATOR.unpack(file.read_at(at, _LOCATOR.size))
    if mark != b"PK\6\7":
        return None
    if place + _END64.size > at:
        raise CorruptError("the end of the archive points behind itself", offset=at)
    fields = _END64.unpack(file.read_at(place, _END64.size))
    mark, length, _, _, disk, first, here, count, size, start = fields
    if mark != b"PK\6\6" or place + 12 + length != at:
        raise CorruptError("no end of a large archive here", offset=place)
    return place, disk, first, here, count, size, start


def _entries(file: RandomAccessFile, start: int, size: int) -> Iterator[tuple[int, ArchiveMember]]:
    """Yield the members as the directory lists them, and where it does."""
    held, held_at, end = b"", start, start + size
    at = start
    while at < end:
        for wanted in (_ENTRY.size, 0):
            inside = at - held_at
            if not wanted:
                wanted = _ENTRY.size + sum(_ENTRY.unpack_from(held, inside)[10:13])
            if at + wanted > end:
                raise CorruptError("the directory ends within a member", offset=at)
            if inside + wanted > len(held):
                held_at = at
                held = file.read_at(at, min(max(_CHUNK, wanted), end - at))
        yield at, _member(held, at - held_at, at)
        at += wanted


def _member(data: bytes, inside: int, at: int) -> ArchiveMember:
    fields = _ENTRY.unpack_from(data, inside)
    mark, _, _, flags, method, _, _, crc, stored, size = fields[:10]
    name_size, extra_size, _, disk, _, _, offset = fields[10:]
    if mark != b"PK\1\2":
        raise CorruptError("no member of the directory here", offset=at)
    name_at = inside + _ENTRY.size
    raw = data[name_at : name_at + name_size]
    try:
        name = str(raw, "utf-8" if flags & _UTF8 else "cp437")
    except UnicodeDecodeError as error:
        raise CorruptError("the name of a member is not UTF-8", offset=at) from error
    extra = data[name_at + name_size : name_at + name_size + extra_size]
    if 0xFFFFFFFF in (size, stored, offset):
        wide = _wide_fields(extra)
        if (size, stored, offset).count(0xFFFFFFFF) > len(wide):
            raise CorruptError("a member lacks its size", offset=at, key=name)
        size, stored, offset = (
            wide.pop(0) if each == 0xFFFFFFFF else each for each in (size, stored, offset)
        )
    if disk:
        raise UnsupportedError("a member on another disk", offset=at, key=name)
    return ArchiveMember(name, offset, stored, size, crc, method, bool(flags & _ENCRYPTED))


def _wide_fields(extra: bytes) -> list[int]:
    """Return the numbers in the extra field of ZIP64."""
    at = 0
    while at + 4 <= len(extra):
        tag, length = struct.unpack_from("<2H", extra, at)
        if tag == 1:
            data = extra[at + 4 : at + 4 + length]
            return [value for (value,) in struct.iter_unpack("<Q", data[: len(data) // 8 * 8])]
        at += 4 + length
    return []


def _check_sizes(member: ArchiveMember, at: int) -> None:
    problem = ""
    if member.encrypted:
        return
    if member.method == STORED and member.size != member.stored:
        problem = f"{member.size} bytes are stored in {member.stored}"
    elif member.method == DEFLATED and member.size > _MAX_RATIO * (member.stored + 1):
        problem = f"{member.stored} bytes cannot be unpacked to {member.size}"
    if problem:
        raise CorruptError(problem, offset=at, key=member.name)
