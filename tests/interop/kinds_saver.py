"""Train under each optimizer of TensorFlow 1.15 and save; Python 3.7 runs this.

The argument is a folder. For each program it gets a folder with the checkpoint `model`, its `.meta`
and `truth.json`, which tells what each variable is.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
warnings.simplefilter("ignore")


def optimizers(tf: Any) -> dict[str, Callable[[], Any]]:
    """Return what makes each optimizer, by name."""
    from tensorflow.contrib import opt

    train = tf.train
    return {
        "adadelta": lambda: train.AdadeltaOptimizer(0.1),
        "adagrad": lambda: train.AdagradOptimizer(0.1),
        "adagrad_da": lambda: train.AdagradDAOptimizer(0.1, train.get_or_create_global_step()),
        "adam": lambda: train.AdamOptimizer(0.1),
        "ftrl": lambda: train.FtrlOptimizer(0.1),
        "sgd": lambda: train.GradientDescentOptimizer(0.1),
        "momentum": lambda: train.MomentumOptimizer(0.1, 0.9),
        "proximal": lambda: train.ProximalAdagradOptimizer(0.1),
        "rmsprop": lambda: train.RMSPropOptimizer(0.1, centered=True),
        "scaled": lambda: train.experimental.enable_mixed_precision_graph_rewrite(
            train.AdamOptimizer(0.1)
        ),
        "adamax": lambda: opt.AdaMaxOptimizer(0.1),
        "adam_w": lambda: opt.AdamWOptimizer(0.1, 0.1),
        "add_sign": lambda: opt.AddSignOptimizer(0.1),
        "lars": lambda: opt.LARSOptimizer(0.1),
        "lazy_adam": lambda: opt.LazyAdamOptimizer(0.1),
        "momentum_w": lambda: opt.MomentumWOptimizer(0.1, 0.1, 0.9),
        "nadam": lambda: opt.NadamOptimizer(0.1),
        "power_sign": lambda: opt.PowerSignOptimizer(0.1),
        "reg_adagrad": lambda: opt.RegAdagradOptimizer(0.1),
    }


def save(tf: Any, make: Callable[[], Any], scope: str, folder: str) -> None:
    """Train one step with moving averages beside the optimizer, and save."""
    tf.reset_default_graph()
    with tf.Session() as session:
        layer = tf.layers.dense(tf.ones((2, 4)), 3, name="first")
        layer = tf.layers.batch_normalization(layer, training=True, name="norm")
        loss = tf.reduce_sum(tf.square(tf.layers.dense(layer, 2, name="second")))
        truth = {each.op.name: "weight" for each in tf.global_variables()}
        step = tf.train.get_or_create_global_step()
        truth[step.op.name] = "step"
        with tf.variable_scope(scope or tf.get_variable_scope()):
            update = make().minimize(loss, global_step=step)
            moving = tf.train.ExponentialMovingAverage(0.9)
            with tf.control_dependencies([update]):
                whole = moving.apply(tf.trainable_variables())
        for each in tf.trainable_variables():
            truth[moving.average(each).op.name] = "ema"
        for each in tf.global_variables():
            truth.setdefault(each.op.name, "slot" if each.shape.ndims else "optimizer")
        session.run(tf.global_variables_initializer())
        session.run(whole)
        os.makedirs(folder)
        tf.train.Saver().save(session, os.path.join(folder, "model"))
    with open(os.path.join(folder, "truth.json"), "w") as file:
        json.dump(truth, file)


def main() -> None:
    """Make all programs."""
    import tensorflow as tf

    tf.logging.set_verbosity("ERROR")
    for name, make in optimizers(tf).items():
        for scope in ("", "train"):
            save(tf, make, scope, os.path.join(sys.argv[1], f"{name}{scope and '_in_'}{scope}"))


if __name__ == "__main__":
    main()
