"""Objects of a checkpoint that the program does not know, kept to be saved again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ckpttool.objects.graph import Attribute, RegisteredSaver
from ckpttool.objects.keys import ATTRIBUTES, attribute_key
from ckpttool.train.trackable import Trackable

if TYPE_CHECKING:
    from ckpttool.objects.graph import Node
    from ckpttool.tensor.values import Array

_SLOTS = "_carried_slots"


class Carried(Trackable):
    """Takes whatever a checkpoint has in its place, and saves it again under the same names.

    It stands for what no program on NumPy understands: tables, iterators, optimizers, or a whole
    part of a model. Restoring fills it, with everything below it and the slots that it owns; it
    never counts as unmatched.
    """

    _carried: tuple[tuple[Attribute, str, tuple[tuple[str, Array], ...]], ...] = ()
    _carried_saver: RegisteredSaver | None = None
    _carried_unknown: bytes = b""

    def carry(
        self, node: Node, path: str, tensors: Mapping[str, Sequence[tuple[str, Array]]]
    ) -> None:
        """Take what a node has; called when restoring binds it.

        Args:
            node: the node.
            path: its path in that checkpoint.
            tensors: by name of each of its attributes, what the keys of its tensors add to the
                attribute's key, and the tensors.
        """
        self._carried = tuple(
            (one, one.checkpoint_key.removeprefix(path), tuple(tensors[one.name]))
            for one in node.attributes
        )
        self._carried_saver = node.saver
        self._carried_unknown = node.unknown
        self._carried_unknown = node.unknown
        # In the order of the file, which is not that in which slots are restored.
        slots = self._slots()
        for slot in node.slots:
            slots.setdefault(slot.slot_name, {})

    def _stored(self, path: str) -> tuple[list[Attribute], list[tuple[str, Array]]]:
        """Return attributes and tensors under a path."""
        attributes, tensors = [], []
        for one, rest, values in self._carried:
            key = path + rest if rest.startswith(ATTRIBUTES) else attribute_key(path, one.name)
            attributes.append(one._replace(checkpoint_key=key))
            tensors += [(key + suffix, value) for suffix, value in values]
        return attributes, tensors

    def get_slot_names(self) -> list[str]:
        """Return the names of carried slots."""
        return list(self._slots())

    def get_slot(self, variable: Trackable, slot_name: str) -> Trackable | None:
        """Return a carried slot; None if there is none.

        Args:
            variable: the variable that it belongs to.
            slot_name: which of its slots.
        """
        return self._slots().get(slot_name, {}).get(variable)

    def create_slot(
        self, variable: Trackable, slot_name: str, dtype: Any, shape: tuple[int, ...]
    ) -> Trackable:
        """Make a carried slot for one of the checkpoint.

        Args:
            variable: the variable that it belongs to.
            slot_name: which of its slots.
            dtype: not used; it takes what comes.
            shape: likewise.
        """
        del dtype, shape
        return self._slots().setdefault(slot_name, {}).setdefault(variable, Carried())

    def _slots(self) -> dict[str, dict[Trackable, Trackable]]:
        slots: dict[str, dict[Trackable, Trackable]] = self.__dict__.setdefault(_SLOTS, {})
        return slots
