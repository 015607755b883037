"""Files that hold graphs: which message one is, and the message itself.

    .meta, export.meta, .pbtxt          MetaGraphDef
    saved_model.pb, saved_model.pbtxt   SavedModel, one MetaGraphDef or more
    fingerprint.pb                      FingerprintDef

Names are only a hint: what the fields of a message look like on the outside tells these three
apart, and a message of another kind from them.

    MetaGraphDef     1..7 messages, each once but 4, 5 and 6
    SavedModel       1 number   2 messages
    FingerprintDef   1..5 numbers   6 message   7 string
    GraphDef         1 messages (nodes)   2 message   3 number   4 message
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

from ckpttool.coding.varint import decode_varint
from ckpttool.coding.wire import BYTES, FIXED32, FIXED64, VARINT
from ckpttool.errors import CkptError, CorruptError
from ckpttool.metagraph.guess import FINGERPRINT, describe, is_text, says_something
from ckpttool.storage.source import RandomAccessFile

if TYPE_CHECKING:
    from google.protobuf.message import Message

GraphKind = Literal["MetaGraphDef", "SavedModel", "FingerprintDef"]
_MOST_FIELDS = 1000
_SURE = 4  # so many of its fields make a fingerprint of any name
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
    """A file as a message.

    Attributes:
        path: of the file.
        kind: which message it is.
        message: a message of this kind.
    """

    path: str
    kind: GraphKind
    message: Message


def read_graph_file(path: str) -> GraphFile:
    """Read a file that holds a MetaGraph, a SavedModel or a fingerprint, binary or text.

    Raises:
        MissingFileError: there is no such file.
        CorruptError: it holds no such message; the error says what it looks like instead.
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
        if is_text(data):
            return _from_text(path, data, damage)
        error.message = f"{error.message}{damage or describe(data)}"
        raise
    # Some texts can be taken for messages, all of whose fields are then unknown, and so can other
    # messages.
    if message.ListFields() and says_something(message, kind, os.path.basename(path)):
        return GraphFile(path, kind, message)
    return _from_text(path, data, damage)


def _from_text(path: str, data: bytes, damage: str) -> GraphFile:
    from ckpttool import pb
    from ckpttool.pb.convert import from_text

    if not is_text(data):
        hint = describe(data) or damage
        raise CorruptError(
            f"{len(data)} bytes that are not a tensorflow.MetaGraphDef{hint}", path=path
        )
    if hint := describe(data):
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
    """Return which message the fields are of; None where they are of none."""
    kinds = set(fields)
    # What is newer than all three says nothing.
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
    """Return how often the first fields occur, by number and wire type, and what breaks them off.

    Only the fields of the message itself are looked at, not what is in them.
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
