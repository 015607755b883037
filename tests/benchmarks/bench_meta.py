"""MetaGraphs: `ckpt export-meta-json` against TensorFlow, which parses the same file.

    python -m tests.benchmarks.bench_meta --tensorflow PYTHON

Run it with an interpreter that has what ckpttool needs.
"""

from __future__ import annotations

import os
import sys

from tests.benchmarks.measure import (
    ROOT,
    Options,
    Row,
    in_turn,
    options,
    report,
    run,
    whole,
)

MODEL = str(ROOT / "fixtures/saved_model/tf2.21/tf_keras/model")
META = str(ROOT / "fixtures/meta/tf2.21/collections/graph.meta")
CONSTANTS = 128 << 20
CONSTANT = 4 << 20
MAKE = """
import os, sys
from tensorflow.core.protobuf import meta_graph_pb2
graph = meta_graph_pb2.MetaGraphDef()
graph.meta_info_def.tensorflow_version = "2"
for number in range(int(sys.argv[2]) // int(sys.argv[3])):
    tensor = graph.graph_def.node.add(name=f"c{number}", op="Const").attr["value"].tensor
    tensor.dtype = 1
    tensor.tensor_shape.dim.add(size=int(sys.argv[3]) // 4)
    tensor.tensor_content = os.urandom(int(sys.argv[3]))
with open(sys.argv[1], "wb") as file:
    file.write(graph.SerializeToString())
"""
THEIR_JSON = """
import sys
import tensorflow as tf
from google.protobuf import json_format
from tensorflow.core.protobuf import meta_graph_pb2
with open(sys.argv[1], "rb") as file:
    graph = meta_graph_pb2.MetaGraphDef.FromString(file.read())
print(json_format.MessageToJson(graph))
"""
THEIR_PARSE = """
import sys
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2
with open(sys.argv[1], "rb") as file:
    graph = meta_graph_pb2.MetaGraphDef.FromString(file.read())
print(len(graph.graph_def.node))
"""
SHOW = "from tensorflow.python.tools.saved_model_cli import main; main()"


def ours(*words: str) -> tuple[str, ...]:
    """Return the command line of an export."""
    return (sys.executable, "-m", "ckpttool", "export-meta-json", *words)


def compared(
    chosen: Options, what: str, mine: tuple[str, ...], theirs: tuple[str, ...], goal: str
) -> Row:
    """Measure whole processes."""
    first, second = in_turn(chosen.runs, whole(*mine), whole(*theirs))
    return Row(what, first, second, "s", goal)


def main() -> None:
    """Measure and print."""
    with options(__doc__.splitlines()[0], runs=3) as chosen:
        large = str(chosen.scratch / f"constants-{CONSTANTS}.meta")
        if not os.path.exists(large):
            run([chosen.tensorflow, "-c", MAKE, large, str(CONSTANTS), str(CONSTANT)])
        tensorflow = (chosen.tensorflow, "-c")
        cli = (*tensorflow, SHOW, "show", "--dir", MODEL, "--all")
        rows = [
            compared(
                chosen,
                "signatures of a SavedModel; saved_model_cli show",
                ours(MODEL, "--select", "signature_def"),
                cli,
                ">= 10",
            ),
            compared(
                chosen, "small .meta as JSON", ours(META), (*tensorflow, THEIR_JSON, META), ""
            ),
            compared(
                chosen,
                "128 MiB of constants, elided; TensorFlow parses",
                ours(large, "--elide-constants"),
                (*tensorflow, THEIR_PARSE, large),
                "",
            ),
            compared(
                chosen,
                "128 MiB of constants as JSON",
                ours(large),
                (*tensorflow, THEIR_JSON, large),
                "",
            ),
        ]
        mine = run(ours(large)).memory
        theirs = run([*tensorflow, THEIR_JSON, large]).memory
        rows.append(Row("peak memory of that", mine / 2**20, theirs / 2**20, "MiB", "<= 1088 MiB"))
        report(rows)


if __name__ == "__main__":
    main()
