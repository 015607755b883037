"""The message classes, in a descriptor pool of our own.

TensorFlow registers messages of the same names in protobuf's default pool. Differing declarations
cannot share a pool; with a pool of our own both packages work in one process.

Messages of two pools do not mix: only bytes pass from one to the other. Compare messages that may
hold an Any by their bytes: `==` of the pure-Python runtime looks its type up in the default pool.

Importing this module loads protobuf and fills the pool.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from google.protobuf import descriptor_pool, message_factory

from ckpttool.coding.wire import decode_fields

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message

# Not by pathlib, whose import takes as long as the rest of this module.
DESCRIPTORS = os.path.join(os.path.dirname(__file__), "descriptors.binpb")
_LOCK = threading.Lock()
_classes: dict[str, type[Message]] = {}


def _filled_pool() -> descriptor_pool.DescriptorPool:
    # A FileDescriptorSet has only files, each after its imports. Parsing it as a message would
    # load the descriptor messages, for another two milliseconds.
    pool = descriptor_pool.DescriptorPool()
    with open(DESCRIPTORS, "rb") as stream:
        data = stream.read()
    for _number, _wire_type, file, _field in decode_fields(data):
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
    found = _classes.get(full_name)
    if found is None:
        descriptor = POOL.FindMessageTypeByName(full_name)
        with _LOCK:
            found = _classes[full_name] = _class_with_nested(descriptor)
    return found


def _class_with_nested(descriptor: Descriptor) -> type[Message]:
    found = message_factory.GetMessageClass(descriptor)
    for nested in descriptor.nested_types:
        nested_class = _class_with_nested(nested)
        # The pure-Python runtime does not set these.
        if not hasattr(found, nested.name):
            setattr(found, nested.name, nested_class)
    return found
