"""Pairs of programs of TensorFlow: one saves, the other restores.

Each is made of the modules `k.tf`, `k.tf_keras` and `k.keras` (Keras 3).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from ckpttool.query.match.plan import MatchMode

Make = Callable[[Any], Any]


@dataclass(frozen=True)
class Pair:
    """A program that saves, and one that restores.

    Attributes:
        saves: makes the `tf.train.Checkpoint` that saves.
        restores: makes the one that restores.
        mode: how: "restore" or "read".
        skip_slots: whether slot variables are left out.
        writes: whether the first one writes, so that there is no save counter.
        explained: whether the suggestions explain all differences.
    """

    saves: Make
    restores: Make
    mode: MatchMode = "restore"
    skip_slots: bool = False
    writes: bool = False
    explained: bool = False


def tree(k: Any, spec: Any) -> Any:
    """Return modules for dicts, lists for lists, and variables for arrays."""
    if isinstance(spec, dict):
        made = k.tf.Module()
        for name, each in spec.items():
            setattr(made, name, tree(k, each))
        return made
    if isinstance(spec, list):
        return [tree(k, each) for each in spec]
    if isinstance(spec, tuple):  # dtype by NumPy, name
        return k.tf.Variable(spec[0], name=spec[1])
    return k.tf.Variable(spec)


def program(**spec: Any) -> Make:
    """Return what makes a Checkpoint of such trees."""
    return lambda k: k.tf.train.Checkpoint(**{name: tree(k, each) for name, each in spec.items()})


def below(**spec: Any) -> Make:
    """Return what makes a Checkpoint of one, as root."""
    return lambda k: k.tf.train.Checkpoint(tree(k, spec))


def full(shape: tuple[int, ...], value: float) -> Any:
    return np.full(shape, value, np.float32)


def dense(value: float = 1.0, units: int = 3) -> dict[str, Any]:
    return {"kernel": full((4, units), value), "bias": full((units,), value + 0.5)}


def shared(k: Any) -> Any:
    variable = k.tf.Variable(7.0)
    return k.tf.train.Checkpoint(a=variable, b=variable)


def dict_program(value: float, *names: str) -> Make:
    def make(k: Any) -> Any:
        net = k.tf.Module()
        net.table = {name: k.tf.Variable(value + at) for at, name in enumerate(names)}
        net.table["list"] = [k.tf.Variable(value), {"deep": k.tf.Variable([value])}]
        return k.tf.train.Checkpoint(net=net)

    return make


# --- plain objects ------------------------------------------------------------------------------

PLAIN: dict[str, Pair] = {
    "same": Pair(program(net=dense()), program(net=dense(0))),
    "same, read": Pair(program(net=dense()), program(net=dense(0)), mode="read"),
    "written, restore": Pair(program(net=dense()), program(net=dense(0)), writes=True),
    "written, read": Pair(program(net=dense()), program(net=dense(0)), writes=True, mode="read"),
    "renamed scope": Pair(
        program(net={"l1": dense(), "l2": dense(2, 5)}),
        program(model={"l1": dense(0), "l2": dense(0, 5)}),
        explained=True,
    ),
    "renamed layer": Pair(
        program(net={"dense": dense(), "out": dense(2)}),
        program(net={"l1": dense(0), "out": dense(0)}),
        explained=True,
    ),
    "renamed leaf": Pair(
        program(net={"w": full((4,), 1), "b": 1.0}),
        program(net={"weight": full((4,), 0), "b": 0.0}),
        explained=True,
    ),
    "renamed in all blocks": Pair(
        program(**{f"b{n}": {"dense": dense(n)} for n in range(4)}),
        program(**{f"b{n}": {"fc": dense(0)} for n in range(4)}),
        explained=True,
    ),
    "renamed, and one below too": Pair(
        program(net={"l1": dense(), "l2": dense(), "head": dense(3, 7)}),
        program(model={"l1": dense(0), "l2": dense(0), "top": dense(0, 7)}),
        explained=True,
    ),
    "up to the root": Pair(
        program(model={"d1": dense(), "d2": dense(2, 5)}),
        program(d1=dense(0), d2=dense(0, 5)),
        explained=True,
    ),
    "into a scope": Pair(
        program(d1=dense(), d2=dense(2, 5)),
        program(model={"d1": dense(0), "d2": dense(0, 5)}),
        explained=True,
    ),
    "missing in the checkpoint": Pair(
        program(net={"a": 1.0}), program(net={"a": 0.0, "new": dense(0)})
    ),
    "missing in the program": Pair(
        program(net={"a": 1.0, "old": dense()}), program(net={"a": 0.0})
    ),
    "missing on both sides": Pair(
        program(net={"a": 1.0, "old": full((7,), 1)}),
        program(net={"a": 0.0, "new": full((8,), 1)}),
    ),
    "nothing in common": Pair(program(a=dense()), program(b={"x": 1})),
    "nothing in common, read": Pair(program(a=dense()), program(b={"x": 1}), mode="read"),
    "empty program": Pair(program(a=dense()), program()),
    "empty program, read": Pair(program(a=dense()), program(), mode="read"),
    "empty checkpoint": Pair(program(), program(a=dense())),
    "empty both, written": Pair(program(), program(), writes=True, mode="read"),
    "other shape": Pair(program(net=dense()), program(net=dense(0, 5))),
    "other rank": Pair(program(x=full((1,), 1)), program(x=0.0)),
    "other dtype": Pair(program(x=np.float32(1)), program(x=np.float64(1))),
    "other dtype, integers": Pair(program(x=np.int32(1)), program(x=np.int64(1))),
    "counter of another dtype": Pair(
        program(save_counter_too=1.0, x=1), program(save_counter_too=np.int64(1), x=1)
    ),
    "strings": Pair(program(s=["a", "b"]), program(s=["", ""])),
    "string for a number": Pair(program(s="text"), program(s=1.0)),
    "lists": Pair(
        program(net={"layers": [dense(), dense(2)]}), program(net={"layers": [dense(0), dense(0)]})
    ),
    "longer list": Pair(
        program(net={"layers": [dense()]}), program(net={"layers": [dense(0), dense(0)]})
    ),
    "shorter list": Pair(
        program(net={"layers": [dense(), dense(2)]}), program(net={"layers": [dense(0)]})
    ),
    "list for named": Pair(
        program(net={"layers": [dense(), dense(2, 5)]}),
        program(net={"first": dense(0), "second": dense(0, 5)}),
        explained=True,
    ),
    "dicts": Pair(dict_program(1, "a", "b"), dict_program(0, "a", "b")),
    "other keys": Pair(dict_program(1, "a", "b"), dict_program(0, "a", "c")),
    "hollow": Pair(program(x={}, y=1.0), program(x=0.0, y=0.0)),
    "unused": Pair(program(x=1.0, y=1.0), program(x={}, y=0.0)),
    "module for a variable": Pair(program(x=1.0), program(x={"inner": 0.0})),
    "one became two": Pair(shared, program(a=0.0, b=0.0)),
    "two became one": Pair(program(a=1.0, b=2.0), shared),
    "one and one": Pair(shared, shared),
    "root": Pair(below(net=dense()), below(net=dense(0))),
    "root for keyword": Pair(below(net=dense()), program(net=dense(0))),
    "keyword for root": Pair(program(net=dense()), below(net=dense(0))),
    "root against model=": Pair(
        program(model={"d1": dense(), "d2": dense(2, 5)}),
        below(d1=dense(0), d2=dense(0, 5)),
    ),
    "names to escape": Pair(
        program(net={"a.b": 1.0, "c/d": dense()}), program(net={"a.b": 0.0, "c/d": dense(0)})
    ),
    "names to escape, renamed": Pair(
        program(net={"a.b": dense()}), program(net={"c/d": dense(0)}), explained=True
    ),
    "swapped": Pair(
        program(a=full((2,), 1), b=full((3,), 1)), program(a=full((3,), 0), b=full((2,), 0))
    ),
}


# --- other objects ------------------------------------------------------------------------------


def python_state(value: str) -> Make:
    def make(k: Any) -> Any:
        class State(k.tf.train.experimental.PythonState):  # type: ignore[misc]
            text = value

            def serialize(self) -> str:
                return self.text

            def deserialize(self, string_value: Any) -> None:
                self.text = string_value

        return k.tf.train.Checkpoint(state=State(), x=k.tf.Variable(1.0))

    return make


def table(size: int, *, dtype: str = "int64") -> Make:
    def make(k: Any) -> Any:
        made = k.tf.lookup.experimental.MutableHashTable(k.tf.string, dtype, -1)
        keys = k.tf.constant([f"k{n}" for n in range(size)], k.tf.string)
        made.insert(keys, k.tf.constant([*range(size)], dtype))
        return k.tf.train.Checkpoint(table=made)

    return make


def iterator(count: int) -> Make:
    def make(k: Any) -> Any:
        made = iter(k.tf.data.Dataset.range(10))
        for _ in range(count):
            next(made)
        return k.tf.train.Checkpoint(iterator=made, x=k.tf.Variable(1.0))

    return make


def tensors(**values: float) -> Make:
    """Return what makes a program of an object that saves itself as tensors."""

    def make(k: Any) -> Any:
        class State(k.tf.__internal__.tracking.AutoTrackable):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.held = {name: k.tf.constant(value) for name, value in values.items()}

            def _serialize_to_tensors(self) -> Any:
                return dict(self.held)

            def _restore_from_tensors(self, restored: Any) -> Any:
                self.held = restored

        return k.tf.train.Checkpoint(state=State(), x=k.tf.Variable(1.0))

    return make


def deep(optimizer: Make, *, steps: int) -> Make:
    """Return what makes a program with its variables above its optimizer."""

    def make(k: Any) -> Any:
        w, made = k.tf.Variable(full((3, 2), 1 + steps)), optimizer(k)
        for _ in range(steps):
            apply(made, [w])
        trainer = k.tf.Module()
        trainer.inner = k.tf.Module()
        trainer.inner.opt = made
        return k.tf.train.Checkpoint(w=w, trainer=trainer)

    return make


def counted(make: Make) -> Make:
    """Return what makes a program that has a save counter before it restores."""

    def made(k: Any) -> Any:
        checkpoint = make(k)
        assert checkpoint.save_counter is not None
        return checkpoint

    return made


def root_and_more(value: float) -> Make:
    def make(k: Any) -> Any:
        return k.tf.train.Checkpoint(tree(k, {"net": dense(value)}), step=k.tf.Variable(value))

    return make


def tied(k: Any) -> Any:
    layer = tree(k, {"inner": dense(), "x": 3.0})
    return k.tf.train.Checkpoint(a=layer, b={"layer": layer})


OTHERS: dict[str, Pair] = {
    "tensors": Pair(tensors(a=1.0, b=2.0), tensors(a=0.0, b=0.0)),
    "fewer tensors": Pair(tensors(a=1.0, b=2.0), tensors(a=0.0)),
    "more tensors": Pair(tensors(a=1.0), tensors(a=0.0, b=0.0)),
    "variable for tensors": Pair(tensors(a=1.0), program(state=0.0, x=0.0)),
    "tensors for a variable": Pair(program(state=1.0, x=2.0), tensors(a=0.0)),
    "counter before": Pair(program(net=dense()), counted(program(net=dense(0)))),
    "counter before, read": Pair(
        program(net=dense()), counted(program(net=dense(0))), mode="read", writes=True
    ),
    "counter before, written": Pair(
        program(net=dense()), counted(program(net=dense(0))), writes=True
    ),
    "root and keywords": Pair(root_and_more(1), root_and_more(0)),
    "root and keywords, read": Pair(root_and_more(1), root_and_more(0), mode="read"),
    "root, counter before": Pair(root_and_more(1), counted(root_and_more(0))),
    "tied scopes split": Pair(
        tied, program(a={"inner": dense(0), "x": 0.0}, b={"layer": {"inner": dense(0), "x": 0.0}})
    ),
    "scopes tied": Pair(
        program(a={"inner": dense(1), "x": 0.0}, b={"layer": {"inner": dense(2), "x": 0.0}}), tied
    ),
    "tied scopes, part": Pair(tied, program(b={"layer": {"inner": dense(0), "x": 0.0}})),
    "python state": Pair(python_state("one"), python_state("")),
    "variable for python state": Pair(python_state("one"), program(state=0.0, x=0.0)),
    "text for python state": Pair(program(state="text", x=1.0), python_state("")),
    "tables": Pair(table(3), table(0)),
    "tables of other values": Pair(table(3), table(0, dtype="float32")),
    "table gone": Pair(table(3), program(x=1.0)),
    "iterators": Pair(iterator(4), iterator(0)),
    "no iterator": Pair(iterator(4), program(x=0.0)),
}


# --- optimizers ---------------------------------------------------------------------------------


def trained(optimizer: Make, *, steps: int, net: str = "net", opt: str = "opt") -> Make:
    """Return what makes a program of two variables and an optimizer that took some steps."""

    def make(k: Any) -> Any:
        layer = tree(k, {"w": full((3, 2), 1 + steps), "b": full((2,), 2 + steps)})
        made = optimizer(k)
        for _ in range(steps):
            apply(made, [layer.w, layer.b])
        return k.tf.train.Checkpoint(**{net: layer, opt: made})

    return make


def apply(optimizer: Any, variables: list[Any]) -> None:
    optimizer.apply_gradients([(each * 0.1, each) for each in variables])


def built(optimizer: Make) -> Make:
    """Return what makes an optimizer with all its variables, that took no step."""

    def make(k: Any) -> Any:
        layer = tree(k, {"w": full((3, 2), 1), "b": full((2,), 2)})
        made = optimizer(k)
        if hasattr(made, "build"):
            made.build([layer.w, layer.b])
        else:
            assert made.iterations is not None
            made._create_hypers()
            made._create_slots([layer.w, layer.b])
        return k.tf.train.Checkpoint(net=layer, opt=made)

    return make


def legacy(name: str, *args: Any, **kwargs: Any) -> Make:
    return lambda k: getattr(k.tf_keras.optimizers.legacy, name)(*args, **kwargs)


def new(name: str, *args: Any, **kwargs: Any) -> Make:
    return lambda k: getattr(k.tf_keras.optimizers, name)(*args, **kwargs)


def v1(name: str, *args: Any, **kwargs: Any) -> Make:
    return lambda k: getattr(k.tf.compat.v1.train, name)(*args, **kwargs)


def loss_scaled(optimizer: Make) -> Make:
    def make(k: Any) -> Any:
        return k.tf_keras.mixed_precision.LossScaleOptimizer(optimizer(k))

    return make


LEGACY = {
    "Adam": legacy("Adam", 0.1),
    "Adam amsgrad": legacy("Adam", 0.1, amsgrad=True),
    "SGD": legacy("SGD", 0.1),
    "momentum": legacy("SGD", 0.1, momentum=0.9),
    "RMSprop": legacy("RMSprop", 0.1, momentum=0.5, centered=True),
    "Ftrl": legacy("Ftrl", 0.1),
    "Adagrad": legacy("Adagrad", 0.1),
    "Adadelta": legacy("Adadelta", 0.1),
    "Nadam": legacy("Nadam", 0.1),
    "Adamax": legacy("Adamax", 0.1),
}
NEW = {
    name: new(name, 0.1)
    for name in ("Adam", "SGD", "RMSprop", "Ftrl", "Adagrad", "Nadam", "Adamax", "AdamW", "Lion")
}
V1 = {
    "v1 Adam": v1("AdamOptimizer", 0.1),
    "v1 momentum": v1("MomentumOptimizer", 0.1, 0.9),
    "v1 SGD": v1("GradientDescentOptimizer", 0.1),
    "v1 Adagrad": v1("AdagradOptimizer", 0.1),
}


def optimizers() -> dict[str, Pair]:
    pairs = {}
    for name, make in (LEGACY | V1).items():
        sort = "" if name in V1 else "legacy "
        pairs[f"{sort}{name}, not run yet"] = Pair(trained(make, steps=2), trained(make, steps=0))
        pairs[f"{sort}{name}, run"] = Pair(trained(make, steps=2), trained(make, steps=1))
        pairs[f"{sort}{name}, no slots"] = Pair(
            trained(make, steps=2), trained(make, steps=1), skip_slots=True
        )
    for name, make in NEW.items():
        pairs[f"new {name}, built"] = Pair(trained(make, steps=2), built(make))
        pairs[f"new {name}, run"] = Pair(trained(make, steps=2), trained(make, steps=1))
    adam, momentum, new_adam = LEGACY["Adam"], LEGACY["momentum"], NEW["Adam"]
    newest: Make = lambda k: k.keras.optimizers.Adam(0.1)  # noqa: E731
    nothing: Make = lambda k: tree(k, {"iter": np.int64(0)})  # noqa: E731
    ema = new("Adam", 0.1, use_ema=True, ema_momentum=0.9)
    return pairs | {
        "new Adam with averages": Pair(trained(ema, steps=2), trained(ema, steps=1)),
        "deep legacy Adam": Pair(deep(adam, steps=2), deep(adam, steps=1)),
        "deep legacy Adam, not run yet": Pair(deep(adam, steps=2), deep(adam, steps=0)),
        "deep new for legacy Adam": Pair(deep(adam, steps=2), deep(new_adam, steps=1)),
        "deep Keras 3 for legacy Adam": Pair(deep(adam, steps=2), deep(newest, steps=0)),
        "deep module for legacy Adam": Pair(deep(adam, steps=2), deep(nothing, steps=0)),
        "new Adam, not built": Pair(trained(new_adam, steps=2), trained(new_adam, steps=0)),
        "legacy Adam built": Pair(trained(adam, steps=2), built(adam)),
        "legacy Adam renamed": Pair(
            trained(adam, steps=2),
            trained(adam, steps=1, net="model", opt="optimizer"),
            explained=True,
        ),
        "legacy Adam, net renamed": Pair(
            trained(adam, steps=2), trained(adam, steps=1, net="model"), explained=True
        ),
        "v1 momentum renamed": Pair(
            trained(V1["v1 momentum"], steps=2),
            trained(V1["v1 momentum"], steps=1, net="model", opt="optimizer"),
            explained=True,
        ),
        "new Adam renamed": Pair(
            trained(new_adam, steps=2),
            trained(new_adam, steps=1, net="model", opt="optimizer"),
            explained=True,
        ),
        "legacy Adam for SGD": Pair(trained(LEGACY["SGD"], steps=2), trained(adam, steps=1)),
        "legacy SGD for Adam": Pair(trained(adam, steps=2), trained(LEGACY["SGD"], steps=1)),
        "legacy momentum for Adam": Pair(trained(adam, steps=2), trained(momentum, steps=1)),
        "new for legacy Adam": Pair(trained(adam, steps=2), trained(new_adam, steps=1)),
        "new for legacy Adam, not built": Pair(trained(adam, steps=2), trained(new_adam, steps=0)),
        "new for legacy Adam, no slots": Pair(
            trained(adam, steps=2), trained(new_adam, steps=1), skip_slots=True
        ),
        "legacy for new Adam": Pair(trained(new_adam, steps=2), trained(adam, steps=1)),
        "legacy for new Adam, not run yet": Pair(
            trained(new_adam, steps=2), trained(adam, steps=0)
        ),
        "v1 for legacy Adam": Pair(trained(adam, steps=2), trained(V1["v1 Adam"], steps=1)),
        "new for v1 Adam": Pair(trained(V1["v1 Adam"], steps=2), trained(new_adam, steps=1)),
        "no optimizer": Pair(
            trained(adam, steps=2), program(net={"w": full((3, 2), 0), "b": full((2,), 0)})
        ),
        "no optimizer, no slots": Pair(
            trained(adam, steps=2),
            program(net={"w": full((3, 2), 0), "b": full((2,), 0)}),
            skip_slots=True,
        ),
        "module for an optimizer": Pair(
            trained(adam, steps=2),
            program(net={"w": full((3, 2), 0), "b": full((2,), 0)}, opt={"iter": np.int64(0)}),
        ),
        "optimizer alone": Pair(trained(adam, steps=2), trained(adam, steps=1, net="other")),
        "loss scale": Pair(
            trained(loss_scaled(adam), steps=2), trained(loss_scaled(adam), steps=1)
        ),
        "loss scale, not run yet": Pair(
            trained(loss_scaled(adam), steps=2), trained(loss_scaled(adam), steps=0)
        ),
        "loss scale lost": Pair(trained(loss_scaled(adam), steps=2), trained(adam, steps=1)),
        "loss scale, new": Pair(
            trained(loss_scaled(new_adam), steps=2), trained(loss_scaled(new_adam), steps=1)
        ),
    }


# --- Keras --------------------------------------------------------------------------------------


def keras_program(
    which: str, optimizer: Make | None = None, *, model: str = "model", steps: int = 1
) -> Make:
    """Return what makes a program of a Keras model and perhaps its optimizer."""

    def make(k: Any) -> Any:
        keras = getattr(k, which)
        net = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(2)])
        for at, each in enumerate(net.weights):
            each.assign(full(tuple(each.shape), at + 10 * steps))
        objects = {model: net} if model else {}
        if optimizer is not None:
            made = objects["optimizer"] = optimizer(k)
            if steps:
                values = [getattr(each, "value", each) for each in net.trainable_variables]
                values = [each() if callable(each) else each for each in values]
                gradients = [k.tf.convert_to_tensor(each) * 0.1 for each in values]
                made.apply_gradients(zip(gradients, net.trainable_variables, strict=True))
        return k.tf.train.Checkpoint(**objects) if model else k.tf.train.Checkpoint(net, **objects)

    return make


def keras_3(name: str, *args: Any, **kwargs: Any) -> Make:
    return lambda k: getattr(k.keras.optimizers, name)(*args, **kwargs)


KERAS: dict[str, Pair] = {
    **{
        f"{which}: {name}": pair
        for which in ("tf_keras", "keras")
        for name, pair in {
            "model": Pair(keras_program(which), keras_program(which, steps=0)),
            "model renamed": Pair(
                keras_program(which), keras_program(which, model="net", steps=0), explained=True
            ),
            "model as root": Pair(
                keras_program(which, model=""), keras_program(which, model="", steps=0)
            ),
            "root against keyword": Pair(
                keras_program(which, model=""), keras_program(which, steps=0)
            ),
            "keyword against root": Pair(
                keras_program(which), keras_program(which, model="", steps=0)
            ),
        }.items()
    },
    **{
        f"keras: {name}": Pair(
            keras_program("keras", keras_3(name, 0.1), steps=2),
            keras_program("keras", keras_3(name, 0.1), steps=1),
        )
        for name in ("Adam", "SGD", "RMSprop", "Ftrl", "Adagrad", "Nadam", "Adamax", "Lion")
    },
    "keras: Adam renamed": Pair(
        keras_program("keras", keras_3("Adam", 0.1), steps=2),
        keras_program("keras", keras_3("Adam", 0.1), model="net"),
    ),
    "keras: Adam not run yet": Pair(
        keras_program("keras", keras_3("Adam", 0.1), steps=2),
        keras_program("keras", keras_3("Adam", 0.1), steps=0),
    ),
    "keras 3 for legacy Adam": Pair(
        keras_program("tf_keras", LEGACY["Adam"], steps=2),
        keras_program("keras", keras_3("Adam", 0.1), steps=1),
    ),
    "keras 3 for new Adam": Pair(
        keras_program("tf_keras", NEW["Adam"], steps=2),
        keras_program("keras", keras_3("Adam", 0.1), steps=1),
    ),
    "tf_keras for keras 3": Pair(
        keras_program("keras", keras_3("Adam", 0.1), steps=2),
        keras_program("tf_keras", LEGACY["Adam"], steps=1),
    ),
    "keras: SGD for Adam": Pair(
        keras_program("keras", keras_3("Adam", 0.1), steps=2),
        keras_program("keras", keras_3("SGD", 0.1, momentum=0.9), steps=1),
    ),
}

PAIRS: dict[str, Pair] = PLAIN | OTHERS | optimizers() | KERAS


# --- by name ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Named:
    """A checkpoint that a Saver of TensorFlow 1 wrote, and a program that restores it.

    Attributes:
        values: what it holds, by name.
        restores: makes the program.
        mode: how: "restore" or "read".
        v1: whether the checkpoint has the format V1.
    """

    values: dict[str, Any]
    restores: Make
    mode: MatchMode = "restore"
    v1: bool = False


_NAMES = {"net/w": full((2, 3), 1), "net/b": full((3,), 2), "step": np.int64(5)}


def named(**spec: Any) -> Make:
    return program(net=spec)


_WHOLE = named(w=(full((2, 3), 0), "net/w"), b=(full((3,), 0), "net/b"), s=(np.int64(0), "step"))
_LESS = named(w=(full((2, 3), 0), "net/w"))
_MORE = named(w=(full((2, 3), 0), "net/w"), x=(np.float32(0), "x"))
_OTHER = named(w=(full((2, 3), 0), "model/w"), b=(full((3,), 0), "model/b"))

NAMED: dict[str, Named] = {
    "whole": Named(_NAMES, _WHOLE),
    "whole, read": Named(_NAMES, _WHOLE, mode="read"),
    "whole, V1": Named(_NAMES, _WHOLE, v1=True),
    "less": Named(_NAMES, _LESS),
    "more": Named(_NAMES, _MORE),
    "more, V1": Named(_NAMES, _MORE, v1=True),
    "other names": Named(_NAMES, _OTHER),
    "other shape": Named(_NAMES, named(w=(full((3, 2), 0), "net/w"))),
    "other dtype": Named(_NAMES, named(w=(np.zeros((2, 3)), "net/w"))),
    "counter": Named(_NAMES | {"save_counter": np.int64(3)}, _WHOLE),
    "counter, read": Named(_NAMES | {"save_counter": np.int64(3)}, _WHOLE, mode="read"),
    "counter, root": Named(
        _NAMES | {"save_counter": np.int64(3)}, below(w=(full((2, 3), 0), "net/w"))
    ),
    "root": Named(_NAMES, below(w=(full((2, 3), 0), "net/w"))),
    "root, read": Named(_NAMES, below(w=(full((2, 3), 0), "net/w")), mode="read"),
    "python state": Named(_NAMES, python_state("")),
    "table": Named(_NAMES, table(1)),
    "optimizer": Named(_NAMES, trained(LEGACY["Adam"], steps=1)),
    "nothing": Named(_NAMES, program()),
}


def context(tf: Any) -> Any:
    """Return the modules that programs are made of."""
    import keras
    import tf_keras

    return SimpleNamespace(tf=tf, tf_keras=tf_keras, keras=keras)
