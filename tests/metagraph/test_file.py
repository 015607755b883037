"""Which message a graph file is, told from its contents, and what else it may be."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from google.protobuf.message import Message

from ckpttool import pb
from ckpttool.coding.wire import bytes_field, varint_field
from ckpttool.errors import CkptError, CorruptError, UnsupportedError
from ckpttool.metagraph.facts import read_metagraphs
from ckpttool.metagraph.file import GraphKind, read_graph_file
from ckpttool.pb.convert import to_text
from tests.support.fixtures import FIXTURES, manifest, read_bytes
from tests.support.limits import memory_limit
from tests.support.refusals import refused

KINDS: dict[str, GraphKind] = {
    ".meta": "MetaGraphDef",
    "graph.pbtxt": "MetaGraphDef",
    "saved_model.pb": "SavedModel",
    "saved_model.pbtxt": "SavedModel",
    "fingerprint.pb": "FingerprintDef",
}
FILES = [
    (path, kind)
    for row in manifest()
    for path in row["files"]
    for ending, kind in KINDS.items()
    if path.endswith(ending)
]


def written(folder: Path, data: bytes, name: str = "graph.meta") -> str:
    path = folder / name
    path.write_bytes(data)
    return str(path)


def test_there_are_files_of_all_kinds() -> None:
    assert {kind for _, kind in FILES} == set(KINDS.values())
    assert len(FILES) > 50


@pytest.mark.sweep(5)
@pytest.mark.parametrize(("path", "kind"), FILES)
def test_fixtures(path: str, kind: GraphKind, tmp_path: Path) -> None:
    found = read_graph_file(os.path.join(FIXTURES, path))
    assert found.kind == kind
    other = read_graph_file(written(tmp_path, read_bytes(os.path.join(FIXTURES, path)), "x"))
    assert other.kind == found.kind
    assert other.message.SerializeToString(deterministic=True) == found.message.SerializeToString(
        deterministic=True
    )


@pytest.mark.parametrize(
    "message",
    [
        pb.CollectionDef(node_list=pb.CollectionDef.NodeList(value=["a"])),
        pb.TensorShapeProto(dim=[pb.TensorShapeProto.Dim(size=3)]),
        pb.OpList(op=[pb.OpDef(name="Add")]),
        pb.VersionDef(producer=5, min_consumer=3),
        pb.VersionDef(producer=5, bad_consumers=[1, 2]),
        pb.SaverDef(filename_tensor_name="save/Const:0"),
        pb.FingerprintDef(
            saved_model_checksum=1,
            graph_def_program_hash=2,
            signature_def_hash=3,
            saved_object_graph_hash=4,
            checkpoint_hash=5,
        ),
        pb.MetaGraphDef(meta_info_def=pb.MetaGraphDef.MetaInfoDef(), graph_def=pb.GraphDef()),
    ],
    ids=lambda message: message.DESCRIPTOR.name,
)
def test_small_messages_of_other_kinds(message: Message, tmp_path: Path) -> None:
    """Any message of a few fields can be read as a MetaGraph or a fingerprint of nothing."""
    for name in ("x", "x.meta", "x.pb"):
        with refused(CorruptError, "not (the text of )?a tensorflow.MetaGraphDef"):
            read_graph_file(written(tmp_path, message.SerializeToString(), name))


@pytest.mark.sweep(5)
@pytest.mark.parametrize("path", [path for path, kind in FILES if kind != "FingerprintDef"])
def test_text_is_read_back(path: str, tmp_path: Path) -> None:
    found = read_graph_file(os.path.join(FIXTURES, path))
    text = written(tmp_path, to_text(found.message).encode(), "x.pbtxt")
    again = read_graph_file(text)
    assert again.kind == found.kind
    # Texts of Anys are read in another order of maps, and nothing else can differ.
    assert to_text(again.message) == to_text(found.message)


def test_small_fingerprints(tmp_path: Path) -> None:
    data = pb.FingerprintDef(saved_model_checksum=5).SerializeToString()
    assert read_graph_file(written(tmp_path, data, "fingerprint.pb")).kind == "FingerprintDef"
    with pytest.raises(CorruptError, match="the fingerprint of a SavedModel, not a MetaGraph"):
        read_metagraphs(str(tmp_path / "fingerprint.pb"))


def test_fields_of_the_future(tmp_path: Path) -> None:
    data = pb.MetaGraphDef().SerializeToString() + bytes_field(9, b"new") + varint_field(40, 1)
    known = bytes_field(2, bytes_field(1, b""))
    found = read_graph_file(written(tmp_path, known + data))
    assert found.kind == "MetaGraphDef"
    assert found.message.SerializeToString() == known + data


def frozen_graph() -> bytes:
    graph = pb.GraphDef()
    graph.node.add(name="a", op="Placeholder")
    graph.node.add(name="b", op="Identity", input=["a"])
    return graph.SerializeToString()


INDEX = "v2/tf2.21/saver_v2/model.ckpt-3.index"
V1 = "session_bundle/tf0.12/assets/export/00000123/export"
DATA = "v2/tf2.21/saver_v2/model.ckpt-3.data-00000-of-00001"
OTHERS: dict[str, tuple[Callable[[], bytes], str]] = {
    "index": (lambda: read_bytes(os.path.join(FIXTURES, INDEX)), "a table: the index"),
    "V1": (lambda: read_bytes(os.path.join(FIXTURES, V1)), "a table: the index"),
    "data": (lambda: read_bytes(os.path.join(FIXTURES, DATA)), "not a tensorflow.MetaGraphDef"),
    "graph": (frozen_graph, "a GraphDef, such as a frozen graph"),
    "text of a graph": (lambda: b'node {\n  name: "a"\n}\n', "the text of a GraphDef"),
    "JSON": (lambda: b'{"graphDef": {}}', "it looks like JSON, which --from-json reads"),
    "state": (lambda: b'model_checkpoint_path: "a"\n', "the state file of a folder"),
    "HDF5": (lambda: b"\x89HDF\r\n\x1a\n" + bytes(99), "HDF5"),
    "zip": (lambda: b"PK\x03\x04\x14\x00\x00\x00", "a ZIP archive"),
    "npy": (lambda: b"\x93NUMPY\x01\x00v\x00", "a NumPy array"),
    "chunks": (lambda: bytes(64) + b"\x83\xaf\x70\xd1\x0d\x88\x4a\x3f", "split into chunks"),
    "zeros": (lambda: bytes(1000), "a file of zeros"),
    "gzip": (lambda: b"\x1f\x8b\x08\x00", "a gzip file"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_files_of_other_kinds(name: str, tmp_path: Path) -> None:
    make, expected = OTHERS[name]
    path = written(tmp_path, make())
    with pytest.raises(CorruptError, match=expected) as caught:
        read_graph_file(path)
    assert caught.value.path == path


def test_a_cut_is_told_where(tmp_path: Path) -> None:
    data = pb.MetaGraphDef.FromString(
        read_bytes(os.path.join(FIXTURES, "meta/tf2.21/collections/graph.meta"))
    ).SerializeToString(deterministic=True)
    with pytest.raises(CorruptError) as caught:
        read_graph_file(written(tmp_path, data[:5000]))
    assert "5000 bytes that are not a tensorflow.MetaGraphDef: field 2 at byte " in str(
        caught.value
    )


NESTED = b""
for _ in range(5000):
    NESTED = bytes_field(2, NESTED)
HOSTILE = {
    "nested": bytes_field(2, bytes_field(1, bytes_field(7, NESTED))),
    "nested groups": b"\x0b" * 100_000,
    "huge length": b"\x12\xff\xff\xff\xff\x07",
    "huge length inside": bytes_field(2, b"\x0a\xff\xff\xff\xff\x07"),
    "length of 64 bits": b"\x12" + b"\xff" * 9 + b"\x01",
    "length without end": b"\x12" + b"\xff" * 50,
    "many fields cut": bytes_field(3, b"") * 5000 + b"\x12\x7f",
    "text without end": b"graph_def { " * 5000,
    "string without end": b'meta_info_def { tags: "' + b"a" * 100_000,
    "escapes": b'meta_info_def { tags: "' + b"\\" * 99_999,
    "not UTF-8": bytes_field(1, bytes_field(4, b"\xff")),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files(name: str, tmp_path: Path) -> None:
    path = written(tmp_path, HOSTILE[name])
    with pytest.raises(CkptError) as caught:
        read_graph_file(path)
    assert caught.value.path == path
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("size", [1 << 31, 3 << 30])
def test_a_file_beyond_the_limit_of_protobuf_is_not_read(size: int, tmp_path: Path) -> None:
    path = written(tmp_path, b"\x0a\x02\x08\x01")
    os.truncate(path, size)
    with memory_limit(256 << 20), refused(UnsupportedError, f"{size} bytes; the limit is") as found:
        read_graph_file(path)
    assert found.value.path == path
