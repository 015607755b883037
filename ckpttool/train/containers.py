"""Lists, dicts and tuples on attributes of tracked objects.

    list    edge "i" for each trackable element, made when it enters
    dict    edge = key for each trackable value
    tuple   a namedtuple: edges by field name, then by index; other tuples: by index

A wrapper shares the storage of the list or dict that was assigned, and knows what it saw last. An
edge stands for a position for good: a later program restores what it appends under the same name.
So most changes of a container with trackable elements mark it as changed, and its edges cannot be
listed any more: it is neither saved nor restored into.

A wrapped tuple stays a tuple. It is another object than the one that was assigned, so that the node
that stands for it is found by its identity.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import (
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Mapping,
    ValuesView,
)
from typing import Any, SupportsIndex, cast
from weakref import WeakValueDictionary

from ckpttool.errors import ContainerChangedError
from ckpttool.train.trackable import Trackable, add_edge, tracking

_WAYS_OUT = "only append to it, or assign it as NoDependency(…), which is not tracked"
_OUTSIDE = "its contents were changed without the wrapper that stands for it"
_NON_STRING_KEY = "-non_string_key"


class NoDependency:
    """Wrapped around a value that is assigned, it leaves the value untracked and as it is.

    Args:
        value: what the attribute or element becomes.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def wrapped(value: Any) -> tuple[Any, Trackable | None]:
    """Return what is stored for a value, and the node that stands for it; None for no node."""
    if isinstance(value, NoDependency):
        return value.value, None
    if isinstance(value, Trackable):
        return value, value
    kind = type(value)
    if kind is list:
        made: Trackable = ListWrapper(value)
        return made, made
    if kind is dict:
        made = DictWrapper(value)
        return made, made
    if kind is OrderedDict:
        made = OrderedDictWrapper(value)
        return made, made
    if isinstance(value, tuple):
        node = _tuple_nodes.get(id(value))
        if node is None and _holds_something(value):
            node = TupleNode(value)
        if node is not None:
            return node.value, node
    return value, None


def node_of(value: object) -> Trackable | None:
    """Return the node that stands for a value that is stored in a tracked object."""
    return value if isinstance(value, Trackable) else _tuple_nodes.get(id(value))


def _holds_something(value: tuple[Any, ...]) -> bool:
    """Tell whether a tuple, or a tuple in it, holds anything that is wrapped or tracked."""
    stack = list(value)
    while stack:
        item = stack.pop()
        if isinstance(item, Trackable | NoDependency) or type(item) in (dict, OrderedDict, list):
            return True
        if isinstance(item, tuple):
            stack += item
    return False


def _is_tracked(value: object) -> bool:
    return node_of(value) is not None


class _Container(Trackable):
    """What the wrappers have in common.

    Attributes:
        _changed: what was done that keeps the container from being saved; None for nothing.
    """

    __slots__ = ()

    _changed: str | None

    def _trackable_edges(self) -> Mapping[str, Trackable]:
        if self._changed is None and not self._as_seen():
            self._changed = _OUTSIDE
        if self._changed is not None:
            raise ContainerChangedError(
                f"the {self._kind()} cannot be saved or restored: {self._changed}; {_WAYS_OUT}"
            )
        return tracking(self).edges

    def _track(self, name: str, value: Any) -> Any:
        """Track a value as far as it is trackable; return what is stored for it."""
        stored, node = wrapped(value)
        if node is not None:
            add_edge(self, name, node)
        return stored

    def _mark(self, what: str) -> None:
        if self._changed is None:
            self._changed = what

    def _as_seen(self) -> bool:
        raise NotImplementedError

    def _kind(self) -> str:
        raise NotImplementedError

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        # Copies are rebuilt with their edges and marks, not by adding the elements anew.
        return _blank, (type(self),), self.__dict__


def _blank(kind: type[_Container]) -> _Container:
    return kind.__new__(kind)


