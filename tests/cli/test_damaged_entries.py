"""Damage to the entry of one tensor: the others are listed, shown, compared and rescued."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckpttool import open_checkpoint
from ckpttool.checkpoint.tf_train import load_checkpoint
from ckpttool.cli.main import main
from ckpttool.errors import CorruptError
from tests.support.handmade import Bundle
from tests.support.schemas import validate

F32, I32 = 1, 3
ONES = np.ones(2, "<f4").tobytes()
DAMAGED = {"bad", "bad2", "p"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    made = Bundle().add(b"a", F32, (2,), ONES)
    made.add(b"bad", F32, (3,), ONES)  # of another size than its shape
    made.add(b"bad2", F32, (2,), ONES)
    made.records[b"bad2"] = made.records[b"bad2"][:-3]
    low = (((0, 2), (0, -1)), bytes(16))
    made.add_slices(b"p", I32, (3, 2), [low, (((2, 9), (0, -1)), bytes(8))])
    made.add_slices(b"q", I32, (3, 2), [low, (((2, 1), (0, -1)), bytes(8))])
    made.add(b"z", F32, (2,), ONES).write("m")
    return tmp_path


def test_the_api_gives_what_is_sound(folder: Path) -> None:
    reader = load_checkpoint("m")
    assert reader.get_tensor("z").tolist() == [1, 1]
    assert reader.get_tensor("q").tolist() == [[0, 0]] * 3
    with open_checkpoint("m") as ckpt:
        assert set(ckpt.damaged) == DAMAGED
        assert set(ckpt) == DAMAGED | {"a", "q", "z"}  # the slices of `p` are no tensors
        for key in DAMAGED:
            with pytest.raises(CorruptError) as caught:
                ckpt[key]
            assert caught.value.key == key


def test_ls(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", "m", "--json"]) == 2
    out, err = capsys.readouterr()
    document = json.loads(out)
    validate(document, "ckpt.ls/1")
    assert [each["key"] for each in document["tensors"]] == ["a", "q", "z"]
    assert document["totals"]["tensors"] == 3
    assert {each["key"] for each in document["damaged"]} == DAMAGED
    assert err.count("\n") == 3 and all(f"'{key}'" in err for key in DAMAGED)
    assert main(["ls", "m", "--format", "table"]) == 2
    assert "3 tensors, 10 elements, 40 B; 3 damaged tensors not listed" in capsys.readouterr().out
    for sound in (["a", "q"], ["-x", "bad*", "-x", "p"]):
        assert main(["ls", "m", *sound, "--json"]) == 0
        out, err = capsys.readouterr()
        assert "damaged" not in json.loads(out) and not err
    assert main(["ls", "m", "bad"]) == 2


@pytest.mark.parametrize("view", ["--tree", "--collapse", "--depth=1", "--long", "--keys"])
def test_views(folder: Path, view: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["ls", "m", view])
    out, err = capsys.readouterr()
    if "No such option" in err:
        pytest.skip("no such view")
    assert code == 2
    assert "bad" not in out and "bad" in err


def test_show(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "m", "z", "q", "--json"]) == 0
    assert [each["key"] for each in json.loads(capsys.readouterr().out)["tensors"]] == ["z", "q"]
    assert main(["show", "m", "--stats", "-x", "bad*", "-x", "p"]) == 0
    capsys.readouterr()
    for asked in (["bad"], ["a", "p"], ["re:^"], ["--stats"]):
        assert main(["show", "m", *asked, "--json"]) == 2
        out, err = capsys.readouterr()
        assert not out and err.count("\n") == 1
    assert main(["show", "m"]) == 2
    assert "cannot read m.index: key 'bad'" in capsys.readouterr().out


def diff_answer(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    code = main(["diff", *words, "--json"])
    document = json.loads(capsys.readouterr().out)
    validate(document, "ckpt.diff/1")
    return code, document


def test_diff_compares_the_rest(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = Bundle().add(b"a", F32, (2,), bytes(8)).add(b"bad", F32, (2,), ONES)
    other.add(b"bad2", F32, (2,), ONES)
    other.records[b"bad2"] = other.records[b"bad2"][:-3]
    other.add(b"new", F32, (2,), bytes(8)).add(b"z", F32, (2,), ONES).write("other")
    code, document = diff_answer(capsys, "m", "other")
    assert (code, document["verdict"]) == (2, "unknown")
    assert {each["key"] or each["new_key"]: each["change"] for each in document["tensors"]} == {
        "a": "value",
        "bad": "unreadable",  # not "added"
        "new": "added",
        "q": "removed",
    }
    assert [(each["side"], each["key"]) for each in document["damaged"]] == [
        ("a", "bad"),
        ("a", "bad2"),
        ("a", "p"),
        ("b", "bad2"),
    ]
    assert document["totals"]["equal"] == 1 and len(document["problems"]) == 4
    for words in (["--ignore", "bad*", "--ignore", "p"], ["a"], ["-x", "bad*", "-x", "p"]):
        code, document = diff_answer(capsys, "m", "other", *words)
        assert (code, document["damaged"], document["problems"]) == (1, [], [])
    assert diff_answer(capsys, "m", "m", "a", "q")[0] == 0
    assert diff_answer(capsys, "m", "other", "bad")[0] == 2
    assert diff_answer(capsys, "other", "m", "bad")[0] == 2
    assert main(["diff", "m", "other", "--format", "table"]) == 2
    out, err = capsys.readouterr()
    assert "! p" in out and "its entry in A is damaged" in out
    assert err.count("\n") == 4 and all(f"'{key}'" in err for key in DAMAGED)
    assert main(["diff", "other", "m", "--name-status"]) == 2
    assert capsys.readouterr().out.splitlines() == ["M\ta", "X\tbad", "D\tnew", "A\tq"]


def test_diff_of_a_series(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("run").mkdir()
    for step in (1, 2, 3):
        made = Bundle().add(b"a", F32, (2,), ONES).add(b"b", F32, (2,), ONES)
        if step == 2:
            made.records[b"b"] = made.records[b"b"][:-3]
        made.write(f"run/ckpt-{step}")
    code, document = diff_answer(capsys, "run", "--series")
    assert code == 2
    assert [(each["checkpoint"], each["key"]) for each in document["damaged"]] == [("ckpt-2", "b")]
    assert [each["key"] for each in document["problems"]] == ["b"]
    steps = {(each["key"], each["step"]): each["change"] for each in document["steps"]}
    assert [steps["a", step] for step in (1, 2, 3)] == ["first", "same", "same"]
    assert [steps["b", step] for step in (1, 2, 3)] == ["first", "unreadable", "first"]
    assert diff_answer(capsys, "run", "--series", "b")[0] == 2
    for words in (["a"], ["-x", "b"], ["--ignore", "b"]):
        code, document = diff_answer(capsys, "run", "--series", *words)
        assert (code, document["damaged"]) == (0, [])


def test_check(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", "m", "a", "q", "z", "--json"]) == 0
    Path("lock.json").write_text(capsys.readouterr().out)
    assert main(["check", "m", "--against", "lock.json"]) == 2
    assert "'bad'" in capsys.readouterr().err
    words = ["--ignore", "bad*", "--ignore", "p", "--finite"]
    assert main(["check", "m", "--against", "lock.json", *words]) == 0


def test_what_is_sound_is_rescued(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["prune", "m", "--drop", "z"], ["rename", "m", "a=b"]):
        for more in (["-o", "out/m"], ["-o", "out/m", "-n"], ["--in-place"]):
            assert main([*words, *more]) == 2
            assert "rescue the others" in capsys.readouterr().err
            assert not Path("out/m.index").exists()
    assert main(["prune", "m", "--drop", "bad*", "--drop", "p", "-o", "out/m"]) == 0
    assert main(["verify", "out/m"]) == 0
    with open_checkpoint("out/m") as ckpt, open_checkpoint("m") as source:
        assert list(ckpt) == ["a", "q", "z"]
        assert all(ckpt[key].tobytes() == source[key].tobytes() for key in ckpt)


def test_damage_to_the_table_itself_ends_everything(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = bytearray(Path("m.index").read_bytes())
    data[20] ^= 1
    Path("m.index").write_bytes(data)
    for words in (
        ["ls", "m", "a"],
        ["show", "m", "a"],
        ["prune", "m", "--drop", "z", "--in-place"],
    ):
        assert main(words) == 2
        out, err = capsys.readouterr()
        assert not out and err.count("\n") == 1
