"""What `verify` finds in checkpoints of format V1."""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path

import pytest

from ckpttool.api.verify import verify
from ckpttool.errors import MissingFileError, NotFoundError
from ckpttool.query.verify.report import Report
from ckpttool.table import values as table_values
from tests.legacy import handmade
from tests.legacy.handmade import (
    F32,
    F64,
    STRING,
    U8,
    LegacyFixture,
    described,
    description,
    legacy_fixture,
    legacy_fixtures,
    packed,
    record,
    strings,
    table,
    varints,
)
from tests.support import corruption, encoder, fixtures

FULL = (0, -1)
SHARDED = "v1/tf1.15/partitioned_sharded/model.ckpt-7"
SINGLE = "v1/tf2.21/single/model.ckpt-7"
each_fixture = pytest.mark.parametrize("fixture", legacy_fixtures(), ids=lambda each: each.name)


def codes(report: Report) -> list[str]:
    return [each.code for each in report.findings]


def check(data: bytes, folder: Path, *, fast: bool = False) -> Report:
    (report,) = verify(handmade.write(folder / "model", data), fast=fast)
    return report


@each_fixture
def test_every_fixture_is_sound(fixture: LegacyFixture) -> None:
    seen: list[tuple[int, int]] = []
    (report,) = verify(fixture.address, on_progress=lambda *numbers: seen.append(numbers))
    size = sum(map(os.path.getsize, fixture.paths))
    assert (report.verdict, report.findings) == ("ok", ())
    assert (report.tensors, report.bytes_read) == (len(fixture.tensors), size)
    assert report.source is not None
    assert (report.source.generation, report.source.shards) == ("V1", len(fixture.paths))
    assert (report.source.byte_order, report.source.index_bytes) == (None, None)
    assert seen == sorted(seen) and seen[-1][0] <= seen[-1][1] == size
    (fast,) = verify(fixture.address, fast=True)
    assert (fast.verdict, fast.bytes_read, fast.tensors) == (
        "structure-ok",
        0,
        len(fixture.tensors),
    )


@pytest.mark.parametrize("large", [False, True])
def test_every_turned_byte_is_found(
    large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if large:
        monkeypatch.setattr(table_values, "SMALL_BLOCK", 0)
    data = fixtures.read_bytes(legacy_fixture(SINGLE).paths[0])
    for at in range(0, len(data), 3):
        bad = corruption.flip(data, at, corruption.bits_for(at))
        try:
            report = check(bad, tmp_path)
        except NotFoundError:  # nothing shows any more that it was one of these files
            assert at < 12
        else:
            assert report.findings, at
    for size in range(16, len(data), 7):
        assert "bad-table" in codes(check(data[:size], tmp_path)), size


def test_a_damaged_block_hides_nothing_else(tmp_path: Path) -> None:
    fixture = legacy_fixture("v1/tf2.21/blocks/model")
    data = fixtures.read_bytes(fixture.paths[0])
    spans = corruption.spans(data)
    damaged = corruption.flip(data, spans[1].start + 5, 1)
    report = check(damaged, tmp_path)
    assert codes(report) == ["bad-table"]
    assert report.findings[0].offset == spans[1].start
    assert report.tensors == len(fixture.tensors)
    # What lies in blocks that were not read is not looked at in a hurry.
    assert check(damaged, tmp_path, fast=True).verdict == "structure-ok"


def copy(folder: Path) -> list[str]:
    fixture = legacy_fixture(SHARDED)
    for path in fixture.paths:
        shutil.copy(path, folder)
    return [str(folder / os.path.basename(path)) for path in fixture.paths]


@pytest.mark.parametrize("fast", [False, True])
def test_a_missing_file(fast: bool, tmp_path: Path) -> None:
    paths = copy(tmp_path)
    os.unlink(paths[0])
    for address in (paths[1], str(tmp_path / "model.ckpt-7")):
        (report,) = verify(address, fast=fast)
        assert codes(report) == ["shard-missing"]
        assert report.findings[0].path == paths[0]
        assert report.source is not None
        assert report.source.missing_shards == ("model.ckpt-7-00000-of-00002",)
        assert report.verdict == "damaged"
    os.unlink(paths[1])
    with pytest.raises(MissingFileError):
        verify(str(tmp_path / "model.ckpt-7"))


def test_a_file_that_is_no_table(tmp_path: Path) -> None:
    paths = copy(tmp_path)
    handmade.write(paths[1], b"x" * 100)
    (report,) = verify(paths[0])
    assert {(each.code, each.path) for each in report.findings} == {("bad-table", paths[1])}
    os.unlink(paths[1])
    os.mkdir(paths[1])
    (report,) = verify(paths[0])
    assert [(each.code, each.path) for each in report.findings] == [("unreadable", paths[1])]


def test_a_shard_alone_under_another_name(tmp_path: Path) -> None:
    alone = str(tmp_path / "alone")
    shutil.copy(legacy_fixture("v1/tf2.21/partitioned/model").paths[0], alone)
    assert verify(alone)[0].verdict == "ok"
    part = ((0, 1), FULL)
    data = table(
        description(described(b"t", U8, (2, 2), [part])), record(b"t", part, varints(7, [1, 2]))
    )
    report = check(data, tmp_path)
    assert codes(report) == ["slice-gap"]
    assert report.findings[0].key == "t"


def test_files_of_another_set(tmp_path: Path) -> None:
    paths = copy(tmp_path)
    extra = str(tmp_path / "model.ckpt-7-00000-of-00003")
    shutil.copy(paths[0], extra)
    (report,) = verify(paths[1])
    assert [(each.code, each.path) for each in report.findings] == [("foreign-shard", extra)]


def test_leftovers_of_a_save(tmp_path: Path) -> None:
    paths = copy(tmp_path)
    leftover = handmade.write(paths[0] + ".tempstate12345", b"half")
    (report,) = verify(paths[1])
    assert [(each.code, each.path) for each in report.findings] == [("leftover", leftover)]


HALVES = [((0, 1), FULL), ((1, 1), FULL)]


def half(at: int, dtype: int = U8, dims: tuple[int, ...] = (2, 2)) -> bytes:
    part = HALVES[at]
    return table(
        description(described(b"t", dtype, dims, [part])), record(b"t", part, varints(7, [1, 2]))
    )


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ([half(0), half(1)], []),
        ([half(0), half(1), half(0)], ["slice-overlap"]),
        ([half(0), half(1, dims=(3, 2))], ["shards-disagree", "slice-gap"]),
        ([half(0), half(0)], ["slice-overlap", "slice-gap"]),
    ],
)
def test_files_against_each_other(files: list[bytes], found: list[str], tmp_path: Path) -> None:
    paths = [str(tmp_path / f"m-{at:05d}-of-{len(files):05d}") for at in range(len(files))]
    for path, data in zip(paths, files, strict=True):
        handmade.write(path, data)
    for fast in (False, True):
        (report,) = verify(paths[0], fast=fast)
        assert codes(report) == found
        assert all(each.key == "t" for each in report.findings)


