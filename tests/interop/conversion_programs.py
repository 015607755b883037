"""Programs of TensorFlow 2 that take in what TensorFlow 1 trained, with optimizers of all kinds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.interop.conversion_saver import SHAPES
from tests.interop.surgery_programs import keras_families
from tests.interop.values import Array

# What the slots of an optimizer of TensorFlow 1 are called, in the order of their numbers.
NAMES: dict[str, tuple[str, list[str]]] = {
    "descent": ("GradientDescent", []),
    "momentum": ("Momentum", ["momentum"]),
    "adam": ("Adam", ["m", "v"]),
    "rmsprop": ("RMSProp", ["rms", "momentum"]),
    "centered": ("RMSProp", ["rms", "mg", "momentum"]),
    "adagrad": ("Adagrad", ["accumulator"]),
    "adadelta": ("Adadelta", ["accum", "accum_update"]),
    "ftrl": ("Ftrl", ["accum", "linear"]),
}
# Where Keras has other names.
_LEGACY_NAMES = {
    "adadelta": ["accum_grad", "accum_var"],
    "ftrl": ["accumulator", "linear"],
}
_V1: dict[str, Callable[[Any], Any]] = {
    "descent": lambda train: train.GradientDescentOptimizer(0.1),
    "momentum": lambda train: train.MomentumOptimizer(0.1, 0.9),
    "adam": lambda train: train.AdamOptimizer(0.1),
    "rmsprop": lambda train: train.RMSPropOptimizer(0.1, momentum=0.5),
    "centered": lambda train: train.RMSPropOptimizer(0.1, momentum=0.5, centered=True),
    "adagrad": lambda train: train.AdagradOptimizer(0.1),
    "adadelta": lambda train: train.AdadeltaOptimizer(0.1),
    "ftrl": lambda train: train.FtrlOptimizer(0.1),
}
# These are written the same way for all of Keras.
_KERAS: dict[str, Callable[[Any], Any]] = {
    "descent": lambda optimizers: optimizers.SGD(0.1),
    "momentum": lambda optimizers: optimizers.SGD(0.1, momentum=0.9),
    "adam": lambda optimizers: optimizers.Adam(0.1),
    "rmsprop": lambda optimizers: optimizers.RMSprop(0.1, momentum=0.5),
    "centered": lambda optimizers: optimizers.RMSprop(0.1, momentum=0.5, centered=True),
    "adagrad": lambda optimizers: optimizers.Adagrad(0.1),
    "adadelta": lambda optimizers: optimizers.Adadelta(0.1),
    "ftrl": lambda optimizers: optimizers.Ftrl(0.1),
}
# The lists of today's Keras, in the order of the numbers of TensorFlow 1.
_LISTS = {
    "descent": [],
    "momentum": ["momentums"],
    "adam": ["_momentums", "_velocities"],
    "rmsprop": ["_velocities", "_momentums"],
    "centered": ["_velocities", "_average_gradients", "_momentums"],
    "adagrad": ["_accumulators"],
    "adadelta": ["_accumulated_grads", "_accumulated_delta_vars"],
    "ftrl": ["_accumulators", "_linears"],
}


@dataclass(frozen=True, slots=True)
class Program:
    """What is saved and restored.

    Attributes:
        checkpoint: a `tf.train.Checkpoint` of model and optimizer.
        values: gives variables and slots by the names they had in TensorFlow 1.
        train: trains one step, or makes all variables of the optimizer at least.
    """

    checkpoint: Any
    values: Callable[[], Mapping[str, Array]]
    train: Callable[[], None]


def program(tf: Any, family: str, name: str) -> Program:
    """Return a program with an optimizer.

    Args:
        tf: TensorFlow.
        family: "v1" for those of `tf.compat.v1.train`, "legacy" for those of Keras up to 2.10,
            "tf_keras" for those from 2.11 on, "keras" for those of Keras 3.
        name: which optimizer.
    """
    tf_keras, keras = keras_families()
    variables = _keras_variables(keras) if family == "keras" else _variables(tf)
    if family == "v1":
        tf.compat.v1.reset_default_graph()  # it numbers the names of slots
        optimizer = _V1[name](tf.compat.v1.train)
    elif family == "legacy":
        optimizer = _KERAS[name](tf_keras.optimizers.legacy)
    else:
        optimizer = _KERAS[name]((keras if family == "keras" else tf_keras).optimizers)
    net = tf.Module()
    net.embed = variables["embed"]
    net.dense = [variables["dense/kernel"], variables["dense/bias"]]
    stem, slots = NAMES[name]
    if family == "legacy":
        slots = _LEGACY_NAMES.get(name, slots)

    def values() -> dict[str, Array]:
        found = {label: each.numpy() for label, each in variables.items()}
        for at, (label, each) in enumerate(variables.items()):
            for number in range(len(slots)):
                key = f"{label}/{stem}_{number}" if number else f"{label}/{stem}"
                if family in ("v1", "legacy"):
                    found[key] = optimizer.get_slot(each, slots[number]).numpy()
                else:
                    found[key] = getattr(optimizer, _LISTS[name][number])[at].numpy()
        if name == "adam" and family == "v1":
            # They are made, and restored, with the first step of training.
            optimizer._create_slots(list(variables.values()))
            powers = optimizer._get_beta_accumulators()
            found |= {f"beta{at}_power": each.numpy() for at, each in enumerate(powers, 1)}
        if family != "v1":
            found["global_step"] = optimizer.iterations.numpy()
        return found

    def train() -> None:
        pairs = [(tf.ones(each.shape), each) for each in variables.values()]
        optimizer.apply_gradients(pairs)

    if family in ("tf_keras", "keras"):
        optimizer.build(list(variables.values()))
    return Program(tf.train.Checkpoint(net=net, optimizer=optimizer), values, train)


def _variables(tf: Any) -> dict[str, Any]:
    return {name: tf.Variable(tf.zeros(shape), name=name) for name, shape in SHAPES.items()}


def _keras_variables(keras: Any) -> dict[str, Any]:
    """Return variables of layers of Keras 3, whose names are paths."""
    dense = keras.layers.Dense(2, name="dense")
    dense.build((None, 3))
    embed = keras.Variable(keras.ops.zeros(SHAPES["embed"]), name="embed")
    return {"dense/kernel": dense.kernel, "dense/bias": dense.bias, "embed": embed}
