"""The checkpoint to be written.

A plan is metadata: each tensor refers to its bytes in the source, or to a value that is computed
when it is written (`surgery.values`). Operations are functions from
plan to plan and touch no file, so they can be combined, shown or dropped; `surgery.writing` writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

from ckpttool.bundle.entry import BundleEntry
from ckpttool.bundle.reader import BundleReader
from ckpttool.checkpoint.locate import NO_VARIABLES
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.coding.text import encode_text
from ckpttool.errors import CkptError, CorruptError, SurgeryError, UnsupportedError
from ckpttool.objects.graph import ObjectGraph
from ckpttool.objects.keys import GRAPH_KEY, object_path
from ckpttool.tensor.dtypes import DType, dtype_of_number
from ckpttool.tensor.shape import Shape
from ckpttool.tensor.slices import TensorSlice

if TYPE_CHECKING:
    from ckpttool.interchange.entry import ArrayEntry
    from ckpttool.legacy.records import LegacyEntry
    from ckpttool.surgery.values import NewValue, ValueAction

Action: TypeAlias = "Literal['rename', 'drop', 'keep'] | ValueAction"
# What told that a tensor belongs to a place of a reference.
Reason = Literal[
    "rule",
    "path",
    "full name",
    "name",
    "shape",
    "beside",
    "order",
    "slot",
    "counter",
    "hyper-parameter",
]


@dataclass(frozen=True, slots=True)
class PlannedTensor:
    """A tensor of the new checkpoint, with the bytes of a tensor of the source or a new value.

    Attributes:
        key: its new key.
        source_key: its key in the source.
        entry: its entry in the source.
        slices: of a partitioned tensor of a bundle, the slices with their entries in the source.
        damage: the error of a damaged entry; such a tensor can only be dropped.
        value: what is written instead of the bytes of the source.
    """

    key: str
    source_key: str
    entry: BundleEntry | LegacyEntry | ArrayEntry
    slices: tuple[tuple[TensorSlice, BundleEntry], ...] = ()
    damage: CkptError | None = None
    value: NewValue | None = None

    def called(self, key: str) -> PlannedTensor:
        """Return the tensor with another new key."""
        # Several times as fast as `replace`, which counts where all tensors are renamed.
        return PlannedTensor(key, self.source_key, self.entry, self.slices, self.damage, self.value)

    @property
    def dtype(self) -> DType:
        """The dtype to be written."""
        return self.entry.dtype if self.value is None else self.value.dtype

    @property
    def shape(self) -> Shape:
        """The shape to be written."""
        return self.entry.shape if self.value is None else self.value.shape

    @property
    def parts(self) -> tuple[BundleEntry, ...]:
        """The entries whose bytes a bundle keeps: its own, or those of its slices."""
        if self.value is not None:
            return ()
        if self.slices:
            return tuple(part for _, part in self.slices)
        return (self.entry,) if isinstance(self.entry, BundleEntry) else ()

    @property
    def bundle_entry(self) -> BundleEntry:
        """The entry in the index of a bundle.

        Raises:
            TypeError: the source is no bundle.
        """
        if not isinstance(self.entry, BundleEntry):
            raise TypeError(f"'{self.source_key}' is not in a bundle")
        return self.entry

    @property
    def bytes(self) -> int | None:
        """Bytes in the source, of all slices together; of V1 of the elements, None for strings."""
        if self.damage is not None:
            return None
        if isinstance(self.entry, BundleEntry) and self.slices:
            return sum(part.size for _, part in self.slices)
        return self.entry.size


@dataclass(frozen=True, slots=True)
class AddedTensor:
    """A tensor that the source does not have."""

    key: str
    value: NewValue


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one tensor.

    Attributes:
        action: `"drop"`; `"rename"`, of a tensor that keeps its bytes; `"keep"`, where what stays
            is listed too; else what made its new value: `"set"`, `"cast"`, `"graft"`, `"average"`
            or `"layout"`.
        key: its key in the source.
        new_key: None if it is dropped.
        kind: of the tensor.
        bytes: as of `PlannedTensor`.
        tensor: the planned tensor; None if it is dropped.
    """

    action: Action
    key: str
    new_key: str | None
    kind: str
    bytes: int | None
    tensor: PlannedTensor | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class EmptyPlace:
    """A tensor of a reference that nothing of the source is for.

    Attributes:
        key: its key there.
        full_name: of the variable; empty for what has none.
        kind: what it is.
        dtype: of its elements.
        shape: of the tensor.
    """

    key: str
    full_name: str
    kind: str
    dtype: DType
    shape: Shape


@dataclass(frozen=True, slots=True)
class Placement:
    """How the tensors of a plan took the places of a reference.

    Attributes:
        reference: the prefix of the reference.
        reasons: what told the place of each tensor, by source key.
        full_names: of the variables of the reference, by key.
        empty: the places that nothing of the source is for.
        filled: whether these keep the values of the reference; else they are left out.
    """

    reference: str
    reasons: Mapping[str, Reason]
    full_names: Mapping[str, str]
    empty: tuple[EmptyPlace, ...]
    filled: bool = False