A = described(b"a", F32, (2,))
FLOATS = packed(5, struct.pack("<2f", 1, 2))


@pytest.mark.parametrize(
    ("data", "code", "key"),
    [
        (table(description(A)), "slice-missing", "a"),
        (table((b"", b"\x0a\x03abc")), "bad-header", None),
        (
            table(description(A, version=b"\x10\x09"), record(b"a", [FULL], FLOATS)),
            "unsupported",
            None,
        ),
        (
            table(description(), record(b"a", [FULL], FLOATS)),
            "slice-orphan",
            "a",
        ),
        (table(description(A), record(b"a", [FULL], FLOATS), (b"zzz", b"")), "slice-orphan", "zzz"),
        (table(description(A), record(b"a", [FULL], FLOATS[:6])), "bad-entry", "a"),
        (table(description(A), record(b"a", [FULL], FLOATS + FLOATS)), "bad-entry", "a"),
        (table(description(A), record(b"a", [FULL], b"")), "bad-entry", "a"),
        (
            table(
                description(described(b"a", STRING, (2,))),
                record(b"a", [FULL], strings([b"x"] * 3)),
            ),
            "bad-entry",
            "a",
        ),
        (
            table(
                description(A),
                (encoder.slice_key(b"a", [FULL]), record(b"b", [FULL], FLOATS)[1]),
            ),
            "bad-slice",
            "a",
        ),
        (
            table(description(described(b"a", 99, ())), record(b"a", [], b"")),
            "unknown-dtype",
            "a",
        ),
        (
            table(description(described(b"a", F64, (2,))), record(b"a", [FULL], FLOATS)),
            "bad-entry",
            "a",
        ),
    ],
)
def test_records(data: bytes, code: str, key: str | None, tmp_path: Path) -> None:
    report = check(data, tmp_path)
    assert [(each.code, each.key) for each in report.findings] == [(code, key)]
    assert report.findings[0].path == str(tmp_path / "model")


def test_a_file_without_a_description(tmp_path: Path) -> None:
    paths = [str(tmp_path / f"m-{at:05d}-of-00002") for at in range(2)]
    handmade.write(paths[0], table(description(A), record(b"a", [FULL], FLOATS)))
    handmade.write(paths[1], table(record(b"b", [FULL], FLOATS)))
    (report,) = verify(paths[0])
    assert [(each.code, each.path) for each in report.findings] == [("bad-header", paths[1])]


def test_bytes_that_no_block_covers(tmp_path: Path) -> None:
    data = fixtures.read_bytes(legacy_fixture(SINGLE).paths[0])
    padded = data[:-48] + bytes(8) + data[-48:]
    report = check(padded, tmp_path)
    assert codes(report) == ["table-slack"] and report.verdict == "ok"


def test_a_folder_of_both_formats(tmp_path: Path) -> None:
    copy(tmp_path)
    source = fixtures.bundle("v2/tf1.15/saver/model.ckpt-3").prefix
    for ending in (".index", ".data-00000-of-00001"):
        shutil.copy(source + ending, tmp_path / f"new{ending}")
    reports = verify(str(tmp_path))
    assert [(each.kind, each.verdict) for each in reports] == [
        ("checkpoint", "ok"),
        ("checkpoint", "ok"),
        ("folder", "ok"),
    ]
    assert {each.source.generation for each in reports if each.source} == {"V1", "V2"}


def test_a_file_that_changes(tmp_path: Path) -> None:
    paths = copy(tmp_path)

    def save_again(done: int, total: int) -> None:
        data = fixtures.read_bytes(paths[0])
        os.unlink(paths[0])
        handmade.write(paths[0], data)

    (report,) = verify(paths[0], on_progress=save_again)
    assert codes(report) == ["changed-while-reading"]
