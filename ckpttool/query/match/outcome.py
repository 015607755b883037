"""The plan of a load: what was matched with a program, and what was not.

A load may be a trial, which changed nothing, or one that happened. It is described as it is now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar

from ckpttool.checkpoint.fitting import ValueSpec, keys_taken
from ckpttool.errors import ContainerChangedError, MissingKeyError
from ckpttool.objects.keys import slot_path
from ckpttool.query.match.plan import (
    MatchAssumption,
    MatchConflict,
    MatchedTensor,
    MatchMode,
    MatchTarget,
    MatchTotals,
    MatchVerdict,
    MismatchedTensor,
    RaisedBy,
    RenameSuggestion,
    RestorePlan,
    UnmatchedValue,
    UnresolvedTensor,
    Via,
    WaitingObject,
)
from ckpttool.query.source import Source
from ckpttool.tensor.shape import Shape, element_count

if TYPE_CHECKING:
    from ckpttool.checkpoint.kinds.rules import Described
    from ckpttool.checkpoint.matching import Load
    from ckpttool.checkpoint.open import Checkpoint
    from ckpttool.query.match.programs import PlannedProgram

T = TypeVar("T")

# Where no path leads to an object any more.
_NOWHERE = "?"
# What is told first if several things make a restore raise: what happens first.
_RAISING: tuple[RaisedBy, ...] = ("container", "optimizer", "missing", "mismatch")


@dataclass(frozen=True, slots=True)
class SourceTensors:
    """The tensors of a checkpoint as rows are made of them.

    Attributes:
        described: dtype and shape by key.
        kinds: by key.
    """

    described: Mapping[str, Described]
    kinds: Mapping[str, str]

    @classmethod
    def of(cls, ckpt: Checkpoint) -> SourceTensors:
        """Return those of an open checkpoint."""
        return cls(ckpt.reader.entries.described(), ckpt.kinds)

    def facts(self, key: str) -> tuple[str | None, Shape | None, str]:
        """Return dtype, shape and kind of a tensor."""
        one = self.described.get(key)
        kind = self.kinds.get(key, "other")
        return (None, None, kind) if one is None else (one.dtype.name, one.shape, kind)


@dataclass(slots=True)
class Findings:
    """What a plan lists, as it is found; attributes as of `RestorePlan`."""

    matched: list[MatchedTensor] = field(default_factory=list)
    unresolved: list[UnresolvedTensor] = field(default_factory=list)
    unmatched: list[UnmatchedValue] = field(default_factory=list)
    mismatched: list[MismatchedTensor] = field(default_factory=list)
    hollow: list[str] = field(default_factory=list)
    unused_attributes: list[str] = field(default_factory=list)
    conflicts: list[MatchConflict] = field(default_factory=list)
    waiting: list[WaitingObject] = field(default_factory=list)
    assumptions: list[MatchAssumption] = field(default_factory=list)
    values: int = 0
    raising: set[RaisedBy] = field(default_factory=set)

    @property
    def raises(self) -> RaisedBy | None:
        """Why the restore raises."""
        if self.mismatched:
            self.raising.add("mismatch")
        return next((each for each in _RAISING if each in self.raising), None)

    def plan(
        self,
        ckpt: Checkpoint,
        target: MatchTarget,
        mode: MatchMode,
        *,
        skip_slots: bool,
        verdict: MatchVerdict,
        suggestions: Iterable[RenameSuggestion],
    ) -> RestorePlan:
        """Return the plan, with all lists in order.

        Args:
            ckpt: the checkpoint.
            target: the program.
            mode: how it is restored.
            skip_slots: whether slot variables are left out.
            verdict: what the assertions say.
            suggestions: rules by which more is matched.
        """
        source = Source.of(ckpt)
        return RestorePlan(
            source=replace(source, names=source.names.settled()),
            target=target,
            mode=mode,
            skip_slots=skip_slots,
            verdict=verdict,
            matched=tuple(sorted(self.matched, key=_path_and_key)),
            unresolved=tuple(sorted(self.unresolved, key=_path_and_key)),
            unmatched=tuple(sorted(self.unmatched, key=lambda each: each.path)),
            mismatched=tuple(sorted(self.mismatched, key=_path_and_key)),
            hollow=tuple(sorted(self.hollow)),
            unused_attributes=tuple(sorted(self.unused_attributes)),
            conflicts=tuple(sorted(self.conflicts, key=lambda each: (each.path, each.other_path))),
            waiting=tuple(sorted(self.waiting, key=lambda each: each.path)),
            suggestions=tuple(suggestions),
            assumptions=tuple(sorted(self.assumptions, key=lambda each: each.path or "")),
            totals=MatchTotals(
                tensors=len(self.matched) + len(self.unresolved) + len(self.unused_attributes),
                values=self.values,
                matched=len(self.matched),
                unresolved=len(self.unresolved),
                unmatched=len(self.unmatched),
                mismatched=len(self.mismatched),
                hollow=len(self.hollow),
                unused_attributes=len(self.unused_attributes),
                conflicts=len(self.conflicts),
                waiting=len(self.waiting),
                matched_elements=_elements(self.matched),
                unresolved_elements=_elements(self.unresolved),
            ),
        )


@dataclass(slots=True)
class LoadState(Generic[T]):
    """A load and the program that it was matched with.

    Attributes:
        load: the load.
        program: the program.
        tensors: of the checkpoint.
        created: slot variables that were made for the load, or would be, and their paths in the
            program, by node.
        lost: objects that no path leads to now, but which the load has met.
    """

    load: Load[T]
    program: PlannedProgram[T]
    tensors: SourceTensors
    created: Mapping[int, str] = field(default_factory=dict)
    lost: Collection[T] = ()

    def findings(self) -> Findings:
        """Return what a plan lists."""
        return _Description(self).findings

    def verdict(self, findings: Findings) -> MatchVerdict:
        """Return what the assertions of the status say.

        Args:
            findings: of this.
        """
        raises = findings.raises
        if raises is not None:
            return MatchVerdict(False, False, False, raises)
        existing = not findings.unmatched
        left = findings.unresolved or findings.unused_attributes or self.load.coming
        return MatchVerdict(existing and not left, existing, len(self.load.matched) > 1)


class _Description(Generic[T]):
    """What a plan lists of a load."""

    def __init__(self, state: LoadState[T]) -> None:
        self.findings = Findings()
        self._load, self._program, self._tensors = state.load, state.program, state.tensors
        self._columns = state.load.graph.columns
        self._paths = state.load.graph.paths
        self._bound = dict(state.load.bound.items())
        self._taken = {id(found) for found in self._bound.values()}
        self._slots = {*self._columns.slot_nodes}
        self._created = state.created
        filled: set[int] = set()
        for node_id, found in self._bound.items():
            self._describe(node_id, found, shared=id(found) in filled)
            filled.add(id(found))
        gone = self._load.matched.difference(self._bound)
        for node_id in gone:
            where = self._created.get(node_id, _NOWHERE)
            self._add_matched(node_id, where, self._keys_of(node_id))
            self.findings.values += node_id in self._created
        for node_id in self._load.unresolved():
            path = self._path(node_id)
            for key in self._keys_of(node_id):
                row = UnresolvedTensor(path, key, *self._tensors.facts(key))
                self.findings.unresolved.append(row)
        try:
            self._describe_program(state.lost)
            self._follow_edges()
        except ContainerChangedError as error:
            self.findings.raising.add("container")
            self.findings.assumptions.append(MatchAssumption(None, error.message))

    def _path(self, node_id: int) -> str:
        return self._paths[node_id] or ""

    def _target_path(self, node_id: int, found: T) -> str:
        path = self._program.path(found)
        if path is not None:
            return path
        if node_id in self._created:
            return self._created[node_id]
        # What takes everything takes it under the same path.
        return self._path(node_id) if self._program.is_open(found) else _NOWHERE

    @cached_property
    def _continued(self) -> Mapping[int, list[str]]:
        return self._load.graph.claims(self._tensors.described.keys()).continued

    def _keys_of(self, node_id: int) -> list[str]:
        """Return the keys of all tensors of a node, and those that only the graph has."""
        columns, keys = self._columns, []
        for at in columns.attributes_of(node_id):
            key = columns.keys[at]
            keys += [key] if key in self._tensors.described else self._continued.get(at, [key])
        return keys

    def _describe(self, node_id: int, found: T, *, shared: bool) -> None:
        """Tell what the object of a node takes."""
        findings, places = self.findings, self._columns.attributes_of(node_id)
        if self._program.is_open(found):
            self._add_matched(node_id, self._target_path(node_id, found), self._keys_of(node_id))
            return
        values = self._program.values(found)
        if not places:
            if values and not shared:
                findings.hollow.append(self._path(node_id))
            return
        if not values:
            names = (self._columns.attribute_names[at] for at in places)
            findings.unused_attributes += [f"{self._path(node_id)}:{name}" for name in names]
            return
        target_path = self._target_path(node_id, found)
        try:
            keys = keys_taken(
                self._load.graph,
                self._tensors.described,
                node_id,
                values,
                any_name=self._program.takes_any_name(found),
            )
        except MissingKeyError:
            if not shared:
                findings.raising.add("missing")
            self._add_matched(node_id, target_path, self._keys_of(node_id), shared=shared)
            return
        self._add_matched(node_id, target_path, (keys or {}).values(), shared=shared)
        if not shared:
            self._compare(node_id, target_path, values, keys or {})

    def _add_matched(
        self, node_id: int, target_path: str, keys: Iterable[str], *, shared: bool = False
    ) -> None:
        via: Via = "shared" if shared else "edge"
        if node_id in self._created:
            via = "created"
        elif node_id in self._slots and not shared:
            via = "slot"
        path = self._path(node_id)
        self.findings.matched += [
            MatchedTensor(path, target_path, key, *self._tensors.facts(key), via) for key in keys
        ]

    def _compare(
        self,
        node_id: int,
        target_path: str,
        values: Mapping[str, ValueSpec],
        keys: Mapping[str, str],
    ) -> None:
        for name, key in keys.items():
            one, spec = self._tensors.described[key], values[name]
            if not spec.fits(one.dtype, one.shape):
                self.findings.mismatched.append(
                    mismatched(self._path(node_id), target_path, key, one, spec)
                )

    def _describe_program(self, lost: Iterable[T]) -> None:
        """Tell what got nothing."""
        findings = self.findings
        listed = [*self._program.objects(slots=not self._load.skip_slots)]
        known = {id(found) for _, found in listed}
        listed += [(_NOWHERE, found) for found in lost if id(found) not in known]
        for path, found in listed:
            if self._program.is_open(found):
                continue
            values = self._program.values(found)
            findings.values += len(values)
            if id(found) not in self._taken:
                findings.unmatched += unmatched(path, values)

    def _follow_edges(self) -> None:
        """Tell what waits, and what is one object here and two there."""
        columns, bound = self._columns, self._bound
        _, attached = self._program.start()
        waiting: set[int] = set()
        seconds: dict[tuple[int, int], tuple[T, T]] = {}
        for node_id, found in bound.items():
            theirs = self._program.edges(found, lambda: self._path(node_id))  # noqa: B023
            if not node_id:
                theirs = {**dict(attached), **theirs}
            waits = self._program.keeps_waiting(found)
            for at in columns.edges_of(node_id):
                child = columns.edge_targets[at]
                other = theirs.get(columns.edge_names[at])
                first = bound.get(child)
                if other is None:
                    if waits and child not in self._load.matched and self._load.has_values(child):
                        waiting.add(child)
                elif first is not None and first is not other and id(other) not in self._taken:
                    seconds[child, id(other)] = first, other
        self.findings.waiting += [WaitingObject(self._path(node_id)) for node_id in waiting]
        for (node_id, _), (first, other) in seconds.items():
            other_path = self._program.path(other)
            self.findings.conflicts.append(
                MatchConflict(
                    self._path(node_id),
                    self._target_path(node_id, first),
                    _NOWHERE if other_path is None else other_path,
                )
            )


def created_path(program: PlannedProgram[T], owner: T, variable: T, name: str) -> str:
    """Return the path that a new slot variable has in the program."""
    places = program.path(variable), program.path(owner)
    variable_path, owner_path = (_NOWHERE if each is None else each for each in places)
    return slot_path(variable_path, owner_path, name)


def mismatched(
    path: str, target_path: str, key: str, one: Described, spec: ValueSpec
) -> MismatchedTensor:
    """Return the row of a tensor that does not fit."""
    return MismatchedTensor(
        path, target_path, key, one.dtype.name, tuple(one.shape), spec.dtype.name, spec.shape
    )


def unmatched(path: str, values: Mapping[str, ValueSpec]) -> Iterator[UnmatchedValue]:
    """Yield the rows of an object that gets nothing."""
    for spec in values.values():
        yield UnmatchedValue(path, spec.dtype.name, spec.shape)


def _path_and_key(row: MatchedTensor | UnresolvedTensor | MismatchedTensor) -> tuple[str, str]:
    return row.path, row.key


def _elements(rows: Iterable[MatchedTensor | UnresolvedTensor]) -> int:
    return sum(0 if row.shape is None else element_count(row.shape) for row in rows)
