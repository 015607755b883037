"""Train and restore with the Saver of TensorFlow 1; also in a process, on Python 3.7 with 1.15.

Each line of input is a list [action, prefix, what]; each line of output the values, or {"error"}.
"train" makes `dense/kernel`, `dense/bias` and, in two parts, `embed`; trains them two steps with
the optimizer `what` and saves them. "restore" makes the variables `what`, {name: [dtype, shape]},
and restores them.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
warnings.simplefilter("ignore")

OPTIMIZERS: dict[str, Any] = {
    "descent": lambda train: train.GradientDescentOptimizer(0.1),
    "momentum": lambda train: train.MomentumOptimizer(0.1, 0.9),
    "adam": lambda train: train.AdamOptimizer(0.1),
    "rmsprop": lambda train: train.RMSPropOptimizer(0.1, momentum=0.5),
    "centered": lambda train: train.RMSPropOptimizer(0.1, momentum=0.5, centered=True),
    "adagrad": lambda train: train.AdagradOptimizer(0.1),
    "adadelta": lambda train: train.AdadeltaOptimizer(0.1),
    "ftrl": lambda train: train.FtrlOptimizer(0.1, l1_regularization_strength=0.01),
}
SHAPES = {"dense/kernel": (3, 2), "dense/bias": (2,), "embed": (5, 2)}


def train(tf: Any, prefix: str, what: dict[str, Any]) -> dict[str, Any]:
    """Train and save; return what the checkpoint has.

    Args:
        tf: TensorFlow.
        prefix: where to save.
        what: "optimizer"; "scope" that it is applied in; "format", 1 or 2.
    """
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        made = []
        for number, (name, shape) in enumerate(SHAPES.items()):
            # In a scope TensorFlow mangles the names of the slots of a partitioned variable.
            cut = name == "embed" and not what.get("scope")
            partitioner = v1.fixed_size_partitioner(2) if cut else None
            start = v1.random_uniform_initializer(number, number + 1, seed=number)
            made.append(v1.get_variable(name, shape, initializer=start, partitioner=partitioner))
        loss = sum(tf.reduce_sum(tf.square(tf.convert_to_tensor(each))) for each in made)
        step = v1.train.get_or_create_global_step()
        optimizer = OPTIMIZERS[what["optimizer"]](v1.train)
        if what.get("scope"):
            with v1.variable_scope(what["scope"]):
                update = optimizer.minimize(loss, global_step=step)
        else:
            update = optimizer.minimize(loss, global_step=step)
        session.run(v1.global_variables_initializer())
        session.run(update)
        session.run(update)
        v1.train.Saver(write_version=what.get("format", 2)).save(session, prefix)
    return stored(tf, prefix)


def stored(tf: Any, prefix: str) -> dict[str, Any]:
    """Return all values of a checkpoint."""
    reader = tf.compat.v1.train.NewCheckpointReader(prefix)
    return {key: reader.get_tensor(key).tolist() for key in reader.get_variable_to_shape_map()}


def restore(tf: Any, prefix: str, what: dict[str, Any]) -> dict[str, Any]:
    """Restore variables and return what they are then."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        made = {
            name: v1.get_variable(
                name, shape, dtype=dtype, initializer=v1.zeros_initializer(), use_resource=False
            )
            for name, (dtype, shape) in what.items()
        }
        saver = v1.train.Saver()
        session.run(v1.global_variables_initializer())
        saver.restore(session, prefix)
        return {name: session.run(each).tolist() for name, each in made.items()}


ACTIONS: dict[str, Any] = {"restore": restore, "train": train}


def main() -> None:
    """Answer the lines of standard input."""
    import tensorflow as tf

    for line in sys.stdin:
        try:
            action, prefix, what = json.loads(line)
            answer = ACTIONS[action](tf, prefix, what)
        except Exception as error:  # the classes differ from release to release
            answer = {"error": str(error).splitlines()[0]}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
