"""Files that hold graphs: recognising the message, and reading it.

    .meta, export.meta, .pbtxt          MetaGraphDef
    saved_model.pb, saved_model.pbtxt   SavedModel, one MetaGraphDef or more
    fingerprint.pb                      FingerprintDef

File names are only a hint: the numbers and wire types of the outer fields tell these three apart,
and from other messages.

    MetaGraphDef     1..7 messages, each once but 4, 5 and 6
    SavedModel       1 number   2 messages
    FingerprintDef   1..5 numbers   6 message   7 string
    GraphDef         1 messages (nodes)   2 message   3 number   4 message
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from ckpttool.coding.foreign import HEAD_SIZE, foreign_bytes
from ckpttool.coding.varint import decode_varint
from ckpttool.coding.wire import BYTES, FIXED32, FIXED64, VARINT
from ckpttool.errors import CkptError, CorruptError
from ckpttool.storage.source import RandomAccessFile
from ckpttool.table.format import MAGIC

if TYPE_CHECKING:
    from google.protobuf.message import Message

FINGERPRINT = "fingerprint.pb"
_TEXT_SAMPLE = 4096
_STATE = (b"model_checkpoint_path:", b"all_model_checkpoint_paths:")
GraphKind = Literal["MetaGraphDef", "SavedModel", "FingerprintDef"]
_MOST_FIELDS = 1000
_SURE = 4  # with so many of its fields a file of any name is a fingerprint
_TEXT_FIELD = re.compile(r"\A(?:\s|#[^\n]*\n)*([a-zA-Z_]\w*)")
_TEXT_KINDS: dict[str, GraphKind] = {
    "saved_model_schema_version": "SavedModel",
    "meta_graphs": "SavedModel",
    "saved_model_checksum": "FingerprintDef",
    "graph_def_program_hash": "FingerprintDef",
    "signature_def_hash": "FingerprintDef",
    "saved_object_graph_hash": "FingerprintDef",
    "checkpoint_hash": "FingerprintDef",
}


@dataclass(frozen=True, slots=True)
class GraphFile:
    """A file read as a message of a kind."""

    path: str
    kind: GraphKind
    message: Message


def read_graph_file(path: str) -> GraphFile:
    """Read a file that holds a MetaGraph, a SavedModel or a fingerprint, binary or text.

    Raises:
        MissingFileError: there is no such file.
        CorruptError: it holds no such message; the error says what it seems to be.
        UnsupportedError: it is 2 GiB or more, or a SavedModel split into chunks.
    """
    from ckpttool import pb
    from ckpttool.pb.convert import check_size, parse

    with RandomAccessFile(path) as file:
        check_size(file.size, path=path)
        data = file.read_at(0, file.size)
    fields, damage = _outside(data)
    kind = _kind(fields, os.path.basename(path))
    if kind is None:
        return _from_text(path, data, damage)
    try:
        message = parse(getattr(pb, kind), data, path=path)
    except CorruptError as error:
        if _is_text(data):
            return _from_text(path, data, damage)
        error.message = f"{error.message}{damage or _describe(data)}"
        raise
    # Some texts, and other messages, can be parsed as such a message with unknown fields only.
    if message.ListFields() and _says_something(message, kind, os.path.basename(path)):
        return GraphFile(path, kind, message)
    return _from_text(path, data, damage)


def _from_text(path: str, data: bytes, damage: str) -> GraphFile:
    from ckpttool import pb
    from ckpttool.pb.convert import from_text

    if not _is_text(data):
        hint = _describe(data) or damage
        raise CorruptError(
            f"{len(data)} bytes that are not a tensorflow.MetaGraphDef{hint}", path=path
        )
    if hint := _describe(data):
        raise CorruptError(f"not the text of a tensorflow.MetaGraphDef{hint}", path=path)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise CorruptError("neither a MetaGraph nor text", path=path) from error
    first = _TEXT_FIELD.match(text)
    named = os.path.basename(path).startswith("saved_model.pb")
    default: GraphKind = "SavedModel" if named else "MetaGraphDef"
    kind = _TEXT_KINDS.get(first[1], default) if first else default
    message = from_text(cast("type[Message]", getattr(pb, kind)), text, path=path)
    if not message.ListFields():
        raise CorruptError("an empty MetaGraph", path=path)
    return GraphFile(path, kind, message)


def _kind(fields: dict[tuple[int, int], int], name: str) -> GraphKind | None:
    """Return the kind of message that has these fields, if any."""
    kinds = set(fields)
    # Fields newer than our schema tell nothing.
    known = {(number, wire) for number, wire in kinds if number <= 7}
    if not known:
        return None
    hashes = known <= {*((number, VARINT) for number in range(1, 6)), (6, BYTES), (7, BYTES)}
    if hashes and (name == FINGERPRINT or len(known) >= _SURE):
        return "FingerprintDef"
    model = (1, VARINT) in known or name.startswith("saved_model.pb")
    if model and known <= {(1, VARINT), (2, BYTES)}:
        return "SavedModel"
    if known <= {(number, BYTES) for number in range(1, 8)} and fields.get((1, BYTES), 0) <= 1:
        return "MetaGraphDef"
    return None


def _outside(data: bytes) -> tuple[dict[tuple[int, int], int], str]:
    """Return how often outer fields occur, by number and wire type, and the error that ends them.

    Only the first fields are counted; their contents are not read.
    """
    found: dict[tuple[int, int], int] = {}
    pos, end = 0, len(data)
    for _ in range(_MOST_FIELDS):
        if pos >= end:
            break
        start = pos
        try:
            tag, pos = decode_varint(data, pos, end)
            number, wire = tag >> 3, tag & 7
            if not number or wire not in (VARINT, FIXED64, BYTES, FIXED32):
                return found, f": no field begins at byte {start}"
            if wire == BYTES:
                size, pos = decode_varint(data, pos, end)
            elif wire == VARINT:
                size = decode_varint(data, pos, end)[1] - pos
            else:
                size = 8 if wire == FIXED64 else 4
        except CkptError as error:
            return found, f": {error.message} at byte {error.offset}"
        found[number, wire] = found.get((number, wire), 0) + 1
        if size > end - pos:
            return found, (
                f": field {number} at byte {start} has {size} bytes, of which {end - pos} are there"
            )
        pos += size
    return found, ""


def _is_text(data: bytes) -> bool:
    """Tell whether a file can be text, from its beginning."""
    return not any(byte < 0x20 and byte not in b"\t\n\r" for byte in data[:_TEXT_SAMPLE])


def _says_something(message: Any, kind: str, name: str) -> bool:
    """Tell whether a message has contents that only its kind would have.

    Other messages with a few fields of the right types can be parsed as such a kind.
    """
    if kind == "FingerprintDef":
        # Hashes are hardly ever as small as the numbers in other messages.
        hashes = [value for _, value in message.ListFields() if isinstance(value, int)]
        return name == FINGERPRINT or all(value >> 32 for value in hashes)
    if kind == "SavedModel":
        named = name.startswith("saved_model.pb")
        return named or any(_has_contents(graph) for graph in message.meta_graphs)
    return _has_contents(message)


def _has_contents(metagraph: Any) -> bool:
    for field, value in metagraph.ListFields():
        if field.name != "meta_info_def":
            if not hasattr(value, "ListFields") or value.ListFields():
                return True
            continue
        # Its first field is text, as in many messages.
        if any(inner.number != 1 for inner, _ in value.ListFields()):
            return True
    return False


def _describe(data: bytes) -> str:
    """Return what a file that is no MetaGraph seems to be, as the end of a sentence."""
    found = _look(data)
    return f"; it looks like {found}" if found else ""


def _look(data: bytes) -> str:
    if data.endswith(MAGIC):
        return "a table: the index of a checkpoint, or a V1 checkpoint"
    found = foreign_bytes(data[:HEAD_SIZE], len(data))
    if found:
        return str(found)
    if data and not data.strip(b"\0"):
        return "a file of zeros"
    head = data[:_TEXT_SAMPLE].lstrip(b"\xef\xbb\xbf \t\r\n")
    if head[:1] in (b"{", b"["):
        return "JSON, which --from-json reads"
    if head.startswith(_STATE):
        return "the state file of a folder of checkpoints"
    return _bare_graph(data)


def _bare_graph(data: bytes) -> str:
    """Return what a file is if it is a GraphDef without a MetaGraph; else an empty text."""
    from ckpttool import pb
    from ckpttool.pb.convert import parse

    if data.lstrip().startswith((b"node {", b"node{")):
        return "the text of a GraphDef, a graph alone"
    try:
        graph = parse(pb.GraphDef, data, path=None)
    except CkptError:
        return ""
    if graph.node and all(node.name and node.op for node in graph.node[:100]):
        return "a GraphDef, such as a frozen graph"
    return ""
