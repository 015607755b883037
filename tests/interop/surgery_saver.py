"""Save and restore with the Saver of TensorFlow 1; also in a process, on Python 3.7 with 1.15.

Each line of input is a list [action, prefix, variables]; each line of output the values, or
{"error"}. Variables are {name: value}; a partitioned one is {"value", "parts"}, cut along axis 0.
"train" makes them, trains two steps with Adam and moving averages, and saves; "restore" makes them
with zeros and restores them.
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


def make(v1: Any, name: str, wanted: Any, fresh: bool) -> Any:
    """Make a variable with its value, or with zeros, in parts if it is to have some."""
    import numpy as np

    parts = wanted["parts"] if isinstance(wanted, dict) else 1
    value = np.array(wanted["value"] if isinstance(wanted, dict) else wanted, np.float32)
    start = np.zeros_like(value) if fresh else value
    partitioner = v1.fixed_size_partitioner(parts) if parts > 1 else None
    return v1.get_variable(
        name, value.shape, initializer=constant(v1, start), partitioner=partitioner
    )


def constant(v1: Any, whole: Any) -> Any:
    """Return an initializer that also knows what to give a part."""

    def initialize(shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        if partition_info is None:
            return whole.reshape(shape)
        at = partition_info.var_offset
        return whole[tuple(slice(o, o + n) for o, n in zip(at, shape))]  # noqa: B905

    return initialize


def restore(tf: Any, prefix: str, variables: dict[str, Any]) -> dict[str, Any]:
    """Restore variables and return what they are then."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        made = {name: make(v1, name, value, True) for name, value in variables.items()}
        saver = v1.train.Saver()
        session.run(v1.global_variables_initializer())
        saver.restore(session, prefix)
        return {name: session.run(tf.convert_to_tensor(v)).tolist() for name, v in made.items()}


def train(tf: Any, prefix: str, variables: dict[str, Any]) -> dict[str, Any]:
    """Train variables, save them, and return what the checkpoint has."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        made = [make(v1, name, value, False) for name, value in variables.items()]
        loss = sum(tf.reduce_sum(tf.square(tf.convert_to_tensor(each))) for each in made)
        step = v1.train.get_or_create_global_step()
        update = v1.train.AdamOptimizer(0.1).minimize(loss, global_step=step)
        with tf.control_dependencies([update]):
            whole = v1.train.ExponentialMovingAverage(0.5).apply(v1.trainable_variables())
        session.run(v1.global_variables_initializer())
        session.run(whole)
        session.run(whole)
        v1.train.Saver().save(session, prefix)
    reader = v1.train.NewCheckpointReader(prefix)
    return {key: reader.get_tensor(key).tolist() for key in reader.get_variable_to_shape_map()}


ACTIONS: dict[str, Any] = {"restore": restore, "train": train}


def main() -> None:
    """Answer the lines of standard input."""
    import tensorflow as tf

    for line in sys.stdin:
        try:
            action, prefix, variables = json.loads(line)
            answer = ACTIONS[action](tf, prefix, variables)
        except Exception as error:  # the classes differ from release to release
            answer = {"error": str(error).splitlines()[0]}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
