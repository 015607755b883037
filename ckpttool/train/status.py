"""What a restore has done and has not: the statuses that `read` and `restore` return."""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Iterable, Iterator
from shlex import quote
from typing import TYPE_CHECKING

from ckpttool.checkpoint.fitting import ValueSpec
from ckpttool.checkpoint.nearest import nearest_names
from ckpttool.errors import UnrestoredError, UnrestoredWarning
from ckpttool.objects.keys import slot_path
from ckpttool.train.snapshot import ProgramRoot, reached_from
from ckpttool.train.trackable import Trackable, tracking

if TYPE_CHECKING:
    from typing_extensions import Self

    from ckpttool.objects.graph import ObjectGraph
    from ckpttool.query.match.plan import MatchMode, RestorePlan
    from ckpttool.train.loads import GraphLoad, NamedLoad

_SHOWN = 10
_NOWHERE = "?"


class LoadStatus:
    """What all statuses have.

    Attributes:
        mode: "restore" if a save counter was made after the load, else "read".
    """

    mode: MatchMode = "read"

    @property
    def unmatched(self) -> tuple[str, ...]:
        """Paths of the program's objects that have values and got none."""
        return tuple(sorted(path for path, _ in self._lacking()))

    @property
    def unresolved(self) -> tuple[str, ...]:
        """Paths of the checkpoint's objects with values that nothing took yet."""
        return tuple(sorted(path for path, _ in self._waiting()))

    @property
    def unused_attributes(self) -> tuple[str, ...]:
        """Values that their objects do not take, as `path:attribute`."""
        return ()

    @property
    def hollow(self) -> tuple[str, ...]:
        """Paths of objects with values for which the checkpoint has an object without."""
        return ()

    def assert_existing_objects_matched(self) -> Self:
        """Check that every object of the program that has values got some.

        Raises:
            UnrestoredError: one did not.
        """
        self._require_loaded()
        if self._lacking():
            raise self._error("objects of the program got nothing from the checkpoint")
        return self

    def assert_consumed(self) -> Self:
        """Check besides that the program took all that the checkpoint has.

        Raises:
            UnrestoredError: something was not taken, or an object got nothing.
        """
        self.assert_existing_objects_matched()
        if self._waiting() or self.unused_attributes:
            raise self._error("the program did not take all that the checkpoint has")
        return self

    def assert_nontrivial_match(self) -> Self:
        """Check that anything but the root was matched.

        Raises:
            UnrestoredError: nothing was.
        """
        self._require_loaded()
        if self._is_trivial():
            raise self._error("the program and the checkpoint have nothing but the root in common")
        return self

    def expect_partial(self) -> Self:
        """Say that not all is to be taken: there is no warning at the end of the restore."""
        return self

    def plan(self) -> RestorePlan:
        """Return all that the restore has done so far, as data.

        Raises:
            ContainerChangedError: a container of the program cannot be listed.
            UnrestoredError: no checkpoint was loaded.
        """
        raise self._error("no checkpoint was loaded, so there is no plan")

    def _require_loaded(self) -> None:
        """Raise if nothing was loaded at all."""

    def _is_trivial(self) -> bool:
        return False

    def _lacking(self) -> list[tuple[str, Trackable]]:
        """Return the objects that got nothing, with their paths."""
        return []

    def _waiting(self) -> list[tuple[str, Iterable[ValueSpec]]]:
        """Return what was not taken: path and values."""
        return []

    def _source(self) -> str | None:
        return None

    def _error(self, problem: str) -> UnrestoredError:
        waiting = {path: _described(values) for path, values in self._waiting()}
        lacking = {
            path: _described(found._trackable_values().values()) for path, found in self._lacking()
        }
        parts = [
            problem,
            *_compared(waiting, "waits in the checkpoint", lacking, "the program has"),
            *_compared(lacking, "got nothing", waiting, "the checkpoint has"),
            *(f"'{each}' is not taken" for each in self.unused_attributes[:_SHOWN]),
        ]
        source = self._source()
        if source is not None:
            line = f"ckpt match {quote(source)} fresh"
            parts.append(f"for what to do, write(\"fresh\") with this program, and run '{line}'")
        error = UnrestoredError("; ".join(parts), path=source)
        error.unmatched, error.unresolved = self.unmatched, self.unresolved
        error.unused_attributes, error.hollow = self.unused_attributes, self.hollow
        return error


