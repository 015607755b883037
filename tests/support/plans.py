"""Restore plans made by hand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ckpttool.objects.keys import attribute_key
from ckpttool.query.match.plan import (
    MatchedTensor,
    MatchTarget,
    MatchTotals,
    MatchVerdict,
    MismatchedTensor,
    RestorePlan,
    UnmatchedValue,
    UnresolvedTensor,
)
from ckpttool.query.source import Source

SOURCE = Source(
    path="tf_ckpts",
    prefix="tf_ckpts/ckpt-10",
    generation="V2",
    style="object",
    shards=1,
    byte_order="little",
    index_bytes=1,
    data_bytes=1,
    missing_shards=(),
)
TARGET = MatchTarget("checkpoint", "fresh/ckpt", "fresh/ckpt", "V2", "object")


def matched(*paths: str, kind: str = "weight") -> list[MatchedTensor]:
    return [
        MatchedTensor(path, path, attribute_key(path), "float32", (2,), kind, "edge")
        for path in paths
    ]


def unresolved(
    *paths: str, kind: str = "weight", dtype: str | None = "float32", shape: Any = (2,)
) -> list[UnresolvedTensor]:
    return [UnresolvedTensor(path, attribute_key(path), dtype, shape, kind) for path in paths]


def unmatched(*paths: str, dtype: str = "float32", shape: Any = (2,)) -> list[UnmatchedValue]:
    return [UnmatchedValue(path, dtype, shape) for path in paths]


def mismatched(*paths: str, shape: Any = (3,)) -> list[MismatchedTensor]:
    return [
        MismatchedTensor(path, path, attribute_key(path), "float32", (2,), "float32", shape)
        for path in paths
    ]


def plan(
    *,
    raises: Any = None,
    path: str = SOURCE.path,
    target: MatchTarget = TARGET,
    **lists: Iterable[Any],
) -> RestorePlan:
    """Return a plan with lists, and verdict and totals as they follow."""
    listed: dict[str, list[Any]] = {
        name: list(lists.get(name, ()))
        for name in (
            *("matched", "unresolved", "unmatched", "mismatched", "hollow"),
            *("unused_attributes", "conflicts", "waiting", "suggestions", "assumptions"),
        )
    }
    filled = raises is None and not listed["unmatched"]
    left = listed["unresolved"] or listed["unused_attributes"]
    return RestorePlan(
        source=replace(SOURCE, path=path),
        target=target,
        mode="restore",
        skip_slots=False,
        verdict=MatchVerdict(filled and not left, filled, bool(listed["matched"]), raises),
        **listed,
        totals=MatchTotals(
            tensors=len(listed["matched"]) + len(listed["unresolved"]),
            values=len(listed["matched"]) + len(listed["unmatched"]),
            **{name: len(listed[name]) for name in list(listed)[:8]},
            matched_elements=0,
            unresolved_elements=0,
        ),
    )
