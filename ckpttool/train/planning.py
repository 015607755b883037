"""Live objects as the program of a restore plan, and the plans of loads that happened."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property

from ckpttool.checkpoint.fitting import ValueSpec
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.objects.keys import slot_path
from ckpttool.query.match.outcome import LoadState, SourceTensors
from ckpttool.query.match.plan import MatchAssumption, MatchMode, MatchTarget, RestorePlan
from ckpttool.query.match.trial import plan_along_edges, plan_by_name, plan_of_state
from ckpttool.train.loads import GraphLoad, LiveProgram, NamedLoad
from ckpttool.train.snapshot import ProgramRoot, reached_from
from ckpttool.train.trackable import Trackable, tracking
from ckpttool.train.variable import Variable

# The path of a slot variable that was made, if the program has it no more.
_LEFT = "?"
LIVE = MatchTarget("program", None, None, None, "object")


class PlannedObjects(LiveProgram):
    """The objects of this process, as a plan sees them; nothing of them changes.

    Args:
        program: returns the root and the edges from it that are not its own.
        reached: whether a load by names comes to an object.
    """

    def __init__(
        self, program: ProgramRoot, reached: Callable[[Trackable], bool] = lambda _: True
    ) -> None:
        self._program = program
        self._is_reached = reached

    def start(self) -> tuple[Trackable, Collection[tuple[str, Trackable]]]:
        """Return the root, and edges from it that are not its own."""
        return self._program()

    @cached_property
    def _reached(self) -> tuple[list[tuple[str, Trackable]], list[tuple[str, Trackable]]]:
        reached = reached_from(*self._program())
        paths = reached.paths
        slots = [
            (slot_path(paths[variable], paths[owner], name), slot)
            for owner, variable, name, slot in reached.slots()
        ]
        return list(zip(paths, reached.nodes, strict=True)), slots

    @cached_property
    def _paths(self) -> dict[int, str]:
        objects, slots = self._reached
        return {id(found): path for path, found in (*slots, *objects)}

    def objects(self, *, slots: bool) -> Iterator[tuple[str, Trackable]]:
        """Yield path and object of all that can be reached."""
        objects, owned = self._reached
        yield from objects
        if slots:
            yield from owned

    def path(self, found: Trackable) -> str | None:
        """Return the path of an object; None if none leads to it."""
        return self._paths.get(id(found))

    def values(self, found: Trackable) -> Mapping[str, ValueSpec]:
        """Return what an object takes, by attribute."""
        return found._trackable_values()

    def takes_any_name(self, found: Trackable) -> bool:
        """Tell whether an object takes the first attribute, whatever its name."""
        return found._trackable_any_name

    def keeps_waiting(self, found: Trackable) -> bool:
        """Tell whether what an object lacks may still be tracked."""
        return found._trackable_waits

    def variable_name(self, found: Trackable) -> str | None:
        """Return the full name of a variable; None for other objects."""
        return found._trackable_full_name if isinstance(found, Variable) else None

    def is_reached(self, found: Trackable) -> bool:
        """Tell whether a load by names comes to an object."""
        return self._is_reached(found)

    def refusing(self) -> Sequence[str]:
        """Return the paths of optimizers that raised when they were offered a slot: none does."""
        return ()

    def assumed(self) -> Sequence[MatchAssumption]:
        """Return what was assumed: nothing is of objects that are here."""
        return ()


def plan_of_trial(
    source: Checkpoint,
    program: ProgramRoot,
    mode: MatchMode,
    *,
    skip_slots: bool,
    reserved: Collection[str],
    late: Trackable | None,
) -> RestorePlan:
    """Return what a load would do; nothing changes.

    Args:
        source: the checkpoint.
        program: returns the root of the program and its other edges.
        mode: how it would be restored.
        skip_slots: whether slot variables are left out.
        reserved: edges that a carried root does not take.
        late: an object that is made when a load by names is over.
    """
    graph = source.object_graph
    objects = PlannedObjects(program, lambda found: found is not late)
    if graph is None:
        return plan_by_name(source, objects, LIVE, mode=mode, skip_slots=skip_slots)
    return plan_along_edges(
        source, graph, objects, LIVE, mode=mode, skip_slots=skip_slots, reserved=reserved
    )


def plan_of_load(load: GraphLoad, program: ProgramRoot, mode: MatchMode) -> RestorePlan:
    """Return what a load has done so far.

    Args:
        load: the load.
        program: returns the root of the program and its other edges.
        mode: how it was restored.

    Raises:
        ContainerChangedError: a container of the program cannot be listed.
    """
    state = LoadState(
        load,
        PlannedObjects(program),
        SourceTensors.of(load.source),
        dict.fromkeys(load.created, _LEFT),
        lost=[*load.seconds.values()],
    )
    return plan_of_state(load.source, state, state.findings(), LIVE, mode=mode)


def plan_of_named_load(load: NamedLoad, program: ProgramRoot, mode: MatchMode) -> RestorePlan:
    """Return what a load by names has done so far.

    Args:
        load: the load.
        program: returns the root of the program and its other edges.
        mode: how it was restored.

    Raises:
        ContainerChangedError: a container of the program cannot be listed.
    """

    def reached(found: Trackable) -> bool:
        return tracking(found).update_number >= load.number

    objects = PlannedObjects(program, reached)
    return plan_by_name(load.source, objects, LIVE, mode=mode, skip_slots=False)
