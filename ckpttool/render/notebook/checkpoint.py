"""A checkpoint in a notebook: how much of what there is, and the largest tensors."""

from __future__ import annotations

import heapq
from math import prod

from ckpttool.checkpoint.open import Checkpoint
from ckpttool.query.listing import tensor_rows
from ckpttool.query.rows import TensorRow, descriptions_of, short_name
from ckpttool.query.source import Source
from ckpttool.render import humanize
from ckpttool.render.drawing.labels import elided
from ckpttool.render.drawing.palette import AREA_REST, AREAS
from ckpttool.render.markup import Markup
from ckpttool.render.notebook.frame import (
    Heading,
    Share,
    facts_line,
    named_line,
    share_bar,
    strong,
    view_frame,
    view_table,
)

_HEADINGS = (
    Heading("largest tensors", "name"),
    *(Heading(text) for text in ("dtype", "shape", "kind")),
    Heading("bytes", "number"),
)


def checkpoint_html(ckpt: Checkpoint, most: int) -> str:
    """Return the HTML of a checkpoint with at most so many rows; no values are read.

    Raises:
        CkptError: its index cannot be read.
    """
    rows = tensor_rows(ckpt)
    source = Source.of(ckpt, rows)
    _, shapes, kinds, sizes = descriptions_of(rows)
    told = [at for at, kind in enumerate(kinds) if kind != "graph"]
    parameters = sum(
        prod(shape) for shape, kind in zip(shapes, kinds, strict=True) if kind == "weight"
    )
    stored: dict[str, int] = {}
    for kind, size in zip(kinds, sizes, strict=True):
        stored[kind] = stored.get(kind, 0) + (size or 0)
    # Those of one size in the order of their keys.
    largest = heapq.nsmallest(most, told, key=lambda at: (-(sizes[at] or 0), at))
    parts = [
        facts_line(
            [
                f"{source.generation}, {source.style}-based",
                humanize.counted(len(told), "tensor"),
                f"{humanize.amount(parameters)} parameters" if parameters else "",
                humanize.size(sum(stored.values())),
            ]
        ),
        *_alarms(ckpt, source),
        *share_bar(kind_shares(stored), "bytes by kind"),
    ]
    if largest:
        cells = (_cells(rows[at]) for at in largest)
        parts.append(view_table(_HEADINGS, cells, more=len(told) - len(largest)))
    return view_frame([strong(ckpt.prefix)], *parts)


def _alarms(ckpt: Checkpoint, source: Source) -> list[Markup]:
    missing = (*source.missing_shards, *ckpt.missing_files)
    lines = []
    if missing:
        lines.append(named_line(f"{humanize.counted(len(missing), 'file')} missing: ", missing[0]))
    if ckpt.damaged:
        damaged = humanize.counted(len(ckpt.damaged), "damaged tensor")
        lines.append(named_line(f"{damaged}, the first is ", next(iter(ckpt.damaged))))
    return lines


def kind_shares(stored: dict[str, int]) -> list[Share]:
    """Return the shares of a bar of bytes by kind, in the order and colours of pages."""
    order = [*AREAS, *sorted(stored.keys() - AREAS.keys())]
    return [
        Share(kind, AREAS.get(kind, AREA_REST).light, stored[kind], humanize.size(stored[kind]))
        for kind in order
        if stored.get(kind)
    ]


def _cells(row: TensorRow) -> tuple[str, ...]:
    shape = elided(humanize.shape(row.shape))
    return short_name(row), row.dtype, shape, row.kind, humanize.size(row.bytes)