@dataclass(frozen=True, repr=False)
class Plan:
    """The checkpoint to be written.

    Attributes:
        source: the open source.
        tensors: all tensors except the object graph, in the order of source key bytes.
        graph: the new object graph; None in a name-based checkpoint.
        kinds: the kind of each tensor of the source, by source key.
        notes: for the user.
        added: new tensors.
        placement: of a plan that follows a reference, how it does.
    """

    source: Checkpoint
    tensors: tuple[PlannedTensor, ...]
    graph: ObjectGraph | None
    kinds: Mapping[str, str]
    notes: tuple[str, ...] = ()
    added: tuple[AddedTensor, ...] = ()
    placement: Placement | None = None

    @classmethod
    def of(cls, source: Checkpoint) -> Plan:
        """Return the plan that changes nothing.

        Raises:
            CkptError: the object graph is damaged.
            UnsupportedError: it is a SavedModel without variables.
            TypeError: the source is a path; `ckpttool.open_checkpoint` opens it.
        """
        if not isinstance(source, Checkpoint):
            raise TypeError(f"a plan is of an open checkpoint, not {type(source).__name__}")
        if source.location.bare:
            raise UnsupportedError(NO_VARIABLES, path=source.location.typed)
        tensors = tuple(
            _planned(source, key)
            for key in source.entries
            if key != GRAPH_KEY or source.style == "name"
        )
        return cls(source, tensors, source.object_graph, source.graph_kinds)

    def __repr__(self) -> str:
        counts = f"{len(self.tensors):,} tensors, {len(self.changes):,} changes"
        return f"<Plan of {self.source.prefix!r}: {counts}>"

    @property
    def graph_changed(self) -> bool:
        """Whether the object graph must be rewritten."""
        before = self.source.object_graph
        return self.graph is not before and self.graph != before

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """The tensors of the source that change, by key bytes."""
        kept = {tensor.source_key: tensor for tensor in self.tensors}
        changes = []
        for key, kind in self.kinds.items():
            if key == GRAPH_KEY:
                continue
            tensor = kept.get(key)
            if tensor is None:
                size = _planned(self.source, key).bytes
                changes.append(Change("drop", key, None, kind, size))
            elif tensor.value is not None or tensor.key != key:
                action = "rename" if tensor.value is None else tensor.value.action
                changes.append(Change(action, key, tensor.key, kind, tensor.bytes, tensor))
        return tuple(sorted(changes, key=lambda change: encode_text(change.key)))

    @property
    def fresh(self) -> tuple[tuple[str, NewValue], ...]:
        """The new values, by key."""
        values = [(each.key, each.value) for each in self.tensors if each.value is not None]
        return (*values, *((each.key, each.value) for each in self.added))

    @property
    def read(self) -> tuple[Checkpoint, ...]:
        """The checkpoints that are read: the source, and those that values come from."""
        found = {id(self.source): self.source}
        for _, value in self.fresh:
            found |= {id(each.checkpoint): each.checkpoint for each in value.sources}
        return tuple(found.values())

    @property
    def keys_changed(self) -> bool:
        """Whether any key of the source is dropped or renamed."""
        kept = {tensor.source_key for tensor in self.tensors if tensor.key == tensor.source_key}
        return any(key not in kept for key in self.source.entries if key != GRAPH_KEY)

    @property
    def types_changed(self) -> bool:
        """Whether any tensor of the source gets another dtype or shape."""
        return any(
            (each.dtype, each.shape) != (each.entry.dtype, each.entry.shape)
            for each in self.tensors
            if each.value is not None
        )

    def short_name(self, key: str) -> str:
        """Return the object path for a key if there is one, else the key."""
        path = self.object_path(key)
        return key if path is None else path

    def object_path(self, key: str) -> str | None:
        """Return the object path for a key of the new checkpoint, if there is one."""
        return object_path(key) if self.graph is not None else None

    def with_values(self, values: Mapping[str, NewValue]) -> Plan:
        """Return the plan with new values for tensors, by source key."""
        tensors = tuple(
            replace(each, value=values[each.source_key]) if each.source_key in values else each
            for each in self.tensors
        )
        return replace(self, tensors=tensors)

    def with_notes(self, *notes: str) -> Plan:
        """Return the plan with further notes."""
        return replace(self, notes=(*self.notes, *notes))


def refuse_damage(plan: Plan) -> None:
    """Raise the error of a tensor with a damaged entry, if the plan has one."""
    for tensor in plan.tensors:
        if tensor.damage is not None:
            raise CorruptError(
                f"{tensor.damage.message}; `ckpt prune --drop` it to rescue the others",
                path=tensor.damage.path,
                key=tensor.source_key,
            ) from tensor.damage


def refuse_disputes(plan: Plan) -> Plan:
    """Return the plan if each tensor belongs to one object of the graph.

    TensorFlow writes only such checkpoints; renaming one of two owners would leave the other
    without its tensor.

    Raises:
        SurgeryError: two objects claim the same key.
    """
    if plan.graph is None:
        return plan
    disputed = plan.graph.claims({tensor.key for tensor in plan.tensors}).disputed
    if not disputed:
        return plan
    key = disputed[0]
    columns = plan.graph.columns
    holders = [columns.holder(at) for at, each in enumerate(columns.keys) if each == key]
    claiming = [f"'{plan.graph.path(node_id) or f'node {node_id}'}'" for node_id in holders]
    raise SurgeryError(
        f"{' and '.join(dict.fromkeys(claiming))} claim the same tensor in the object graph",
        path=plan.source.prefix,
        key=key,
    )


def _planned(source: Checkpoint, key: str) -> PlannedTensor:
    """Return a tensor of the source, unchanged."""
    reader = source.reader
    damage = source.damaged.get(key)
    if damage is not None:
        return PlannedTensor(key, key, BundleEntry(dtype_of_number(0), ()), damage=damage)
    entry = source.entries[key]
    if not entry.slices or not isinstance(reader, BundleReader):
        return PlannedTensor(key, key, entry)
    slices = tuple(reader.index.slice_entries(key))
    seen: set[TensorSlice] = set()
    for part, _ in slices:
        if part in seen:
            raise CorruptError(f"slice {part} is listed twice", path=reader.index.path, key=key)
        seen.add(part)
    return PlannedTensor(key, key, entry, slices)
