"""What two object-based checkpoints must have in common to be those of one program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ckpttool import open_checkpoint
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.pruning import drop_tensors, select_drops
from ckpttool.surgery.renaming import rename
from ckpttool.surgery.rules import RenameRule
from ckpttool.surgery.writing.prepare import WriteOptions, prepare
from ckpttool.surgery.writing.receipt import Receipt
from tests.interop.values import Content, content

Change = Callable[[Plan], Plan]


@dataclass(frozen=True, slots=True)
class Structure:
    """An object graph by paths alone; objects that hold no values are left out.

    Attributes:
        keys: of all tensors.
        attributes: by object path, the names of its attributes with their keys.
        edges: from path, name, to path.
        slots: path of the optimizer, path of the variable, slot name, path of the slot.
    """

    keys: frozenset[str]
    attributes: Mapping[str, frozenset[tuple[str, str]]]
    edges: frozenset[tuple[str, str, str]]
    slots: frozenset[tuple[str, str, str, str]]


def structure(prefix: str) -> Structure:
    """Return the structure of the checkpoint at a prefix, as it was written."""
    with open_checkpoint(prefix) as ckpt:
        graph = ckpt.object_graph
        assert graph is not None
        paths = graph.paths
        holders = {node.id: path for node in graph.nodes if (path := paths[node.id]) is not None}
        holders = {at: path for at, path in holders.items() if graph.nodes[at].has_values}
        return Structure(
            frozenset(ckpt.entries),
            {
                path: frozenset(
                    (one.name, one.checkpoint_key) for one in graph.nodes[at].attributes
                )
                for at, path in holders.items()
            },
            frozenset(
                (path, edge.name, holders[edge.node_id])
                for at, path in holders.items()
                for edge in graph.nodes[at].children
                if edge.node_id in holders
            ),
            frozenset(
                (
                    holders[link.optimizer_id],
                    holders[link.variable_id],
                    link.slot_name,
                    holders[link.slot_id],
                )
                for link in graph.slots
            ),
        )


def stored(prefix: str) -> dict[str, Content | None]:
    """Return the content of every tensor but the object graph; None where there is none to have."""
    found: dict[str, Content | None] = {}
    with open_checkpoint(prefix) as ckpt:
        for key, entry in ckpt.entries.items():
            if key != "_CHECKPOINTABLE_OBJECT_GRAPH":
                found[key] = None if entry.dtype.name == "variant" else content(ckpt[key])
    return found


def renaming(rules: Sequence[RenameRule], *, strict: bool = False) -> Change:
    """Return the operation that these rules stand for."""
    return lambda plan: rename(plan, rules, strict=strict)


def pruning(**what: Any) -> Change:
    """Return the operation that drops what `select_drops` finds for these arguments."""
    return lambda plan: drop_tensors(plan, select_drops(plan, **what))


def operate(source: str, destination: str | None, *changes: Change, **how: Any) -> Receipt:
    """Write a checkpoint that changes were made to; without a destination in place."""
    with open_checkpoint(source) as ckpt:
        plan = Plan.of(ckpt)
        for change in changes:
            plan = change(plan)
        if destination is None:
            return prepare(plan, None, WriteOptions(**how)).write()
        return prepare(plan, destination, WriteOptions(**how)).write()


def restored(checkpoint: Any, prefix: str, *, everything: bool = True) -> None:
    """Restore a checkpoint and have TensorFlow check that all went well.

    Args:
        checkpoint: the program's.
        prefix: what to restore.
        everything: whether the program must have a place for all that is stored.
    """
    status = checkpoint.restore(prefix)
    status.assert_existing_objects_matched()
    if everything:
        status.assert_consumed()
    else:
        status.expect_partial()
