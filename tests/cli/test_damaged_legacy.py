"""Damage to what a V1 file says of one tensor: the others are listed, shown, compared, rescued."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from ckpttool import open_checkpoint
from ckpttool.checkpoint.tf_train import load_checkpoint
from ckpttool.cli.main import main
from ckpttool.errors import CkptError, CorruptError
from tests.legacy import handmade
from tests.legacy.handmade import F32, described, description, packed, record, table
from tests.support import encoder

FULL = (0, -1)
VALUES = packed(5, struct.pack("<2f", 1, 2))
DAMAGED = ("bad", "bad2", "bad3")


def checkpoint(*, sound: bool = False) -> bytes:
    bad = [
        described(b"bad", F32, (2,), [((1, 5),)]),  # beyond its shape
        described(b"bad2", F32, (2,))[:-1] + b"\xff",
        described(b"bad3", F32, (2,)) + encoder.bytes_field(2, encoder.shape((2,))),
    ]
    if sound:
        bad = [described(key.encode(), F32, (2,)) for key in DAMAGED]
    keys = ("a", *DAMAGED, "z")
    records = [record(key.encode(), [FULL], VALUES) for key in keys]
    first, last = described(b"a", F32, (2,)), described(b"z", F32, (2,))
    return table(description(first, *bad, last), *records)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    handmade.write("m", checkpoint())
    handmade.write("sound", checkpoint(sound=True))
    return tmp_path


def test_the_api_gives_what_is_sound(folder: Path) -> None:
    reader = load_checkpoint("m")
    assert reader.get_tensor("z").tolist() == [1, 2] and reader.has_tensor("bad")
    with open_checkpoint("m") as ckpt:
        assert tuple(ckpt.damaged) == DAMAGED
        assert list(ckpt) == ["a", *DAMAGED, "z"]
        for key in DAMAGED:
            with pytest.raises(CorruptError) as caught:
                ckpt[key]
            assert (caught.value.key, caught.value.path) == (key, "m")
        with pytest.raises(CkptError):
            dict(ckpt.entries.items())  # nobody loses them without a word


def test_commands(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def answer(*words: str) -> tuple[int, str, str]:
        code = main(list(words))
        return code, *capsys.readouterr()

    code, out, err = answer("ls", "m", "--json")
    document = json.loads(out)
    assert code == 2 and err.count("\n") == 3
    assert [each["key"] for each in document["tensors"]] == ["a", "z"]
    assert [each["key"] for each in document["damaged"]] == list(DAMAGED)
    assert answer("ls", "m", "a", "z")[0] == answer("show", "m", "a", "z")[0] == 0
    for words in (["show", "m", "bad"], ["show", "m", "--stats"], ["show", "m", "re:^", "--json"]):
        code, out, err = answer(*words)
        assert (code, out, err.count("\n")) == (2, "", 1)
    assert answer("show", "m")[0] == answer("verify", "m", "--json")[0] + 1 == 2
    code, out, err = answer("diff", "m", "sound", "--json")
    assert code == 2 and json.loads(out)["totals"]["unreadable"] == 3
    assert answer("diff", "m", "sound", "--ignore", "bad*")[0] == 0
    assert answer("check", "m", "--finite")[0] == 2
    assert answer("check", "m", "--finite", "-x", "bad*")[0] == 0
    code, out, err = answer("ls", "-d", ".", "--json")
    assert [(each["name"], each["complete"]) for each in json.loads(out)["checkpoints"]] == [
        ("m", False),
        ("sound", True),
    ]


def test_nothing_damaged_is_lost_in_writing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["convert-legacy", "m"], ["convert-legacy", "m", "-n"]):
        assert main([*words, "-o", "out/m"]) == 2
        assert "'bad'" in capsys.readouterr().err
        assert not Path("out/m.index").exists()


def test_damage_that_is_nobodys_ends_everything(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nameless = described(b"x", F32, (2,))[3:]
    handmade.write("m", table(description(described(b"a", F32, (2,)), nameless)))
    assert main(["ls", "m", "a"]) == 2
    out, err = capsys.readouterr()
    assert not out and "a tensor has no name" in err
