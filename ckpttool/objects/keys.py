"""The tensor keys of object-based checkpoints, and the shorter object paths that people type.

    key    net/l1/kernel/.ATTRIBUTES/VARIABLE_VALUE
           net/l1/kernel/.OPTIMIZER_SLOT/opt/m/.ATTRIBUTES/VARIABLE_VALUE
           ----variable--                --- -             --attribute---
                                   optimizer slot name

Each segment is the name of an edge of the object graph, with "." escaped as ".." and then "/" as
".S". So a single dot before anything else marks a part that is no name: `.ATTRIBUTES`,
`.OPTIMIZER_SLOT` and, in object paths, an attribute.

    key                             object path
    P/.ATTRIBUTES/VARIABLE_VALUE    P                 the one attribute that nearly every object has
    P/.ATTRIBUTES/table-keys        P/.table-keys     any other, behind a dot
    /.ATTRIBUTES/table-keys         .table-keys       one of the root, which has no path
    P/.ATTRIBUTES/STATE             the key itself    `P/.STATE` is a path of edges: "/TATE" below P
    anything else                   none

No two keys share an object path; `key_of_path` finds the key. But an object path may equal the
*key* of another tensor, one without attributes: look for keys first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

# The key of the object graph itself.
GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"
VARIABLE_VALUE = "VARIABLE_VALUE"
# The segment between a variable and the optimizer of its slot.
OPTIMIZER_SLOT = ".OPTIMIZER_SLOT"

# The most characters in all paths of a graph, and the addition for each object. A path repeats
# those above it: a long chain would take memory quadratic in its size, and names may be as long as
# a file. A chain of some thousand objects must pass.
MAX_PATHS = 64 << 20
MEAN_PATH = 512

# Between the path of an object and the name of its attribute.
ATTRIBUTES = "/.ATTRIBUTES/"
_SLOT = f"/{OPTIMIZER_SLOT}/"
_VALUE_END = ATTRIBUTES + VARIABLE_VALUE
# As many well-escaped segments and slot marks as possible. Each alternative starts with a dot that
# the loop before it cannot take, so the time is linear.
_ESCAPED = re.compile(r"[^.]*(?:\.(?:[.S]|(?<=/\.)OPTIMIZER_SLOT/)[^.]*)*")
_AMBIGUOUS = ("S", ".", "ATTRIBUTES", "OPTIMIZER_SLOT")
_ESCAPE = re.compile(r"\.([.S])")
# Older objects keep several tensors under one attribute.
_SUFFIXED = {
    "table-keys": ("table", "-keys"),
    "table-values": ("table", "-values"),
    "ITERATOR_STATE": ("ITERATOR", "_STATE"),
}


@dataclass(frozen=True, slots=True)
class SlotPart:
    """The part of a key that makes it a slot variable's.

    Attributes:
        optimizer: path of the optimizer, as escaped segments.
        name: the slot's name, escaped.
    """

    optimizer: tuple[str, ...]
    name: str


@dataclass(frozen=True, slots=True)
class ObjectKey:
    """A key taken apart.

    Attributes:
        path: of the object, or of the variable of a slot, as escaped segments.
        slot: the part after it in the key of a slot variable.
        attribute: name of the attribute, escaped.
        suffix: added to the attribute's name by the object, such as "-keys".
    """

    path: tuple[str, ...]
    slot: SlotPart | None
    attribute: str
    suffix: str = ""


def room_for_paths(nodes: int) -> int:
    """Return the most characters that all paths of a graph may have together."""
    return MAX_PATHS + MEAN_PATH * nodes


def escape(name: str) -> str:
    """Return the segment for an edge's name in a key."""
    if "." in name:
        name = name.replace(".", "..")
    return name.replace("/", ".S")


def unescape(segment: str) -> str:
    """Return the edge's name for a segment; dots that escape nothing stay."""
    if "." not in segment:
        return segment
    return _ESCAPE.sub(lambda match: "/" if match[1] == "S" else ".", segment)


def join_path(names: Iterable[str]) -> str:
    """Return the path along edges of these unescaped names."""
    return "/".join(map(escape, names))


def attribute_key(path: str, attribute: str = VARIABLE_VALUE) -> str:
    """Return the key of an attribute, given unescaped, of the object at `path`."""
    return path + ATTRIBUTES + escape(attribute)


def slot_path(variable_path: str, optimizer_path: str, slot_name: str) -> str:
    """Return the path of a slot variable; the slot's name is given unescaped."""
    return f"{variable_path}{_SLOT}{optimizer_path}/{escape(slot_name)}"


def object_path(key: str) -> str | None:
    """Return the short path for a key, or None for a key that no object graph has.

    `VARIABLE_VALUE` is dropped, another attribute keeps its name after "/.". A name that starts
    with "S", ".", "ATTRIBUTES" or "OPTIMIZER_SLOT" would be ambiguous after a dot: such a key,
    which TensorFlow's own objects never have, stays whole.
    """
    if key.endswith(_VALUE_END):
        path = key[: -len(_VALUE_END)]
        if "." not in path:
            return path or "." + VARIABLE_VALUE
    path, found, attribute = key.partition(ATTRIBUTES)
    if not found or not _is_escaped(path):
        return None
    if attribute == VARIABLE_VALUE and path:
        return path
    if not attribute or attribute.startswith(_AMBIGUOUS):
        return key
    return f"{path}/.{attribute}" if path else f".{attribute}"


def key_of_path(path: str) -> str | None:
    """Return the key that `object_path` gives this path for; None if there is no such key."""
    match = _ESCAPED.match(path)
    end = match.end() if match else 0
    if end == len(path) or path.startswith(ATTRIBUTES, end - 1):
        key = path + _VALUE_END if end == len(path) else path
    else:
        key = path[: max(end - 1, 0)] + ATTRIBUTES + path[end + 1 :]
    return key if object_path(key) == path else None


def split_key(key: str) -> ObjectKey | None:
    """Take a key apart; None for a key that no object graph has."""
    path, found, attribute = key.partition(ATTRIBUTES)
    if not found or not attribute or not _is_escaped(path):
        return None
    name, suffix = _SUFFIXED.get(attribute, (attribute, ""))
    variable, slotted, rest = path.partition(_SLOT)
    if not slotted:
        return ObjectKey(split_path(path), None, name, suffix)
    optimizer, found, slot_name = rest.rpartition("/")
    if not found or _SLOT in path[len(variable) + 1 :]:
        return None
    slot = SlotPart(split_path(optimizer), slot_name)
    return ObjectKey(split_path(variable), slot, name, suffix)


def split_path(path: str) -> tuple[str, ...]:
    """Return the escaped segments of a path; the root's path, "", has none."""
    return tuple(path.split("/")) if path else ()


def _is_escaped(path: str) -> bool:
    return "." not in path or _ESCAPED.fullmatch(path) is not None
