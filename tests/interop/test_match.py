"""Restore plans, made of files alone, beside what TensorFlow does when it restores."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ckpttool
from ckpttool import train
from ckpttool.query.match.plan import RestorePlan
from tests.interop.match_pairs import NAMED, PAIRS, Pair, context, keras_program, tensors
from tests.support import fixtures
from tests.support.command import ckpt

pytest.importorskip("tensorflow")
VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"


@pytest.fixture(scope="module")
def k(tf: Any) -> Any:
    pytest.importorskip("tf_keras")
    return context(tf)


def said(tf: Any, restore: Any) -> str:
    """Return what a restore and its status say: what it raises, or the assertions that pass."""
    try:
        status = restore()
    except tf.errors.NotFoundError:
        return "missing"
    except tf.errors.InvalidArgumentError:
        return "mismatch"
    except AttributeError as error:
        assert "_create_or_restore_slot_variable" in str(error)
        return "optimizer"
    except ValueError as error:
        return "optimizer" if "v2.11+" in str(error) else "mismatch"
    passing = ""
    for letter, name in (
        ("c", "assert_consumed"),
        ("e", "assert_existing_objects_matched"),
        ("n", "assert_nontrivial_match"),
    ):
        try:
            getattr(status, name)()
            passing += letter
        except AssertionError:
            pass
    if hasattr(status, "expect_partial"):
        status.expect_partial()
    return passing


def verdict(plan: RestorePlan) -> str:
    found = plan.verdict
    passing = found.consumed, found.existing_objects_matched, found.nontrivial_match
    return found.raises or "".join(letter for letter, ok in zip("cen", passing, strict=True) if ok)


def values(tf: Any, prefix: str) -> dict[str, Any]:
    reader = tf.train.load_checkpoint(prefix)
    found = {}
    for key, dtype in reader.get_variable_to_dtype_map().items():
        if dtype != tf.variant and not key.startswith("_CHECKPOINTABLE"):
            found[key] = reader.get_tensor(key)
    return found


def check_values(plan: RestorePlan, source: Any, before: Any, after: Any) -> None:
    """Compare what a program holds after a restore with what the plan says that it takes."""
    compared = 0
    for row in plan.matched:
        end = "/.ATTRIBUTES/" + row.key.partition("/.ATTRIBUTES/")[2]
        end = VALUE if row.via == "name" else end
        key = row.target_path + end
        if row.via != "shared" and row.key in source and key in after:
            there, here = source[row.key], after[key]
            if row.kind == "table":  # in any order
                there, here = np.sort(there), np.sort(here)
            assert np.array_equal(there, here), row
            compared += 1
    assert compared or not [row for row in plan.matched if row.kind == "weight"]
    for left in plan.unmatched:
        key = left.path + VALUE
        if key in before:
            assert np.array_equal(before[key], after[key]), left


def restored(pair: Pair, k: Any, folder: Path) -> tuple[str, RestorePlan, Any, str]:
    """Return what TensorFlow says, the plan, the program and its checkpoint."""
    saving, program = pair.saves(k), pair.restores(k)
    source = getattr(saving, "write" if pair.writes else "save")(str(folder / "source"))
    fresh = program.write(str(folder / "fresh"))
    plan = train.restore_plan(source, fresh, mode=pair.mode, skip_slots=pair.skip_slots)
    options = k.tf.train.CheckpointOptions(experimental_skip_slot_variables=pair.skip_slots)
    answer = said(k.tf, lambda: getattr(program, pair.mode)(source, options))
    return answer, plan, program, source


@pytest.mark.parametrize("name", PAIRS)
def test_the_verdict_is_that_of_tensorflow(name: str, k: Any, tmp_path: Path) -> None:
    pair = PAIRS[name]
    answer, plan, program, source = restored(pair, k, tmp_path)
    assert verdict(plan) == answer, (plan, plan.unresolved, plan.unmatched, plan.mismatched)
    if plan.verdict.raises is None:
        program.write(str(tmp_path / "after"))
        found = (values(k.tf, str(tmp_path / each)) for each in ("fresh", "after"))
        check_values(plan, values(k.tf, source), *found)


@pytest.mark.parametrize("name", [name for name, pair in PAIRS.items() if pair.explained])
def test_after_the_suggestions_all_is_consumed(name: str, k: Any, tmp_path: Path) -> None:
    answer, plan, _, source = restored(PAIRS[name], k, tmp_path)
    assert "c" not in answer and plan.suggestions
    rules = {rule.old: rule.new for rule in plan.suggestions}
    ckpttool.rename(source, tmp_path / "renamed", rules)
    program = PAIRS[name].restores(k)
    program.restore(str(tmp_path / "renamed")).assert_consumed()
    again = train.restore_plan(tmp_path / "renamed", tmp_path / "fresh")
    assert again.verdict.consumed and not again.suggestions


def test_names_of_tensors_that_tensorflow_cannot_find(k: Any, tmp_path: Path) -> None:
    """It looks for names of tensors with dots as if they were escaped once; here both are found."""
    pair = Pair(tensors(**{"a.b": 1.0}), tensors(**{"a.b": 0.0}))
    answer, plan, _, _ = restored(pair, k, tmp_path)
    assert (answer, verdict(plan)) == ("missing", "cen")


LOCKED = ("same", "renamed scope", "missing in the program", "other shape", "lists", "hollow")


@pytest.mark.parametrize("name", [*LOCKED, "legacy Adam, run", "new Adam renamed", "python state"])
def test_a_lock_tells_the_same(name: str, k: Any, tmp_path: Path) -> None:
    """A lock lacks objects without values, and these programs share none."""
    answer, plan, _, source = restored(PAIRS[name], k, tmp_path)
    lock = tmp_path / "lock.json"
    lock.write_text(ckpt("ls", "--json", str(tmp_path / "fresh")).out, encoding="utf-8")
    locked = train.restore_plan(source, lock)
    assert verdict(locked) == answer
    assert (locked.matched, locked.unresolved) == (plan.matched, plan.unresolved)
    assert (locked.mismatched, locked.suggestions) == (plan.mismatched, plan.suggestions)


def test_a_saved_model_stands_for_a_program(k: Any, tmp_path: Path) -> None:
    net = keras_program("tf_keras", model="")(k).root
    k.tf.saved_model.save(net, str(tmp_path / "exported"))
    source = k.tf.train.Checkpoint(net).save(str(tmp_path / "source"))
    plan = train.restore_plan(source, tmp_path / "exported")
    assert {row.kind for row in plan.matched} == {"weight", "step"}
    loaded = k.tf.saved_model.load(str(tmp_path / "exported"))
    answer = said(k.tf, lambda: k.tf.train.Checkpoint(loaded).restore(source))
    assert verdict(plan) == answer, (plan.unresolved, plan.unmatched)


@pytest.mark.parametrize("name", ["graph_mode_objects/ckpt-1", "v1_optimizer_objects/model-1"])
@pytest.mark.parametrize("mode", ["read", "restore"])
def test_a_checkpoint_of_tensorflow_1(name: str, mode: Any, k: Any, tmp_path: Path) -> None:
    """Its nodes do not say whether they have values; the program has some of its edges."""
    source = os.path.join(fixtures.FIXTURES, "v2", "tf1.15", name)
    view = train.CheckpointView(source)
    names = [name for name in view.children(0) if name != "save_counter"]
    for count in range(len(names) + 1):
        program = k.tf.train.Checkpoint(**{name: k.tf.Module() for name in names[:count]})
        fresh = program.write(str(tmp_path / f"fresh{count}"))
        plan = train.restore_plan(source, fresh, mode=mode)
        assert verdict(plan) == said(k.tf, lambda: getattr(program, mode)(source)), count  # noqa: B023


def write_names(k: Any, values: dict[str, Any], path: str, *, v1: bool) -> str:
    """Write a checkpoint as programs of TensorFlow 1 do."""
    tf = k.tf.compat.v1
    with k.tf.Graph().as_default(), tf.Session() as session:
        made = [tf.Variable(value, name=name) for name, value in values.items()]
        saver = tf.train.Saver(
            made, write_version=tf.train.SaverDef.V1 if v1 else tf.train.SaverDef.V2
        )
        session.run(tf.global_variables_initializer())
        return str(saver.save(session, path, global_step=7))


@pytest.mark.parametrize("name", NAMED)
def test_by_name(name: str, k: Any, tmp_path: Path) -> None:
    case = NAMED[name]
    source = write_names(k, case.values, str(tmp_path / "model.ckpt"), v1=case.v1)
    program = case.restores(k)
    fresh = program.write(str(tmp_path / "fresh"))
    plan = train.restore_plan(source, fresh, mode=case.mode)
    answer = said(k.tf, lambda: getattr(program, case.mode)(source))
    assert verdict(plan) == answer, (plan, plan.unresolved, plan.unmatched, plan.mismatched)
    if plan.verdict.raises is None:
        program.write(str(tmp_path / "after"))
        found = (values(k.tf, str(tmp_path / each)) for each in ("fresh", "after"))
        check_values(plan, values(k.tf, source), *found)


@pytest.mark.parametrize("what", ["objects", "names"])
@pytest.mark.parametrize("lacking", [False, True], ids=["whole", "lacking"])
def test_a_saver_of_tensorflow_1(what: str, lacking: bool, k: Any, tmp_path: Path) -> None:
    """A program that has names alone restores by a Saver, which raises for what is missing."""
    names = {"net/w": np.ones((2, 3), np.float32), "b": np.ones(3, np.float32)}
    if what == "objects":
        made = {name[-1]: k.tf.Variable(each, name=name) for name, each in names.items()}
        source = k.tf.train.Checkpoint(**made).save(str(tmp_path / "source"))
    else:
        source = write_names(k, names, str(tmp_path / "source"), v1=False)
    wanted = {name: each * 0 for name, each in names.items()}
    if lacking:
        wanted["other"] = np.ones(1, np.float32)
    target = write_names(k, wanted, str(tmp_path / "target"), v1=False)
    plan = train.restore_plan(source, target)
    tf = k.tf.compat.v1
    with k.tf.Graph().as_default(), tf.Session() as session:
        for name, value in wanted.items():
            tf.Variable(value, name=name)
        try:
            tf.train.Saver().restore(session, source)
            answer = "cen"
        except k.tf.errors.NotFoundError:
            answer = "missing"
        except ValueError:  # of a checkpoint with objects
            answer = "missing"
    assert verdict(plan) == answer == ("missing" if lacking else "cen")
