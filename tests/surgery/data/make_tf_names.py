"""Ask releases of TensorFlow what they call the variables of networks, and what these compute.

    python make_tf_names.py record FOLDER     with each of 0.12.1, 1.0.1, 1.1.0 and 1.4.1
    python make_tf_names.py compare FOLDER    with 1.15.5

Each of the networks is built in the same way with every release. `record` gives its variables
values and keeps names, values, and what the network computes for a given input. `compare` builds
it again, gives it those values under the names that a rename table says, and writes tf_names.json:
which names mean the same variable, since the network computes the same. It stops where one does
not. Runs on Python 3.6, which the old releases need; networks.py has the networks.
"""

import json
import os
import re
import sys
import warnings
import zlib
from typing import Any

os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
warnings.simplefilter("ignore")
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True

import networks  # type: ignore[import-not-found]  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

TABLES = os.path.join(HERE, "..", "..", "..", "ckpttool", "surgery", "rename_tables")


def into(scope: str, cell: str, wrapper: str) -> Any:
    """Return the move of a cell into the wrapper that stands beside it."""
    return scope + cell, scope + wrapper + "/" + cell


# What a second run of `ckpt rename` has to move, since names alone do not tell it.
MOVES: Any = {
    "input_projection": [into("rnn/", "gru_cell", "input_projection_wrapper")],
    "output_projection": [into("rnn/", "gru_cell", "output_projection_wrapper")],
    "embedding": [into("rnn/", "gru_cell", "embedding_wrapper")],
    "wrappers_around_several": [
        into("rnn/", "multi_rnn_cell", "output_projection_wrapper/input_projection_wrapper"),
        into("rnn/", "input_projection_wrapper", "output_projection_wrapper"),
    ],
    "seq2seq_embedding": [
        into("embedding_rnn_seq2seq/rnn/", "multi_rnn_cell", "embedding_wrapper"),
        into(
            "embedding_rnn_seq2seq/embedding_rnn_decoder/rnn_decoder/",
            "multi_rnn_cell",
            "output_projection_wrapper",
        ),
    ],
    "seq2seq_embedding_tied": [
        into(
            "embedding_tied_rnn_seq2seq/combined_tied_rnn_seq2seq/tied_rnn_seq2seq/",
            "gru_cell",
            "output_projection_wrapper",
        ),
    ],
    "stack_bidirectional": [
        (
            f"stack_bidirectional_rnn/cell_{at}/bidirectional_rnn",
            f"stack_bidirectional_rnn/cell_{at}",
        )
        for at in range(2)
    ],
}
for _name, _cell in (
    ("seq2seq_attention", "gru_cell"),
    ("seq2seq_attention_several", "multi_rnn_cell"),
):
    MOVES[_name] = [
        into("embedding_attention_seq2seq/rnn/", _cell, "embedding_wrapper"),
        into(
            "embedding_attention_seq2seq/embedding_attention_decoder/attention_decoder/",
            _cell,
            "output_projection_wrapper",
        ),
    ]


def run(name: str, values: Any) -> Any:
    """Build a network and run it.

    Args:
        name: of the network.
        values: of its variables by name; None to make some.

    Returns:
        The values of all variables, and all that it computes in one vector.
    """
    with tf.Graph().as_default(), tf.Session() as session:
        computed = [each for each in flatten(networks.ALL[name]()) if each is not None]
        variables = {each.op.name: each for each in tf.global_variables()}
        if values is None:
            values = {key: make(key, each) for key, each in variables.items()}
        shapes = {key: tuple(each.get_shape().as_list()) for key, each in variables.items()}
        if shapes != {key: value.shape for key, value in values.items()}:
            raise SystemExit(f"{name}: {sorted(values)} are not {sorted(shapes)}")
        for key, each in variables.items():
            session.run(each.assign(values[key]))
        found = session.run(computed)
    return values, np.concatenate([np.ravel(each) for each in found])


def flatten(outputs: Any) -> Any:
    """Return the tensors in nested sequences and mappings, in a fixed order."""
    if isinstance(outputs, dict):
        outputs = [outputs[key] for key in sorted(outputs)]
    if isinstance(outputs, (list, tuple)):
        return [each for part in outputs for each in flatten(part)]
    return [outputs]


def make(key: str, variable: Any) -> Any:
    """Return values that no other variable has."""
    state = np.random.RandomState(zlib.crc32(key.encode()) & 0x7FFFFFFF)
    return state.uniform(0.1, 1.0, variable.get_shape().as_list()).astype(np.float32)


def record(folder: str) -> None:
    """Keep names, values and results of every network that this release can build."""
    folder = os.path.join(folder, tf.__version__)
    os.makedirs(folder, exist_ok=True)
    for name in networks.ALL:
        try:
            values, outputs = run(name, None)
        except AttributeError as error:  # no such cell in this release
            print(name, error)
            continue
        arrays = {"v:" + key.replace("/", "|"): value for key, value in values.items()}
        np.savez(os.path.join(folder, name + ".npz"), outputs=outputs, **arrays)


def steps_of(table: str) -> Any:
    """Return the expressions of a rename table with what takes their place."""
    with open(os.path.join(TABLES, table + ".tsv"), encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line in file]
    return [line.split("\t") for line in lines if line and not line.startswith("#")]


def renamed(name: str, steps: Any, moves: Any) -> str:
    """Return what becomes of a name by a table and then by moves."""
    for pattern, replacement in steps:
        name = re.sub(pattern, replacement, name)
    for old, new in moves:
        if name.startswith(old + "/"):
            return str(new + name[len(old) :])
    return name


def compare(folder: str) -> None:
    """Write which names mean the same variables."""
    networks.MODERN.append(True)
    facts: Any = {}
    for release in sorted(os.listdir(folder)):
        for name in networks.ALL:
            path = os.path.join(folder, release, f"{name}.npz")
            if os.path.exists(path):
                found = fact(name, path)
                # Most networks are the same in several releases.
                facts.setdefault(json.dumps(found, sort_keys=True), (found, []))[1].append(release)
    lines = [json.dumps(dict(found, releases=names)) for found, names in facts.values()]
    with open(os.path.join(HERE, "tf_names.json"), "w", encoding="utf-8") as out:
        out.write("[\n" + ",\n".join(lines) + "\n]\n")


def fact(name: str, path: str) -> Any:
    """Return what is true of a network of an old release."""
    with np.load(path) as file:
        old = {key[2:].replace("|", "/"): file[key] for key in file.files if key[1] == ":"}
        outputs = file["outputs"]
    table = networks.TABLE.get(name, "tf1-rnn")
    moves = MOVES.get(name, [])
    names = {key: renamed(key, steps_of(table), moves) for key in sorted(old)}
    found: Any = {"network": name, "table": table}
    if len(set(names.values())) < len(names):
        return dict(found, collide=sorted(names))
    _, now = run(name, {names[key]: value for key, value in old.items()})
    if outputs.shape != now.shape or not np.allclose(outputs, now, rtol=1e-4, atol=1e-5):
        raise SystemExit(f"{path}: it computes something else today")
    variables = [[key, now_called, list(old[key].shape)] for key, now_called in names.items()]
    by_table = [renamed(key, steps_of(table), []) for key in names]
    moves = [each for each in moves if any(key.startswith(each[0] + "/") for key in by_table)]
    return dict(found, variables=variables, moves=moves)


if __name__ == "__main__":
    {"record": record, "compare": compare}[sys.argv[1]](sys.argv[2])
