"""TensorFlow restores what was made object-based, and TensorFlow 1 what was made name-based.

CKPT_TF115_PYTHON names an interpreter that has TensorFlow 1.15, Python 3.7.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckpttool import open_checkpoint
from ckpttool.surgery.convert import conversion_options
from ckpttool.surgery.flattening import flatten
from ckpttool.surgery.like.reference import follow
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.writing.prepare import WriteOptions, prepare
from ckpttool.surgery.writing.recoding.spread import Recoding
from tests.interop import conversion_saver
from tests.interop.conversion_programs import NAMES, program
from tests.interop.process import Saver
from tests.interop.surgery_programs import LEGACY, Side, legacy_net, new_optimizer_net

# What the fixture `saver` runs.
ACTIONS_OF_SAVER = conversion_saver
Values = dict[str, Any]


def trained(
    saver: Saver, folder: Path, optimizer: str, scope: str = "", version: int = 2
) -> tuple[str, Values]:
    """Have TensorFlow 1 train; return the prefix and what was saved."""
    prefix = str(folder / "trained" / "model.ckpt-2")
    os.makedirs(os.path.dirname(prefix))
    what = {"optimizer": optimizer, "scope": scope, "format": version}
    values = saver("train", prefix, what)
    assert "error" not in values, values["error"]
    stem, slots = NAMES[optimizer]
    assert sum(f"/{stem}" in name for name in values) == 3 * len(slots)
    return prefix, values


def converted(tf: Any, source: str, folder: Path, family: str, optimizer: str) -> Plan:
    """Make a checkpoint like that of a program; return the plan that was written to "out"."""
    reference = program(tf, family, optimizer)
    reference.train()
    prefix = reference.checkpoint.save(str(folder / "reference"))
    with open_checkpoint(source) as ours, open_checkpoint(prefix) as theirs:
        plan = follow(Plan.of(ours), theirs)
        how = conversion_options(plan, "v2", Recoding(), WriteOptions(meta="drop"))
        prepare(plan, str(folder / "out"), how).write()
    return plan


@pytest.mark.parametrize("scope", ["", "train"])
@pytest.mark.parametrize("family", ["v1", "legacy"])
@pytest.mark.parametrize("optimizer", NAMES)
def test_like(
    tf: Any, saver: Saver, tmp_path: Path, optimizer: str, family: str, scope: str
) -> None:
    source, values = trained(saver, tmp_path, optimizer, scope)
    plan = converted(tf, source, tmp_path, family, optimizer)
    fresh = program(tf, family, optimizer)
    fresh.checkpoint.restore(str(tmp_path / "out")).assert_existing_objects_matched()
    found = fresh.values()
    check(values, found, scope)
    left = set(values) - {tensor.source_key for tensor in plan.tensors}
    if family == "v1":
        assert left == {"global_step"}
    else:
        assert {name.removeprefix(f"{scope}/") for name in left} == (
            {"beta1_power", "beta2_power"} if optimizer == "adam" else set()
        )
    fresh.train()  # no value has a shape that the optimizer cannot work with


def test_like_from_v1(tf: Any, saver: Saver, tmp_path: Path) -> None:
    """A source of format V1, whose entries know nothing but dtype and shape."""
    # With a scope nothing is partitioned, which TensorFlow's reader of this format cannot join.
    source, values = trained(saver, tmp_path, "adam", "train", version=1)
    converted(tf, source, tmp_path, "legacy", "adam")
    fresh = program(tf, "legacy", "adam")
    fresh.checkpoint.restore(str(tmp_path / "out")).assert_existing_objects_matched()
    check(values, fresh.values(), "train")


@pytest.mark.parametrize("family", ["tf_keras", "keras"])
@pytest.mark.parametrize("optimizer", NAMES)
def test_like_todays_keras(
    tf: Any, saver: Saver, tmp_path: Path, optimizer: str, family: str
) -> None:
    source, values = trained(saver, tmp_path, optimizer)
    plan = converted(tf, source, tmp_path, family, optimizer)
    fresh = program(tf, family, optimizer)
    status = fresh.checkpoint.restore(str(tmp_path / "out"))
    # The learning rate is a variable there, which TensorFlow 1 has not; so are momenta in the SGD
    # of tf_keras, even where none is asked for.
    count = 4 if (optimizer, family) == ("descent", "tf_keras") else 1
    with pytest.raises(AssertionError, match=rf"(?s)Found {count} Python .*learning_rate"):
        status.assert_existing_objects_matched()
    status.expect_partial()
    check(values, fresh.values(), "")
    left = set(values) - {tensor.source_key for tensor in plan.tensors}
    assert left == ({"beta1_power", "beta2_power"} if optimizer == "adam" else set())


def check(values: Values, found: Any, scope: str) -> None:
    """Check that a program has the values that TensorFlow 1 saved."""
    compared = 0
    for name, value in found.items():
        saved = values.get(name, values.get(f"{scope}/{name}"))
        assert saved is not None, name
        assert np.array_equal(np.asarray(saved, value.dtype), value), name
        compared += bool(np.any(value))
    assert compared >= 3


def test_training_goes_on(tf: Any, saver: Saver, tmp_path: Path) -> None:
    """The next step of Adam is the one that TensorFlow 1 would have made."""
    source, values = trained(saver, tmp_path, "adam")
    converted(tf, source, tmp_path, "v1", "adam")
    converted_values = {}
    for family in ("v1", "legacy"):
        folder = tmp_path / family
        folder.mkdir()
        converted(tf, source, folder, family, "adam")
        fresh = program(tf, family, "adam")
        fresh.checkpoint.restore(str(folder / "out")).assert_existing_objects_matched()
        fresh.train()
        converted_values[family] = fresh.values()["dense/kernel"]
    # Both divide by the same corrected moments: Keras from the step, the other from the powers.
    assert np.allclose(converted_values["v1"], converted_values["legacy"], atol=1e-5)
    assert not np.allclose(converted_values["v1"], values["dense/kernel"], atol=1e-2)


@pytest.mark.parametrize("family", ["v1", "legacy", "tf_keras", "keras"])
@pytest.mark.parametrize("optimizer", NAMES)
def test_flat(tf: Any, saver: Saver, tmp_path: Path, optimizer: str, family: str) -> None:
    made = program(tf, family, optimizer)
    made.train()
    prefix = made.checkpoint.save(str(tmp_path / "objects"))
    saved = flat(prefix, str(tmp_path / "flat"))
    wanted = {name: (value.dtype.name, list(value.shape)) for name, value in saved.items()}
    found = saver("restore", str(tmp_path / "flat"), wanted)
    assert found == {name: value.tolist() for name, value in saved.items()}
    values = made.values()
    for name in conversion_saver.SHAPES:
        assert np.array_equal(saved[name], values[name])
    if family == "v1":
        assert {name: saved[name].tolist() for name in values} == {
            name: value.tolist() for name, value in values.items()
        }


def flat(source: str, target: str) -> Values:
    """Make a checkpoint name-based and return what is in it then."""
    with open_checkpoint(source) as ckpt:
        prepare(flatten(Plan.of(ckpt)), target).write()
    with open_checkpoint(target) as ckpt:
        return {name: ckpt[name] for name in ckpt}


NETS: dict[str, Callable[[Side], Any]] = {
    **{name: partial(legacy_net, make=make) for name, make in LEGACY.items()},
    "new adam": lambda side: new_optimizer_net(side, lambda keras, _: keras.optimizers.Adam(0.1)),
}


@pytest.mark.parametrize("name", NETS)
def test_there_and_back(tf: Any, saver: Saver, tmp_path: Path, name: str) -> None:
    """Made name-based and object-based again, a checkpoint is restored as it was."""
    side = Side(tf, renamed=False)
    first = NETS[name](side)
    assert first.step is not None
    first.step()
    prefix = first.checkpoint.save(str(tmp_path / "first"))
    saved = flat(prefix, str(tmp_path / "flat"))
    wanted = {label: (value.dtype.name, list(value.shape)) for label, value in saved.items()}
    assert saver("restore", str(tmp_path / "flat"), wanted) == {
        label: value.tolist() for label, value in saved.items()
    }
    target = str(tmp_path / "again")
    with open_checkpoint(str(tmp_path / "flat")) as ours, open_checkpoint(prefix) as theirs:
        plan = follow(Plan.of(ours), theirs)
        assert plan.notes == ()
        prepare(plan, target).write()
    values = first.values()
    first.step()
    assert any(np.any(value != values[label]) for label, value in first.values().items())
    first.checkpoint.restore(target).assert_consumed().assert_existing_objects_matched()
    found = first.values()
    assert found.keys() == values.keys()
    assert all(np.array_equal(found[label], value) for label, value in values.items())


@pytest.mark.parametrize("family", ["v1", "legacy", "tf_keras", "keras"])
def test_back_by_paths(tf: Any, tmp_path: Path, family: str) -> None:
    """Tensors that are called by object paths find their places without full names."""
    made = program(tf, family, "adam")
    made.train()
    prefix = made.checkpoint.save(str(tmp_path / "objects"))
    values = {name: np.array(value) for name, value in made.values().items()}
    with open_checkpoint(prefix) as theirs:
        plan = Plan.of(theirs)
        paths = {tensor.key: plan.short_name(tensor.key) for tensor in plan.tensors}
        prepare(flatten(plan, paths), str(tmp_path / "flat")).write()
        with open_checkpoint(str(tmp_path / "flat")) as ours:
            assert set(ours.entries) == set(paths.values())
            prepare(follow(Plan.of(ours), theirs), str(tmp_path / "again")).write()
    made.train()
    status = made.checkpoint.restore(str(tmp_path / "again"))
    status.assert_consumed().assert_existing_objects_matched()
    found = made.values()
    assert found.keys() == values.keys()
    assert all(np.array_equal(found[name], value) for name, value in values.items())
