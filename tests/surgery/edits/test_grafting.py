"""Grafting tensors of another checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckpttool import open_checkpoint, save_checkpoint
from ckpttool.errors import SelectionError, SurgeryError
from ckpttool.surgery import Plan, graft, prune, write
from tests.faults.checkpoints import OBJECTS, SLICES, copy_of
from tests.support.conversions import everything, write_v1

SIZES = {"x": 2, "y": 1}
EARLIER = "v2/tf2.21/guide_legacy_adam/tf_ckpts/ckpt-3"


def test_a_scope_of_an_earlier_checkpoint(tmp_path: Path) -> None:
    """The weights come, the slots below them stay."""
    last, earlier = copy_of(OBJECTS, tmp_path / "a"), copy_of(EARLIER, tmp_path / "b")
    with open_checkpoint(last) as source, open_checkpoint(earlier) as other:
        plan = graft(Plan.of(source), other, "net")
        assert {each.action for each in plan.changes} == {"graft"}
        assert any("slot variables stay as they were: 'net/l1/bias/" in each for each in plan.notes)
        write(plan, tmp_path / "out")
        changed = {each.key for each in plan.changes}
        # An optimizer's state comes with its slots where the scope has nothing else.
        assert len(graft(Plan.of(source), other, "optimizer").changes) == 5
    found, old, new = everything(tmp_path / "out"), everything(earlier), everything(last)
    assert {key.partition("/.ATTR")[0] for key in changed} == {"net/l1/kernel", "net/l1/bias"}
    assert found == {key: old[key] if key in changed else new[key] for key in new}


def test_from_names_to_objects_and_from_slices(tmp_path: Path) -> None:
    with open_checkpoint(copy_of(OBJECTS, tmp_path / "a")) as source:
        kernel, bias = source["net/l1/kernel"] + 1, source["net/l1/bias"] + 1
        write_v1(tmp_path / "v1", {"dense/kernel": kernel, "dense/bias": bias})
        with open_checkpoint(tmp_path / "v1") as other:
            write(graft(Plan.of(source), other, "dense", "net/l1"), tmp_path / "out")
            write(graft(Plan.of(source), other, "dense/bias", "net/l1/bias"), tmp_path / "one")
    with open_checkpoint(tmp_path / "out") as read:
        assert (read["net/l1/kernel"] == kernel).all()
        assert (read["net/l1/bias"] == bias).all()
    with open_checkpoint(tmp_path / "one") as read:
        assert not (read["net/l1/kernel"] == kernel).any()
        assert (read["net/l1/bias"] == bias).all()
    prefix = copy_of(SLICES, tmp_path / "b")
    with open_checkpoint(prefix) as one, open_checkpoint(prefix) as two:
        write(graft(Plan.of(one), two), tmp_path / "whole")
    assert everything(tmp_path / "whole") == everything(prefix)


def test_what_does_not_agree_is_named(tmp_path: Path) -> None:
    one: dict[str, Any] = {
        "a/x": np.zeros(2, np.float32),
        "a/y": np.zeros(1, np.float32),
        "c/x": np.zeros(2),
    }
    save_checkpoint(tmp_path / "m", one)
    save_checkpoint(tmp_path / "n", {"b/x": np.zeros(2), "b/z": np.zeros(1)})
    with open_checkpoint(tmp_path / "m") as source, open_checkpoint(tmp_path / "n") as other:
        plan = Plan.of(source)
        with pytest.raises(SurgeryError) as raised:
            graft(plan, other, "b", "a")
        for part in (
            "'a/x' is float32 [2], and float64 [2] in",
            "has nothing for 'a/y'",
            "there is no place for 'b/z' of",
        ):
            assert part in raised.value.message
        for theirs, ours in (("none", "a"), ("b", "none"), ("", "none")):
            with pytest.raises(SelectionError, match="nothing lies below"):
                graft(plan, other, theirs, ours)
        done = graft(plan, other, "b/x", "c/x")
        with pytest.raises(SurgeryError, match="two new values"):
            graft(done, other, "b/x", "c/x")
        with pytest.raises(SelectionError, match="nothing lies below 'c'"):
            graft(prune(plan, drop="c"), other, "b", "c")
