"""Make the object graphs in this folder with TensorFlow 2.21, tf_keras and Keras 3.

Run with a Python that has them: `python make_with_tf.py`. Each file has the index of a checkpoint
(key, dtype, shape) and its object graph; the values of the variables are left out.
"""

from __future__ import annotations

import base64
import json
import os
import tempfile
from collections.abc import Callable
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import keras
import tensorflow as tf
import tf_keras

HERE = os.path.dirname(os.path.abspath(__file__))
PRODUCER = (
    f"TensorFlow {tf.__version__}, Keras {keras.__version__}, tf_keras {tf_keras.__version__}"
)
CASES: dict[str, Callable[[str], str]] = {}


def case(make: Callable[..., dict[str, Any]]) -> None:
    """Register a function that returns what to track; the checkpoint is saved from that."""

    def save(folder: str) -> str:
        path: str = tf.train.Checkpoint(**make()).save(os.path.join(folder, "ckpt"))
        return path

    CASES[make.__name__] = save


def trained(api: Any, optimizer: Any) -> Any:
    model = api.Sequential(
        [
            api.layers.Input((3,)),
            api.layers.Dense(2),
            api.layers.BatchNormalization(),
            api.layers.Dense(1),
        ]
    )
    model.compile(optimizer, "mse", metrics=["mae"])
    model.fit(tf.ones([2, 3]), tf.ones([2, 1]), verbose=0)
    return model


def of(api: Any, optimizer: Any) -> dict[str, Any]:
    model = trained(api, optimizer)
    return {"model": model, "optimizer": model.optimizer}


@case
def keras3_adam_amsgrad() -> dict[str, Any]:
    return of(keras, keras.optimizers.Adam(amsgrad=True))


@case
def keras3_average_loss_scale() -> dict[str, Any]:
    inner = keras.optimizers.SGD(momentum=0.9, use_ema=True)
    return of(keras, keras.optimizers.LossScaleOptimizer(inner))


@case
def keras3_adafactor() -> dict[str, Any]:
    return of(keras, keras.optimizers.Adafactor())


@case
def keras3_nadam_in_trainer() -> dict[str, Any]:
    trainer = tf.Module()
    trainer.model = trained(keras, keras.optimizers.Nadam())
    trainer.g_optimizer = trainer.model.optimizer
    trainer.global_step = tf.Variable(1, dtype=tf.int64)
    return {"trainer": trainer}


@case
def keras3_sgd_only() -> dict[str, Any]:
    optimizer = keras.optimizers.SGD()
    optimizer.build([tf.Variable(tf.ones([2, 2])), tf.Variable(tf.ones([2]))])
    return {"opt": optimizer}


@case
def tf_keras_adafactor() -> dict[str, Any]:
    return of(tf_keras, tf_keras.optimizers.Adafactor())


@case
def tf_keras_average() -> dict[str, Any]:
    return of(tf_keras, tf_keras.optimizers.Adam(use_ema=True))


@case
def tf_keras_loss_scale() -> dict[str, Any]:
    scaled = tf_keras.mixed_precision.LossScaleOptimizer(tf_keras.optimizers.Lion())
    return {"my_opt": trained(tf_keras, scaled).optimizer}


@case
def tf_keras_schedule() -> dict[str, Any]:
    schedule = tf_keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
    return {"model": trained(tf_keras, tf_keras.optimizers.Nadam(schedule))}


@case
def legacy_ftrl() -> dict[str, Any]:
    return of(tf_keras, tf_keras.optimizers.legacy.Ftrl())


@case
def legacy_nadam_loss_scale() -> dict[str, Any]:
    legacy = tf_keras.optimizers.legacy.Nadam()
    return of(tf_keras, tf_keras.mixed_precision.LossScaleOptimizer(legacy))


@case
def legacy_schedule_without_slots() -> dict[str, Any]:
    schedule = tf_keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
    return {"d_opt": trained(tf_keras, tf_keras.optimizers.legacy.SGD(schedule)).optimizer}


@case
def two_optimizers() -> dict[str, Any]:
    root = tf.Module()
    root.g, root.d = tf_keras.Sequential(), tf_keras.Sequential()
    for model in (root.g, root.d):
        model.add(tf_keras.layers.Dense(2))
        model.build((None, 3))
    new, legacy = tf_keras.optimizers.Adam(), tf_keras.optimizers.legacy.Adam()
    new.build(root.g.trainable_variables)
    legacy.apply_gradients([(tf.ones_like(v), v) for v in root.d.trainable_variables])
    root.opts = [new, legacy]
    root.also = tf.Module()
    root.also.opt = legacy
    return {"t": root}


