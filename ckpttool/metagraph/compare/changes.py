"""The differences between two MetaGraphs, as plain data without protobuf messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

# In the order in which they are shown.
GraphPart = Literal[
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
]
PARTS: tuple[GraphPart, ...] = get_args(GraphPart)

ChangeWord = Literal["added", "removed", "changed"]


@dataclass(frozen=True, slots=True)
class MetaGraphChange:
    """A difference between two MetaGraphs.

    Attributes:
        part: what differs; "op" is the definition of an operation, "object" an object of a
            SavedModel.
        change: how.
        name: of the part; `placed_name` of a node.
        what: the property that differs: of a node "op", "input", "device" or "attr" and a name.
        a: its short form in A; None if absent.
        b: its short form in B.
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
    """Return the change from one text to another, if any; None and an empty text mean absent."""
    one, other = a or None, b or None
    if one == other:
        return None
    word: ChangeWord = "added" if one is None else "removed" if other is None else "changed"
    return MetaGraphChange(part, "changed" if what else word, name, what, one, other)
