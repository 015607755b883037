"""Kinds as programs know them, under each optimizer; and averages in the place of weights."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckpttool import open_checkpoint
from ckpttool.checkpoint.kinds.names import kinds_from_names
from ckpttool.checkpoint.kinds.rules import OPTIMIZER_KINDS, SLOT_KINDS
from ckpttool.surgery.renaming import promote_averages
from tests.interop.kinds_programs import CASES, Trained, Truth, train
from tests.interop.process import OLDER
from tests.interop.surgery_compare import operate, pruning
from tests.support.command import ckpt

AVERAGED = [name for name in CASES if name.endswith("averaged")]


def saved(tf: Any, trained: Trained, folder: Path) -> str:
    """Save a model and its optimizer; return the prefix."""
    checkpoint = tf.train.Checkpoint(model=trained.model, optimizer=trained.optimizer)
    prefix: str = checkpoint.save(str(folder / "source" / "ckpt"))
    return prefix


def check(prefix: str, truth: Truth, *, by_graph: bool) -> None:
    """Check the kinds of all tensors that are numbered, and that none is lost."""
    seen = set()
    with open_checkpoint(prefix) as found:
        kinds = found.graph_kinds if by_graph else found.kinds
        unnamed = {"slot", "optimizer", "step"} | ({"weight"} if found.style == "name" else set())
        for key, entry in found.entries.items():
            if entry.dtype.name in ("string", "variant", "bool"):
                continue
            number = int(np.asarray(found[key]).ravel()[0])
            kind = truth.get(number)
            seen.add(number)
            # Adafactor has nothing but place holders for vectors, and some have no names.
            if not entry.shape and kind in (None, "optimizer"):
                assert kinds[key] in unnamed, key
            elif not by_graph and kind == "ema":
                assert kinds[key] in ("ema", "slot"), key  # the key shows one list of two
            elif not (kind == "slot" and re.fullmatch(r"optimizer/_variables/\d+", key)):
                # Adafactor's factors have one name, so a name-based checkpoint has paths instead.
                assert kinds[key] == kind, key
    assert seen >= truth.keys()


@pytest.mark.parametrize("name", CASES)
def test_kinds_are_those_of_the_program(tf: Any, name: str, tmp_path: Path) -> None:
    trained = train(CASES[name])
    prefix = saved(tf, trained, tmp_path)
    check(prefix, trained.truth, by_graph=True)
    check(prefix, trained.truth, by_graph=False)
    named = str(tmp_path / "named")
    outcome = ckpt("convert-legacy", prefix, "--to", "name-based", "-o", named)
    assert outcome.code == 0, outcome.err
    check(named, trained.truth, by_graph=True)


@pytest.mark.parametrize("name", AVERAGED)
def test_averages_in_the_place_of_weights(tf: Any, name: str, tmp_path: Path) -> None:
    trained = train(CASES[name])
    prefix = saved(tf, trained, tmp_path)
    target = str(tmp_path / "promoted" / "ckpt")
    os.mkdir(os.path.dirname(target))
    operate(prefix, target, promote_averages)
    wanted = [int(np.asarray(each).ravel()[0]) for each in trained.model.variables]
    wanted = [trained.averages.get(number, number) for number in wanted]
    assert any(trained.truth[number] == "ema" for number in wanted)
    fresh = train(CASES[name])
    checkpoint = tf.train.Checkpoint(model=fresh.model, optimizer=fresh.optimizer)
    checkpoint.restore(target).assert_consumed()
    assert [int(np.asarray(each).ravel()[0]) for each in fresh.model.variables] == wanted
    for each in fresh.model.variables:
        assert np.unique(np.asarray(each)).size == 1


@pytest.mark.parametrize("kinds", [SLOT_KINDS, OPTIMIZER_KINDS], ids=["slots", "optimizer"])
@pytest.mark.parametrize("name", AVERAGED)
def test_nothing_of_an_optimizer_is_left(
    tf: Any, name: str, kinds: frozenset[str], tmp_path: Path
) -> None:
    trained = train(CASES[name])
    prefix = saved(tf, trained, tmp_path)
    target = str(tmp_path / "pruned" / "ckpt")
    os.mkdir(os.path.dirname(target))
    operate(prefix, target, pruning(drop_kinds=kinds))
    fresh = train(CASES[name.removesuffix(" averaged")])
    slots = [each for each in _variables(fresh.optimizer) if len(each.shape)]
    for each in slots:
        each.assign(np.full(each.shape, -1, np.float32))
    checkpoint = tf.train.Checkpoint(model=fresh.model, optimizer=fresh.optimizer)
    checkpoint.restore(target).expect_partial()
    for each in slots:  # none takes in what was another's
        assert (np.asarray(each) == -1).all()
    for one, other in zip(fresh.model.variables, trained.model.variables, strict=True):
        assert (np.asarray(one) == np.asarray(other)).all()


def _variables(optimizer: Any) -> list[Any]:
    found = optimizer.variables
    return list(found() if callable(found) else found)


def test_kinds_of_tensorflow_1(tmp_path: Path) -> None:
    python = os.environ.get(OLDER)
    if not python:
        pytest.skip(f"{OLDER} names no interpreter that has TensorFlow 1.15")
    script = Path(__file__).with_name("kinds_saver.py")
    subprocess.run([python, str(script), str(tmp_path)], check=True, capture_output=True)
    programs = sorted(tmp_path.iterdir())
    assert len(programs) > 30
    for program in programs:
        truth = json.loads((program / "truth.json").read_text())
        with open_checkpoint(program / "model") as found:
            assert found.location.meta_path is not None
            assert dict(found.kinds) == truth, program.name
            assert kinds_from_names(found.entries) == truth, program.name
            averaged = {average.key for average in found.averages}
            assert averaged == {name for name, kind in truth.items() if kind == "ema"}
            assert {average.optimizer for average in found.averages} == {False}
