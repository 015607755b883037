"""`ckpt edit` as its users run it."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import ckpttool
from ckpttool import DestinationError, SelectionError, SurgeryError
from ckpttool.bundle.naming import find_shards
from ckpttool.cli.main import main
from tests.support.schemas import validate
from tests.support.surgery import run, state

VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"


def test_set_cast_and_graft_at_once(here: Path) -> None:
    np.save(here / "kernel.npy", np.arange(5).reshape(1, 5))
    done = run(
        *(here, "edit", "ckpts/ckpt-10", "--set", "optimizer/learning_rate=1e-4"),
        *("--set", "net/l1/kernel=kernel.npy", "--cast", "optimizer/decay=float64"),
        *("--graft", "ckpts/ckpt-8:net/l1/bias", "-o", "new", "--json"),
    )
    document = json.loads(done.out)
    validate(document, "ckpt.edit/1")
    assert {each["object_path"]: each["action"] for each in document["changes"]} == {
        "net/l1/bias": "graft",
        "net/l1/kernel": "set",
        "optimizer/decay": "cast",
        "optimizer/learning_rate": "set",
    }
    (graft,) = (each for each in document["changes"] if each["action"] == "graft")
    assert graft["from"] == [{"prefix": "ckpts/ckpt-8", "key": "net/l1/bias" + VALUE}]
    with ckpttool.open_checkpoint(here / "new") as new:
        assert new["net/l1/kernel"].tolist() == [[0, 1, 2, 3, 4]]
        assert new["net/l1/kernel"].dtype == np.float32
        assert new["optimizer/decay"].dtype == np.float64
        assert float(new["optimizer/learning_rate"]) == np.float32(1e-4)
        with ckpttool.open_checkpoint(here / "ckpts" / "ckpt-8") as old:
            assert (new["net/l1/bias"] == old["net/l1/bias"]).all()
        with ckpttool.open_checkpoint(here / "ckpts" / "ckpt-10") as source:
            assert sorted(new) == sorted(source)
            assert (
                new["net/l1/kernel/.OPTIMIZER_SLOT/optimizer/m"]
                == source["net/l1/kernel/.OPTIMIZER_SLOT/optimizer/m"]
            ).all()


def test_in_place_and_what_is_printed(here: Path) -> None:
    done = run(
        here,
        "edit",
        "ckpts/ckpt-10",
        "--cast",
        "net/l1=bfloat16",
        "--in-place",
        "--format",
        "table",
        "-v",
    )
    assert "float32" in done.out
    assert "6 cast; wrote ckpts/ckpt-10" in done.err
    assert len(find_shards(str(here / "ckpts" / "ckpt-10"))) == 2
    done = run(here, "edit", "ckpts/ckpt-10", "--cast", "net/l1=float32", "-n", "--format", "csv")
    assert done.out.startswith("object_path,name,action,new_object_path,kind,bytes,dtype,new_dtype")
    assert ",cast,net/l1/bias,weight,10,bfloat16,float32,20" in done.out
    done = run(here, "edit", "ckpts/ckpt-10", "--cast", "net/l1=float32", "-n", "--format", "table")
    assert done.out.splitlines()[1].split()[:5] == ["net", "cast", "bfloat16", "→", "float32"]


def test_what_show_writes_is_taken_back(here: Path) -> None:
    """Also of dtypes that NumPy has no name for."""
    run(here, "edit", "ckpts/ckpt-10", "--cast", "net/l1/bias=bfloat16", "-o", "half")
    run(here, "show", "half", "net/l1/bias", "--out", "bias.npy")
    run(here, "edit", "half", "--set", "net/l1/bias=1", "-o", "ones")
    run(here, "edit", "ones", "--set", "net/l1/bias=bias.npy", "-o", "back")
    with (
        ckpttool.open_checkpoint(here / "half") as one,
        ckpttool.open_checkpoint(here / "back") as two,
    ):
        assert one["net/l1/bias"].dtype == ml_dtypes.bfloat16
        assert (one["net/l1/bias"] == two["net/l1/bias"]).all()
    np.save(here / "f.npy", np.asfortranarray(np.arange(5, dtype=">i2").reshape(1, 5)))
    np.save(here / "scalar.npy", np.float64(0.5))
    run(here, "edit", "half", "--set", "net/l1/kernel=f.npy", "-o", "f")
    run(here, "edit", "half", "--set", "net/l1/kernel=scalar.npy", "-o", "scalar")
    with ckpttool.open_checkpoint(here / "f") as read:
        assert read["net/l1/kernel"].tolist() == [[0, 1, 2, 3, 4]]
    with ckpttool.open_checkpoint(here / "scalar") as read:
        assert read["net/l1/kernel"].tolist() == [[0.5] * 5]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "nothing to edit: give --set, --cast or --graft"),
        (("--set", "net/l1/bias"), "is not NAME=VALUE"),
        (("--set", "net/l1/bias=1", "--set", "net/l1/bias=2"), "is given twice"),
        (("--set", "net/l1/bias=1", "--cast", "net=float16"), "two new values (set and cast)"),
        (("--set", "net/l1/bias=[1,2]"), "the value has shape [2], not [5]"),
        (("--set", "net/l1/bias=none.npy"), "none.npy"),
        (("--set", "net/l1/bias=objects.npy"), "pickle"),
        (("--set", "net/l1/bias=long.npy"), "has shape [6], not [5]"),
        (("--set", "net/l2=1"), "no such tensor"),
        (("--set", "optimizer/iter=0.5"), "0.5, not a whole number"),
        (("--cast", "net"), "is not PATTERN=DTYPE"),
        (("--cast", "net=float99"), "nothing can be cast to that"),
        (("--cast", "optimizer/learning_rate=int32"), "not a whole number"),
        (("--graft", "nowhere:net=net"), "nowhere"),
        (("--graft", "ckpts"), "is not OTHER:SCOPE=SCOPE"),
        (("--graft", "ckpts/ckpt-8:net=step"), "has nothing for 'step'"),
    ],
)
def test_what_is_refused(
    words: tuple[str, ...],
    message: str,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    np.save(here / "objects.npy", np.array([None] * 5), allow_pickle=True)
    np.save(here / "long.npy", np.zeros(6))
    monkeypatch.chdir(here)
    before = state(here)
    for how in (("-o", "new"), ("-n",)):
        assert main(["edit", "ckpts/ckpt-10", *words, *how]) == 2
        said = capsys.readouterr()
        assert (said.out, message in said.err) == ("", True), said.err
    assert state(here) == before


def test_a_dry_run_finds_what_the_run_would(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prefix = str(here / "m")
    ckpttool.save_checkpoint(prefix, {"w": np.array([1, 1e30], np.float32)})
    for how in (["-n"], ["-o", str(here / "new")], ["--in-place"]):
        assert main(["edit", prefix, "--cast", "w=float16", *how]) == 2
        assert "'w'" in (said := capsys.readouterr().err)
        assert "element 1 is 1e+30, out of the range of float16; --saturate" in said
    assert main(["edit", prefix, "--cast", "w=half", "--saturate", "--in-place"]) == 0
    with ckpttool.open_checkpoint(prefix) as read:
        assert read["w"].tolist() == [1, 65504]


def test_the_function(here: Path) -> None:
    with ckpttool.open_checkpoint(here / "ckpts") as ckpt:
        done = ckpttool.edit(
            ckpt,
            here / "new",
            set={"net/l1/bias": [1, 2, 3, 4, 5], "net/l1/kernel": np.ones((1, 5))},
            graft=[(here / "ckpts" / "ckpt-8", "step", "step")],
        )
    assert [each.action for each in done.changes] == ["set", "set", "graft"]
    assert done.to_dict()["schema"] == "ckpt.edit/1"
    assert "3 " not in repr(done.receipt.bytes_dead)
    with pytest.raises(SelectionError, match="give set, cast or graft"):
        ckpttool.edit(here / "ckpts", here / "x")
    with pytest.raises(DestinationError, match="give either destination or in_place"):
        ckpttool.edit(here / "ckpts", set={"step": 1})
    with pytest.raises(SurgeryError, match="two new values"):
        ckpttool.edit(
            here / "ckpts", dry_run=True, set={"step": 1}, graft=[(here / "new", "step", "step")]
        )
