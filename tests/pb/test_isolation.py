"""Our messages beside others of the same names in one process, and without compiled protobuf."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Protocol

import pytest

HERE = Path(__file__).resolve().parent

# Takes the names tensorflow.TensorShapeProto and tensorflow.SaverDef in the default pool, for
# something else, and under the file names that TensorFlow uses.
LOOK_ALIKE = """
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
for path, name in [
    ("tensorflow/core/framework/tensor_shape.proto", "TensorShapeProto"),
    ("tensorflow/core/protobuf/saver.proto", "SaverDef"),
]:
    file = descriptor_pb2.FileDescriptorProto(name=path, package="tensorflow", syntax="proto3")
    field = file.message_type.add(name=name).field.add(name="other", number=2)
    field.type, field.label = field.TYPE_STRING, field.LABEL_OPTIONAL
    descriptor_pool.Default().Add(file)
theirs = message_factory.GetMessageClass(
    descriptor_pool.Default().FindMessageTypeByName("tensorflow.TensorShapeProto")
)
assert theirs(other="x").SerializeToString() == b"\\x12\\x01x"
"""

OURS = """
from ckpttool import pb
from ckpttool.pb.convert import from_text, parse, to_text, unknown_fields
shape = parse(pb.TensorShapeProto, bytes.fromhex("1202080212020803"), path=None)
assert [dim.size for dim in shape.dim] == [2, 3]
assert from_text(pb.TensorShapeProto, to_text(shape), path=None) == shape
assert unknown_fields(shape) == []
graph = pb.MetaGraphDef()
graph.saver_def.max_to_keep = 5
asset = graph.collection_def["saved_model_assets"].any_list.value.add()
asset.type_url = "type.googleapis.com/tensorflow.SaverDef"
asset.value = graph.saver_def.SerializeToString()
assert "[type.googleapis.com/tensorflow.SaverDef] {\\n          max_to_keep: 5" in to_text(graph)
again = from_text(pb.MetaGraphDef, to_text(graph), path=None)
assert again.SerializeToString() == graph.SerializeToString()
"""

TENSORFLOW = """
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.framework.tensor_shape_pb2 import TensorShapeProto as theirs
from tensorflow.python.training.checkpoint_state_pb2 import CheckpointState
assert tf.TensorShape([2, 3]).as_proto().SerializeToString().hex() == "1202080212020803"
"""

COMPARED = """
assert theirs is not pb.TensorShapeProto
assert not isinstance(shape, theirs)
assert theirs.FromString(b"\\x18\\x01").SerializeToString() == b"\\x18\\x01"
"""

# The state file as TensorFlow's own function writes it, with everything that needs an escape.
SAME_TEXT = """
import sys
from tensorflow.python.training.checkpoint_management import generate_checkpoint_state_proto
names = ["ckpt-1", "sp ace", "\\x01\\x7f\\x85", "q'uo\\"te\\\\", "tab\\tline\\nend\\r"]
names.append("mod\\u00e8le-\\U0001f600")
state = generate_checkpoint_state_proto(
    "/d", names[-1], names, [1.0, 1e20, 0.1, 1795181199.8361657, 1e-7, 3.0], 2.5
)
text = text_format.MessageToString(state)
ours = parse(pb.CheckpointState, state.SerializeToString(), path=None)
assert to_text(ours) == text, (to_text(ours), text)
assert from_text(pb.CheckpointState, text, path=None) == ours
"""

# Every message that both know: equal fields, apart from those that protos/ brings back.
SAME_FIELDS = """
import importlib, pkgutil
import tensorflow as tf
from google.protobuf import descriptor_pool
from ckpttool.pb.pool import DESCRIPTORS, POOL
for name in ("tensorflow.core", "tensorflow.python.keras.protobuf"):
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if module.name.endswith("_pb2"):
            importlib.import_module(module.name)
def facts(field):
    kind = field.message_type or field.enum_type
    oneof = field.containing_oneof
    presence = getattr(field, "is_repeated", None), field.has_presence, field.is_packed
    return (
        field.name, field.type, presence, kind.full_name if kind else "",
        oneof.name if oneof else "", field.GetOptions().deprecated,
    )
from google.protobuf.descriptor_pb2 import FileDescriptorSet
def names(message, scope):
    yield scope + message.name
    for nested in message.nested_type:
        yield from names(nested, scope + message.name + ".")
same, added, missing = 0, [], []
for file in FileDescriptorSet.FromString(open(DESCRIPTORS, "rb").read()).file:
    for message in file.message_type:
        for name in names(message, file.package + "."):
            try:
                other = descriptor_pool.Default().FindMessageTypeByName(name)
            except KeyError:
                missing.append(name)
                continue
            ours = {f.number: facts(f) for f in POOL.FindMessageTypeByName(name).fields}
            theirs = {f.number: facts(f) for f in other.fields}
            assert {n: ours[n] for n in theirs} == theirs, name
            added += [f"{name}.{ours[n][0]}" for n in ours if n not in theirs]
            same += 1
print(same, sorted(added), sorted({n.split(".")[1] for n in missing if n.count(".") == 2}))
"""


class RunPython(Protocol):
    def __call__(self, code: str) -> str: ...


needs_tensorflow = pytest.mark.skipif(
    importlib.util.find_spec("tensorflow") is None, reason="tensorflow is not installed here"
)


@pytest.mark.parametrize(
    "parts", [(LOOK_ALIKE, OURS), (OURS, LOOK_ALIKE)], ids=["they first", "we first"]
)
def test_beside_a_look_alike(parts: tuple[str, ...], run_python: RunPython) -> None:
    assert run_python("\n".join([*parts, COMPARED, OURS, "print('done')"])) == "done\n"


@needs_tensorflow
@pytest.mark.parametrize(
    "parts", [(TENSORFLOW, OURS), (OURS, TENSORFLOW)], ids=["they first", "we first"]
)
def test_beside_tensorflow(parts: tuple[str, ...], run_python: RunPython) -> None:
    code = "\n".join([*parts, COMPARED, SAME_TEXT, "print('done')"])
    assert run_python(code).splitlines()[-1:] == ["done"]


@needs_tensorflow
def test_fields_are_those_of_tensorflow(run_python: RunPython) -> None:
    last = run_python(SAME_FIELDS).splitlines()[-1]
    same, _, rest = last.partition(" ")
    assert int(same) > 130
    assert rest.startswith(
        "['tensorflow.FunctionDef.node',"
        " 'tensorflow.TrackableObjectGraph.TrackableObject.SerializedTensor.optional_restore'] "
    )


PURE = ("test_pool.py", "test_parse.py", "test_text.py", "test_json.py", "test_json_faults.py")


@pytest.mark.large
def test_with_pure_python_protobuf(exhaustive: bool) -> None:
    names = PURE if exhaustive else PURE[:2]
    done = subprocess.run(
        [
            sys.executable,
            *("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"),
            *(str(HERE / name) for name in names),
            f"{HERE / 'test_isolation.py'}::test_beside_a_look_alike",
        ],
        cwd=HERE.parents[1],
        env={**os.environ, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert " passed" in done.stdout
