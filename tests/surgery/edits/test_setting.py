"""Setting tensors to given values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckpttool import open_checkpoint, save_checkpoint
from ckpttool.errors import CkptError, MissingKeyError, SelectionError, SurgeryError
from ckpttool.objects.keys import GRAPH_KEY
from ckpttool.surgery import Plan, rename, set_values, write
from ckpttool.surgery.edits.setting import TypedValue, parse_setting
from tests.faults.checkpoints import OBJECTS, copy_of


def test_values_of_every_kind(tmp_path: Path) -> None:
    save_checkpoint(
        tmp_path / "m",
        {
            "w": np.ones((2, 2), np.float32),
            "n": np.array(3),
            "s": np.array(["a", "b"], object),
            "flag": np.array([False]),
        },
    )
    given: dict[str, Any] = {
        "w": TypedValue("0.5"),
        "n": 4,
        "s": TypedValue('["x", ""]'),
        "flag": np.array([True]),
    }
    with open_checkpoint(tmp_path / "m") as source:
        plan = rename(set_values(Plan.of(source), given), {"n": "step"})
        assert {each.action for each in plan.changes} == {"set"}
        for target in ("out", "copy"):
            write(plan, tmp_path / target, compact=target == "copy")
    for target in ("out", "copy"):
        with open_checkpoint(tmp_path / target) as read:
            assert read["w"].tolist() == [[0.5, 0.5], [0.5, 0.5]]
            assert (int(read["step"]), read["step"].dtype.name) == (4, "int64")
            assert read["s"].tolist() == [b"x", b""]
            assert read["flag"].tolist() == [True]


def test_names_of_objects(tmp_path: Path) -> None:
    with open_checkpoint(copy_of(OBJECTS, tmp_path / "src")) as source:
        write(set_values(Plan.of(source), {"optimizer/learning_rate": 1e-4}), tmp_path / "out")
    with open_checkpoint(tmp_path / "out") as read:
        assert float(read["optimizer/learning_rate"]) == np.float32(1e-4)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"w": TypedValue("x")}, SelectionError, "'x' is no value"),
        ({"w": [1, 2, 3]}, SurgeryError, "shape [3], not [2]"),
        ({"w": 1e40}, SurgeryError, "out of the range of float32"),
        ({"v": 1}, MissingKeyError, "no such tensor"),
        ({"net/w": 1}, MissingKeyError, "no such tensor"),
    ],
)
def test_what_is_refused(
    given: dict[str, Any], error: type[CkptError], message: str, tmp_path: Path
) -> None:
    save_checkpoint(tmp_path / "m", {"w": np.ones(2, np.float32)})
    with open_checkpoint(tmp_path / "m") as source, pytest.raises(error) as raised:
        set_values(Plan.of(source), given)
    assert message in str(raised.value)


def test_one_value_for_one_tensor(tmp_path: Path) -> None:
    with open_checkpoint(copy_of(OBJECTS, tmp_path / "src")) as source:
        plan = Plan.of(source)
        key = "optimizer/learning_rate/.ATTRIBUTES/VARIABLE_VALUE"
        with pytest.raises(SurgeryError, match="it gets two new values"):
            set_values(plan, {"optimizer/learning_rate": 1, key: 2})
        with pytest.raises(SurgeryError, match="it gets two new values"):
            set_values(set_values(plan, {key: 1}), {key: 2})
        with pytest.raises(SurgeryError, match="the object graph is no value"):
            set_values(plan, {GRAPH_KEY: "x"})
    assert parse_setting("a=b=c") == ("a", "b=c")
    for text in ("a", "=1"):
        with pytest.raises(SelectionError, match="is not NAME=VALUE"):
            parse_setting(text)
