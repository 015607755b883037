"""Trying a restore: a checkpoint is matched with a program, and nothing changes."""

from __future__ import annotations

import sys
from collections.abc import Collection
from typing import TYPE_CHECKING, TypeVar

from ckpttool.checkpoint.fitting import ValueSpec
from ckpttool.checkpoint.matching import GraphMatch, Load
from ckpttool.errors import ContainerChangedError
from ckpttool.objects.graph import ObjectGraph
from ckpttool.objects.keys import GRAPH_KEY, object_path
from ckpttool.query.match.outcome import (
    Findings,
    LoadState,
    SourceTensors,
    created_path,
    mismatched,
    unmatched,
)
from ckpttool.query.match.plan import (
    MatchAssumption,
    MatchedTensor,
    MatchMode,
    MatchTarget,
    MatchVerdict,
    RestorePlan,
    UnmatchedValue,
    UnresolvedTensor,
)
from ckpttool.query.match.programs import SAVE_COUNTER
from ckpttool.query.match.suggestions import suggest, suggest_names

if TYPE_CHECKING:
    from ckpttool.checkpoint.open import Checkpoint
    from ckpttool.query.match.programs import PlannedProgram

T = TypeVar("T")

_BY_SAVER = (
    "the program has names alone: it is taken to restore them all by tf.compat.v1.train.Saver"
)
_NEWEST = sys.maxsize


def plan_along_edges(
    ckpt: Checkpoint,
    graph: ObjectGraph,
    program: PlannedProgram[T],
    target: MatchTarget,
    *,
    mode: MatchMode,
    skip_slots: bool,
    reserved: Collection[str] = (),
) -> RestorePlan:
    """Return what restoring a checkpoint with an object graph would do.

    Args:
        ckpt: the checkpoint.
        graph: its object graph.
        program: the program.
        target: what the program is.
        mode: how it is restored.
        skip_slots: whether slot variables are left out.
        reserved: edges that an open root does not take.
    """
    load: Load[T] = Load(_NEWEST, graph, {}, skip_slots=skip_slots, reserved=reserved)
    matching: GraphMatch[T] = GraphMatch(program)
    changed: ContainerChangedError | None = None
    try:
        root, attached = program.start()
        matching.enter(load, 0, root)
        children = dict(graph.columns.children(0))
        for name, found in attached:
            node_id = children.get(name)
            if node_id is not None and name != "root" and matching.bound(load, node_id) is None:
                matching.enter(load, node_id, found)
    except ContainerChangedError as error:
        changed = error
    matching.commit()
    created = {
        wait.link.slot_id: created_path(program, wait.owner, wait.variable, wait.link.slot_name)
        for wait in matching.new_slots
    }
    state = LoadState(load, program, SourceTensors.of(ckpt), created)
    findings = state.findings()
    if changed is not None:
        findings.raising.add("container")
        findings.assumptions.append(MatchAssumption(None, changed.message))
    return plan_of_state(ckpt, state, findings, target, mode=mode)


def plan_of_state(
    ckpt: Checkpoint,
    state: LoadState[T],
    findings: Findings,
    target: MatchTarget,
    *,
    mode: MatchMode,
) -> RestorePlan:
    """Return the plan of a load as it is now.

    Args:
        ckpt: the checkpoint.
        state: the load and the program.
        findings: of the state.
        target: what the program is.
        mode: how it is restored.
    """
    refusing = state.program.refusing()
    if refusing:
        findings.raising.add("optimizer")
    findings.assumptions += state.program.assumed()
    return findings.plan(
        ckpt,
        target,
        mode,
        skip_slots=state.load.skip_slots,
        verdict=state.verdict(findings),
        suggestions=suggest(findings, lambda path: state.load.graph.node_at(path) is not None),
    )


