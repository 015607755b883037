"""Programs that train under each optimizer and know which of their variables is what.

Every variable is filled with a number of its own before it is saved, so that a tensor tells by its
value which variable it is, whatever its key.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.interop.surgery_programs import keras_families

# By the number that its elements are: what a variable is.
Truth = dict[int, str]
MakeOptimizer = Callable[[Any], Any]

_NAMES = ("Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Ftrl", "Lion", "Nadam")
_NEW: dict[str, dict[str, Any]] = {
    **{name: {} for name in (*_NAMES, "RMSprop", "SGD")},
    "Adam amsgrad": {"amsgrad": True},
    "RMSprop centered": {"centered": True, "momentum": 0.5},
    "SGD momentum": {"momentum": 0.9, "nesterov": True},
}
_ONLY_KERAS_3: dict[str, dict[str, Any]] = {"Lamb": {}, "Muon": {}, "ScheduleFreeAdamW": {}}
_LEGACY: dict[str, dict[str, Any]] = {
    **{name: {} for name in ("Adadelta", "Adagrad", "Adam", "Adamax", "Ftrl", "Nadam", "RMSprop")},
    "SGD": {},
    "Adam amsgrad": {"amsgrad": True},
    "RMSprop centered": {"centered": True, "momentum": 0.5},
    "SGD momentum": {"momentum": 0.9},
}


@dataclass(frozen=True, slots=True)
class Case:
    """A program.

    Attributes:
        family: `"tf_keras"`, `"keras"` or `"legacy"`.
        make: gives the optimizer, from the module of optimizers.
    """

    family: str
    make: MakeOptimizer


def _maker(name: str, arguments: dict[str, Any]) -> MakeOptimizer:
    return lambda optimizers: getattr(optimizers, name.partition(" ")[0])(0.1, **arguments)


def _scaled(name: str, arguments: dict[str, Any]) -> MakeOptimizer:
    def make(optimizers: Any) -> Any:
        inner = getattr(optimizers, name)(0.1, **arguments)
        if hasattr(optimizers, "LossScaleOptimizer"):
            return optimizers.LossScaleOptimizer(inner)
        tf_keras, _ = keras_families()
        return tf_keras.mixed_precision.LossScaleOptimizer(inner)

    return make


def _cases() -> dict[str, Case]:
    made = {}
    for family, known in (("tf_keras", _NEW), ("keras", _NEW | _ONLY_KERAS_3)):
        for name, given in known.items():
            made[f"{family} {name}"] = Case(family, _maker(name, given))
            averaged = given | {"use_ema": True}
            if name != "ScheduleFreeAdamW":
                made[f"{family} {name} averaged"] = Case(family, _maker(name, averaged))
    for family in ("tf_keras", "keras"):
        made[f"{family} scaled"] = Case(family, _scaled("Adam", {}))
        made[f"{family} scaled averaged"] = Case(family, _scaled("Adam", {"use_ema": True}))
    for name, given in _LEGACY.items():
        made[f"legacy {name}"] = Case("legacy", _maker(name, given))
    made["legacy scaled"] = Case("legacy", _scaled("Adam", {}))
    return made


CASES = _cases()


def _model(keras: Any) -> Any:
    return keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(3),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(2),
        ]
    )


@dataclass(frozen=True, slots=True)
class Trained:
    """A model that was trained for one step, every variable of it filled with its number.

    Attributes:
        model: the model.
        optimizer: what trained it.
        truth: what each variable is.
        averages: for each trained variable that has one, its number and that of its average.
    """

    model: Any
    optimizer: Any
    truth: Truth
    averages: dict[int, int]


def _listed(found: Any) -> list[Any]:
    return list(found() if callable(found) else found)


def _fill(truth: Truth, variable: Any, what: str) -> int | None:
    """Give a variable a number of its own, unless it has one; return it."""
    have = np.asarray(variable).ravel()
    if have.dtype.kind not in "fiu":
        return None
    if have.size and int(have[0]) in truth:
        return int(have[0])
    number = 1000 + len(truth)
    variable.assign(np.full(variable.shape, number, np.asarray(variable).dtype))
    truth[number] = what if len(variable.shape) or what == "weight" else "optimizer"
    return number


def train(case: Case) -> Trained:
    """Train a model for one step."""
    tf_keras, keras3 = keras_families()
    keras = keras3 if case.family == "keras" else tf_keras
    legacy = case.family == "legacy"
    model = _model(keras)
    optimizer = case.make(tf_keras.optimizers.legacy if legacy else keras.optimizers)
    weights = model.trainable_variables
    steps = [np.full(each.shape, 0.5, np.float32) for each in weights]
    optimizer.apply_gradients(list(zip(map(_tensor, steps), weights, strict=True)))
    truth: Truth = {}
    for each in model.variables:
        _fill(truth, each, "weight")
    inner: Any = getattr(optimizer, "inner_optimizer", optimizer)
    averages = {}
    pairs = zip(weights, getattr(inner, "_model_variables_moving_average", ()), strict=False)
    for weight, average in pairs:
        number, own = _fill(truth, weight, "weight"), _fill(truth, average, "ema")
        assert number is not None and own is not None and own > number
        averages[number] = own
    if legacy:
        for each in weights:
            for name in inner.get_slot_names():
                _fill(truth, inner.get_slot(each, name), "slot")
    for each in (*_listed(inner.variables), *_listed(optimizer.variables)):
        _fill(truth, each, "slot")
    return Trained(model, optimizer, truth, averages)


def _tensor(value: Any) -> Any:
    import tensorflow as tf

    return tf.constant(value)
