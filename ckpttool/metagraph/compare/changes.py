"""What differs between two MetaGraphs, as data; no message of protobuf goes further."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

GraphPart = Literal[
    "version",
    "tag",
    "signature",
    "collection",
    "saver",
    "asset",
    "node",
    "function",
    "op",
    "object",
]
# In the order in which they are told.
PARTS: tuple[GraphPart, ...] = (
    "version",
    "tag",
    "signature",
    "saver",
    "asset",
    "collection",
    "node",
    "function",
    "op",
    "object",
)
ChangeWord = Literal["added", "removed", "changed"]


@dataclass(frozen=True, slots=True)
class MetaGraphChange:
    """A difference between two MetaGraphs.

    Attributes:
        part: what sort of thing differs; "op" is the definition of an operation, "object" one of a
            SavedModel's objects.
        change: how.
        name: which one; a node of a function has the name of that before a slash.
        what: which side of it: of a node "op", "input", "device" or "attr" and a name.
        a: what it is in A, in short; None where it is not there.
        b: what it is in B.
    """

    part: GraphPart
    change: ChangeWord
    name: str
    what: str | None = None
    a: str | None = None
    b: str | None = None


def compared(
    part: GraphPart, name: str, what: str | None, a: str | None, b: str | None
) -> MetaGraphChange | None:
    """Return the change from one text to another; None if there is none.

    A text that is None or empty is not there.
    """
    one, other = a or None, b or None
    if one == other:
        return None
    word: ChangeWord = "added" if one is None else "removed" if other is None else "changed"
    return MetaGraphChange(part, "changed" if what else word, name, what, one, other)