class ListWrapper(_Container, list[Any]):
    """A list on an attribute of a tracked object; shares the storage of the list assigned.

    Args:
        storage: that list; what is nested in it is wrapped in place.
    """

    # `list` is a base for `isinstance` alone; its own storage stays empty.

    def __init__(self, storage: list[Any]) -> None:
        self._changed = None
        self._storage = storage
        self._seen: list[Any] = []
        for index in range(len(storage)):
            storage[index] = self._track(str(index), storage[index])
        self._seen = list(storage)

    def _kind(self) -> str:
        return "list"

    def _as_seen(self) -> bool:
        storage, seen = self._storage, self._seen
        return len(storage) == len(seen) and all(map(_is, storage, seen))

    def _before(self) -> None:
        """Look for changes from outside, as far as that costs nothing; the rest shows later."""
        if len(self._storage) != len(self._seen):
            self._mark(_OUTSIDE)

    def _fixed(self) -> bool:
        return self._changed is not None or any(map(_is_tracked, self._storage))

    def append(self, value: Any) -> None:
        """Append an element."""
        self._before()
        stored = self._track(str(len(self._storage)), value)
        self._storage.append(stored)
        self._seen.append(stored)

    def extend(self, values: Iterable[Any]) -> None:
        """Append elements."""
        for value in list(values) if values is self else values:
            self.append(value)

    def insert(self, index: SupportsIndex, value: Any) -> None:
        """Insert an element; with anything trackable there or in it, the list is marked."""
        self._before()
        if self._fixed() or _is_tracked(value):
            self._mark("an element was inserted")
        self._rest_seen()
        stored = value.value if isinstance(value, NoDependency) else value
        self._storage.insert(index, stored)
        self._seen.insert(index, stored)

    def sort(self, *, key: Any = None, reverse: bool = False) -> None:
        """Sort the elements; with anything trackable there, the list is marked."""
        self._before()
        if self._fixed():
            self._mark("it was sorted")
        self._rest_seen()
        self._storage.sort(key=key, reverse=reverse)
        self._seen = list(self._storage)

    def pop(self, index: SupportsIndex = -1) -> Any:
        """Remove an element and return it; with anything trackable there, the list is marked."""
        value = self[index]
        del self[index]
        return value

    def remove(self, value: Any) -> None:
        """Remove the first element that equals a value, as `pop` does."""
        del self[self.index(value)]

    def clear(self) -> None:
        """Remove all elements; with anything trackable there, the list is marked."""
        del self[:]

    def reverse(self) -> None:
        """Exchange elements; if something trackable moves, the list is marked."""
        count = len(self)
        for index in range(count // 2):
            self[index], self[count - 1 - index] = self[count - 1 - index], self[index]

    def index(self, *arguments: Any) -> int:
        """Return the place of the first element that equals a value."""
        return self._storage.index(*arguments)

    def count(self, value: Any) -> int:
        """Return how many elements equal a value."""
        return self._storage.count(value)

    def copy(self) -> ListWrapper:
        """Return a list of its own with the same elements, tracked anew."""
        made = ListWrapper(list(self._storage))
        made._changed = self._changed
        return made

    __copy__ = copy

    def __setitem__(self, key: Any, value: Any) -> None:
        self._before()
        self._rest_seen()
        if isinstance(key, slice):
            self._set_slice(key, value)
        else:
            if _is_tracked(self._storage[key]):
                self._mark(f"element {int(key)} was replaced")
            self._storage[key] = self._track(str(int(key)), value)
        self._seen = list(self._storage)

    def _set_slice(self, key: slice, values: Iterable[Any]) -> None:
        before = list(self._storage)
        self._storage[key] = values
        if any(map(_is_tracked, before)):
            self._mark("a slice of it was replaced")
        for index, value in enumerate(self._storage):
            if index >= len(before) or value is not before[index]:
                self._storage[index] = self._track(str(index), value)

    def __delitem__(self, key: Any) -> None:
        self._before()
        if self._fixed():
            self._mark("an element was removed")
        self._rest_seen()
        del self._storage[key]
        self._seen = list(self._storage)

    def _rest_seen(self) -> None:
        """Look for all changes from outside, before what was seen is noted anew."""
        if not self._as_seen():
            self._mark(_OUTSIDE)

    def __iadd__(self, values: Iterable[Any]) -> ListWrapper:  # type: ignore[misc]
        self.extend(values)
        return self

    def __imul__(self, times: SupportsIndex) -> ListWrapper:
        times = int(times)
        if times <= 0:
            self.__delitem__(slice(None))
            return self
        for value in self._storage * (times - 1):
            self.append(value)
        return self

    def __getitem__(self, key: Any) -> Any:
        return self._storage[key]

    def __len__(self) -> int:
        return len(self._storage)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._storage)

    def __reversed__(self) -> Iterator[Any]:
        yield from reversed(self._storage)

    def __contains__(self, value: object) -> bool:
        return value in self._storage

    def __add__(self, other: Any) -> list[Any]:
        return cast("list[Any]", self._storage + _plain(other))

    def __radd__(self, other: Any) -> list[Any]:
        return cast("list[Any]", other + self._storage)

    def __mul__(self, times: SupportsIndex) -> list[Any]:
        return self._storage * times

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        return bool(self._storage == _plain(other))

    def __ne__(self, other: object) -> bool:
        return bool(self._storage != _plain(other))

    def __lt__(self, other: Any) -> bool:
        return bool(self._storage < _plain(other))

    def __le__(self, other: Any) -> bool:
        return bool(self._storage <= _plain(other))

    def __gt__(self, other: Any) -> bool:
        return bool(self._storage > _plain(other))

    def __ge__(self, other: Any) -> bool:
        return bool(self._storage >= _plain(other))

    def __repr__(self) -> str:
        return f"ListWrapper({self._storage!r})"


