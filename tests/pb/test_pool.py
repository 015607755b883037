"""The message classes: names, laziness, and bytes as TensorFlow writes them."""

from __future__ import annotations

import threading
from typing import Protocol

import pytest
from google.protobuf.internal import api_implementation

from ckpttool import pb

SHORT_NAMES = {
    "BundleHeaderProto": "tensorflow.BundleHeaderProto",
    "BundleEntryProto": "tensorflow.BundleEntryProto",
    "TensorShapeProto": "tensorflow.TensorShapeProto",
    "TensorSliceProto": "tensorflow.TensorSliceProto",
    "TrackableObjectGraph": "tensorflow.TrackableObjectGraph",
    "CheckpointState": "tensorflow.CheckpointState",
    "MetaGraphDef": "tensorflow.MetaGraphDef",
    "GraphDef": "tensorflow.GraphDef",
    "SavedModel": "tensorflow.SavedModel",
    "SavedTensorSlices": "tensorflow.SavedTensorSlices",
    "TensorProto": "tensorflow.TensorProto",
    "VariantTensorDataProto": "tensorflow.VariantTensorDataProto",
    "SaverDef": "tensorflow.SaverDef",
    "VariableDef": "tensorflow.VariableDef",
    "SignatureDef": "tensorflow.SignatureDef",
    "FingerprintDef": "tensorflow.FingerprintDef",
    "QueueRunnerDef": "tensorflow.QueueRunnerDef",
    "CondContextDef": "tensorflow.CondContextDef",
    "WhileContextDef": "tensorflow.WhileContextDef",
    "AssetFileDef": "tensorflow.AssetFileDef",
    "GraphDebugInfo": "tensorflow.GraphDebugInfo",
    "HParamDef": "tensorflow.HParamDef",
    "SavedObjectGraph": "tensorflow.SavedObjectGraph",
    "StructuredValue": "tensorflow.StructuredValue",
    "CompressedElement": "tensorflow.data.CompressedElement",
    "Signatures": "tensorflow.serving.Signatures",
    "AssetFile": "tensorflow.serving.AssetFile",
    "ChunkMetadata": "tensorflow.proto_splitter.ChunkMetadata",
    "SavedMetadata": "third_party.tensorflow.python.keras.protobuf.SavedMetadata",
    "Any": "google.protobuf.Any",
    # Names that two packages have.
    "VersionDef": "tensorflow.VersionDef",
    "SavedObject": "tensorflow.SavedObject",
}


class RunPython(Protocol):
    def __call__(self, code: str) -> str: ...


@pytest.mark.parametrize(("short", "full"), SHORT_NAMES.items())
def test_short_names(short: str, full: str) -> None:
    found = getattr(pb, short)
    assert found.DESCRIPTOR.full_name == full
    assert found is pb.message_class(full)
    assert found() == found.FromString(b"")


def test_nested_message_is_that_of_its_parent() -> None:
    nested = pb.message_class("tensorflow.AttrValue.ListValue")
    assert nested is pb.AttrValue.ListValue
    assert nested.DESCRIPTOR.full_name != pb.ListValue.DESCRIPTOR.full_name


@pytest.mark.parametrize("name", ["tensorflow.NoSuch", "NoSuch", "", "tensorflow", "tensorflow."])
def test_unknown_full_name(name: str) -> None:
    with pytest.raises(KeyError):
        pb.message_class(name)


@pytest.mark.parametrize("name", ["NoSuch", "no_such", "_private", "bundleEntryProto"])
def test_unknown_attribute(name: str) -> None:
    with pytest.raises(AttributeError, match=name):
        getattr(pb, name)


def test_class_is_the_same_in_every_thread() -> None:
    found: list[object] = []
    name = "tensorflow.CostGraphDef"
    threads = [
        threading.Thread(target=lambda: found.append(pb.message_class(name))) for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 16
    assert len(set(map(id, found))) == 1


@pytest.mark.parametrize(
    "imports",
    [
        "import ckpttool.pb",
        "import ckpttool.pb.convert",
        "from ckpttool.pb import convert",
        "from ckpttool.pb import message_class",
        "from ckpttool import pb; hasattr(pb, 'nothing'), hasattr(pb, '__path__')",
    ],
)
def test_import_does_not_load_protobuf(imports: str, run_python: RunPython) -> None:
    code = f"{imports}\nimport sys; print(any(name.startswith('google') for name in sys.modules))"
    assert run_python(code) == "False\n"


def test_first_use_loads_protobuf(run_python: RunPython) -> None:
    code = (
        "from ckpttool import pb; pb.BundleEntryProto\n"
        "import sys; print('google.protobuf' in sys.modules, 'numpy' in sys.modules)"
    )
    assert run_python(code) == "True False\n"


def test_default_pool_stays_empty(run_python: RunPython) -> None:
    code = (
        "from ckpttool import pb; pb.MetaGraphDef\n"
        "from google.protobuf import descriptor_pool\n"
        "try: descriptor_pool.Default().FindMessageTypeByName('tensorflow.MetaGraphDef')\n"
        "except KeyError: print('empty')"
    )
    assert run_python(code) == "empty\n"


def shape(*sizes: int) -> pb.TensorShapeProto:
    return pb.TensorShapeProto(dim=[pb.TensorShapeProto.Dim(size=size) for size in sizes])


def test_bundle_header_bytes() -> None:
    header = pb.BundleHeaderProto(num_shards=1, version=pb.VersionDef(producer=1))
    assert header.SerializeToString().hex() == "08011a020801"
    assert pb.BundleHeaderProto.BIG == 1


@pytest.mark.parametrize(
    ("sizes", "written"),
    [((), ""), ((2, 3), "1202080212020803"), ((0, 3), "120012020803")],
)
def test_shape_bytes(sizes: tuple[int, ...], written: str) -> None:
    assert shape(*sizes).SerializeToString().hex() == written
    assert [d.size for d in pb.TensorShapeProto.FromString(bytes.fromhex(written)).dim] == [*sizes]


def test_entry_of_a_scalar_has_an_empty_shape() -> None:
    entry = pb.BundleEntryProto(dtype=1, shape=shape(), size=4, crc32c=0x83DBB1A7)
    assert entry.SerializeToString().hex() == "0801120028" + "0435a7b1db83"


def test_extent_tells_absent_from_zero() -> None:
    extent = pb.TensorSliceProto.Extent
    assert extent().SerializeToString() == b""
    assert not extent().HasField("length")
    assert extent(length=0).SerializeToString().hex() == "1000"
    assert extent.FromString(b"\x10\x00").HasField("length")


def test_fields_of_old_releases_are_read() -> None:
    attribute = pb.TrackableObjectGraph.TrackableObject.SerializedTensor.FromString(b"\x20\x01")
    assert attribute.optional_restore is True
    function = pb.FunctionDef.FromString(bytes.fromhex("1208" + "0a0172" + "1203416464"))
    assert [(node.ret[0], node.op) for node in function.node] == [("r", "Add")]


@pytest.mark.skipif(
    api_implementation.Type() == "python", reason="pure-Python protobuf checks every string"
)
def test_strings_of_debug_info_need_not_be_utf8() -> None:
    info = pb.GraphDebugInfo.FromString(b"\x0a\x01\xff")
    assert info.SerializeToString() == b"\x0a\x01\xff"
