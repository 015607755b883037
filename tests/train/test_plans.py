"""Plans of live programs: what restoring would do, without doing it."""

from __future__ import annotations

import os
import pickle
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckpttool import train
from ckpttool.checkpoint.save import save_checkpoint
from ckpttool.errors import CkptError, ContainerChangedError, MismatchError, UnrestoredError
from ckpttool.query.match.plan import RestorePlan
from ckpttool.train.trackable import tracking
from tests.support import fixtures

SAVER = os.path.join(fixtures.FIXTURES, "v2", "tf2.21", "saver_v2", "model.ckpt-2")


def net(**values: Any) -> Any:
    made = train.Module()
    for name, value in values.items():
        tracked = isinstance(value, train.Trackable | train.NoDependency | dict)
        setattr(made, name, value if tracked else train.Variable(value, name=name))
    return made


def optimizer(variable: train.Variable, *names: str) -> Any:
    made: Any = train.SlotOwner()
    made.rate = train.Variable(0.5)
    for name in names:
        made.add_slot(variable, name, [5.0, 6.0])
    return made


def lists(plan: RestorePlan) -> dict[str, Any]:
    """Return a plan without what a trial and a restore may differ in: the target."""
    found = plan.to_dict()
    del found["target"], found["suggestions"]
    return found


def state(program: train.Checkpoint) -> Any:
    """Return all that a restore may change."""
    found = []
    for node in train.TrackableView(program).descendants():
        kept = tracking(node)
        values = {name: each.tolist() for name, each in node._trackable_read().items()}
        slots = {
            name: {id(one): slot.array.tolist() for one, slot in listed.items()}
            for name, listed in getattr(node, "_slots", dict)().items()
        }
        edges = {name: id(child) for name, child in kept.edges.items()}
        waiting = [*kept.pending], len(kept.inherited), len(kept.pending_slots)
        found.append((values, slots, edges, waiting, kept.update_number))
    return found


def programs() -> dict[str, tuple[train.Checkpoint, train.Checkpoint]]:
    """Return pairs of a program that saves and one that restores."""
    w, u = (train.Variable([1.0, 2.0], name=name) for name in "wu")
    shared = train.Variable(4.0)
    return {
        "same": (train.Checkpoint(net=net(a=1.0)), train.Checkpoint(net=net(a=0.0))),
        "renamed": (train.Checkpoint(net=net(a=1.0)), train.Checkpoint(model=net(a=0.0))),
        "shared": (train.Checkpoint(a=shared, b=shared), train.Checkpoint(a=net(), b=net(x=1))),
        "split": (
            train.Checkpoint(a=shared, b=shared),
            train.Checkpoint(a=train.Variable(0.0), b=train.Variable(0.0)),
        ),
        "joined": (
            train.Checkpoint(a=train.Variable(1.0), b=train.Variable(2.0)),
            train.Checkpoint(a=shared, b=shared),
        ),
        "slots": (
            train.Checkpoint(w=w, opt=optimizer(w, "m", "v")),
            train.Checkpoint(w=u, opt=optimizer(u, "m")),
        ),
        "slots without their variable": (
            train.Checkpoint(w=w, opt=optimizer(w, "m")),
            train.Checkpoint(opt=optimizer(u)),
        ),
        "no optimizer": (
            train.Checkpoint(w=w, opt=optimizer(w, "m")),
            train.Checkpoint(w=u, opt=net(rate=0.0)),
        ),
        "containers": (
            train.Checkpoint(net=net(d={"a": train.Variable(1.0), "b": [train.Variable(2.0)]})),
            train.Checkpoint(net=net(d={"a": train.Variable(1.0), "c": [train.Variable(2.0)]})),
        ),
        "root": (
            train.Checkpoint(net(a=1.0), other=net(b=2)),
            train.Checkpoint(net(a=0.0), other=net(b=0)),
        ),
        "carried": (
            train.Checkpoint(net=net(a=1.0), opt=optimizer(w, "m")),
            train.Checkpoint(net=train.Carried(), opt=train.Carried()),
        ),
    }


@pytest.mark.parametrize("skip_slots", [False, True], ids=["all", "no slots"])
@pytest.mark.parametrize("mode", ["read", "restore"])
@pytest.mark.parametrize("name", sorted(programs()))
def test_a_plan_says_what_the_restore_does(
    name: str, mode: Any, skip_slots: bool, tmp_path: Path
) -> None:
    source, target = programs()[name]
    path = source.save(tmp_path / "a")
    before = state(target)
    plan = train.restore_plan(path, target, mode=mode, skip_slots=skip_slots)
    assert state(target) == before
    options = train.CheckpointOptions(experimental_skip_slot_variables=skip_slots)
    status = getattr(target, mode)(path, options)
    assert lists(status.expect_partial().plan()) == lists(plan)
    assert plan.verdict.consumed == passes(status.assert_consumed)
    existing = plan.verdict.existing_objects_matched
    assert existing == passes(status.assert_existing_objects_matched)
    assert plan.verdict.nontrivial_match == passes(status.assert_nontrivial_match)
    assert plan.hollow == status.hollow
    assert plan.unused_attributes == status.unused_attributes
    assert {row.path for row in plan.unmatched} == {*status.unmatched}
    assert {row.path for row in plan.unresolved} == {*status.unresolved}


