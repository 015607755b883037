"""ckpttool and TensorFlow live in one process, whichever comes first."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.interop.corpus import FIXTURES

# Each of the two reads a checkpoint, parses two messages that both know, and writes a checkpoint.
OURS = """
import ckpttool
from ckpttool import pb

with ckpttool.open_checkpoint(folder) as checkpoint:
    nodes = len(checkpoint.object_graph.nodes)
    our_values = {key: value.tobytes() for key, value in checkpoint.items()
                  if value.dtype == "float32"}
    our_graph = pb.TrackableObjectGraph.FromString(checkpoint["_CHECKPOINTABLE_OBJECT_GRAPH"][()])
with open(meta, "rb") as file:
    our_meta = pb.MetaGraphDef.FromString(file.read())
ckpttool.save_checkpoint(target + "/ours", {"w": [1.5]}, force=True)
"""
THEIRS = """
import tensorflow as tf
from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef
from tensorflow.core.protobuf.trackable_object_graph_pb2 import TrackableObjectGraph

reader = tf.train.load_checkpoint(folder)
their_values = {key: reader.get_tensor(key).tobytes()
                for key, dtype in reader.get_variable_to_dtype_map().items()
                if dtype == tf.float32}
their_graph = TrackableObjectGraph.FromString(reader.get_tensor("_CHECKPOINTABLE_OBJECT_GRAPH"))
with open(meta, "rb") as file:
    their_meta = MetaGraphDef.FromString(file.read())
tf.train.Checkpoint(v=tf.Variable([2.5])).write(target + "/theirs")
"""
COMPARED = """
assert our_values == their_values and len(our_values) > 5
assert nodes == len(our_graph.nodes) == len(their_graph.nodes)
for ours, theirs in ((our_graph, their_graph), (our_meta, their_meta)):
    assert type(ours) is not type(theirs)
    assert str(ours) == str(theirs)
    assert (ours.SerializeToString(deterministic=True)
            == theirs.SerializeToString(deterministic=True))
assert tf.train.load_variable(target + "/ours", "w") == [1.5]
with ckpttool.open_checkpoint(target + "/theirs") as checkpoint:
    assert checkpoint["v"] == [2.5]
print("done")
"""
IMPORTED = """
import ckpttool
"""


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param((OURS, THEIRS), id="ckpttool_first"),
        pytest.param((THEIRS, OURS), id="tensorflow_first"),
        pytest.param((IMPORTED, THEIRS, OURS), id="ckpttool_imported_first"),
        pytest.param((OURS, THEIRS, OURS, THEIRS), id="in_turn"),
    ],
)
def test_one_process(tf: Any, tmp_path: Path, parts: tuple[str, ...]) -> None:
    assert tf  # there is a TensorFlow to begin with
    names = {
        "folder": str(FIXTURES / "v2/tf2.21/guide_legacy_adam/tf_ckpts"),
        "meta": str(FIXTURES / "v2/tf2.21/saver_sharded/model-7.meta"),
        "target": str(tmp_path),
    }
    program = "".join(f"{name} = {value!r}\n" for name, value in names.items())
    path = os.pathsep.join([str(FIXTURES.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    run = subprocess.run(
        [sys.executable, "-c", program + "".join(parts) + COMPARED],
        env=dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3", PYTHONPATH=path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout == "done\n", run.stderr
