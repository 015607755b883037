"""Restore a checkpoint with the Saver of its own graph; also on Python 3.7 with TensorFlow 1.15.

For each line of input, a list of the path of a `.meta` file and of a checkpoint, writes a line of
output: {name of a variable: digest of its value}, or {"error": ...}.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
warnings.simplefilter("ignore")


def restored(tf: Any, meta: str, checkpoint: str) -> dict[str, Any]:
    """Return what the variables of a graph hold after restoring."""
    from oracle import describe  # type: ignore[import-not-found]

    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        saver = tf.compat.v1.train.import_meta_graph(meta, clear_devices=True)
        saver.restore(session, checkpoint)
        variables = tf.compat.v1.global_variables()
        values = session.run(variables)
        again = saver.save(session, checkpoint + "-again", write_meta_graph=False)
        version = saver.saver_def.version
        names = [each.op.name for each in variables]
        found = dict(zip(names, map(describe, values)))  # noqa: B905
        return {"variables": found, "version": version, "saved": again}


def main() -> None:
    """Answer the lines of standard input."""
    import tensorflow as tf

    if hasattr(tf.compat.v1, "disable_eager_execution"):
        tf.compat.v1.disable_eager_execution()
    for line in sys.stdin:
        try:
            answer = restored(tf, *json.loads(line))
        except Exception as error:
            answer = {"error": "{}: {}".format(type(error).__name__, error)}  # noqa: UP032
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