def passes(assertion: Any) -> bool:
    try:
        assertion()
    except UnrestoredError:
        return False
    return True


@pytest.mark.parametrize("name", sorted(programs().keys() - {"carried", "joined"}))
def test_a_fresh_checkpoint_stands_for_the_program(name: str, tmp_path: Path) -> None:
    """What was matched with the objects is matched with what they have written."""
    source, target = programs()[name]
    path, fresh = source.save(tmp_path / "a"), target.write(tmp_path / "b")
    live, stored = lists(train.restore_plan(path, target)), lists(train.restore_plan(path, fresh))
    del live["assumptions"], stored["assumptions"]
    assert live == stored


def test_a_plan_by_name(tmp_path: Path) -> None:
    (row, *_) = train.restore_plan(SAVER, SAVER).matched
    x = train.Variable(0.0, name=row.path, shape=None)
    program = train.Checkpoint(x=x, y=train.Variable(1.0, name="elsewhere"))
    plan = train.restore_plan(SAVER, program)
    if plan.mismatched:
        with pytest.raises(MismatchError):
            program.restore(SAVER)
    assert [one.path for one in plan.unmatched] == ["y"]
    assert plan.matched[0].via == "name"


@pytest.mark.parametrize("root", [False, True], ids=["keyword", "root"])
def test_a_restore_by_name_has_a_plan(root: bool, tmp_path: Path) -> None:
    def made() -> train.Checkpoint:
        values = net(a=train.Variable([0.0, 0.0], name="a", dtype="float64"), c=[1.0])
        return train.Checkpoint(values) if root else train.Checkpoint(net=values)

    names = str(tmp_path / "names")
    save_checkpoint(names, {"a": np.ones(2), "b": np.ones(1)})
    plan = train.restore_plan(names, made())
    status = made().restore(names)
    assert lists(status.plan()) == lists(plan)
    assert {row.path for row in plan.unmatched} == {*status.unmatched}
    fresh = made().write(tmp_path / "fresh")
    assert lists(train.restore_plan(names, fresh)) == lists(plan)


def test_a_module_and_a_weak_reference_are_roots(tmp_path: Path) -> None:
    model = net(a=1.0)
    path = train.Checkpoint(model).save(tmp_path / "a")
    for target in (model, weakref.ref(model)):
        assert train.restore_plan(path, target).verdict.consumed
    assert train.restore_plan(path, model).target.kind == "program"


def test_mismatches_of_a_live_program(tmp_path: Path) -> None:
    path = train.Checkpoint(net=net(a=1.0, b=[1.0])).save(tmp_path / "a")
    program = train.Checkpoint(net=net(a=1, b=[1.0, 2.0]))
    plan = train.restore_plan(path, program)
    assert plan.verdict.raises == "mismatch"
    with pytest.raises(MismatchError) as error:
        program.restore(path)
    assert [row.key for row in plan.mismatched] == [each["key"] for each in error.value.mismatches]


def test_a_container_that_was_changed(tmp_path: Path) -> None:
    path = train.Checkpoint(net=net(a={"x": train.Variable(1.0)})).save(tmp_path / "a")
    program: Any = train.Checkpoint(net=net(a={"x": train.Variable(1.0)}))
    program.net.a.pop("x")
    plan = train.restore_plan(path, program)
    assert plan.verdict.raises == "container"
    assert "net/a" in plan.assumptions[0].text
    with pytest.raises(ContainerChangedError):
        program.restore(path)


def test_a_plan_grows_with_the_program(tmp_path: Path) -> None:
    path = train.Checkpoint(net=net(a=1.0, b=2.0)).save(tmp_path / "a")
    program: Any = train.Checkpoint(net=net(a=0.0))
    status = program.restore(path)
    assert [row.path for row in status.plan().waiting] == ["net/b"]
    program.net.b = train.Variable(0.0)
    assert status.plan().verdict.consumed
    assert pickle.loads(pickle.dumps(status.plan())) == status.plan()


def test_without_a_checkpoint() -> None:
    program = train.Checkpoint(net=net(a=1.0))
    with pytest.raises(UnrestoredError):
        program.restore(None).plan()
    with pytest.raises(CkptError):
        train.restore_plan("missing", program)
    with pytest.raises(TypeError):
        train.restore_plan(SAVER, object())
