"""The same models and optimizers in each generation of Keras, trained by the same steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.interop.surgery_programs import keras_families
from tests.interop.values import Array

# Optimizers of `tf_keras.optimizers.legacy`, those of tf_keras since 2.11, those of Keras 3.
GENERATIONS = ("legacy", "new", "three")
OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "adam": lambda o: o.Adam(0.01),
    "amsgrad": lambda o: o.Adam(0.01, amsgrad=True),
    "descent": lambda o: o.SGD(0.01),
    "momentum": lambda o: o.SGD(0.01, momentum=0.9),
    "rmsprop": lambda o: o.RMSprop(0.01, momentum=0.5, centered=True),
    "adamax": lambda o: o.Adamax(0.01),
    "nadam": lambda o: o.Nadam(0.01),
    "adagrad": lambda o: o.Adagrad(0.01),
    "adadelta": lambda o: o.Adadelta(0.01),
    "ftrl": lambda o: o.Ftrl(0.01),
}
# The slots of each by their names in a legacy optimizer, and the lists of the others.
SLOTS: dict[str, dict[str, str]] = {
    "adam": {"m": "_momentums", "v": "_velocities"},
    "amsgrad": {"m": "_momentums", "v": "_velocities", "vhat": "_velocity_hats"},
    "descent": {},
    "momentum": {"momentum": "momentums"},
    "rmsprop": {"rms": "_velocities", "mg": "_average_gradients", "momentum": "_momentums"},
    "adamax": {"m": "_m", "v": "_u"},
    "nadam": {"m": "_momentums", "v": "_velocities"},
    "adagrad": {"accumulator": "_accumulators"},
    "adadelta": {"accum_grad": "_accumulated_grads", "accum_var": "_accumulated_delta_vars"},
    "ftrl": {"accumulator": "_accumulators", "linear": "_linears"},
}


def plain(k: Any) -> Any:
    """Return layers one after another, several of the same shape."""
    dense = [k.layers.Dense(4) for _ in range(3)]
    norm = k.layers.BatchNormalization()
    return k.Sequential([k.Input((4,)), dense[0], norm, *dense[1:], k.layers.Dense(2)])


def nested(k: Any) -> Any:
    """Return a model with another in it, an embedding and a layer that is used twice."""
    start = k.Input((4,))
    second, first = k.layers.Dense(4), k.layers.Dense(4)
    inner = k.Model(start, second(first(start)))
    words = k.Input((4,), dtype="int32")
    twice = k.layers.Dense(4)
    found = k.layers.Flatten()(k.layers.Embedding(10, 4)(words))
    found = twice(inner(twice(k.layers.Dense(4)(found))))
    return k.Model(words, k.layers.Dense(2)(found))


def recurrent(k: Any) -> Any:
    """Return a model with recurrent cells, attention and an embedding."""
    words = k.Input((4,), dtype="int32")
    found = k.layers.Embedding(10, 4)(words)
    # The loss does not depend on the bias of keys, so noise alone would train it.
    heads = k.layers.MultiHeadAttention(2, 2, use_bias=False)(found, found)
    parts = [k.layers.LSTM(4)(found), k.layers.GRU(4)(found)]
    parts.append(k.layers.GlobalAveragePooling1D()(heads))
    return k.Model(words, k.layers.Dense(2)(k.layers.Concatenate()(parts)))


def subclassed(k: Any) -> Any:
    """Return a model of a class of its own."""

    class Net(k.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first = k.layers.Dense(4)
            self.norm = k.layers.BatchNormalization()
            self.again = k.layers.Dense(4)
            self.last = k.layers.Dense(2)

        def call(self, x: Any, training: bool = False) -> Any:
            return self.last(self.again(self.norm(self.first(x), training=training)))

    made = Net()
    made(np.ones((1, 4), np.float32))
    return made


def stacked(k: Any) -> Any:
    """Return such a model with layers in a list, to which Keras 3 leads by no path."""

    class Net(k.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.blocks = [k.layers.Dense(4) for _ in range(3)]
            self.last = k.layers.Dense(2)

        def call(self, x: Any, training: bool = False) -> Any:
            for block in self.blocks:
                x = block(x)
            return self.last(x)

    made = Net()
    made(np.ones((1, 4), np.float32))
    return made


MODELS: dict[str, Callable[[Any], Any]] = {
    "plain": plain,
    "nested": nested,
    "recurrent": recurrent,
    "subclassed": subclassed,
    "stacked": stacked,
}


@dataclass(slots=True)
class Trained:
    """A model and its optimizer.

    Attributes:
        tf: TensorFlow.
        model: the model.
        optimizer: the optimizer, with all its variables.
        slots: which it keeps, as in `SLOTS`.
        checkpoint: of both.
    """

    tf: Any
    model: Any
    optimizer: Any
    slots: Mapping[str, str]
    checkpoint: Any

    def step(self, number: int) -> None:
        """Train one step, which is the same for the same number."""
        x, y = batch(number)
        variables = self.model.trainable_variables
        with self.tf.GradientTape() as tape:
            loss = self.tf.reduce_mean((self.model(x, training=True) - y) ** 2)
        gradients = tape.gradient(loss, variables)
        dense = [self.tf.convert_to_tensor(each) for each in gradients]
        self.optimizer.apply_gradients(zip(dense, variables, strict=True))

    def answer(self) -> Array:
        """Return what the model makes of what it has not seen."""
        found: Array = self.model(batch(99)[0], training=False).numpy()
        return found

    def values(self) -> dict[str, Array]:
        """Return weights, slots and iterations, by labels that no generation changes."""
        trained = self.model.trainable_variables
        # Keras 3 has the state of random generators among these.
        fixed = [v for v in self.model.non_trainable_variables if "float" in str(v.dtype)]
        found = {f"weight/{at}": each for at, each in enumerate(trained)}
        found |= {f"fixed/{at}": each for at, each in enumerate(fixed)}
        for name, listed in self.slots.items():
            for at, each in enumerate(trained):
                optimizer = getattr(self.optimizer, "inner_optimizer", self.optimizer)
                legacy = hasattr(optimizer, "get_slot")
                slot = optimizer.get_slot(each, name) if legacy else getattr(optimizer, listed)[at]
                found[f"slot/{name}/{at}"] = slot
        found["iterations"] = self.optimizer.iterations
        return {label: each.numpy() for label, each in found.items()}


def batch(number: int) -> tuple[Array, Array]:
    """Return numbers that can be words and pixels."""
    random = np.random.default_rng(number)
    return random.integers(0, 9, (8, 4)).astype(np.int32), random.normal(size=(8, 2))


def trained(
    tf: Any,
    generation: str,
    model: str,
    optimizer: str,
    *,
    steps: int,
    before: int = 0,
    **how: Any,
) -> Trained:
    """Return a trained program.

    Args:
        tf: TensorFlow.
        generation: of Keras.
        model: a name in `MODELS`.
        optimizer: a name in `OPTIMIZERS`.
        steps: how many to train; afterwards the optimizer has all its variables in any case.
        before: layers made before, so that names have other numbers.
        how: arguments of the optimizer besides those.
    """
    tf_keras, keras = keras_families()
    k = keras if generation == "three" else tf_keras
    k.backend.clear_session()
    for _ in range(before):
        k.layers.Dense(1)
    made = MODELS[model](k)
    for each in made.trainable_variables:  # the same every time, and no two alike
        shape = tuple(each.shape)
        size = sum(shape) + steps
        each.assign(np.random.default_rng(size).normal(size=shape) / 2)
    optimizers = tf_keras.optimizers.legacy if generation == "legacy" else k.optimizers
    kept = OPTIMIZERS[optimizer](optimizers)
    if how:
        kept = type(kept).from_config({**kept.get_config(), **how})
    if hasattr(kept, "build"):
        kept.build(made.trainable_variables)
    program = Trained(
        tf, made, kept, SLOTS[optimizer], tf.train.Checkpoint(model=made, optimizer=kept)
    )
    for number in range(steps):
        program.step(number)
    return program
