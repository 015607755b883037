"""The summary of a checkpoint, from all of it that can be read."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from ckpttool.checkpoint.kinds.rules import OPTIMIZER_KINDS, SLOT_KINDS
from ckpttool.checkpoint.named import checkpoint_name
from ckpttool.checkpoint.open import MAX_GRAPH_FOR_KINDS, Checkpoint
from ckpttool.errors import CkptError, UnsupportedError
from ckpttool.metagraph.facts import MetaGraph  # for those who render a summary
from ckpttool.metagraph.report import GraphFacts, read_graph_facts
from ckpttool.query.listing import damaged_rows, tensor_rows
from ckpttool.query.metagraph.summary import compare_with_checkpoint
from ckpttool.query.metagraph.variables import VariableComparison
from ckpttool.query.rows import TensorRow, short_name
from ckpttool.query.shards import missing_data
from ckpttool.query.source import Source
from ckpttool.storage.source import RandomAccessFile

_T = TypeVar("_T")
# An optimizer without slot variables is known by a child of such a name.
_OPTIMIZER_EDGES = ("_iterations", "iterations", "iter", "beta1_power")


@dataclass(frozen=True, slots=True)
class Writer:
    """The writer of a checkpoint.

    Attributes:
        version: of TensorFlow; None if it is not recorded.
        generation: by the object graph, if the version is not recorded.
        evidence: the file or record that tells, if any.
    """

    version: str | None
    generation: str | None
    evidence: str | None


@dataclass(frozen=True, slots=True)
class ShardSummary:
    """A data shard: its file name, and its size, None if it is missing."""

    name: str
    bytes: int | None


@dataclass(frozen=True, slots=True)
class Group:
    """Tensors of one kind or below one scope, added up.

    Attributes:
        name: the kind or the scope; empty for all tensors.
        tensors: how many there are.
        parameters: number of their elements, strings and variants left out.
        bytes: stored bytes.
        weights: number of elements of those that are weights.
    """

    name: str
    tensors: int
    parameters: int
    bytes: int
    weights: int = 0


_NONE = Group("", 0, 0, 0)


@dataclass(frozen=True, slots=True)
class StepValue:
    """A tensor of the kind "step", and its value, None if it cannot be read."""

    key: str
    object_path: str | None
    value: int | None


@dataclass(frozen=True, slots=True)
class OptimizerSummary:
    """An optimizer in the object graph.

    Attributes:
        path: its object path; empty for the root.
        slots: how many slot variables it has of each name.
    """

    path: str
    slots: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class GraphSummary:
    """The object graph in numbers.

    Attributes:
        objects: how many nodes it has, slot variables included.
        slots: how many slot variables.
        states_values: whether `has_checkpoint_values` is stored.
        optimizers: the recognised ones.
    """

    objects: int
    slots: int
    states_values: bool
    optimizers: tuple[OptimizerSummary, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """A checkpoint in short.

    Attributes:
        source: the checkpoint.
        writer: who wrote it.
        latest: whether the state file of its folder names it as the latest; None without one.
        shards: the data shards with tensors.
        totals: over all tensors, and the object graph, which is stored as one.
        kinds: the tensors by kind.
        scopes: the tensors by the first segment of their short names.
        steps: tensors that count training steps.
        graph: None in a name-based checkpoint, or if it cannot be read.
        metagraphs: its MetaGraphs.
        problems: what could not be read, and why.
        comparisons: for each MetaGraph, the comparison of its variables with the tensors.
        dtypes: the tensors by dtype.
        slots: what `ckpt prune --slots` would drop.
        optimizer: what `ckpt prune --optimizer` would drop.
        damage: data shards that are missing or too short.
        metadata: text by name in a safetensors file.
    """

    source: Source
    writer: Writer
    latest: bool | None
    shards: tuple[ShardSummary, ...]
    totals: Group
    kinds: tuple[Group, ...]
    scopes: tuple[Group, ...]
    steps: tuple[StepValue, ...]
    graph: GraphSummary | None
    metagraphs: tuple[MetaGraph, ...]
    problems: tuple[str, ...]
    comparisons: tuple[VariableComparison, ...] = ()
    dtypes: tuple[Group, ...] = ()
    slots: Group = _NONE
    optimizer: Group = _NONE
    damage: tuple[CkptError, ...] = ()
    metadata: tuple[tuple[str, str], ...] = ()

    @property
    def tensors(self) -> int:
        """How many tensors there are without the object graph."""
        return self.totals.tensors - self.of_kind("graph").tensors

    def of_kind(self, kind: str) -> Group:
        """Return the tensors of a kind, added up."""
        return next((group for group in self.kinds if group.name == kind), _NONE)


def summarize(ckpt: Checkpoint) -> Summary:
    """Summarize a checkpoint.

    Missing or damaged files are named in the result; only the index must be sound.

    Raises:
        CorruptError: an entry of the index contradicts itself.
    """
    problems: list[str] = []

    def attempt(read: Callable[[], _T]) -> _T | None:
        try:
            return read()
        except CkptError as error:
            problems.append(str(error))
            return None

    problems += [str(each.error) for each in damaged_rows(ckpt)]
    rows = tensor_rows(ckpt)
    facts = attempt(lambda: _graph_facts(ckpt)) or ()
    metagraphs = tuple(each.metagraph for each in facts)
    problems += [str(error) for each in metagraphs for error in each.problems]
    graph = attempt(lambda: _graph(ckpt))
    steps = tuple(
        StepValue(row.key, row.object_path, attempt(partial(_scalar, ckpt, row.key)))
        for row in rows
        if row.kind == "step"
    )
    latest = attempt(lambda: _is_latest(ckpt))
    source = Source.of(ckpt, rows)
    averages = attempt(lambda: ckpt.averages) or ()
    kept = {average.key for average in averages if average.optimizer}

    def dropped(kinds: Set[str]) -> Group:
        chosen = (row for row in rows if row.kind in kinds or row.key in kept)
        return next(group_rows(chosen, lambda _: ""), _NONE)

    return Summary(
        source=source,
        writer=_writer(graph, metagraphs),
        latest=latest,
        shards=tuple(
            ShardSummary(os.path.basename(file.path), file.size)
            for file in ckpt.reader.shard_files()
        ),
        totals=next(group_rows(rows, lambda _: ""), _NONE),
        kinds=tuple(group_rows(rows, lambda row: row.kind)),
        scopes=tuple(group_rows(rows, lambda row: short_name(row).partition("/")[0])),
        steps=steps,
        graph=graph,
        metagraphs=metagraphs,
        comparisons=attempt(lambda: compare_with_checkpoint(ckpt, facts)) or (),
        problems=tuple(dict.fromkeys(problems)),
        dtypes=tuple(group_rows((r for r in rows if r.kind != "graph"), lambda row: row.dtype)),
        slots=dropped(SLOT_KINDS),
        optimizer=dropped(OPTIMIZER_KINDS),
        damage=tuple(missing_data(source, rows)),
        metadata=tuple(ckpt.metadata.items()),
    )


def _graph_facts(ckpt: Checkpoint) -> tuple[GraphFacts, ...]:
    path = ckpt.location.meta_path
    if path is None:
        return ()
    with RandomAccessFile(path) as file:
        size = file.size
    if size > MAX_GRAPH_FOR_KINDS:
        # A summary should not read gigabytes of a graph.
        raise UnsupportedError(
            f"not looked at: {size} bytes, larger than {MAX_GRAPH_FOR_KINDS >> 20} MiB; "
            "--graph looks",
            path=path,
        )
    return read_graph_facts(path)


def _writer(graph: GraphSummary | None, metagraphs: tuple[MetaGraph, ...]) -> Writer:
    for metagraph in metagraphs:
        if metagraph.tensorflow_version:
            return Writer(metagraph.tensorflow_version, None, os.path.basename(metagraph.path))
    if graph is None:
        return Writer(None, None, None)
    # TensorFlow 1 and early releases of 2 do not store whether an object has values.
    known = "TensorFlow 2" if graph.states_values else "TensorFlow 1 or an early TensorFlow 2"
    return Writer(None, known, "object graph")


def _graph(ckpt: Checkpoint) -> GraphSummary | None:
    graph = ckpt.object_graph
    if graph is None:
        return None
    columns = graph.columns
    counted = {
        columns.source(at)
        for at, name in enumerate(columns.edge_names)
        if name in _OPTIMIZER_EDGES
        and _is_own_scalar(ckpt, graph.key_of_node(columns.edge_targets[at]))
    }
    optimizers = []
    for node_id in sorted(counted.union(columns.optimizers)):
        slots = columns.optimizers.get(node_id, range(0))
        path = graph.path(node_id)
        if path is not None:
            names = Counter(columns.slot_names[slots.start : slots.stop])
            optimizers.append(OptimizerSummary(path, tuple(names.items())))
    return GraphSummary(
        objects=len(graph.nodes),
        slots=len(graph.slots),
        states_values=any(columns.states),
        optimizers=tuple(optimizers),
    )


def _is_own_scalar(ckpt: Checkpoint, key: str | None) -> bool:
    return key is not None and ckpt.kinds.get(key) == "optimizer" and not ckpt.entries[key].shape


def _scalar(ckpt: Checkpoint, key: str) -> int:
    value = ckpt.reader.read(key).reshape(-1)
    if len(value) != 1:
        raise UnsupportedError("not a single number", path=ckpt.prefix, key=key)
    return int(value[0])


def _is_latest(ckpt: Checkpoint) -> bool | None:
    state, path = ckpt.state, ckpt.location.state_path
    if state is None or path is None:
        return None
    # The folder may have been moved, so of an absolute path only the name counts.
    folder = os.path.realpath(os.path.dirname(path))
    here = os.path.realpath(os.path.dirname(ckpt.prefix)) == folder
    return here and checkpoint_name(state.model_checkpoint_path) == os.path.basename(ckpt.prefix)


def group_rows(rows: Iterable[TensorRow], name_of: Callable[[TensorRow], str]) -> Iterator[Group]:
    """Yield tensors added up by a name, such as their kinds."""
    sums: dict[str, list[int]] = {}
    for row in rows:
        total = sums.setdefault(name_of(row), [0, 0, 0, 0])
        elements = 0 if row.dtype in ("string", "variant") else row.elements
        total[0] += 1
        total[1] += elements
        total[2] += row.bytes or 0
        total[3] += elements if row.kind == "weight" else 0
    for name, total in sums.items():
        yield Group(name, *total)
