"""The values of single tensors, and their statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from math import prod

import numpy as np

from ckpttool.bundle.reader import BundleReader
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.errors import CkptError, UnsupportedError
from ckpttool.objects.graph import Node, ObjectGraph
from ckpttool.objects.keys import GRAPH_KEY
from ckpttool.query.shards import require_apart
from ckpttool.query.values.parts import Part
from ckpttool.query.values.statistics import (
    Histogram,
    Statistics,
    histogram,
    statistics,
    statistics_of,
)
from ckpttool.query.values.targets import Target, format_index
from ckpttool.query.values.texts import Formatter, nested
from ckpttool.query.values.variants import VariantDetail, describe_variant
from ckpttool.storage.work import Progress
from ckpttool.tensor.dtypes import STRING, VARIANT, DType
from ckpttool.tensor.shape import Shape
from ckpttool.tensor.values import Array

# How many elements, or nodes of the object graph, are shown before the rest is left out.
TEXT_LIMIT = 1000
NODE_LIMIT = 100
JSON_LIMIT = 10_000
# At most so many bytes of all tensors together are kept; else they are read twice.
_AT_ONCE = 1 << 28
_EDGES = ((3, 3), (2, 2), (1, 1), (1, 0))


class Values:
    """The elements of a tensor that are shown: all of them, or those at its corners.

    Args:
        dtype: of the elements.
        shape: of the shown elements.
        gaps: for each axis, the number of elements before left-out ones; None if none are left out.
        blocks: gives the elements in C order, as often as it is called.
    """

    def __init__(
        self,
        dtype: DType,
        shape: Shape,
        gaps: tuple[int | None, ...],
        blocks: Callable[[], Iterable[Array]],
    ) -> None:
        self.dtype = dtype
        self.shape = shape
        self.gaps = gaps
        self._blocks = blocks

    @property
    def complete(self) -> bool:
        """Whether nothing is left out."""
        return all(gap is None for gap in self.gaps)

    def texts(self, *, precision: int | None = None, full: bool = False) -> Iterator[str]:
        """Yield the elements in C order as aligned texts; arguments as for `Formatter`."""
        formatter = Formatter(self.dtype, self._blocks, precision=precision, full=full)
        for block in self._blocks():
            yield from formatter.texts(block)

    def nested(self) -> object:
        """Return the elements as nested lists of Python values."""
        whole = np.concatenate([block.reshape(-1) for block in self._blocks()])
        return nested(whole.reshape(self.shape))


@dataclass(frozen=True, slots=True)
class Variants:
    """The elements of a variant tensor.

    Attributes:
        elements: in C order, as many as requested.
        shape: of the whole.
    """

    elements: tuple[VariantDetail, ...]
    shape: Shape

    @property
    def complete(self) -> bool:
        """Whether nothing is left out."""
        return len(self.elements) == prod(self.shape)


@dataclass(frozen=True, slots=True)
class GraphDetail:
    """The object graph.

    Attributes:
        graph: the whole graph.
        nodes: the objects by id, as many as requested.
    """

    graph: ObjectGraph
    nodes: Sequence[Node]

    @property
    def complete(self) -> bool:
        """Whether nothing is left out."""
        return len(self.nodes) == len(self.graph.nodes)


@dataclass(frozen=True, slots=True, eq=False)
class TensorDetail:
    """A tensor, or a part of one, that has been read.

    Attributes:
        key: its name in the file.
        object_path: its short name, if any.
        dtype: name of the dtype.
        shape: of the whole tensor.
        kind: as of `TensorRow`, like the bytes.
        bytes: of the whole tensor.
        index: of the part, without brackets; None for the whole tensor.
        part: shape of the part.
        verified: whether its crc32c was checked; it cannot be for a part.
        statistics: None for variants and the object graph.
        histogram: if requested and there is something to draw.
        content: the elements, or the decoded object graph; None for statistics only. The elements
            of a large tensor are read again when they are written, so the checkpoint must stay
            open.
        name: as of `TensorRow`.
    """

    key: str
    object_path: str | None
    dtype: str
    shape: Shape
    kind: str
    bytes: int | None
    index: str | None
    part: Shape
    verified: bool
    statistics: Statistics | None
    histogram: Histogram | None
    content: Values | Variants | GraphDetail | None
    name: str | None = None


def describe_tensors(
    ckpt: Checkpoint,
    targets: Sequence[Target],
    *,
    limit: int | None = TEXT_LIMIT,
    nodes: int | None = NODE_LIMIT,
    values: bool = True,
    bins: int = 0,
    on_progress: Progress | None = None,
) -> Iterator[TensorDetail]:
    """Describe tensors one after another.

    All are read, and their crc32c checked, before this returns, so that damage is known before any
    output. If that would keep more than 256 MiB, they are read again as they are yielded.

    Args:
        ckpt: the checkpoint.
        targets: which tensors, or parts of tensors.
        limit: how many elements of each to keep; None for all.
        nodes: how many nodes of the object graph to keep; None for all.
        values: False for statistics only.
        bins: number of bins of the histogram; none by default.
        on_progress: called with the number of tensors that were read, and of all.

    Raises:
        CorruptError: stored bytes are damaged.
        UnsupportedError: a dtype is not known.
    """
    require_apart(ckpt, [target.key for target in targets if target.index is None])

    def details(tell: Progress | None = None) -> Iterator[TensorDetail]:
        for number, target in enumerate(targets):
            if tell is not None:
                tell(number, len(targets))
            yield _describe(ckpt, target, limit=limit, nodes=nodes, values=values, bins=bins)

    kept = sum(_kept(ckpt, target, limit) for target in targets) if values else 0
    if len(targets) == 1 or kept <= _AT_ONCE:
        return iter(list(details(on_progress)))
    for _ in details(on_progress):
        pass  # one at a time in memory
    return details()


def _describe(
    ckpt: Checkpoint,
    target: Target,
    *,
    limit: int | None,
    nodes: int | None,
    values: bool,
    bins: int,
) -> TensorDetail:
    part = Part(ckpt, target.key, target.index)
    content: Values | Variants | GraphDetail | None = None
    summary = bars = None
    if target.key == GRAPH_KEY and part.dtype == STRING and part.shape == ():
        content = _graph(ckpt, nodes) if values else None
        summary = None if values else statistics(part)
    elif part.dtype == VARIANT:
        content = _variants(part, limit) if values else None
        summary = None if values else statistics(part)
    elif not values or not part.small:
        summary = statistics(part)
        content = _values(part, None, limit) if values else None
    else:
        array = part.read()
        summary = statistics_of(part.dtype, [array])
        content = _values(part, array, limit)
    if bins and summary is not None and part.dtype != STRING:
        bars = histogram(part.dtype, part.blocks(ordered=False), summary, bins=bins)
    return TensorDetail(
        key=target.key,
        object_path=ckpt.object_path(target.key),
        dtype=part.dtype.name,
        shape=part.entry.shape,
        kind=ckpt.kinds[target.key],
        bytes=_stored(ckpt, target.key),
        index=None if target.index is None else format_index(target.index),
        part=part.shape,
        verified=part.verified,
        statistics=summary,
        histogram=bars,
        content=content,
        name=ckpt.variable_names.get(target.key),
    )


def _graph(ckpt: Checkpoint, limit: int | None) -> GraphDetail:
    graph = ckpt.object_graph
    if graph is None:
        raise UnsupportedError("a name-based checkpoint has no object graph", path=ckpt.prefix)
    _ = graph.paths  # which fail before anything is printed, or not at all
    return GraphDetail(graph, graph.nodes[:limit])


def _kept(ckpt: Checkpoint, target: Target, limit: int | None) -> int:
    """Return how many bytes a description keeps, roughly."""
    part = Part(ckpt, target.key, target.index)
    if part.dtype.size is None:
        stored = _stored(ckpt, target.key)
        if stored is None:  # which its files hold
            stored = sum(file.size or 0 for file in ckpt.reader.shard_files())
        return stored
    if limit is not None and part.elements > limit:
        return limit * part.dtype.size
    # Elements that are not small are read again when they are written.
    return part.elements * part.dtype.size if part.small else 0


def _stored(ckpt: Checkpoint, key: str) -> int | None:
    """Return the stored bytes of a tensor, of all its slices together; None if unknown."""
    entry = ckpt.entries[key]
    if not entry.slices or not isinstance(ckpt.reader, BundleReader):
        return entry.size
    return sum(stored.size for _, stored in ckpt.reader.index.slice_entries(key))


def _values(part: Part, array: Array | None, limit: int | None) -> Values:
    """Return the elements of a part, or its corners; `array` has them if the part is small."""
    if limit is None or part.elements <= limit:
        whole = (None,) * len(part.shape)
        if array is None:
            return Values(part.dtype, part.shape, whole, part.blocks)
        return Values(part.dtype, part.shape, whole, lambda: [array])
    edges = _edges(part.shape, limit)
    gaps = tuple(
        lead if dim > lead + trail else None
        for dim, (lead, trail) in zip(part.shape, edges, strict=True)
    )
    corners = _corners(part, array, edges)
    return Values(part.dtype, corners.shape, gaps, lambda: [corners])


def _edges(shape: Shape, limit: int) -> list[tuple[int, int]]:
    """Return for each axis how many elements to show at its start and at its end: at most three."""
    for lead, trail in _EDGES:
        if prod(min(dim, lead + trail) for dim in shape) <= limit:
            break
    return [(lead, trail)] * len(shape)


def _corners(part: Part, array: Array | None, edges: list[tuple[int, int]]) -> Array:
    """Return the elements at both ends of every axis, as one array."""
    ranges = [
        [(0, dim)] if dim <= lead + trail else [(0, lead), (dim - trail, dim)]
        for dim, (lead, trail) in zip(part.shape, edges, strict=True)
    ]
    places = [[at for low, high in axis for at in range(low, high)] for axis in ranges]
    if array is not None:
        chosen: Array = array[np.ix_(*places)]
        return chosen
    out = np.empty([len(axis) for axis in places], part.dtype.numpy_dtype)
    for bounds in product(*ranges):
        # The place of the corner in the result.
        into = tuple(
            slice(axis.index(low), axis.index(low) + high - low)
            for axis, (low, high) in zip(places, bounds, strict=True)
            if high > low
        )
        if len(into) == len(bounds):
            out[into] = part.box(bounds)
    return out


def _variants(part: Part, limit: int | None) -> Variants:
    elements = []
    for element in islice(part.read().reshape(-1).tolist(), limit):
        try:
            elements.append(describe_variant(element))
        except CkptError as error:
            raise error.locate(path=part.ckpt.prefix, key=part.key) from error.__cause__
    return Variants(tuple(elements), part.shape)