class DictWrapper(_Container, dict[Any, Any]):
    """A dict on an attribute of a tracked object; shares the storage of the dict assigned.

    Args:
        storage: that dict; what is nested in it is wrapped in place.
    """

    # `dict` is a base for `isinstance` alone; its own storage stays empty. Methods that are not
    # here change the storage from outside.

    def __init__(self, storage: dict[Any, Any]) -> None:
        self._changed = None
        self._storage = storage
        self._seen: dict[Any, Any] = {}
        storage.update({key: self._track_item(key, value) for key, value in storage.items()})
        self._seen = dict(storage)

    def _kind(self) -> str:
        return "dict"

    def _as_seen(self) -> bool:
        storage, seen = self._storage, self._seen
        return len(storage) == len(seen) and all(
            key in storage and storage[key] is value for key, value in seen.items()
        )

    def _track_item(self, key: object, value: Any) -> Any:
        if isinstance(key, str):
            return self._track(str(key), value)
        stored, node = wrapped(value)
        if node is not None:
            self._mark(f"the key {key!r} of something trackable is no string")
        return stored

    def __setitem__(self, key: Any, value: Any) -> None:
        if len(self._storage) != len(self._seen):
            self._mark(_OUTSIDE)
        stored = self._track_item(key, value)
        if self._storage.get(key, stored) is not self._seen.get(key, stored):
            self._mark(_OUTSIDE)
        self._storage[key] = self._seen[key] = stored

    def __delitem__(self, key: Any) -> None:
        if not self._as_seen():
            self._mark(_OUTSIDE)
        del self._storage[key]
        self._seen = dict(self._storage)

    def update(self, *items: Any, **named: Any) -> None:
        """Set items."""
        for key, value in dict(*items, **named).items():
            self[key] = value

    def copy(self) -> DictWrapper:
        """Return a dict of its own with the same items, tracked anew."""
        made = type(self)(self._storage.copy())
        made._changed = self._changed
        return made

    __copy__ = copy

    def pop(self, *arguments: Any) -> Any:
        """Remove an item; the dict is marked if there was one."""
        return self._storage.pop(*arguments)

    def popitem(self, *arguments: Any, **named: Any) -> tuple[Any, Any]:
        """Remove an item; the dict is marked."""
        return self._storage.popitem(*arguments, **named)

    def clear(self) -> None:
        """Remove all items; the dict is marked if there were any."""
        self._storage.clear()

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """Return an item; if it has to be added, the dict is marked."""
        return self._storage.setdefault(key, default)

    def __ior__(self, other: Any) -> DictWrapper:
        self._storage |= _plain(other)
        return self

    def get(self, key: Any, default: Any = None) -> Any:
        """Return an item, or the default."""
        return self._storage.get(key, default)

    def keys(self) -> KeysView[Any]:  # type: ignore[override]
        """Return the keys."""
        return self._storage.keys()

    def values(self) -> ValuesView[Any]:  # type: ignore[override]
        """Return the values."""
        return self._storage.values()

    def items(self) -> ItemsView[Any, Any]:  # type: ignore[override]
        """Return the items."""
        return self._storage.items()

    def __getitem__(self, key: Any) -> Any:
        return self._storage[key]

    def __len__(self) -> int:
        return len(self._storage)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._storage)

    def __reversed__(self) -> Iterator[Any]:
        yield from reversed(self._storage)

    def __contains__(self, key: object) -> bool:
        return key in self._storage

    def __or__(self, other: Any) -> dict[Any, Any]:
        return cast("dict[Any, Any]", self._storage | _plain(other))

    def __ror__(self, other: Any) -> dict[Any, Any]:
        return cast("dict[Any, Any]", other | self._storage)

    def __eq__(self, other: object) -> bool:
        return bool(self._storage == _plain(other))

    def __ne__(self, other: object) -> bool:
        return bool(self._storage != _plain(other))

    def __repr__(self) -> str:
        return f"DictWrapper({self._storage!r})"


