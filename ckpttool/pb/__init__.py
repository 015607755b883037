"""TensorFlow's messages, by TensorFlow's names.

    pool      the classes, made from descriptors.binpb
    convert   bytes and text to messages and back; fields the schema does not know
    syntax    the text form where protobuf runtimes disagree
    json      messages as JSON, and back

The attributes of this package are the message classes: `pb.BundleEntryProto`, and so on for every
message that is not nested in another. The first use of one loads protobuf, importing this package
does not. The declarations are in the folder protos/ of the source tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from google.protobuf.message import Message

__all__ = ["message_class"]

# Searched in this order for a short name: SavedObject and VersionDef are TensorFlow's, not those of
# Keras or of the splitter.
PACKAGES = (
    "tensorflow",
    "tensorflow.serving",
    "tensorflow.data",
    "tensorflow.proto_splitter",
    "third_party.tensorflow.python.keras.protobuf",
    "google.protobuf",
)


def message_class(full_name: str) -> type[Message]:
    """Return the class of a message; always the same one for the same name.

    Args:
        full_name: with the package, such as "tensorflow.AttrValue.ListValue".

    Raises:
        KeyError: when the schema has no such message.
    """
    from ckpttool.pb import pool

    return pool.message_class(full_name)


def __getattr__(name: str) -> type[Message]:
    # Messages begin with a capital. Anything else must not load protobuf: importing a submodule
    # from the package asks here first.
    if name[0].isupper():
        for package in PACKAGES:
            try:
                found = message_class(f"{package}.{name}")
            except KeyError:
                continue
            globals()[name] = found
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