class InitializationOnlyStatus(LoadStatus):
    """The status of restoring from None: no checkpoint was loaded, so all assertions fail."""

    def _require_loaded(self) -> None:
        raise self._error("no checkpoint was loaded: the path is None")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: no checkpoint was loaded>"


class CheckpointLoadStatus(LoadStatus):
    """The status of a checkpoint with an object graph.

    Objects that are tracked later may still take what waits for them, so all that it says is of
    now. At the end of the restore, when nothing can take more, a warning tells what was not taken.

    Args:
        load: the load.
        program: the program.
    """

    def __init__(self, load: GraphLoad, program: ProgramRoot) -> None:
        self._program = program
        self._kept = program()  # the root may be held weakly elsewhere
        self._load = load
        self._end = _End(load)
        weakref.finalize(load, _warn, self._end)

    @property
    def unused_attributes(self) -> tuple[str, ...]:
        """Values that their objects do not take, as `path:attribute`."""
        return tuple(sorted(self._end.unused_attributes()))

    @property
    def hollow(self) -> tuple[str, ...]:
        """Paths of objects with values for which the checkpoint has an object without."""
        load = self._load
        return tuple(
            sorted(
                load.path(node_id)
                for node_id, found in load.bound.items()
                if not load.graph.nodes[node_id].attributes and found._trackable_values()
            )
        )

    def expect_partial(self) -> Self:
        """Say that not all is to be taken: there is no warning at the end of the restore."""
        self._end.expected = True
        return self

    def __repr__(self) -> str:
        unresolved = len(self._load.unresolved())
        valued = self._load.graph.columns.nodes_with_attributes()
        matched = sum(each in self._load.matched for each in valued)
        return _told(self, f"{matched:,} matched, {unresolved:,} unresolved")

    def plan(self) -> RestorePlan:
        """Return all that the restore has done so far, as data.

        Raises:
            ContainerChangedError: a container of the program cannot be listed.
        """
        from ckpttool.train.planning import plan_of_load

        return plan_of_load(self._load, self._program, self.mode)

    def _is_trivial(self) -> bool:
        _objects(self._program)  # as all assertions, it fails where a container was changed
        return len(self._load.matched) <= 1

    def _lacking(self) -> list[tuple[str, Trackable]]:
        bound = {id(found) for found in self._load.bound.values()}
        objects = _objects(self._program, slots=not self._load.skip_slots)
        reached = {id(found) for _, found in objects}
        objects += [
            (_NOWHERE, found) for found in self._load.seconds.values() if id(found) not in reached
        ]
        return [
            (path, found)
            for path, found in objects
            if id(found) not in bound and found._trackable_values()
        ]

    def _waiting(self) -> list[tuple[str, Iterable[ValueSpec]]]:
        load = self._load
        entries, describe = load.source.entries, load.source.reader.dtype_and_shape
        return [
            (
                load.path(node_id),
                [
                    ValueSpec(*describe(one.checkpoint_key))
                    for one in load.graph.nodes[node_id].attributes
                    if one.checkpoint_key in entries
                ],
            )
            for node_id in load.unresolved()
        ]

    def _source(self) -> str | None:
        return self._load.source.prefix


