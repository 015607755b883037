"""Keras models, of either Keras, each in two forms with different names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.interop.surgery_programs import Program, Side, keras_families, trainer
from tests.interop.values import Array

MakeOptimizer = Callable[[Any], Any]


def weights_of(model: Any, optimizer: Any) -> dict[str, Array]:
    """Return all weights of a model, and all that its optimizer keeps."""
    found = {f"weight/{at}": value for at, value in enumerate(model.get_weights())}
    if hasattr(optimizer, "get_slot_names"):
        slots = (
            (f"{at}/{name}", optimizer.get_slot(each, name))
            for at, each in enumerate(model.trainable_variables)
            for name in optimizer.get_slot_names()
        )
        found["optimizer/iter"] = np.array(optimizer.iterations.numpy())
        return found | {label: each.numpy() for label, each in slots}
    kept = optimizer.variables
    for at, each in enumerate(kept() if callable(kept) else kept):
        found[f"optimizer/{at}"] = np.array(each.numpy())
    return found


def fill(side: Side, model: Any) -> None:
    """Give the weights of a model values, all different; or -1 on the other side."""
    weights = [
        np.full(each.shape, -1, np.float32)
        if side.renamed
        else (np.arange(each.size, dtype=np.float32).reshape(each.shape) / 10 + at)
        for at, each in enumerate(model.get_weights())
    ]
    model.set_weights(weights)


def subclassed(keras: Any, side: Side) -> Any:
    """Return a model of a class of its own; its layer `first` becomes `entry`."""
    layer, other = keras.layers.Dense(3), keras.layers.Dense(2)
    name = side("first", "entry")

    class Net(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            setattr(self, name, layer)
            self.second = other

        def call(self, x: Any) -> Any:
            return self.second(getattr(self, name)(x))

    model = Net()
    model(np.ones((1, 4), np.float32))
    return model


def sequential(keras: Any, side: Side) -> Any:
    """Return a Sequential model of two layers."""
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(2)])


def built(optimizer: Any, variables: Any) -> Any:
    """Return an optimizer that has all its variables; one of the old sort makes them later."""
    if hasattr(optimizer, "build"):
        optimizer.build(variables)
    else:
        assert optimizer.iterations is not None
        optimizer._create_hypers()
    return optimizer


def model_beside_optimizer(
    side: Side,
    make: MakeOptimizer,
    *,
    three: bool = True,
    shape: Callable[[Any, Side], Any] = subclassed,
) -> Program:
    """Return a model and its optimizer: `model` becomes `net`, `optimizer` `opt`.

    Args:
        side: of the program.
        make: gives the optimizer, from the Keras of the model.
        three: whether that is Keras 3.
        shape: makes the model.
    """
    keras = keras_families()[three]
    model = shape(keras, side)
    fill(side, model)
    optimizer = built(make(keras), model.trainable_variables)
    parts = {side("model", "net"): model, side("optimizer", "opt"): optimizer}
    variables = model.trainable_variables
    step = trainer(side, optimizer, variables)
    checkpoint = side.tf.train.Checkpoint(**parts)
    return Program(checkpoint, lambda: weights_of(model, optimizer), step)


def compiled(side: Side, make: MakeOptimizer, *, three: bool = True) -> Program:
    """Return a compiled model, which leads to its optimizer: `model` becomes `net`."""
    keras = keras_families()[three]
    model = sequential(keras, side)
    fill(side, model)
    optimizer = built(make(keras), model.trainable_variables)
    model.compile(optimizer=optimizer, loss="mse")
    checkpoint = side.tf.train.Checkpoint(**{side("model", "net"): model})
    step = trainer(side, optimizer, model.trainable_variables)
    return Program(checkpoint, lambda: weights_of(model, optimizer), step)
