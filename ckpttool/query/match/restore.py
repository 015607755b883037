"""What restoring a checkpoint would do to a program that a file stands for."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TypeAlias, get_args

from ckpttool.checkpoint.locate import NO_VARIABLES, locate
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.errors import CorruptError, NotFoundError
from ckpttool.query.check.lock import Lock, read_lock
from ckpttool.query.match.advice import FRESH
from ckpttool.query.match.outcome import SourceTensors
from ckpttool.query.match.plan import MatchAssumption, MatchMode, MatchTarget, RestorePlan
from ckpttool.query.match.programs import StoredProgram, described_in_lock, graph_of_lock
from ckpttool.query.match.trial import plan_along_edges, plan_by_name, plan_of_names
from ckpttool.storage.paths import StrPath, path_text

# What stands for a program in a file.
StoredTarget: TypeAlias = "StrPath | Checkpoint | Lock"

_PATHS_ALONE = (
    "the program is known by the paths in a lock: an object with several paths counts as several"
)
_LOCK_BEGINS = b"{"
_LOCK_STREAM = "-"


def restore_plan(
    source: StrPath | Checkpoint,
    target: StoredTarget,
    *,
    mode: MatchMode = "restore",
    skip_slots: bool = False,
) -> RestorePlan:
    """Return what restoring a checkpoint into a program would do.

    Only indexes and object graphs are read.

    Args:
        source: the checkpoint: its address, or an open one.
        target: what stands for the program: the address of a checkpoint that it wrote, or of its
            SavedModel; a lock, or the path of one.
        mode: "restore", which makes a save counter too, or "read".
        skip_slots: leave out slot variables.

    Raises:
        CkptError: one of the files is missing or damaged.
    """
    checked_mode(mode)
    with ExitStack() as opened:
        if not isinstance(source, Checkpoint):
            source = opened.enter_context(open_source(source))
        if not isinstance(target, Checkpoint | Lock):
            target = open_target(target)
            if isinstance(target, Checkpoint):
                opened.enter_context(target)
        if isinstance(target, Lock):
            return _into_lock(source, target, mode, skip_slots=skip_slots)
        return _into_checkpoint(source, target, mode, skip_slots=skip_slots)


def checked_mode(mode: MatchMode) -> MatchMode:
    """Return a mode.

    Raises:
        ValueError: it is none.
    """
    if mode not in get_args(MatchMode):
        raise ValueError(f"mode is {mode!r}, not 'restore' or 'read'")
    return mode


def open_source(path: StrPath) -> Checkpoint:
    """Open a checkpoint that is to be restored.

    Raises:
        CkptError: it is missing, or a SavedModel without variables.
    """
    location = locate(path)
    if location.bare:
        raise NotFoundError(NO_VARIABLES, path=str(path))
    return Checkpoint(location)


def open_target(path: StrPath) -> Checkpoint | Lock:
    """Open what stands for a program.

    Args:
        path: the address of a checkpoint or SavedModel, or the path of a lock; "-" is a lock on
            the standard input.

    Raises:
        NotFoundError: there is none; the message says what may stand for a program.
        CkptError: it cannot be read.
    """
    typed = path_text(path)
    if typed == _LOCK_STREAM or _is_lock(typed):
        return read_lock(typed)
    try:
        if locate(typed).generation == "h5":
            raise NotFoundError("weights in HDF5 have no objects", path=typed)
        return open_source(typed)
    except NotFoundError as error:
        error.message += f"; TARGET stands for the program, which can write one: {FRESH}"
        raise


def _is_lock(path: str) -> bool:
    """Tell whether a file begins as JSON does."""
    if not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            return file.read(64).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(_LOCK_BEGINS)
    except OSError:
        return False  # whoever reads it says why not


def _into_checkpoint(
    ckpt: Checkpoint, target: Checkpoint, mode: MatchMode, *, skip_slots: bool
) -> RestorePlan:
    graph, theirs = ckpt.object_graph, target.object_graph
    facts = MatchTarget(
        "checkpoint",
        target.location.typed,
        target.prefix,
        target.generation,
        "name" if theirs is None else "object",
    )
    if theirs is None:
        wanted = SourceTensors(target.reader.entries.described(), {})
        return plan_of_names(ckpt, graph, wanted, facts, mode=mode, skip_slots=skip_slots)
    described = target.reader.entries.described()
    program = StoredProgram(theirs, described, counting=mode == "restore")
    if graph is None:
        return plan_by_name(ckpt, program, facts, mode=mode, skip_slots=skip_slots)
    return plan_along_edges(ckpt, graph, program, facts, mode=mode, skip_slots=skip_slots)


def _into_lock(ckpt: Checkpoint, lock: Lock, mode: MatchMode, *, skip_slots: bool) -> RestorePlan:
    graph, theirs = ckpt.object_graph, graph_of_lock(lock)
    described = described_in_lock(lock)
    if theirs is not None:
        try:
            theirs.paths  # noqa: B018
        except CorruptError as error:
            error.locate(path=lock.path)
            raise
    facts = MatchTarget("lock", lock.path, None, None, "name" if theirs is None else "object")
    if theirs is None:
        wanted = SourceTensors(described, {})
        return plan_of_names(ckpt, graph, wanted, facts, mode=mode, skip_slots=skip_slots)
    assumed = [MatchAssumption(None, _PATHS_ALONE)]
    counting = mode == "restore"
    program = StoredProgram(theirs, described, counting=counting, assumed=assumed)
    if graph is None:
        return plan_by_name(ckpt, program, facts, mode=mode, skip_slots=skip_slots)
    return plan_along_edges(ckpt, graph, program, facts, mode=mode, skip_slots=skip_slots)
