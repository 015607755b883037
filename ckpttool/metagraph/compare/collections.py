"""The collections of two MetaGraphs, compared item by item, with serialized messages decoded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ckpttool.errors import CorruptError
from ckpttool.metagraph.collections import MESSAGES
from ckpttool.metagraph.compare.attributes import bytes_text, short_text
from ckpttool.metagraph.compare.changes import MetaGraphChange

if TYPE_CHECKING:
    from ckpttool import pb

# The graph that an export keeps in a collection is compared as a graph.
_GRAPH = "serving_graph"
# The field that names an item, by its type.
_NAMES = {
    "tensorflow.VariableDef": "variable_name",
    "tensorflow.QueueRunnerDef": "queue_name",
    "tensorflow.CondContextDef": "context_name",
    "tensorflow.WhileContextDef": "context_name",
    "tensorflow.SaverDef": "restore_op_name",
}
# A value that is equal for equal items, and the text to show.
_Item = tuple[object, str]


def compare_collections(
    a: pb.MetaGraphDef, b: pb.MetaGraphDef, paths: tuple[str, str]
) -> Iterator[MetaGraphChange]:
    """Yield the differences in collections."""
    for key in sorted({*a.collection_def, *b.collection_def} - {_GRAPH}):
        if key not in a.collection_def:
            yield MetaGraphChange("collection", "added", key, b=_about(b.collection_def[key]))
            continue
        if key not in b.collection_def:
            yield MetaGraphChange("collection", "removed", key, a=_about(a.collection_def[key]))
            continue
        one, other = a.collection_def[key], b.collection_def[key]
        if one.WhichOneof("kind") != other.WhichOneof("kind"):
            yield MetaGraphChange("collection", "changed", key, "kind", _about(one), _about(other))
            continue
        yield from _items(key, list(_decoded(key, one)), list(_decoded(key, other)))


def _items(key: str, a: list[_Item], b: list[_Item]) -> Iterator[MetaGraphChange]:
    of_a, of_b = Counter(item for item, _ in a), Counter(item for item, _ in b)
    if of_a == of_b:
        if [item for item, _ in a] != [item for item, _ in b]:
            yield MetaGraphChange("collection", "changed", key, "order")
        return
    texts = dict((*a, *b))
    removed = Counter(texts[item] for item in (of_a - of_b).elements())
    added = Counter(texts[item] for item in (of_b - of_a).elements())
    # Items of the same name on both sides that differ.
    for text in (removed & added).elements():
        yield MetaGraphChange("collection", "changed", key, "item", text, f"{text}, otherwise")
    for text in (removed - added).elements():
        yield MetaGraphChange("collection", "changed", key, "item", text, None)
    for text in (added - removed).elements():
        yield MetaGraphChange("collection", "changed", key, "item", None, text)


def _about(collection: pb.CollectionDef) -> str:
    kind = collection.WhichOneof("kind")
    return "empty" if kind is None else f"{kind}, {len(getattr(collection, kind).value)} items"


def _decoded(key: str, collection: pb.CollectionDef) -> Iterator[_Item]:
    kind = collection.WhichOneof("kind")
    if kind == "any_list":
        for item in collection.any_list.value:
            yield _message(item.type_url.rpartition("/")[2], item.value)
    elif kind == "bytes_list":
        for data in collection.bytes_list.value:
            if key in MESSAGES:
                yield _message(MESSAGES[key], data)
            else:
                yield data, bytes_text(data)
    elif kind is not None:
        for value in getattr(collection, kind).value:
            # A NaN is not equal to itself, its text is.
            yield (repr(value) if isinstance(value, float) else value), short_text(str(value))


def _message(type_name: str, data: bytes) -> _Item:
    """Return a serialized message with its fields and map entries in one order."""
    from ckpttool import pb
    from ckpttool.pb.convert import parse

    try:
        message = parse(pb.message_class(type_name), data, path=None)
    except (KeyError, CorruptError):
        return (type_name, data), f"{type_name or 'a message'}, {len(data)} bytes"
    canonical = message.SerializeToString(deterministic=True)
    named = _NAMES.get(type_name)
    text = getattr(message, named) if named else ""
    return (type_name, canonical), short_text(text) or f"{type_name}, {len(data)} bytes"
