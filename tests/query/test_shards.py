"""Data that are not all there are noticed without reading them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from ckpttool import open_checkpoint
from ckpttool.cli.main import main
from ckpttool.errors import MissingFileError, TruncatedError
from ckpttool.query.listing import list_tensors
from ckpttool.query.shards import require_data
from tests.support.fixtures import BundleFixture, bundle
from tests.support.handmade import Bundle
from tests.support.sweeps import each_bundle

SHARDED = "v2/tf2.21/partitioned_sharded/model"


def look(prefix: str) -> None:
    with open_checkpoint(prefix) as ckpt:
        listing = list_tensors(ckpt)
        require_data(listing.source, listing.rows)


def shards(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.data-*"))


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    source = Path(bundle(SHARDED).prefix)
    for path in source.parent.glob(f"{source.name}.*"):
        shutil.copy(path, tmp_path)
    assert len(shards(tmp_path)) > 1
    return str(tmp_path / source.name)


@each_bundle
def test_whole_checkpoints(fixture: BundleFixture) -> None:
    with open_checkpoint(fixture.prefix) as ckpt:
        missing = list_tensors(ckpt).source.missing_shards
    if not missing:
        look(fixture.prefix)
        return
    with pytest.raises(MissingFileError) as caught:
        look(fixture.prefix)
    assert str(caught.value).endswith(f"{missing[0]}: the data shard is missing")


@pytest.mark.parametrize("number", [0, 1])
def test_a_shard_that_is_gone(prefix: str, number: int, tmp_path: Path) -> None:
    shards(tmp_path)[number].unlink()
    with pytest.raises(MissingFileError, match="the data shard is missing"):
        look(prefix)


@pytest.mark.parametrize("number", [0, 1])
def test_a_shard_that_ends_early(prefix: str, number: int, tmp_path: Path) -> None:
    path = shards(tmp_path)[number]
    size = path.stat().st_size
    os.truncate(path, size - 1)
    with pytest.raises(TruncatedError) as caught:
        look(prefix)
    assert f"ends at byte {size}, but the data shard has {size - 1}" in str(caught.value)
    assert caught.value.path == str(path) and caught.value.key is not None
    assert "LFS" not in str(caught.value)


def test_a_pointer_in_place_of_the_data(prefix: str, tmp_path: Path) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
    shards(tmp_path)[0].write_bytes(pointer[:60])
    with open_checkpoint(prefix) as ckpt:
        listing = list_tensors(ckpt)
    row = listing.rows[0]._replace(shard=0, offset=0, bytes=61, slices=())
    with pytest.raises(TruncatedError, match="it is a pointer of Git LFS to a file"):
        require_data(listing.source, [row])


def test_tensors_that_claim_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Bundle().add(b"t00", 1, (64,), bytes(256))
    for number in range(1, 40):
        made.records[b"t%02d" % number] = made.records[b"t00"]
    prefix = made.write(tmp_path / "m")
    other = Bundle()
    for number in range(40):
        other.add(b"t%02d" % number, 1, (64,), b"\1" * 256)
    sound = other.write(tmp_path / "other")
    commands = (
        ["show", prefix, "--stats"],
        ["check", prefix, "--finite"],
        ["diff", prefix, sound],
        ["diff", str(tmp_path), "--series"],
    )
    assert [main(words) for words in commands] == [0, 0, 1, 1]
    capsys.readouterr()
    monkeypatch.setattr("ckpttool.query.shards._FREE", 1000)
    claim = "claim 10240 bytes of data shards that have 256"
    for words in commands[:-1]:
        assert main(words) == 2
        out, err = capsys.readouterr()
        assert not out and claim in err
    assert main(commands[-1]) == 2
    out, err = capsys.readouterr()
    assert err.count(claim) == 1 and "t39" in out  # the other checkpoint is told of all the same
    assert main(["show", prefix, "--stats", "t0[1-3]"]) == 0
    assert main(["show", sound, "--stats"]) == 0
