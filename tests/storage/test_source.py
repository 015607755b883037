from __future__ import annotations

import mmap
import os
import socket
from pathlib import Path

import pytest

from ckpttool.errors import CkptError, FileAccessError, MissingFileError, TruncatedError
from ckpttool.storage.source import CHUNK_SIZE, RandomAccessFile, open_input
from tests.support.limits import memory_limit, resident, run_python, time_limit
from tests.support.refusals import refused

MIB = 1 << 20
SMALL = bytes(range(256)) * 4
# Larger than what is copied, and no multiple of a page.
LARGE_SIZE = 3 * MIB + 123
LARGE = (b"0123456789abcde" * (LARGE_SIZE // 15 + 1))[:LARGE_SIZE]


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small"
    path.write_bytes(SMALL)
    return path


@pytest.fixture
def large(tmp_path: Path) -> Path:
    path = tmp_path / "large"
    path.write_bytes(LARGE)
    return path


RANGES = [(0, 0), (0, 1), (0, len(SMALL)), (5, 100), (len(SMALL) - 1, 1), (len(SMALL), 0)]


@pytest.mark.parametrize(("offset", "length"), RANGES)
def test_reading_a_range(small: Path, offset: int, length: int) -> None:
    expected = SMALL[offset : offset + length]
    with RandomAccessFile(str(small)) as file:
        assert file.size == len(SMALL)
        assert file.read_at(offset, length) == expected
        assert bytes(file.mapped(offset, length)) == expected
        assert b"".join(bytes(piece) for piece in file.chunks(offset, length)) == expected


@pytest.mark.parametrize("offset", [0, 1, 4095, 4096, 4097, 65_537, MIB])
def test_a_large_view_at_any_offset(large: Path, offset: int) -> None:
    with RandomAccessFile(str(large)) as file:
        for length in (LARGE_SIZE - offset, LARGE_SIZE - offset - 1, 200_000):
            view = file.mapped(offset, length)
            assert view.nbytes == length
            assert view == LARGE[offset : offset + length]


OUTSIDE = [(0, len(SMALL) + 1), (len(SMALL), 1), (len(SMALL) + 1, 0), (-1, 1), (0, -1)]
OUTSIDE += [(2**63, 1), (0, 2**63), (2**64, 2**64), (2**63 - 1, 2), (1, 10**30)]


@pytest.mark.parametrize(("offset", "length"), OUTSIDE)
def test_a_range_that_is_not_within_the_file(small: Path, offset: int, length: int) -> None:
    with RandomAccessFile(str(small)) as file, memory_limit(64 * MIB):
        for read in (file.read_at, file.mapped, lambda a, b: list(file.chunks(a, b))):
            with pytest.raises(TruncatedError) as caught:
                read(offset, length)
            assert caught.value.path == str(small)
            assert caught.value.offset == offset


@pytest.mark.parametrize("size", [1, 2, 7, 100, len(SMALL) - 1, len(SMALL), len(SMALL) + 1])
def test_pieces(small: Path, size: int) -> None:
    with RandomAccessFile(str(small)) as file:
        pieces = [bytes(piece) for piece in file.chunks(3, 900, chunk_size=size)]
    assert b"".join(pieces) == SMALL[3:903]
    assert all(len(piece) == size for piece in pieces[:-1])


def test_pieces_of_whole_elements(large: Path) -> None:
    with RandomAccessFile(str(large)) as file:
        sizes = [len(piece) for piece in file.chunks(1, LARGE_SIZE - 1)]
    assert sizes == [CHUNK_SIZE] * 3 + [122]
    assert CHUNK_SIZE % 16 == 0


def test_pieces_hold_one_buffer_only(large: Path) -> None:
    os.truncate(large, 300 * MIB)
    with RandomAccessFile(str(large)) as file, memory_limit(16 * MIB):
        assert sum(len(piece) for piece in file.chunks(0, file.size)) == 300 * MIB


def test_a_link_to_a_file_is_followed(small: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(small)
    with RandomAccessFile(str(link)) as file:
        assert file.read_at(0, 4) == SMALL[:4]


def test_a_relative_path(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(small.parent)
    with RandomAccessFile(small.name) as file:
        assert file.path == small.name
        assert file.read_at(1, 1) == SMALL[1:2]


def test_a_name_that_is_not_utf8(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(str(tmp_path)) + b"/\xff\xfe")
    try:
        Path(path).write_bytes(b"x")
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    with RandomAccessFile(path) as file:
        assert file.read_at(0, 1) == b"x"
    with pytest.raises(MissingFileError) as caught:
        RandomAccessFile(path + "2")
    assert str(caught.value).endswith("/\\xff\\xfe2: no such file")


def _folder(path: Path) -> None:
    path.mkdir()


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _device(path: Path) -> None:
    path.symlink_to(os.devnull)


def _loop(path: Path) -> None:
    path.symlink_to(path)


def _below_a_file(path: Path) -> None:
    path.parent.rmdir()
    path.parent.write_bytes(b"")


ODD = [
    ("folder", _folder, FileAccessError, "not a regular file"),
    ("named pipe without a writer", _fifo, FileAccessError, "not a regular file"),
    ("device", _device, FileAccessError, "not a regular file"),
    ("link to itself", _loop, FileAccessError, "symbolic link"),
    ("nothing", lambda path: None, MissingFileError, "no such file"),
    ("below a file", _below_a_file, FileAccessError, "not a directory"),
]


@pytest.mark.parametrize(
    ("make", "error", "message"), [row[1:] for row in ODD], ids=[row[0] for row in ODD]
)
def test_what_is_no_file(
    tmp_path: Path, make: object, error: type[CkptError], message: str
) -> None:
    path = tmp_path / "folder" / "odd"
    path.parent.mkdir()
    assert callable(make)
    make(path)
    with time_limit(5), refused(error, message) as caught:
        RandomAccessFile(str(path))
    assert caught.value.path == str(path)


def test_a_dangling_link_is_a_missing_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    with pytest.raises(MissingFileError):
        RandomAccessFile(str(tmp_path / "link"))


def test_a_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s")
        with pytest.raises(FileAccessError) as caught:
            RandomAccessFile("s")
    assert caught.value.path == "s"


def test_a_path_with_nul() -> None:
    with refused(FileAccessError, "null") as caught:
        RandomAccessFile("a\0b")
    assert "\\x00" in str(caught.value)


def test_an_empty_path() -> None:
    with pytest.raises(MissingFileError):
        RandomAccessFile("")


def test_a_name_too_long(tmp_path: Path) -> None:
    with refused(FileAccessError, "too long"):
        RandomAccessFile(str(tmp_path / ("n" * 300)))


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_a_file_that_may_not_be_read(small: Path) -> None:
    small.chmod(0)
    with refused(FileAccessError, "permission denied") as caught:
        RandomAccessFile(str(small))
    assert caught.value.path == str(small)


def test_a_refused_open(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with refused(FileAccessError, "permission denied") as caught:
        RandomAccessFile(str(small))
    assert caught.value.path == str(small)


def test_no_descriptor_is_left_open(small: Path, tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        with RandomAccessFile(str(small)):
            pass
        with pytest.raises(FileAccessError):
            RandomAccessFile(str(tmp_path))
        RandomAccessFile(str(small))  # given up without being closed
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_read_that_fails(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> int:
        raise OSError(5, "Input/output error")

    with RandomAccessFile(str(small)) as file:
        monkeypatch.setattr(os, "pread", fail, raising=False)
        monkeypatch.setattr(os, "preadv", fail)
        for read in (file.read_at, file.mapped, lambda a, b: list(file.chunks(a, b))):
            with refused(FileAccessError, "input/output error") as caught:
                read(7, 5)
            assert caught.value.path == str(small)
            assert caught.value.offset == 7


def test_short_reads_are_continued(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    true_pread, true_preadv = os.pread, os.preadv

    def pread(fd: int, length: int, offset: int) -> bytes:
        return true_pread(fd, min(length, 3), offset)

    def preadv(fd: int, buffers: list[memoryview], offset: int) -> int:
        return true_preadv(fd, [buffers[0][:3]], offset)

    with RandomAccessFile(str(small)) as file:
        monkeypatch.setattr(os, "pread", pread)
        monkeypatch.setattr(os, "preadv", preadv)
        assert file.read_at(1, 100) == SMALL[1:101]
        assert bytes(file.mapped(1, 100)) == SMALL[1:101]
        assert b"".join(map(bytes, file.chunks(1, 100, chunk_size=10))) == SMALL[1:101]


@pytest.mark.parametrize("length", [600, LARGE_SIZE])
def test_a_file_that_shrank_after_it_was_opened(large: Path, length: int) -> None:
    with RandomAccessFile(str(large)) as file:
        os.truncate(large, 500)
        for read in (file.read_at, file.mapped, lambda a, b: list(file.chunks(a, b))):
            with refused(TruncatedError, "truncated while") as caught:
                read(0, length)
            assert caught.value.path == str(large)


@pytest.mark.parametrize("length", [100, LARGE_SIZE])
def test_a_closed_file_gives_an_error_and_no_zeros(large: Path, length: int) -> None:
    file = RandomAccessFile(str(large))
    file.close()
    file.close()
    for read in (file.read_at, file.mapped, lambda a, b: list(file.chunks(a, b))):
        with pytest.raises(FileAccessError):
            read(0, length)


@pytest.mark.parametrize("length", [100, LARGE_SIZE])
def test_views_are_writable_and_nobody_elses(large: Path, length: int) -> None:
    with RandomAccessFile(str(large)) as file:
        first, second = file.mapped(0, length), file.mapped(0, length)
        assert not first.readonly
        first[5] = 0xFF
        first[length - 1] = 0xFF
        assert second == LARGE[:length]
        assert file.mapped(0, length) == LARGE[:length]
        assert file.read_at(0, length) == LARGE[:length]
    assert large.read_bytes() == LARGE


@pytest.mark.parametrize("length", [100, LARGE_SIZE])
def test_views_outlive_the_file(large: Path, length: int) -> None:
    with RandomAccessFile(str(large)) as file:
        view = file.mapped(0, length)
    large.unlink()
    assert view == LARGE[:length]
    view[0] = 1
    assert view[0] == 1


def test_a_large_view_is_mapped_and_not_copied(tmp_path: Path) -> None:
    path = tmp_path / "huge"
    path.write_bytes(b"start")
    os.truncate(path, 200 * MIB)
    with RandomAccessFile(str(path)) as file:
        before = resident()
        view = file.mapped(1, 200 * MIB - 1)
        assert bytes(view[:4]) == b"tart"
        assert view[-1] == 0
        assert resident() - before < 8 * MIB


def test_where_maps_are_refused_a_copy_is_made(
    large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **more: object) -> object:
        raise OSError(19, "No such device")

    monkeypatch.setattr(mmap, "mmap", refuse)
    with RandomAccessFile(str(large)) as file:
        view = file.mapped(7, LARGE_SIZE - 7)
        assert view == LARGE[7:]
        assert not view.readonly


MANY_VIEWS = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from ckpttool.storage.source import RandomAccessFile
with RandomAccessFile(sys.argv[1]) as file:
    views = [file.mapped(at, 200_000) for at in range(300)]
    open(sys.argv[1]).close()
    print(sum(view[0] for view in views))
"""


def test_many_views_leave_descriptors_for_others(large: Path) -> None:
    done = run_python(MANY_VIEWS, str(large))
    assert done.stderr == ""
    assert int(done.stdout) == sum(LARGE[:300])


def test_input_from_a_pipe_and_from_nowhere(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"of a pipe")
    os.close(writing)
    with open_input(f"/dev/fd/{reading}") as file:
        assert file.read() == b"of a pipe"
    os.close(reading)
    for path, error in (
        ("gone", MissingFileError),
        (".", FileAccessError),
        ("\0", FileAccessError),
    ):
        with pytest.raises(error), open_input(os.path.join(tmp_path, path)):
            pass
