"""Read checkpoints with TensorFlow in a process of its own; also on Python 3.7 with 1.15.

For each line of input, a prefix as a JSON string, writes a line of output: an object that has
"tensors", {key: {"dtype", "shape", "sha256"} or {"error"}}, or "error" where nothing can be opened.
A line that is a list [prefix, key, spec, dtype number] restores one slice instead.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
warnings.simplefilter("ignore")


def describe(value: Any) -> dict[str, Any]:
    """Return dtype, shape and digest of what TensorFlow gave."""
    import numpy as np

    array = np.asarray(value, dtype=object if isinstance(value, bytes) else None)
    if array.dtype == object:
        total = hashlib.sha256()
        for item in array.ravel().tolist():
            total.update(len(item).to_bytes(8, "little"))
            total.update(item)
    else:
        if array.dtype.names:
            array = array.view(array.dtype[0])
        total = hashlib.sha256(array.tobytes())
    return {"dtype": array.dtype.name, "shape": list(array.shape), "sha256": total.hexdigest()}


def attempt(action: Callable[[], Any]) -> dict[str, Any]:
    """Return the description of a value, or the error that came instead."""
    try:
        return describe(action())
    except Exception as error:  # the classes differ from release to release
        return {"error": str(error).splitlines()[0] if str(error) else type(error).__name__}


def read(tf: Any, prefix: str, only: str | None = None) -> dict[str, Any]:
    """Return the description of a checkpoint, or of one tensor of it alone."""
    try:
        reader = tf.train.load_checkpoint(prefix)
        keys = reader.get_variable_to_shape_map()
    except Exception as error:
        return {"error": str(error)}
    if only is not None:
        return attempt(partial(reader.get_tensor, only))
    return {"tensors": {key: attempt(partial(reader.get_tensor, key)) for key in keys}}


def list_keys(tf: Any, prefix: str) -> dict[str, Any]:
    """Return the keys of a checkpoint."""
    return {"keys": sorted(tf.train.load_checkpoint(prefix).get_variable_to_shape_map())}


def restore(tf: Any, prefix: str, key: str, spec: str, number: int) -> dict[str, Any]:
    """Return the description of one slice."""

    def run() -> Any:
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            (tensor,) = tf.raw_ops.RestoreV2(
                prefix=prefix,
                tensor_names=[key],
                shape_and_slices=[spec],
                dtypes=[tf.as_dtype(number)],
            )
            return session.run(tensor)

    return attempt(run)


ACTIONS: dict[str, Callable[..., dict[str, Any]]] = {
    "read": read,
    "keys": list_keys,
    "restore": restore,
}


class Child:
    """A copy of this process that answers requests until TensorFlow ends it.

    A damaged slice makes TensorFlow abort. A fork costs little beside another import.
    """

    def __init__(self, tf: Any) -> None:
        asked, self.ask_end = os.pipe()
        self.answer_end, answered = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(self.ask_end)
            os.close(self.answer_end)
            with os.fdopen(asked) as requests, os.fdopen(answered, "w") as answers:
                for line in requests:
                    name, arguments = json.loads(line)
                    answers.write(json.dumps(ACTIONS[name](tf, *arguments)) + "\n")
                    answers.flush()
            os._exit(0)
        os.close(asked)
        os.close(answered)
        self.requests = os.fdopen(self.ask_end, "w")
        self.answers = os.fdopen(self.answer_end)

    def ask(self, name: str, arguments: list[Any]) -> dict[str, Any] | None:
        """Return the answer, or None where TensorFlow ended the child."""
        self.requests.write(json.dumps([name, arguments]) + "\n")
        self.requests.flush()
        line = self.answers.readline()
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        os.waitpid(self.pid, 0)
        return None


class Parent:
    """Has an answer to every request, for as many children as that takes."""

    def __init__(self) -> None:
        import tensorflow as tf

        self.tf = tf
        self.child = Child(tf)

    def ask(self, name: str, *arguments: Any) -> dict[str, Any]:
        """Return the answer of a child; an error where it did not survive."""
        answer = self.child.ask(name, list(arguments))
        if answer is None:
            self.child = Child(self.tf)
            return {"error": "TensorFlow ended the process", "ended": True}
        return answer

    def describe(self, prefix: str) -> dict[str, Any]:
        """Return the description of a checkpoint; where that ends the child, key by key."""
        answer = self.ask("read", prefix)
        if "ended" not in answer:
            return answer
        keys = self.ask("keys", prefix)
        if "keys" not in keys:
            return answer
        return {"tensors": {key: self.ask("read", prefix, key) for key in keys["keys"]}}


def main() -> None:
    """Answer the lines of standard input."""
    parent = Parent()
    for line in sys.stdin:
        request = json.loads(line)
        if isinstance(request, list):
            answer = parent.ask("restore", *request)
        else:
            answer = parent.describe(request)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
