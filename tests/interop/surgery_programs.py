"""Programs that exist twice: as they were when they saved, and with other names."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.interop.values import Array


@dataclass(frozen=True, slots=True)
class Program:
    """What is saved and restored.

    Attributes:
        checkpoint: a `tf.train.Checkpoint`.
        values: gives all values that training changes, by labels that no renaming changes.
        step: trains one step; None if there is nothing to train.
    """

    checkpoint: Any
    values: Callable[[], dict[str, Array]]
    step: Callable[[], None] | None = None


@dataclass(slots=True)
class Side:
    """One of the two forms of a program: it chooses names, and values to begin with.

    Attributes:
        tf: TensorFlow.
        renamed: whether this is the form with other names; its values are all -1 then.
        variables: those made so far, by label.
    """

    tf: Any
    renamed: bool
    variables: dict[str, Any] = field(default_factory=dict)

    def __call__(self, old: str, new: str) -> str:
        """Return the name for this side."""
        return new if self.renamed else old

    def var(self, label: str, shape: tuple[int, ...] = (), dtype: str = "float32") -> Any:
        """Make a variable; all have different values."""
        size = int(np.prod(shape, dtype=np.int64))
        ramp = np.arange(size).reshape(shape) + 100 * (len(self.variables) + 1)
        value = np.full(shape, -1) if self.renamed else ramp
        made = self.tf.Variable(value.astype(dtype), name=f"{label}_{self.renamed:d}")
        self.variables[label] = made
        return made

    def module(self, **children: Any) -> Any:
        """Make a module with attributes of any names."""
        made = self.tf.Module()
        for name, child in children.items():
            setattr(made, name, child)
        return made

    def values(self) -> dict[str, Array]:
        """Return the values of all variables."""
        return {label: each.numpy() for label, each in self.variables.items()}

    def program(self, *root: Any, **parts: Any) -> Program:
        """Return a program of these parts that cannot be trained."""
        return Program(self.tf.train.Checkpoint(*root, **parts), self.values)


def keras_families() -> tuple[Any, Any]:
    """Return tf_keras and keras."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import keras
        import tf_keras
    return tf_keras, keras


def trainer(side: Side, optimizer: Any, variables: Sequence[Any]) -> Callable[[], None]:
    """Return a step of training with a gradient that is always the same."""

    def step() -> None:
        gradients = [
            side.tf.reshape(side.tf.linspace(0.25, 1.0, int(np.prod(each.shape))), each.shape)
            for each in variables
        ]
        optimizer.apply_gradients(zip(gradients, variables, strict=True))

    return step


def with_slots(side: Side, optimizer: Any, variables: dict[str, Any]) -> dict[str, Array]:
    """Return values of variables, of their slots and of a legacy optimizer's hyper-parameters."""
    found = side.values()
    for label, variable in variables.items():
        found[label] = variable.numpy()
        for name in optimizer.get_slot_names():
            found[f"{label}/{name}"] = optimizer.get_slot(variable, name).numpy()
    for number, each in enumerate(optimizer.variables()[:1]):
        found[f"optimizer/{number}"] = each.numpy()
    return found


LEGACY: dict[str, Callable[[Any], Any]] = {
    "adam": lambda legacy: legacy.Adam(0.1),
    "amsgrad": lambda legacy: legacy.Adam(0.1, amsgrad=True),
    "momentum": lambda legacy: legacy.SGD(0.1, momentum=0.9),
    "rmsprop": lambda legacy: legacy.RMSprop(0.1, centered=True, momentum=0.5),
    "ftrl": lambda legacy: legacy.Ftrl(0.1),
}


def legacy_net(side: Side, make: Callable[[Any], Any] = LEGACY["adam"]) -> Program:
    """Return a net of two layers with a legacy optimizer, which has slot variables.

    `net` becomes `model`, `l1` `dense` and its `kernel` `w`; `optimizer` becomes `opt`.
    """
    tf_keras, _ = keras_families()
    kernel, bias = side.var("kernel", (3, 2)), side.var("bias", (2,))
    l1 = side.module(**{side("kernel", "w"): kernel, "bias": bias})
    l2 = side.module(kernel=side.var("kernel2", (2, 2)))
    net = side.module(**{side("l1", "dense"): l1, "l2": l2})
    optimizer = make(tf_keras.optimizers.legacy)
    # Otherwise they come with the first step of training, and are not restored until then.
    assert optimizer.iterations is not None
    optimizer._create_hypers()
    trained = {"kernel": kernel, "bias": bias, "kernel2": l2.kernel}
    checkpoint = side.tf.train.Checkpoint(
        **{
            "step": side.var("step", (), "int64"),
            side("optimizer", "opt"): optimizer,
            side("net", "model"): net,
        }
    )
    return Program(
        checkpoint,
        lambda: with_slots(side, optimizer, trained),
        trainer(side, optimizer, list(trained.values())),
    )


def new_optimizer_net(side: Side, make: Callable[[Any, Any], Any]) -> Program:
    """Return a net with an optimizer that keeps its variables in a list.

    `net` becomes `model`, `l1` `dense`; `optimizer` becomes `opt`.

    Args:
        side: of the program.
        make: gives the optimizer, from tf_keras and keras.
    """
    kernel, bias = side.var("kernel", (3, 2)), side.var("bias", (2,))
    l1 = side.module(kernel=kernel, bias=bias)
    net = side.module(**{side("l1", "dense"): l1})
    optimizer = make(*keras_families())
    optimizer.build([kernel, bias])

    def values() -> dict[str, Array]:
        kept = optimizer.variables() if callable(optimizer.variables) else optimizer.variables
        return side.values() | {f"optimizer/{at}": np.asarray(v) for at, v in enumerate(kept)}

    parts = {side("optimizer", "opt"): optimizer, side("net", "model"): net}
    checkpoint = side.tf.train.Checkpoint(**parts)
    return Program(checkpoint, values, trainer(side, optimizer, [kernel, bias]))
