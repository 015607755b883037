"""Restoring a program from a checkpoint."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ckpttool.checkpoint.locate import locate
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.errors import NotFoundError
from ckpttool.storage.paths import StrPath
from ckpttool.train.loads import GraphLoad, NamedLoad, Transaction
from ckpttool.train.options import CheckpointOptions
from ckpttool.train.snapshot import ProgramRoot, reached_from
from ckpttool.train.status import (
    CheckpointLoadStatus,
    InitializationOnlyStatus,
    LoadStatus,
    NameBasedSaverStatus,
)
from ckpttool.train.trackable import Trackable


def read_program(
    path: StrPath | None,
    program: ProgramRoot,
    options: CheckpointOptions | None = None,
    *,
    reserved: Collection[str] = (),
    later: Mapping[str, Trackable] | None = None,
) -> LoadStatus:
    """Restore the objects of a program; what it lacks waits until it is tracked.

    Args:
        path: the address of a checkpoint; None for none.
        program: returns its root and the edges from it that are not its own.
        options: how to restore.
        reserved: edges that a carried root does not take, because others come in their place.
        later: what stands for objects that the root gets right after this; their values are
            checked too.

    Raises:
        MismatchError: tensors do not fit the program. Nothing was restored then, nor is it in case
            of any other error.
        CkptError: the checkpoint is missing or damaged.
    """
    if path is None:
        return InitializationOnlyStatus()
    location = locate(path)
    if location.bare:
        raise NotFoundError("a SavedModel without variables has nothing to restore", path=str(path))
    source = Checkpoint(location)
    graph = source.object_graph
    if graph is None:
        return _read_by_name(source, program)
    skip_slots = options is not None and options.experimental_skip_slot_variables
    load = GraphLoad(source, graph, skip_slots=skip_slots, reserved=reserved)
    root, attached = program()
    transaction = Transaction()
    transaction.enter(load, 0, root)
    children = {edge.name: edge.node_id for edge in graph.nodes[0].children}
    for name, found in attached:
        node_id = children.get(name)
        if name != "root" and node_id is not None and transaction.bound(load, node_id) is None:
            transaction.enter(load, node_id, found)
    for name, found in (later or {}).items():
        node_id = children.get(name)
        if node_id is not None and transaction.bound(load, node_id) is None:
            trial = Transaction()
            trial.enter(load, node_id, found)
            trial.check()
    transaction.finish()
    return CheckpointLoadStatus(load, program)


def _read_by_name(source: Checkpoint, program: ProgramRoot) -> NameBasedSaverStatus:
    load = NamedLoad(source)
    reached = reached_from(*program())
    transaction = Transaction()
    for found in (*reached.nodes, *(slot for *_, slot in reached.slots())):
        transaction.enter_by_name(load, found)
    transaction.finish()
    return NameBasedSaverStatus(load, program)
