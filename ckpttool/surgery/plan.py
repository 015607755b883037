"""A checkpoint as it shall become.

A plan is metadata: each tensor says where its bytes lie in the source. Operations are functions
from plan to plan and touch no file, so they can be combined, shown or thrown away; `surgery.apply`
is what writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from ckpttool.bundle.entry import BundleEntry
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.meta.object_graph import ObjectGraph
from ckpttool.meta.object_keys import GRAPH_KEY, object_path
from ckpttool.tensor.slices import TensorSlice

Action = Literal["rename", "drop"]


@dataclass(frozen=True, slots=True)
class PlannedTensor:
    """A tensor of the checkpoint to come; its bytes are those of a tensor of the source.

    Attributes:
        key: its key to be.
        source_key: its key in the source.
        entry: its entry in the source.
        slices: of a partitioned tensor, the slices with their entries in the source.
    """

    key: str
    source_key: str
    entry: BundleEntry
    slices: tuple[tuple[TensorSlice, BundleEntry], ...] = ()

    @property
    def parts(self) -> tuple[BundleEntry, ...]:
        """The entries that have bytes: its own, or those of its slices."""
        return tuple(part for _, part in self.slices) if self.entry.slices else (self.entry,)

    @property
    def bytes(self) -> int:
        """Stored bytes, of all slices together."""
        return sum(part.size for part in self.parts)


@dataclass(frozen=True, slots=True)
class Change:
    """What happens to one tensor.

    Attributes:
        action: `"rename"` or `"drop"`.
        key: its key in the source.
        new_key: its key to be; None if it is dropped.
        kind: what the tensor is.
        bytes: stored bytes.
    """

    action: Action
    key: str
    new_key: str | None
    kind: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Plan:
    """A checkpoint as it shall become.

    Attributes:
        source: the open checkpoint that it is made from.
        tensors: all tensors but the object graph, by source key in the order of its bytes.
        graph: the object graph to be; None in a name-based checkpoint.
        kinds: what each tensor of the source is, by source key.
        notes: what the user should know, in words.
    """

    source: Checkpoint
    tensors: tuple[PlannedTensor, ...]
    graph: ObjectGraph | None
    kinds: Mapping[str, str]
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, source: Checkpoint) -> Plan:
        """Return the plan that changes nothing.

        Raises:
            CkptError: the object graph or an entry is damaged.
        """
        slices_of = source.bundle.index.slice_entries
        tensors = tuple(
            PlannedTensor(key, key, entry, tuple(slices_of(key)) if entry.slices else ())
            for key, entry in source.entries.items()
            if key != GRAPH_KEY or source.style == "name"
        )
        return cls(source, tensors, source.object_graph, source.graph_kinds)

    @property
    def graph_changed(self) -> bool:
        """Whether the object graph has to be written anew."""
        before = self.source.object_graph
        return self.graph is not before and self.graph != before

    @property
    def changes(self) -> tuple[Change, ...]:
        """What becomes of the tensors of the source: those renamed or dropped, by key bytes."""
        kept = {tensor.source_key: tensor for tensor in self.tensors}
        changes = []
        for key, kind in self.kinds.items():
            if key == GRAPH_KEY:
                continue
            tensor = kept.get(key)
            if tensor is None:
                changes.append(Change("drop", key, None, kind, self._stored_bytes(key)))
            elif tensor.key != key:
                changes.append(Change("rename", key, tensor.key, kind, tensor.bytes))
        return tuple(sorted(changes, key=lambda change: change.key.encode(*_KEY_ENCODING)))

    @property
    def keys_changed(self) -> bool:
        """Whether any key of the source is gone or has another name."""
        kept = {tensor.source_key for tensor in self.tensors if tensor.key == tensor.source_key}
        return any(key not in kept for key in self.source.entries if key != GRAPH_KEY)

    def short_name(self, key: str) -> str:
        """Return the object path for a key where there is one, else the key."""
        path = object_path(key) if self.graph is not None else None
        return key if path is None else path

    def with_notes(self, *notes: str) -> Plan:
        """Return the plan with further notes."""
        return replace(self, notes=(*self.notes, *notes))

    def _stored_bytes(self, key: str) -> int:
        entry = self.source.entries[key]
        if not entry.slices:
            return entry.size
        return sum(part.size for _, part in self.source.bundle.index.slice_entries(key))


_KEY_ENCODING = ("utf-8", "surrogateescape")
