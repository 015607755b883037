"""What every tracked object has: named edges to others, pending restores, perhaps values.

Saving walks the edges; restoring walks them along with those of a stored graph. Both know objects
by this protocol alone:

    tracking(x)                  the state of `x`: edges, pending restores, update number; made on
                                 first use, so that no class has to call a base `__init__`
    x._trackable_edges()         the edges now, name -> object, in order; raises for a container
                                 whose edges cannot be told. Not `tracking(x).edges`: a class may
                                 add to these or list them anew
    x._trackable_values()        attribute name -> `ValueSpec`: what it takes; empty for no values
    x._trackable_read()          attribute name -> array: what it saves, in that order
    x._trackable_assign(values)  takes arrays under the names of `_trackable_values`, each checked
                                 against its spec; does not fail where values fit
    x._trackable_buffer(name)    memory in C order to be filled instead of assigning, or None
    x._trackable_full_name       of a variable: its name in the program; else empty
    x._trackable_any_name        it takes the first attribute of a node, whatever its name
    x._trackable_waits           restores wait in it for edges that it lacks
    owns_slots(x)                whether `get_slot_names`, `get_slot` and `create_slot` are there

Attribute names are as in the node of the graph: unescaped for the key, except that the names of a
tensor dict are escaped once there.

Restoring leaves a `PendingRestore` for what is not there yet: under the name of an edge in
`tracking(x).pending`, or for everything tracked later in `tracking(x).inherited`, or for a slot
of a variable in `tracking(x).pending_slots`. `add_edge` and `resume_slot` take them, newest load
first.

A `Carried` takes all attributes of a node, by its method `carry`, and all edges and slots.

Objects are compared by identity throughout: containers may be equal, falsy and unhashable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias
from weakref import WeakKeyDictionary

from ckpttool.errors import ContainerChangedError

if TYPE_CHECKING:
    from ckpttool.checkpoint.fitting import ValueSpec
    from ckpttool.tensor.values import Array

# Among the attributes of the program's own objects, so of a name that they will not have.
_STATE = "_ckpttool_tracking"


class PendingRestore(Protocol):
    """A restore that waits for an object.

    Attributes:
        number: of its load; later ones have higher numbers.
    """

    number: int

    def resume(self, child: Trackable, older: Sequence[Any]) -> None:
        """Restore an object that was just tracked; if that fails, change nothing and raise.

        Args:
            child: the object.
            older: other restores that wait for it, newest first; they are done together.
        """


PendingSlots: TypeAlias = "WeakKeyDictionary[Trackable, dict[str, list[PendingRestore]]]"


class Tracking:
    """The state of one tracked object.

    Attributes:
        edges: name -> object, in the order in which names were tracked first.
        pending: by edge name, restores that wait for an object under that name.
        inherited: restores that everything tracked later gets.
        pending_slots: by variable and slot name, restores that wait for a slot to be made.
        update_number: of the newest load that restored the object; -1 at first.
    """

    __slots__ = ("_pending_slots", "edges", "inherited", "pending", "update_number")

    def __init__(self) -> None:
        self.edges: dict[str, Trackable] = {}
        self.pending: dict[str, list[PendingRestore]] = {}
        self.inherited: list[PendingRestore] = []
        self._pending_slots: PendingSlots | None = None
        self.update_number = -1

    @property
    def pending_slots(self) -> PendingSlots:
        """Made on first use: few objects own slots."""
        if self._pending_slots is None:
            self._pending_slots = WeakKeyDictionary()
        return self._pending_slots

    def __reduce__(self) -> tuple[object, ...]:
        # A copy has the edges, those of its own; what is pending belongs to the program that
        # asked for it.
        return Tracking, (), (self.edges,)

    def __setstate__(self, state: tuple[dict[str, Trackable]]) -> None:
        (self.edges,) = state


class Trackable:
    """A node of the object graph; the base of everything that can be saved."""

    __slots__ = ("__dict__", "__weakref__")

    _trackable_any_name: ClassVar[bool] = False
    _trackable_waits: ClassVar[bool] = True

    @property
    def _trackable_full_name(self) -> str:
        return ""

    def _trackable_edges(self) -> Mapping[str, Trackable]:
        return tracking(self).edges

    def _trackable_values(self) -> Mapping[str, ValueSpec]:
        return {}

    def _trackable_read(self) -> Mapping[str, Array]:
        return {}

    def _trackable_assign(self, values: Mapping[str, Array]) -> None:
        del values

    def _trackable_buffer(self, name: str) -> Array | None:
        del name
        return None


def tracking(node: Trackable) -> Tracking:
    """Return the state of an object, made on first use."""
    attributes = node.__dict__
    state: Tracking | None = attributes.get(_STATE)
    if state is None:
        state = attributes[_STATE] = Tracking()
    return state


def add_edge(parent: Trackable, name: str, child: Trackable) -> None:
    """Make an edge.

    A new name comes last and gets the restores that are pending for it. A name that is there keeps
    its position and gets none.

    Raises:
        CkptError: of a restore that failed. Then there is no edge, and the restores still wait.
    """
    state = tracking(parent)
    if name in state.edges:
        state.edges[name] = child
        return
    state.edges[name] = child
    try:
        resume(parent, name, child)
    except BaseException:
        del state.edges[name]
        raise


def resume(parent: Trackable, name: str, child: Trackable, *, by_name: bool = True) -> None:
    """Give an object that was just tracked the restores that wait for it.

    Args:
        parent: what it hangs from.
        name: of the edge.
        child: the object.
        by_name: whether it also gets those that everything tracked later gets.

    Raises:
        CkptError: of a restore that failed; the restores still wait.
    """
    state = tracking(parent)
    waiting = state.pending.pop(name, None)
    try:
        inherited = state.inherited if by_name else []
        if waiting is not None or inherited:
            _resume([*(waiting or ()), *inherited], child)
    except BaseException:
        if waiting is not None:
            state.pending[name] = waiting
        raise


def edges_at(node: Trackable, path: str) -> Mapping[str, Trackable]:
    """Return the edges of an object that has this path.

    Raises:
        ContainerChangedError: they cannot be told; the message names the path.
    """
    try:
        return node._trackable_edges()
    except ContainerChangedError as error:
        error.message = f"'{path or '(the root)'}': {error.message}"
        raise


def remove_edge(parent: Trackable, name: str) -> None:
    """Remove an edge; without one, do nothing."""
    tracking(parent).edges.pop(name, None)


def resume_slot(owner: Trackable, variable: Trackable, slot_name: str, slot: Trackable) -> None:
    """Give a slot variable that was just made the restores that wait for it.

    Raises:
        CkptError: of a restore that failed; the restores still wait.
    """
    waiting = tracking(owner).pending_slots.get(variable, {})
    restores = waiting.pop(slot_name, None)
    if restores is not None:
        try:
            _resume(restores, slot)
        except BaseException:
            waiting[slot_name] = restores
            raise


def owns_slots(node: Trackable) -> bool:
    """Tell whether an object keeps slot variables, as an optimizer does."""
    return all(callable(getattr(node, name, None)) for name in ("get_slot_names", "get_slot"))


def makes_slots(node: Trackable) -> bool:
    """Tell whether an object can be asked to make a slot variable."""
    return owns_slots(node) and callable(getattr(node, "create_slot", None))


def _resume(restores: list[PendingRestore], child: Trackable) -> None:
    newest, *older = sorted(restores, key=_number, reverse=True)
    newest.resume(child, older)


_number: Callable[[PendingRestore], int] = lambda restore: restore.number  # noqa: E731
