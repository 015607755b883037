"""Make a checkpoint with TensorFlow: `make_checkpoints.py names|objects|large NUMBER PREFIX`.

names      so many keys of the usual length, name-based, small tensors
objects    so many variables of a tf.train.Checkpoint, nested as layers are
large      one float32 matrix of so many bytes, key "w"
"""

from __future__ import annotations

import sys

import numpy as np
import tensorflow as tf


def names(number: int, prefix: str) -> None:
    """Write small tensors of four shapes in one op."""
    value = "/.ATTRIBUTES/VARIABLE_VALUE"
    endings = [
        f"dense/kernel{value}",
        f"dense/bias{value}",
        f"dense/kernel/.OPTIMIZER_SLOT/optimizer/m{value}",
        f"dense/kernel/.OPTIMIZER_SLOT/optimizer/v{value}",
    ]
    shapes = [(4, 3), (3,), (4, 3), (4, 3)]
    tensors = [tf.constant(np.ones(shape, np.float32)) for shape in shapes]
    keys = [
        f"model/layer_{at // 64}/block_{at // 4 % 16}/{endings[at % 4]}" for at in range(number)
    ]
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=keys,
        shape_and_slices=[""] * number,
        tensors=[tensors[at % 4] for at in range(number)],
    )


def objects(number: int, prefix: str) -> None:
    """Write a tree of modules: ten variables to a layer, twenty layers to a block."""
    root = tf.Module()
    root.blocks = []
    for block_at in range(-(-number // 200)):
        block = tf.Module()
        block.layers = []
        for layer_at in range(20):
            layer = tf.Module()
            for at in range(10):
                if block_at * 200 + layer_at * 10 + at < number:
                    setattr(layer, f"weight_{at}", tf.Variable(np.ones((2, 2), np.float32)))
            block.layers.append(layer)
        root.blocks.append(block)
    tf.train.Checkpoint(model=root).write(prefix)


def large(number: int, prefix: str) -> None:
    """Write one matrix of random bits."""
    columns = 4096
    rows = number // (4 * columns)
    matrix = np.random.default_rng(1).random((rows, columns), np.float32)
    tf.raw_ops.SaveV2(
        prefix=prefix, tensor_names=["w"], shape_and_slices=[""], tensors=[tf.constant(matrix)]
    )


if __name__ == "__main__":
    {"names": names, "objects": objects, "large": large}[sys.argv[1]](int(sys.argv[2]), sys.argv[3])
