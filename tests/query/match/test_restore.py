"""Plans of a checkpoint and a file that stands for a program."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckpttool import train
from ckpttool.checkpoint.save import save_checkpoint
from ckpttool.errors import CkptError, CorruptError
from ckpttool.query.match.plan import RestorePlan
from ckpttool.query.match.restore import restore_plan
from tests.support import fixtures
from tests.support.command import ckpt

GUIDE = os.path.join(fixtures.FIXTURES, "v2", "tf2.21", "guide_legacy_adam", "tf_ckpts", "ckpt-5")
SAVER = os.path.join(fixtures.FIXTURES, "v2", "tf2.21", "saver_v2", "model.ckpt-2")


def module(**values: Any) -> Any:
    made = train.Module()
    for name, value in values.items():
        made_of = isinstance(value, train.Trackable) or value == []
        setattr(made, name, value if made_of else train.Variable(value, name=name))
    return made


def saved(folder: Path, name: str, **objects: Any) -> str:
    return train.Checkpoint(**objects).save(folder / name)


def fresh(folder: Path, **objects: Any) -> str:
    return train.Checkpoint(**objects).write(folder / "fresh")


def said(plan: RestorePlan) -> str:
    """Return the verdict in short: the first letter of each assertion that passes."""
    verdict = plan.verdict
    passes = verdict.consumed, verdict.existing_objects_matched, verdict.nontrivial_match
    return verdict.raises or "".join(letter for letter, ok in zip("cen", passes, strict=True) if ok)


@pytest.mark.parametrize("prefix", [GUIDE, SAVER], ids=["objects", "names"])
def test_a_checkpoint_fits_the_program_that_wrote_it(prefix: str) -> None:
    plan = restore_plan(prefix, prefix)
    assert said(plan) == "cen"
    assert plan.totals.matched == plan.totals.tensors == plan.totals.values
    assert not plan.unresolved and not plan.unmatched and not plan.waiting and not plan.suggestions


def test_what_waits_and_what_gets_nothing(tmp_path: Path) -> None:
    source = saved(tmp_path, "a", net=module(w=[1.0, 2.0], old=3))
    plan = restore_plan(source, fresh(tmp_path, net=module(w=[0.0, 0.0], new=[1])))
    assert said(plan) == "n"
    assert [row.path for row in plan.matched] == ["net/w", "save_counter"]
    assert [(row.path, row.dtype, row.shape) for row in plan.unresolved] == [
        ("net/old", "int32", ())
    ]
    assert [(row.path, row.dtype, row.shape) for row in plan.unmatched] == [
        ("net/new", "int32", (1,))
    ]
    assert [row.path for row in plan.waiting] == ["net/old"]


def test_only_what_waits_goes_with_existing_objects(tmp_path: Path) -> None:
    source = saved(tmp_path, "a", net=module(w=1.0), extra=module(x=1, y=2))
    assert said(restore_plan(source, fresh(tmp_path, net=module(w=0.0)))) == "en"


def test_the_counter_is_of_restore_alone(tmp_path: Path) -> None:
    source = fresh(tmp_path, w=train.Variable(1.0))
    plan = restore_plan(source, source)
    assert said(plan) == "n"
    assert [row.path for row in plan.unmatched] == ["save_counter"]
    assert said(restore_plan(source, source, mode="read")) == "cen"


def test_all_mismatches_are_listed(tmp_path: Path) -> None:
    source = saved(tmp_path, "a", net=module(a=[1.0], b=2.0, c=3))
    plan = restore_plan(source, fresh(tmp_path, net=module(a=[1.0, 2.0], b=2, c=3)))
    assert said(plan) == "mismatch"
    assert [(row.path, row.target_dtype, row.target_shape) for row in plan.mismatched] == [
        ("net/a", "float32", (2,)),
        ("net/b", "int32", ()),
    ]


def test_one_object_that_became_two_and_two_that_became_one(tmp_path: Path) -> None:
    shared = train.Variable(1.0)
    one = saved(tmp_path, "one", a=shared, b=shared)
    two = saved(tmp_path, "two", a=train.Variable(1.0), b=train.Variable(2.0))
    plan = restore_plan(one, two)
    assert said(plan) == "n"
    (conflict,) = plan.conflicts
    assert (conflict.path, conflict.target_path, conflict.other_path) == ("a", "a", "b")
    plan = restore_plan(two, one)
    assert said(plan) == "cen" and not plan.conflicts
    assert [(row.path, row.target_path, row.via) for row in plan.matched[:2]] == [
        ("a", "a", "edge"),
        ("b", "a", "shared"),
    ]


def test_hollow_and_unused(tmp_path: Path) -> None:
    empty = saved(tmp_path, "empty", x=module(), y=module(v=1))
    full = saved(tmp_path, "full", x=train.Variable(1.0), y=module(v=1))
    plan = restore_plan(empty, full)
    assert said(plan) == "cen" and plan.hollow == ("x",)
    plan = restore_plan(full, empty)
    assert said(plan) == "en" and plan.unused_attributes == ("x:VARIABLE_VALUE",)


def optimizer(variable: train.Variable, *names: str) -> Any:
    made: Any = train.SlotOwner()
    made.beta1_power = train.Variable(0.9)
    made.beta2_power = train.Variable(0.99)
    for name in names:
        made.add_slot(variable, name)
    return made


def test_slot_variables(tmp_path: Path) -> None:
    w = train.Variable([1.0, 2.0], name="w")
    source = saved(tmp_path, "a", net=module(w=w), opt=optimizer(w, "m", "v"))
    plan = restore_plan(source, fresh(tmp_path, net=module(w=w), opt=optimizer(w, "m")))
    assert said(plan) == "cen"
    assert {row.via for row in plan.matched} == {"edge", "slot", "created"}
    (made,) = [row for row in plan.matched if row.via == "created"]
    assert made.target_path == made.path == "net/w/.OPTIMIZER_SLOT/opt/v"
    plan = restore_plan(source, fresh(tmp_path, net=module(w=w), opt=module()))
    assert [each.path for each in plan.assumptions] == ["opt"]
    plan = restore_plan(source, fresh(tmp_path, net=module(w=w), opt=module(x=1)))
    assert len(plan.unresolved) == 4 and not plan.assumptions
    plan = restore_plan(source, fresh(tmp_path, net=module(w=w)), skip_slots=True)
    assert [row.path for row in plan.unresolved] == ["opt/beta1_power", "opt/beta2_power"]


def test_an_optimizer_that_refuses_slots(tmp_path: Path) -> None:
    w = train.Variable([1.0, 2.0], name="w")
    source = saved(tmp_path, "a", net=module(w=w), opt=optimizer(w, "m"))
    keras = module(_variables=[], _iterations=0)
    assert said(restore_plan(source, fresh(tmp_path, net=module(w=w), opt=keras))) == "optimizer"
    keras = module(_variables=[], _iterations=0, _trainable_variables=[])
    assert said(restore_plan(source, fresh(tmp_path, net=module(w=w), opt=keras))) == "n"


@pytest.mark.parametrize("prefix", [GUIDE, SAVER], ids=["objects", "names"])
def test_a_lock_stands_for_a_program(prefix: str, tmp_path: Path) -> None:
    lock = tmp_path / "model.lock.json"
    lock.write_text(ckpt("ls", "--json", prefix).out, encoding="utf-8")
    plan = restore_plan(prefix, lock)
    assert said(plan) == "cen"
    assert plan.target.kind == "lock" and plan.target.path == str(lock)
    assert plan.assumptions


def test_names_for_objects(tmp_path: Path) -> None:
    """A checkpoint of TensorFlow 1 is matched by the full names of variables."""
    names = restore_plan(SAVER, SAVER)
    dense = {row.path: train.Variable(0.0, name=row.path) for row in names.matched[:1]}
    (name, variable) = next(iter(dense.items()))
    assert isinstance(names.matched[0].shape, tuple)
    program = fresh(tmp_path, x=variable, y=train.Variable(1.0, name="elsewhere"))
    plan = restore_plan(SAVER, program)
    assert [(row.key, row.target_path, row.via) for row in plan.matched] == [(name, "x", "name")]
    assert [row.path for row in plan.unmatched] == ["y"]
    # The counter need not be there.
    assert len(plan.unresolved) == names.totals.tensors - 1


def test_objects_for_names(tmp_path: Path) -> None:
    source = saved(tmp_path, "a", net=module(w=[1.0]))

    save_checkpoint(str(tmp_path / "names"), {"w": np.ones(1, np.float32)})
    plan = restore_plan(source, tmp_path / "names")
    assert said(plan) == "cen" and plan.target.style == "name"
    assert [(row.path, row.target_path) for row in plan.matched] == [("net/w", "w")]
    save_checkpoint(str(tmp_path / "more"), {"w": np.ones(1), "u": np.ones(2)})
    plan = restore_plan(source, tmp_path / "more")
    assert said(plan) == "missing"
    assert [row.path for row in plan.unmatched] == ["u"]
    assert [row.target_dtype for row in plan.mismatched] == ["float64"]


def test_the_plan_is_json(tmp_path: Path) -> None:
    source = saved(tmp_path, "a", net=module(w=[1.0, 2.0]))
    plan = restore_plan(source, fresh(tmp_path, model=module(w=[1.0, 2.0])))
    document = json.loads(json.dumps(plan.to_dict()))
    assert document["schema"] == "ckpt.match/1"
    assert document["suggestions"] == [{"from": "net", "to": "model", "tensors": 1}]
    assert document["source"]["prefix"] == source
    assert document["totals"]["unresolved"] == 1
    assert document["unresolved"][0]["shape"] == [2]


@pytest.mark.parametrize("typed", ["missing", "README.md", ""])
def test_what_is_no_program(typed: str) -> None:
    with pytest.raises(CkptError):
        restore_plan(GUIDE, os.path.join(fixtures.ROOT, typed) if typed else "")


def test_paths_that_no_program_has(tmp_path: Path) -> None:
    """Time and memory are in proportion to the names, however deep these are."""
    lock = tmp_path / "lock.json"
    row: dict[str, Any] = {"object_path": None, "dtype": "float32", "shape": [2], "kind": "weight"}
    deep = "/".join(["a"] * 10_000)
    row["key"] = f"{deep}/.ATTRIBUTES/VARIABLE_VALUE"
    lock.write_text(json.dumps({"schema": "ckpt.ls/1", "tensors": [row]}), encoding="utf-8")
    with pytest.raises(CorruptError, match="too long") as error:
        restore_plan(GUIDE, lock)
    assert error.value.path == str(lock)
    for name, letter in (("here", "a"), ("there", "b")):
        path = "/".join([letter] * 10_000)
        save_checkpoint(str(tmp_path / name), {path: np.ones(2), f"{path}/x": np.ones(3)})
    assert said(restore_plan(tmp_path / "here", tmp_path / "there")) == "missing"


def test_a_lock_of_nothing(tmp_path: Path) -> None:
    lock = tmp_path / "lock.json"
    lock.write_text('{"schema": "ckpt.ls/1", "tensors": []}', encoding="utf-8")
    assert said(restore_plan(GUIDE, lock)) == ""


def test_many_objects_that_are_one(tmp_path: Path) -> None:
    """The edges of one object are not listed again for each node that stands for it."""
    one = module(**{f"v{n}": 0.0 for n in range(200)})
    source = saved(tmp_path, "a", **{f"c{n}": module(z=1.0) for n in range(1000)})
    plan = restore_plan(source, fresh(tmp_path, **{f"c{n}": one for n in range(1000)}))
    assert plan.totals.unresolved == 1000 and plan.totals.unmatched == 200


def test_modes() -> None:
    with pytest.raises(ValueError, match="neither"):
        restore_plan(GUIDE, GUIDE, mode="neither")  # type: ignore[arg-type]