class NameBasedSaverStatus(LoadStatus):
    """The status of a checkpoint without an object graph, restored by the names of variables.

    Args:
        load: the load.
        program: the program.

    Attributes:
        optional: an object that need not be in the checkpoint.
    """

    def __init__(self, load: NamedLoad, program: ProgramRoot) -> None:
        self._program = program
        self._kept = program()
        self._load = load
        self.optional: Trackable | None = None

    def __repr__(self) -> str:
        missing = [each for each in self._load.missing.values() if each is not self.optional]
        return _told(self, f"restored by name, {len(missing):,} unmatched")

    def plan(self) -> RestorePlan:
        """Return all that the restore has done so far, as data.

        Raises:
            ContainerChangedError: a container of the program cannot be listed.
        """
        from ckpttool.train.planning import plan_of_named_load

        return plan_of_named_load(self._load, self._program, self.mode)

    def _is_trivial(self) -> bool:
        return bool(self._lacking())

    def _lacking(self) -> list[tuple[str, Trackable]]:
        load = self._load
        return [
            (path, found)
            for path, found in _objects(self._program)
            if (id(found) in load.missing and found is not self.optional)
            or tracking(found).update_number < load.number
        ]

    def _source(self) -> str | None:
        return self._load.source.prefix


def _objects(program: ProgramRoot, *, slots: bool = True) -> list[tuple[str, Trackable]]:
    """Return the objects that can be reached now, with their paths; slot variables too.

    Args:
        program: returns the root and its other edges.
        slots: False to leave out slot variables.

    Raises:
        ContainerChangedError: a container on the way cannot be listed.
    """
    reached = reached_from(*program())
    found = list(zip(reached.paths, reached.nodes, strict=True))
    if not slots:
        return found
    found += [
        (slot_path(reached.paths[variable], reached.paths[owner], name), slot)
        for owner, variable, name, slot in reached.slots()
    ]
    return found


class _End:
    """What is told of a load when it is gone."""

    def __init__(self, load: GraphLoad) -> None:
        self._graph: ObjectGraph = load.graph
        self._matched = load.matched
        self._skipped = {link.slot_id for link in load.graph.slots} if load.skip_slots else set()
        self._unused = load.unused
        self.prefix = load.source.prefix
        self.expected = False

    def unused_attributes(self) -> list[str]:
        return [f"{self._graph.path(node_id) or ''}:{name}" for node_id, name in self._unused]

    def paths(self) -> tuple[str, ...]:
        """Return the paths of all that was not taken."""
        known = self._matched | self._skipped
        left = [
            self._graph.path(node_id) or ""
            for node_id in self._graph.columns.nodes_with_attributes()
            if node_id not in known
        ]
        return tuple(sorted([*left, *self.unused_attributes()]))


def _warn(end: _End) -> None:
    paths = () if end.expected else end.paths()
    if paths:
        told = ", ".join(f"'{path}'" for path in paths[:_SHOWN])
        more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
        warning = UnrestoredWarning(
            f"{end.prefix}: values that nothing took: {told}{more}; "
            "expect_partial() of the status says that this is meant"
        )
        warning.paths = paths
        warnings.warn(warning, stacklevel=2)


def _told(status: LoadStatus, what: str) -> str:
    name = os.path.basename(status._source() or "")
    return f"<{type(status).__name__} of {name!r}: {what}>"


def _described(values: Iterable[ValueSpec]) -> str:
    return ", ".join(
        str(spec.dtype) if spec.shape is None else f"{spec.dtype} {list(spec.shape)}"
        for spec in values
    )


def _compared(these: dict[str, str], what: str, others: dict[str, str], have: str) -> Iterator[str]:
    """Tell what is wrong with each path, and the nearest one on the other side."""
    for path, described in list(these.items())[:_SHOWN]:
        text = f"'{path}' {described} {what}" if described else f"'{path}' {what}"
        near = [name for name in nearest_names(path, others) if name in others]  # no scopes
        if near:
            text += f" ({have} '{near[0]}' {others[near[0]]})"
        yield text
    if len(these) > _SHOWN:
        yield f"{len(these) - _SHOWN} more"