def plan_by_name(
    ckpt: Checkpoint,
    program: PlannedProgram[T],
    target: MatchTarget,
    *,
    mode: MatchMode,
    skip_slots: bool,
) -> RestorePlan:
    """Return what restoring a checkpoint without an object graph would do.

    Args:
        ckpt: the checkpoint.
        program: the program, whose variables take the tensors of their full names.
        target: what the program is.
        mode: how it is restored.
        skip_slots: has no effect, as in TensorFlow.
    """
    tensors = SourceTensors.of(ckpt)
    findings = Findings()
    names: dict[str, str] = {}
    used: set[str] = set()
    try:
        listed = [*program.objects(slots=True)]
    except ContainerChangedError as error:
        findings.raising.add("container")
        findings.assumptions.append(MatchAssumption(None, error.message))
        listed = []
    for path, found in listed:
        values = program.values(found)
        findings.values += len(values)
        if not values or program.is_open(found):
            continue
        reached = program.is_reached(found)
        name = program.variable_name(found) if reached else None
        one = tensors.described.get(name) if name else None
        if name and one is not None:
            used.add(name)
            findings.matched.append(MatchedTensor(name, path, name, *tensors.facts(name), "name"))
            findings.mismatched += [
                mismatched(name, path, name, one, spec)
                for spec in values.values()
                if not spec.fits(one.dtype, tuple(one.shape))
            ]
        elif not reached or mode == "read" or path != SAVE_COUNTER:
            findings.unmatched += unmatched(path, values)
            if name:
                names[path] = name
    _leave_over(findings, tensors, used)
    raises = findings.raises
    matched = raises is None and not findings.unmatched
    return findings.plan(
        ckpt,
        target,
        mode,
        skip_slots=skip_slots,
        verdict=MatchVerdict(matched, matched, matched, raises),
        suggestions=suggest_names(findings, names, tensors.described),
    )


def plan_of_names(
    ckpt: Checkpoint,
    graph: ObjectGraph | None,
    wanted: SourceTensors,
    target: MatchTarget,
    *,
    mode: MatchMode,
    skip_slots: bool,
) -> RestorePlan:
    """Return what a Saver of TensorFlow 1 would do, for a program of which only names are known.

    It takes each of its names, by its full name from a checkpoint with an object graph, and raises
    where one is missing.

    Args:
        ckpt: the checkpoint.
        graph: its object graph, if any.
        wanted: the tensors of the program.
        target: what the program is.
        mode: has no effect.
        skip_slots: has no effect.
    """
    tensors = SourceTensors.of(ckpt)
    findings = Findings(values=len(wanted.described))
    findings.assumptions.append(MatchAssumption(None, _BY_SAVER))
    keys = {name: key for key, name in graph.full_names().items()} if graph is not None else None
    used: set[str] = set()
    for name, want in wanted.described.items():
        key = name if keys is None else keys.get(name)
        one = None if key is None else tensors.described.get(key)
        if key is None or one is None:
            findings.unmatched.append(UnmatchedValue(name, want.dtype.name, tuple(want.shape)))
            continue
        used.add(key)
        path = key if graph is None else object_path(key) or key
        findings.matched.append(MatchedTensor(path, name, key, *tensors.facts(key), "name"))
        spec = ValueSpec(want.dtype, tuple(want.shape))
        if not spec.fits(one.dtype, tuple(one.shape)):
            findings.mismatched.append(mismatched(path, name, key, one, spec))
    _leave_over(findings, tensors, used)
    if findings.unmatched:
        findings.raising.add("missing")
    raises = findings.raises
    whole = raises is None and bool(findings.matched)
    names = {} if graph is not None else {row.path: row.path for row in findings.unmatched}
    return findings.plan(
        ckpt,
        target,
        mode,
        skip_slots=skip_slots,
        verdict=MatchVerdict(whole, whole, whole, raises),
        suggestions=suggest_names(findings, names, tensors.described),
    )


def _leave_over(findings: Findings, tensors: SourceTensors, used: Collection[str]) -> None:
    """List the tensors that nothing takes."""
    by_path = GRAPH_KEY in tensors.described
    for key in tensors.described:
        if key not in used and key != GRAPH_KEY:
            path = (object_path(key) or key) if by_path else key
            findings.unresolved.append(UnresolvedTensor(path, key, *tensors.facts(key)))
