"""`ckpt average` as its users run it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import ckpttool
from ckpttool import DestinationError, SelectionError
from ckpttool.cli.main import main
from tests.support.schemas import validate
from tests.support.surgery import refuse, run, state


def test_the_last_of_a_folder(here: Path) -> None:
    done = run(here, "average", "ckpts", "--last", "2", "-o", "out/mean-1", "--json")
    document = json.loads(done.out)
    validate(document, "ckpt.average/1")
    assert [each["action"] for each in document["changes"]] == ["average"] * 2
    assert [each["prefix"] for each in document["changes"][0]["from"]] == [
        "ckpts/ckpt-9",
        "ckpts/ckpt-10",
    ]
    assert document["written"]["bytes_dead"] == 0
    assert "as in the last, 'ckpts/ckpt-10': 1 iterator, 4 slot" in done.err
    assert "of 14 tensors, 2 averaged; wrote out/mean-1" in done.err
    named = run(here, "average", "ckpts/ckpt-9", "ckpts/ckpt-10", "-o", "named", "-v")
    assert "average" in named.out
    with (
        ckpttool.open_checkpoint(here / "ckpts/ckpt-9") as one,
        ckpttool.open_checkpoint(here / "ckpts/ckpt-10") as two,
        ckpttool.open_checkpoint(here / "out/mean-1") as mean,
        ckpttool.open_checkpoint(here / "named") as same,
    ):
        for key in ("net/l1/kernel", "net/l1/bias"):
            wide = (one[key].astype(np.float64) + two[key].astype(np.float64)) / 2
            assert (mean[key] == wide.astype(np.float32)).all()
            assert (same[key] == mean[key]).all()
        assert int(mean["step"]) == int(two["step"])


def test_weights_and_dry_run(here: Path) -> None:
    for at in (1, 2):
        ckpttool.save_checkpoint(here / f"m-{at}", {"w": np.array([at], np.float32)})
    words = ("average", "m-1", "m-2", "--weights", "1,3")
    assert "dry run, nothing was written" in run(here, *words, "-n").err
    assert not (here / "new.index").exists()
    run(here, *words, "-o", "new")
    with ckpttool.open_checkpoint(here / "new") as read:
        assert read["w"].tolist() == [1.75]
    data = bytearray((here / "m-1.data-00000-of-00001").read_bytes())
    (here / "m-1.data-00000-of-00001").write_bytes(bytes([data[0] ^ 1, *data[1:]]))
    refuse(here, *words, "-n", message="damaged")
    refuse(here, *words, "-o", "x", message="damaged")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("ckpts", "-o", "x"), "at least two checkpoints; --last N takes those of a folder"),
        (("ckpts", "--last", "2"), "give -o DST"),
        (("ckpts", "ckpts", "--last", "2", "-n"), "--last N takes one folder"),
        (("ckpts", "--last", "1", "-n"), "1"),
        (("ckpts", "--last", "99", "-n"), "only 3 checkpoints, not 99"),
        (("ckpts/ckpt-10", "--last", "2", "-n"), "not a folder"),
        (("ckpts/ckpt-10", "ckpts", "-n"), "given 2 times"),
        (("ckpts/ckpt-9", "ckpts", "--weights", "1,x", "-n"), "not numbers with commas"),
        (("ckpts/ckpt-9", "ckpts", "--weights", "1", "-n"), "1 weights for 2 checkpoints"),
        (("ckpts/ckpt-9", "ckpts", "--weights", "1,-1", "-n"), "not a positive number"),
        (("ckpts/ckpt-9", "model.ckpt-3", "-n"), "has no weight"),
        (("ckpts/ckpt-9", "ckpts", "-o", "ckpts/ckpt-10"), "ckpts/ckpt-10"),
        (("ckpts/ckpt-9", "ckpts", "-o", "ckpts/ckpt-9", "--force"), "its values are read"),
    ],
)
def test_what_is_refused(
    words: tuple[str, ...],
    message: str,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(here)
    before = state(here)
    assert main(["average", *words]) == 2
    said = capsys.readouterr()
    assert (said.out, message in said.err) == ("", True), said.err
    assert state(here) == before


def test_several_series_in_one_folder(here: Path) -> None:
    for path in (here / "ckpts").glob("ckpt-10.*"):
        shutil.copy(path, path.with_name(path.name.replace("ckpt-10", "best-11")))
    refuse(here, "average", "ckpts", "--last", "2", "-n", message="not of one series")


def test_the_function(here: Path) -> None:
    one, two = here / "ckpts/ckpt-9", here / "ckpts/ckpt-10"
    done = ckpttool.average([one, two], here / "new", weights=[2, 1])
    assert [each.action for each in done.changes] == ["average"] * 2
    with ckpttool.open_checkpoint(one) as first, ckpttool.open_checkpoint(two) as last:
        assert ckpttool.average([first, last], dry_run=True).changes == done.changes
    with pytest.raises(SelectionError, match="last takes those of a folder"):
        ckpttool.average(one, here / "x")
    with pytest.raises(DestinationError, match="give destination"):
        ckpttool.average([one, two])
