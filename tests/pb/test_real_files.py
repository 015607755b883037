"""The schema knows every field of the files that four generations of TensorFlow wrote."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ckpttool import pb
from ckpttool.pb.convert import from_text, parse, to_text, unknown_fields

if TYPE_CHECKING:
    from google.protobuf.message import Message

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"

BINARY = {
    "*.meta": "MetaGraphDef",
    "saved_model.pb": "SavedModel",
    "fingerprint.pb": "FingerprintDef",
    "keras_metadata.pb": "SavedMetadata",
}
TEXT = {
    "graph.pbtxt": "MetaGraphDef",
    "saved_model.pbtxt": "SavedModel",
    "checkpoint": "CheckpointState",
}
ESCAPED_UTF8 = re.compile(r"\\[23][0-7]{2}")


def cases(patterns: dict[str, str]) -> list[object]:
    return [
        pytest.param(path, name, id=path.relative_to(FIXTURES).as_posix())
        for pattern, name in patterns.items()
        for path in sorted(FIXTURES.rglob(pattern))
        if path.is_file()
    ]


@pytest.mark.sweep(6)
@pytest.mark.parametrize(("path", "name"), cases(BINARY))
def test_binary_files(path: Path, name: str) -> None:
    data = path.read_bytes()
    message_class: type[Message] = getattr(pb, name)
    message = parse(message_class, data, path=str(path))
    assert unknown_fields(message) == []
    # Older releases write map entries in any order, so it is the length that is the same.
    assert len(message.SerializeToString()) == len(data)
    again = from_text(message_class, to_text(message), path=None)
    assert len(again.SerializeToString()) == len(data)
    assert to_text(again) == to_text(message)


@pytest.mark.sweep(6)
@pytest.mark.parametrize(("path", "name"), cases(TEXT))
def test_text_files(path: Path, name: str) -> None:
    text = path.read_text(encoding="utf-8")
    message_class: type[Message] = getattr(pb, name)
    message = from_text(message_class, text, path=str(path))
    assert message.ByteSize() > 0
    written = to_text(message)
    assert to_text(from_text(message_class, written, path=None)) == written
    # Other files have map entries in another order or an Any in its other form.
    if path.name == "checkpoint" and not ESCAPED_UTF8.search(text):
        assert written == text
