"""The nodes of an object graph as Python objects: what a program sees of it.

A graph holds its nodes by columns; these are made of them on demand.
"""

from __future__ import annotations

from typing import NamedTuple


class Edge(NamedTuple):
    """A named reference from an object to another; the name is unescaped."""

    name: str
    node_id: int
    unknown: bytes = b""


class Attribute(NamedTuple):
    """A value that an object saves.

    Attributes:
        name: its name in the object.
        full_name: a variable's name in its program; empty for other objects.
        checkpoint_key: key of the tensor, or the beginning of the keys of several.
        optional_restore: whether a program may do without it.
    """

    name: str
    full_name: str
    checkpoint_key: str
    optional_restore: bool = False
    unknown: bytes = b""


class SlotVariable(NamedTuple):
    """An optimizer's reference to a slot variable that it keeps for a variable of the model."""

    variable_id: int
    slot_name: str
    slot_id: int
    unknown: bytes = b""


class SlotLink(NamedTuple):
    """A slot variable with its optimizer and its variable, by node id."""

    optimizer_id: int
    variable_id: int
    slot_name: str
    slot_id: int


class RegisteredSaver(NamedTuple):
    """The function, registered in the program, that saved the object instead of attributes."""

    name: str
    object_name: str


class Node(NamedTuple):
    """An object of the program.

    Attributes:
        id: its position in the graph.
        has_values: whether it or anything below holds values; None if not stored, as by
            TensorFlow 1.15.
        unknown: unknown fields, serialized.
    """

    id: int
    children: tuple[Edge, ...] = ()
    attributes: tuple[Attribute, ...] = ()
    slots: tuple[SlotVariable, ...] = ()
    saver: RegisteredSaver | None = None
    has_values: bool | None = None
    unknown: bytes = b""
