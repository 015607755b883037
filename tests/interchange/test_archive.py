from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

import pytest

from ckpttool.errors import CkptError, CorruptError, TruncatedError, UnsupportedError
from ckpttool.interchange.archive import ArchiveMember, data_offset, read_directory
from ckpttool.interchange.inflate import Inflated
from ckpttool.storage.source import RandomAccessFile
from tests.support.arrays import Member, zip_bytes


def members_of(tmp_path: Path, data: bytes) -> list[ArchiveMember]:
    path = tmp_path / "x.npz"
    path.write_bytes(data)
    with RandomAccessFile(str(path)) as file:
        found = read_directory(file)
        for member in found:
            at = data_offset(file, member)
            stored = file.read_at(at, member.stored)
            if member.method == 8:
                unpacked = Inflated(file, at, member.stored, member.size)
                stored = unpacked.read_at(0, member.size)
                unpacked.check_end()
            assert len(stored) == member.size
        return found


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("wide", [False, True])
def test_what_python_writes(method: int, wide: bool, tmp_path: Path) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in {"b": b"x" * 5000, "ü": b"", "c/d": os.urandom(3000)}.items():
            with archive.open(name, "w", force_zip64=wide) as member:
                member.write(data)
        archive.comment = b"a comment"
    found = members_of(tmp_path, file.getvalue())
    with zipfile.ZipFile(file) as archive:
        infos = archive.infolist()
    assert [(m.name, m.offset, m.stored, m.size, m.crc) for m in found] == [
        (i.filename, i.header_offset, i.compress_size, i.file_size, i.CRC) for i in infos
    ]


class Unseekable(io.BytesIO):
    def seekable(self) -> bool:
        return False

    def seek(self, *arguments: object) -> int:
        raise io.UnsupportedOperation

    def tell(self) -> int:
        raise io.UnsupportedOperation


def test_sizes_behind_the_data_and_no_members(tmp_path: Path) -> None:
    file = Unseekable()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", b"abc" * 99)
    (found,) = members_of(tmp_path, file.getvalue())
    assert found.size == 297
    assert members_of(tmp_path, zip_bytes([])) == []


A, B = Member(b"a", b"xx"), Member(b"b", b"yyy")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no ZIP archive"),
        (b"PK\3\4" + bytes(100), "no ZIP archive, or one that was cut off"),
        (zip_bytes([A])[:-1], "cut off"),
        (zip_bytes([A]) + b"x", "cut off"),
        (b"x" + zip_bytes([A]), "does not end where"),
        (zip_bytes([A, A]), "key 'a': two members"),
        (zip_bytes([A, B._replace(offset=0)]), "key 'b': its bytes are also those of 'a'"),
        (zip_bytes([A, B._replace(offset=10)]), "its bytes are also those of 'a'"),
        (zip_bytes([A._replace(offset=500)]), "key 'a': its bytes reach into the directory"),
        (zip_bytes([A._replace(offset=0xFFFFFFFF)]), "lacks its size"),
        (zip_bytes([A, B], count=1), "has 2 members, and its end counts 1"),
        (zip_bytes([A], count=9), "has 1 members, and its end counts 9"),
        (zip_bytes([A._replace(size=3)]), "3 bytes are stored in 2"),
        (zip_bytes([A._replace(method=8, size=1 << 20)]), "cannot be unpacked to 1048576"),
        (zip_bytes([A._replace(local_method=8)]), "no header of a member here"),
        (zip_bytes([A._replace(flags=0x800, name=b"\xff")]), "not UTF-8"),
        (zip_bytes([A]).replace(b"PK\1\2", b"PK\1\3"), "no member of the directory here"),
        (zip_bytes([A]).replace(b"PK\3\4", b"PK\3\5"), "no header of a member here"),
        (zip_bytes([A._replace(method=8, data=bytes(99), size=98)]), "do not end with it"),
        (zip_bytes([A._replace(method=8, data=bytes(99), size=100)]), "end after 99 of 100"),
    ],
)
def test_broken_archives(data: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(CorruptError, match=message) as caught:
        members_of(tmp_path, data)
    assert caught.value.offset is not None or isinstance(caught.value, TruncatedError)


def test_directories_that_end_too_early(tmp_path: Path) -> None:
    data = bytearray(zip_bytes([A, B]))
    at = data.rindex(b"PK\1\2")
    data[at + 28 : at + 30] = b"\xff\xff"  # the length of the name
    with pytest.raises(CorruptError, match="ends within a member"):
        members_of(tmp_path, bytes(data))


def test_several_disks(tmp_path: Path) -> None:
    data = bytearray(zip_bytes([A]))
    data[-18] = 1
    with pytest.raises(UnsupportedError, match="several disks"):
        members_of(tmp_path, bytes(data))


def test_what_cannot_be_read_is_said_of_each_member(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(zip_bytes([A._replace(flags=1), B._replace(method=14)]))
    with RandomAccessFile(str(path)) as file:
        one, other = read_directory(file)
    assert one.unreadable == "it is encrypted"
    assert "method 14" in other.unreadable


def test_every_cut_and_every_changed_byte_is_an_error_or_an_answer(tmp_path: Path) -> None:
    whole = zip_bytes([A._replace(method=8, data=b"abcab" * 9), B])
    damaged = [whole[:size] for size in range(len(whole))]
    for at in range(len(whole)):
        for change in (0x01, 0x80, 0xFF):
            damaged.append(whole[:at] + bytes([whole[at] ^ change]) + whole[at + 1 :])
    for data in damaged:
        try:
            members_of(tmp_path, data)
        except CkptError as error:
            assert str(error).isprintable()


def test_going_back_in_a_compressed_member(tmp_path: Path) -> None:
    data = bytes(range(256)) * 2000
    path = tmp_path / "x.npz"
    path.write_bytes(zip_bytes([Member(b"a", data, method=8)]))
    with RandomAccessFile(str(path)) as file:
        (member,) = read_directory(file)
        source = Inflated(file, data_offset(file, member), member.stored, member.size)
        for at in (300_000, 10, 0, 511_900):
            assert source.read_at(at, 100) == data[at : at + 100]
        with pytest.raises(TruncatedError):
            source.read_at(511_999, 2)
