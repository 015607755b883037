"""What TensorFlow itself sees in graph files; for any interpreter that has one, 0.12 to 2.x.

The words are paths; the output is one JSON object, with an object for each path:

    ops         how many operations there are of each type after importing the graph
    variables   name, dtype and shape of all variables that a Saver saves
    saver       the fields of the SaverDef
    nodes       how many nodes the GraphDef has
"""

# No `annotations` of the future: Python 3.6 has none.
import collections
import json
import os
import sys
import warnings
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
warnings.simplefilter("ignore")


def describe(path: str) -> Any:
    """Import a MetaGraph and return what the graph is then."""
    import tensorflow as tf
    from tensorflow.core.protobuf import meta_graph_pb2

    tf1 = tf.compat.v1 if hasattr(tf, "compat") and hasattr(tf.compat, "v1") else tf
    message = meta_graph_pb2.MetaGraphDef()
    with open(path, "rb") as file:
        message.ParseFromString(file.read())
    with tf.Graph().as_default() as graph:
        saver = tf1.train.import_meta_graph(message)
        ops = collections.Counter(each.type for each in graph.get_operations())
        found = {}
        for each in tf1.global_variables():
            name = each.op.name
            shape = each.get_shape().as_list()
            info = each._get_save_slice_info()
            if info is not None:
                name, shape = info.full_name, list(info.full_shape)
            found[name] = [each.dtype.base_dtype.name, shape]
        definition = saver.saver_def if saver else None
    return {
        "ops": ops,
        "nodes": len(message.graph_def.node),
        "variables": found,
        "saver": definition
        and {
            "filename_tensor": definition.filename_tensor_name,
            "save_tensor": definition.save_tensor_name,
            "restore_op": definition.restore_op_name,
            "max_to_keep": definition.max_to_keep,
            "keep_every_n_hours": definition.keep_checkpoint_every_n_hours,
            "sharded": definition.sharded,
        },
    }


if __name__ == "__main__":
    print(json.dumps({each: describe(each) for each in sys.argv[1:]}))
