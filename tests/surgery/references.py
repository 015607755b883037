"""Small checkpoints to follow, and to make follow them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np

from ckpttool import open_checkpoint
from ckpttool.bundle.writer import BundleWriter
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.checkpoint.save import save_checkpoint
from ckpttool.objects.graph import ObjectGraph
from ckpttool.objects.keys import GRAPH_KEY, OPTIMIZER_SLOT, object_path, unescape
from ckpttool.surgery.like.reference import follow
from ckpttool.surgery.plan import Plan
from tests.surgery.graphs import Slot, Tree, graph_of, holding

VECTOR = np.zeros(2, np.float32)
STEP = np.int64(7)


def object_based(
    prefix: Path,
    tree: Tree | str,
    slots: Sequence[Slot] = (),
    *,
    names: Mapping[str, str] | None = None,
    values: Mapping[str, Any] | None = None,
) -> str:
    """Write an object-based checkpoint and return its prefix.

    Its graph is in a shard of its own.

    Args:
        prefix: where.
        tree: of objects; or the root alone, a variable.
        slots: of optimizers.
        names: full names by object path; by default it is that path, and for slots such as Keras
            gives them.
        values: by object path; by default they are vectors of two floats.
    """
    graph = graph_of(cast(Tree, tree), slots)
    nodes = tuple(
        node._replace(
            attributes=tuple(
                one._replace(full_name=_full_name(graph.paths[node.id] or "", names or {}))
                for one in node.attributes
            ),
        )
        for node in graph.nodes
    )
    with BundleWriter(str(prefix), num_shards=2) as writer:
        for node in nodes:
            for one in node.attributes:
                path = graph.paths[node.id] or ""
                writer.add(one.checkpoint_key, (values or {}).get(path, VECTOR))
        writer.add(GRAPH_KEY, np.array(ObjectGraph(nodes).to_bytes(), object), shard_id=1)
    return str(prefix)


def _full_name(path: str, names: Mapping[str, str]) -> str:
    if path in names:
        return names[path]
    variable, _, slot = path.partition(f"/{OPTIMIZER_SLOT}/")
    variable = "/".join(map(unescape, variable.split("/")))
    if not slot:
        return variable
    optimizer, _, name = slot.rpartition("/")
    return f"{optimizer}/{variable}/{name}"


def name_based(prefix: Path, values: Mapping[str, Any] | Sequence[str]) -> str:
    """Write a name-based checkpoint and return its prefix.

    Args:
        prefix: where.
        values: by name, or names alone, for vectors of two floats.
    """
    if not isinstance(values, Mapping):
        values = dict.fromkeys(values, VECTOR)
    save_checkpoint(str(prefix), values)
    return str(prefix)


@contextmanager
def opened(*prefixes: str) -> Iterator[list[Checkpoint]]:
    """Open several checkpoints."""
    with ExitStack() as stack:
        yield [stack.enter_context(open_checkpoint(prefix)) for prefix in prefixes]


def followed(
    source: str, reference: str, rules: Mapping[str, str] | None = None, **how: bool
) -> Plan:
    """Return the plan that follows a reference."""
    with opened(source, reference) as (ours, theirs):
        return follow(Plan.of(ours), theirs, rules or {}, **how)


def placed(plan: Plan) -> dict[str, str]:
    """Return where tensors went, by their source keys: object paths, or keys without one."""
    return {t.source_key: object_path(t.key) or t.key for t in plan.tensors}


def check_graph(plan: Plan) -> None:
    """Check that the graph speaks of the tensors of the plan, of all and of no others."""
    assert plan.graph is not None
    keys = {each.key for each in plan.tensors} | {each.key for each in plan.added}
    claims = plan.graph.claims(keys)
    assert not (claims.missing or claims.unclaimed or claims.disputed)
    holders = holding(plan.graph)
    for node_id, _ in claims.owners.values():
        assert plan.graph.paths[node_id] is not None
    for node in plan.graph.nodes:
        assert node.has_values in (None, node.id in holders)
        assert all(plan.graph.nodes[slot.slot_id].attributes for slot in node.slots)
