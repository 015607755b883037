"""Shards that are cut short, written over or unreadable while a command reads them."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import numpy as np
import pytest

from ckpttool.cli.main import main
from ckpttool.coding.checksum import crc32c, mask
from tests.support.handmade import Bundle, shard_path

F32 = 1
ROWS = 1 << 18
SIZE = 4 * ROWS * 4
# Each reads the last rows of a tensor of 4 MiB.
SHOWS = {
    "whole": ("show", "m", "w"),
    "part": ("show", "m", "w[1000::2,1]"),
    "json": ("show", "m", "w", "--json"),
    "jsonl": ("show", "m", "small", "w", "--format", "jsonl"),
    "statistics": ("show", "m", "--stats"),
    "csv": ("show", "m", "--stats", "--format", "csv"),
    "file": ("show", "m", "w", "--out", "w.npy"),
    "part to a file": ("show", "m", "w[::2]", "--out", "w.npy"),
    "finite": ("check", "m", "--against", "lock.json", "--finite"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, first in (("m", 1), ("other", 2)):
        values = np.arange(ROWS * 4, dtype="<f4")
        values[0] = first
        made = Bundle().add(b"small", F32, (2,), values[:2].tobytes())
        crc = mask(crc32c(values.tobytes()))
        made.add(b"w", F32, (ROWS, 4), values.tobytes(), crc=crc).write(str(tmp_path / name))
    (tmp_path / "lock.json").write_text("{}")
    return tmp_path


def lock(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", "m", "--json"]) == 0
    Path("lock.json").write_text(capsys.readouterr().out)


@pytest.mark.parametrize("words", SHOWS.values(), ids=SHOWS)
def test_no_command_maps_a_file(
    folder: Path,
    words: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lock(capsys)

    def refuse(*given: object, **more: object) -> None:
        raise AssertionError("a map")

    monkeypatch.setattr(mmap, "mmap", refuse)
    assert main(words) == 0
    assert main(["diff", "m", "other", "--exact"]) == 1
    assert main(["verify", "m"]) == 0
    assert main(["prune", "m", "--drop", "small", "-o", "out/m", "--compact"]) == 0


@pytest.mark.parametrize("how", ["cut", "failing", "stale"])
@pytest.mark.parametrize("words", [*SHOWS.values(), ("diff", "m", "other", "--exact")])
def test_a_shard_that_goes_bad_under_a_command(
    folder: Path,
    words: tuple[str, ...],
    how: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lock(capsys)
    shard = shard_path("m")
    true = {"pread": os.pread, "preadv": os.preadv}
    large: list[int] = []

    def spoil(name: str, fd: int, what: object, offset: int) -> object:
        if offset >= 100 and os.path.samestat(os.fstat(fd), os.stat(shard)):
            large.append(offset)
            if how != "cut" and offset > SIZE // 4:
                raise OSError(*((5, "Input/output error") if how == "failing" else (116, "Stale")))
            os.truncate(shard, SIZE // 4)
        return true[name](fd, what, offset)  # type: ignore[operator]

    for name in true:
        monkeypatch.setattr(os, name, lambda *given, name=name: spoil(name, *given))
    code = main(words)
    out, err = capsys.readouterr()
    assert large
    assert code == 2, (out, err)
    if words[0] != "show":  # an answer, which says what could not be read
        assert "w" in out + err
        return
    assert f"{shard}:" in err and "'w'" in err
    assert err.count("\n") == 1 and "Traceback" not in err
    assert not Path("w.npy").exists()
    assert out == ""