@case
def v1_optimizers() -> dict[str, Any]:
    net = tf.Module()
    net.w = tf.Variable(tf.ones([3, 2]), name="w")
    adam = tf.compat.v1.train.AdamOptimizer()
    rms = tf.compat.v1.train.RMSPropOptimizer(0.1, centered=True)
    for optimizer in (adam, rms):
        optimizer.apply_gradients([(tf.ones_like(net.w), net.w)])
    return {"net": net, "adam": adam, "rms": rms, "global_step": tf.Variable(1, dtype=tf.int64)}


@case
def everything_else() -> dict[str, Any]:
    class State(tf.train.experimental.PythonState):  # type: ignore[misc]
        def serialize(self) -> str:
            return "x"

        def deserialize(self, value: str) -> None:
            del value

    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    table.insert(["a"], [1])
    mean, auc = tf_keras.metrics.Mean(), tf_keras.metrics.AUC(num_thresholds=3)
    mean.update_state([1.0])
    auc.update_state([1.0], [1.0])
    holder = tf.Module()
    holder.learning_rate, holder.beta_1 = tf.Variable(0.1), tf.Variable(0.9)
    holder.epoch, holder.count = tf.Variable(1), tf.Variable(1)
    holder.text, holder.flag = tf.Variable("x"), tf.Variable(True)
    norm = tf_keras.layers.Normalization()
    norm.adapt(tf.ones([2, 3]))
    return {
        "table": table,
        "iterator": iter(tf.data.Dataset.range(3)),
        "gen": tf.random.Generator.from_seed(1),
        "state": State(),
        "mean": mean,
        "auc": auc,
        "holder": holder,
        "norm": norm,
        "train_step": tf.Variable(1, dtype=tf.int32),
        "step": tf.Variable(2.0),
        "codes": tf.Variable(tf.ones([2, 2], tf.int32)),
        "many": [tf.Variable(1.0), {"a.b/c": tf.Variable(2.0)}],
    }


@case
def moving_average() -> dict[str, Any]:
    net = tf.Module()
    net.w = tf.Variable(tf.ones([3, 2]), name="w")
    average = tf.train.ExponentialMovingAverage(0.9)
    average.apply([net.w])
    net.averages = [average.average(net.w)]
    return {"net": net}


@case
def shared_and_circular() -> dict[str, Any]:
    root, deep = tf.Module(), tf.Module()
    root.deep, deep.back = deep, root
    deep.x = tf.Variable(1.0, name="x")
    root.z, root.many = deep.x, [deep.x, deep]
    root.self_ = root
    return {"m": root, "z": root.z}


def keras3_export(folder: str) -> str:
    model = keras.Sequential(
        [keras.layers.Input((3,)), keras.layers.Dense(2), keras.layers.Dropout(0.1)]
    )
    model.export(os.path.join(folder, "model"), verbose=False)
    return os.path.join(folder, "model", "variables", "variables")


def tf_keras_saved_model(folder: str) -> str:
    path = os.path.join(folder, "model")
    trained(tf_keras, tf_keras.optimizers.Adagrad()).save(path, save_format="tf")
    return os.path.join(path, "variables", "variables")


CASES |= {"keras3_export": keras3_export, "tf_keras_saved_model": tf_keras_saved_model}


def main() -> None:
    for name, save in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            reader = tf.train.load_checkpoint(save(folder))
            shapes = reader.get_variable_to_shape_map()
            dtypes = reader.get_variable_to_dtype_map()
            graph = reader.get_tensor("_CHECKPOINTABLE_OBJECT_GRAPH")
        content = {
            "producer": PRODUCER,
            "tensors": [[key, dtypes[key].name, shapes[key]] for key in sorted(shapes)],
            "graph": base64.b64encode(graph).decode(),
        }
        with open(os.path.join(HERE, f"{name}.json"), "w", encoding="utf-8") as file:
            # One tensor a line.
            text = json.dumps(content).replace("], [", "],\n[").replace('"graph"', '\n"graph"')
            file.write(text + "\n")


if __name__ == "__main__":
    main()
