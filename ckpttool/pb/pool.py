"""The message classes, in a descriptor pool of our own.

TensorFlow registers messages of the same names in protobuf's default pool. Two declarations that
differ cannot live in one pool, so ours stay out of it, and both packages work in one process.
Messages of two pools do not mix: bytes are the only way from one to the other.

Importing this module loads protobuf and fills the pool.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from google.protobuf import descriptor_pool, message_factory

from ckpttool.coding.wire import decode_fields

if TYPE_CHECKING:
    from google.protobuf.message import Message

_DESCRIPTORS = Path(__file__).with_name("descriptors.binpb")
_LOCK = threading.Lock()


def _filled_pool() -> descriptor_pool.DescriptorPool:
    # A FileDescriptorSet is nothing but its files, each after those that it imports. Parsing it as
    # a message would load the descriptor messages, for another two milliseconds.
    pool = descriptor_pool.DescriptorPool()
    for _number, _wire_type, file, _field in decode_fields(_DESCRIPTORS.read_bytes()):
        assert isinstance(file, bytes)
        pool.AddSerializedFile(file)
    return pool


POOL = _filled_pool()


def message_class(full_name: str) -> type[Message]:
    """Return the class of a message; always the same one for the same name.

    Args:
        full_name: with the package, such as "tensorflow.AttrValue.ListValue".

    Raises:
        KeyError: when the schema has no such message.
    """
    descriptor = POOL.FindMessageTypeByName(full_name)
    with _LOCK:
        return message_factory.GetMessageClass(descriptor)
