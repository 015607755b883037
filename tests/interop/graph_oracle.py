"""What TensorFlow makes of graph files; for any interpreter that has one, 0.12 to 2.x.

Each line of input is a list, an action and its words; each line of output is an object that has
the answer as "value", or "error".

    json    PATH KIND         the message as protobuf's json_format has it
    same    PATH OTHER KIND   whether two files are equal messages, and whether their JSON is equal
    text    PATH KIND         the message in protobuf's text form
    import  PATH              names of the operations after import_meta_graph
    restore PATH PREFIX       names of the variables that an imported graph has after restoring
    load    FOLDER TAGS       what signatures there are after loading a SavedModel, and operations
"""

# No `annotations` of the future: Python 3.6 has none.
import contextlib
import json
import os
import sys
import warnings
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
warnings.simplefilter("ignore")


def message(path: str, kind: str) -> Any:
    """Return a file as a message of TensorFlow's own class."""
    from google.protobuf import text_format
    from tensorflow.core.protobuf import meta_graph_pb2

    classes = {"MetaGraphDef": meta_graph_pb2.MetaGraphDef}
    if kind == "SavedModel":
        from tensorflow.core.protobuf import saved_model_pb2

        classes[kind] = saved_model_pb2.SavedModel
    if kind == "FingerprintDef":
        from tensorflow.core.protobuf import fingerprint_pb2

        classes[kind] = fingerprint_pb2.FingerprintDef
    with open(path, "rb") as file:
        data = file.read()
    if path.endswith(".pbtxt"):
        return text_format.Parse(data.decode("utf-8"), classes[kind]())
    return classes[kind].FromString(data)


def as_json(path: str, kind: str) -> Any:
    """Return a file as protobuf's own JSON."""
    from google.protobuf import json_format

    text = json_format.MessageToJson(message(path, kind))
    return json.loads(text)


def same(path: str, other: str, kind: str) -> Any:
    """Compare two files. Messages are not equal to themselves where they have a NaN; bytes are."""
    first, second = (message(each, kind) for each in (path, other))
    equal = first.SerializeToString(deterministic=True) == second.SerializeToString(
        deterministic=True
    )
    return [equal, as_json(path, kind) == as_json(other, kind)]


def as_text(path: str, kind: str) -> Any:
    """Return a file as text, as `export_meta_graph` writes it."""
    from google.protobuf import text_format

    return text_format.MessageToString(message(path, kind))


def import_graph(path: str) -> Any:
    """Return the operations of an imported MetaGraph, and that its variables are named."""
    import tensorflow as tf

    tf1 = tf.compat.v1 if hasattr(tf, "compat") and hasattr(tf.compat, "v1") else tf
    with tf.Graph().as_default() as graph:
        saver = tf1.train.import_meta_graph(path)
        names = [operation.name for operation in graph.get_operations()]
        names += sorted("collection " + key for key in graph.get_all_collection_keys())
        names.append(saver.saver_def.restore_op_name if saver else "")
        return names


def restore(path: str, prefix: str) -> Any:
    """Import a MetaGraph and restore all that its saver knows."""
    import tensorflow as tf

    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        saver = tf.compat.v1.train.import_meta_graph(path, clear_devices=True)
        if saver is not None:
            saver.restore(session, prefix)
        return sorted(variable.name for variable in tf.compat.v1.global_variables())


def load(folder: str, *tags: str) -> Any:
    """Return the signatures of a SavedModel that TensorFlow has loaded, variables restored."""
    import tensorflow as tf

    if int(tf.__version__.split(".")[0]) >= 2:
        loaded = tf.saved_model.load(folder, tags=list(tags) or None)
        return sorted(loaded.signatures)
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        found = tf.compat.v1.saved_model.load(session, list(tags), folder)
        names = [operation.name for operation in graph.get_operations()]
        return sorted(found.signature_def) + names


ACTIONS: Any = {
    "json": as_json,
    "same": same,
    "text": as_text,
    "import": import_graph,
    "restore": restore,
    "load": load,
}


def main() -> None:
    """Answer the lines of standard input."""
    with contextlib.suppress(ImportError):  # its messages are in Anys
        from tensorflow.contrib.session_bundle import manifest_pb2  # noqa: F401
    for line in sys.stdin:
        words = json.loads(line)
        try:
            answer = {"value": ACTIONS[words[0]](*words[1:])}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:500]}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