class OrderedDictWrapper(DictWrapper, OrderedDict[Any, Any]):  # type: ignore[misc]
    """As `DictWrapper`, for an `OrderedDict`."""

    def move_to_end(self, key: Any, last: bool = True) -> None:
        """Move a key to either end; edges stay where they are."""
        cast("OrderedDict[Any, Any]", self._storage).move_to_end(key, last=last)


class TupleNode(_Container):
    """Stands for a tuple that holds something trackable.

    Args:
        raw: the tuple.

    Attributes:
        value: what is stored in its place: a tuple of the same class, what is in it wrapped.
    """

    value: tuple[Any, ...]

    def __init__(self, raw: tuple[Any, ...]) -> None:
        self._changed = None
        items = [wrapped(item) for item in raw]
        kind = type(raw)
        fields = getattr(raw, "_fields", None)
        try:
            if fields is None:
                made = tuple.__new__(kind, [stored for stored, _ in items])
            else:
                made = kind(**dict(zip(fields, (stored for stored, _ in items), strict=False)))
        except TypeError:
            made = tuple.__new__(kind, raw)
            items = []
            self._mark("it cannot be made anew from the fields that it names")
        self.value = made
        _tuple_nodes[id(made)] = self
        for names in (fields or (), map(str, range(len(items)))):
            for name, (_, node) in zip(names, items, strict=False):
                if node is not None:
                    add_edge(self, str(name), node)

    def _kind(self) -> str:
        return "tuple"

    def _as_seen(self) -> bool:
        return True

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        _tuple_nodes[id(self.value)] = self


# By the identity of the tuple that is stored, which lives as long as its node.
_tuple_nodes: WeakValueDictionary[int, TupleNode] = WeakValueDictionary()


def _is(one: object, other: object) -> bool:
    return one is other


def _plain(value: Any) -> Any:
    return value._storage if isinstance(value, ListWrapper | DictWrapper) else value
