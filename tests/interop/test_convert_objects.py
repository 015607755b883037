"""Training goes on in another generation of Keras, from a checkpoint that follows its objects."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ckpttool
from ckpttool.errors import SurgeryError
from tests.interop.keras_generations import GENERATIONS, OPTIMIZERS, Trained, trained

# How far the formulas of the generations are apart after one step.
CLOSE = 1e-6
WAYS = list(itertools.permutations(GENERATIONS, 2))


def converted(source: Trained, twin: Trained, folder: Path, **how: Any) -> ckpttool.Conversions:
    """Convert a checkpoint for another program, and restore it there."""
    old = source.checkpoint.save(str(folder / "old" / "ckpt"))
    fresh = twin.checkpoint.save(str(folder / "fresh" / "ckpt"))
    # Legacy optimizers keep settings as variables, which others do not have.
    how.setdefault("fill", True)
    done = ckpttool.convert_legacy(old, folder / "new" / "ckpt-1", like=fresh, **how)
    twin.checkpoint.restore(str(folder / "new" / "ckpt-1")).assert_existing_objects_matched()
    return done


def check_same(source: Trained, twin: Trained) -> None:
    ours, theirs = source.values(), twin.values()
    assert ours.keys() == theirs.keys()
    for label, value in ours.items():
        assert np.array_equal(value, theirs[label]), label
    assert np.allclose(source.answer(), twin.answer(), rtol=0, atol=CLOSE)


def check_goes_on(source: Trained, twin: Trained) -> None:
    source.step(7)
    twin.step(7)
    for (label, ours), theirs in zip(source.values().items(), twin.values().values(), strict=True):
        assert np.allclose(ours, theirs, rtol=1e-5, atol=CLOSE), label


@pytest.mark.parametrize(
    ("model", "old", "new"),
    [(model, *way) for model in ("plain", "nested") for way in WAYS]
    + [(model, *way) for model in ("recurrent", "subclassed") for way in WAYS[1::2]],
)
def test_models(tf: Any, tmp_path: Path, model: str, old: str, new: str) -> None:
    source = trained(tf, old, model, "adam", steps=2, before=3)
    twin = trained(tf, new, model, "adam", steps=1)
    assert not np.allclose(source.answer(), twin.answer(), atol=1e-2)
    converted(source, twin, tmp_path)
    check_same(source, twin)
    check_goes_on(source, twin)


@pytest.mark.parametrize(("old", "new"), [("legacy", "three"), ("legacy", "new"), ("new", "three")])
@pytest.mark.parametrize("optimizer", [name for name in OPTIMIZERS if name != "adam"])
def test_optimizers(tf: Any, tmp_path: Path, optimizer: str, old: str, new: str) -> None:
    source = trained(tf, old, "plain", optimizer, steps=2)
    twin = trained(tf, new, "plain", optimizer, steps=1, before=2)
    converted(source, twin, tmp_path)
    check_same(source, twin)
    if optimizer != "nadam" or old == "new":  # the legacy one has another schedule
        check_goes_on(source, twin)


@pytest.mark.parametrize("old", ["legacy", "new"])
def test_layers_in_a_list(tf: Any, tmp_path: Path, old: str) -> None:
    """Keras 3 leads to them by no path and by no name of their own: only their order is left."""
    source = trained(tf, old, "stacked", "adam", steps=2)
    twin = trained(tf, "three", "stacked", "adam", steps=1)
    with pytest.raises(SurgeryError, match="'model/blocks/0/kernel', 'model/blocks/1/kernel'"):
        converted(source, twin, tmp_path)
    converted(source, twin, tmp_path / "told", by_order=True)
    check_same(source, twin)
    check_goes_on(source, twin)


@pytest.mark.parametrize(("old", "new"), [("new", "three"), ("three", "new")], ids=str)
def test_averages(tf: Any, tmp_path: Path, old: str, new: str) -> None:
    source = trained(tf, old, "plain", "adam", steps=2, use_ema=True)
    twin = trained(tf, new, "plain", "adam", steps=1, use_ema=True)
    converted(source, twin, tmp_path, strict=True)
    check_same(source, twin)
    for ours, theirs in zip(
        source.optimizer._model_variables_moving_average,
        twin.optimizer._model_variables_moving_average,
        strict=True,
    ):
        assert np.array_equal(ours.numpy(), theirs.numpy())
    check_goes_on(source, twin)


@pytest.mark.parametrize(("old", "new"), WAYS, ids=str)
def test_what_scales_the_loss(tf: Any, tmp_path: Path, old: str, new: str) -> None:
    source, twin = (scaled(tf, generation) for generation in (old, new))
    source.optimizer.inner_optimizer.iterations.assign(5)
    scale, steps = parts_of(source.optimizer)
    scale.assign(64.0)
    steps.assign(9)
    converted(source, twin, tmp_path)
    check_same(source, twin)
    found = [int(each.numpy()) for each in parts_of(twin.optimizer)]
    assert found == [64, 9]


def scaled(tf: Any, generation: str) -> Trained:
    """Return a program whose optimizer is wrapped by one that scales the loss."""
    import keras
    import tf_keras

    made = trained(tf, generation, "plain", "adam", steps=2)
    if generation == "three":
        made.optimizer = keras.optimizers.LossScaleOptimizer(made.optimizer)
        made.optimizer.build(made.model.trainable_variables)
    else:
        made.optimizer = tf_keras.mixed_precision.LossScaleOptimizer(made.optimizer)
    made.checkpoint = tf.train.Checkpoint(model=made.model, optimizer=made.optimizer)
    return made


def parts_of(optimizer: Any) -> tuple[Any, Any]:
    """Return the scale, and the number of steps since it changed."""
    if hasattr(optimizer, "dynamic_scale"):
        return optimizer.dynamic_scale, optimizer.step_counter
    return optimizer._loss_scale._current_loss_scale, optimizer.dynamic_counter


def test_a_program_written_anew(tf: Any, tmp_path: Path) -> None:
    """Other scopes and attributes; shapes, names and a map of one line tell."""

    def variable(shape: tuple[int, ...], name: str, seed: int) -> Any:
        value = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
        return tf.Variable(value, name=name)

    def module(**parts: Any) -> Any:
        made = tf.Module()
        for name, part in parts.items():
            setattr(made, name, part)
        return made

    def old(seed: int) -> Any:
        return module(
            embed=variable((9, 4), "embed", seed),
            body=module(
                w=variable((4, 4), "body/w", seed + 1), b=variable((4,), "body/b", seed + 2)
            ),
            head=module(w=variable((4, 4), "h/w", seed + 3), b=variable((4,), "h/b", seed + 4)),
        )

    def new(seed: int) -> Any:
        body = module(kernel=variable((4, 4), "body/w", seed), bias=variable((4,), "body/b", seed))
        top = module(kernel=variable((4, 4), "t/w", seed), bias=variable((4,), "t/b", seed))
        return module(net=module(table=variable((9, 4), "words", seed), layers=[body, top]))

    source, twin = old(1), new(50)
    prefix = tf.train.Checkpoint(model=source).write(str(tmp_path / "old"))
    fresh = tf.train.Checkpoint(model=twin).write(str(tmp_path / "fresh"))
    done = ckpttool.convert_legacy(prefix, tmp_path / "new", like=fresh, strict=True)
    status = tf.train.Checkpoint(model=twin).read(str(tmp_path / "new"))
    status.assert_consumed()
    ours = [source.embed, source.body.w, source.body.b, source.head.w, source.head.b]
    body, top = twin.net.layers
    theirs = [twin.net.table, body.kernel, body.bias, top.kernel, top.bias]
    for one, other in zip(ours, theirs, strict=True):
        assert np.array_equal(one.numpy(), other.numpy())
    (one,) = done.to_dict()["conversions"]
    reasons = [each["reason"] for each in one["placement"]["pairs"]]
    assert sorted(reasons) == ["full name", "full name", "shape", "shape", "shape"]
