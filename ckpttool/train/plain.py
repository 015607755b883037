"""Objects of no class of ours: dataclasses, instances, and trees of dicts, lists and tuples.

A `PlainNode` stands for such an object, a `PlainArray` for an array in it. Edges are listed anew
each time, so the object may be used as if nobody tracked it. One object has one node: as long as a
node lives, which is as long as the one above it lists it, it is found by the identity of its
object.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakSet, WeakValueDictionary

import numpy as np

from ckpttool.checkpoint.fitting import ValueSpec
from ckpttool.errors import InvalidTensorError, UntrackableError
from ckpttool.objects.keys import VARIABLE_VALUE
from ckpttool.tensor.dtypes import DType, dtype_of_array
from ckpttool.train.adoption import is_array_like, view_of
from ckpttool.train.trackable import Trackable, tracking

if TYPE_CHECKING:
    from ckpttool.tensor.values import Array

Convert = Callable[["Array"], Any]

# Instances of the standard library lead anywhere: a logger to all others, a lock to its thread.
_PLAIN_OF_LIBRARY = (types.SimpleNamespace, argparse.Namespace)


def track(x: Any, *, convert: Convert | None = None) -> Trackable:
    """Return a trackable object that stands for a plain one, with the arrays in it.

    Args:
        x: a dataclass instance, an object with attributes, or a tree of dicts, lists and tuples.
            Its arrays, of any library, are saved as variables; trackable and plain objects in it
            are followed; the rest is ignored.
        convert: restoring writes into arrays that can be written to and have the shape; it
            replaces others by what this function makes of a NumPy array, such as `jnp.asarray`.

    Raises:
        UntrackableError: there is nothing in it to follow.
    """
    if isinstance(x, Trackable):
        return x
    if not _is_plain(x):
        raise UntrackableError(
            f"{type(x).__name__} cannot be tracked; a dataclass, an object with attributes, a "
            "dict, list or tuple can, with the arrays in it"
        )
    node = _node_for(x, convert)
    if convert is not None:
        node.convert = convert
    return node


class PlainNode(Trackable):
    """Stands for a plain object; made by `track`.

    Attributes:
        value: the object.
        convert: makes what replaces arrays that cannot be written to; None leaves them to NumPy.
    """

    _trackable_waits = False

    def __init__(self, value: Any, convert: Convert | None) -> None:
        self.value = value
        self.convert = convert
        # Where the object stands, to replace it there if it is a tuple.
        self._parents: WeakSet[PlainNode] = WeakSet()

    def _trackable_edges(self) -> Mapping[str, Trackable]:
        found: dict[str, Trackable] = {}
        for name, _, item in _items(self.value):
            child: Trackable
            if isinstance(item, Trackable):
                child = item
            elif is_array_like(item):
                child = _node_for_array(item, name)
                child._parents.add(self)
            elif _is_plain(item):
                child = _node_for(item, self.convert)
                child._parents.add(self)
            else:
                continue
            if name in found:
                raise UntrackableError(f"two keys of a dict have the name '{name}'")
            found[name] = child
        tracking(self).edges = found
        return found

    def _replace(self, old: object, new: Any) -> None:
        """Put something in the place of what is in the object."""
        value = self.value
        if isinstance(value, tuple):
            self._replace_in_tuple(value, old, new)
            return
        for _, key, item in _items(value):
            if item is not old:
                continue
            if isinstance(value, dict | list):
                value[key] = new
            elif isinstance(value, Mapping):
                raise UntrackableError(f"a {type(value).__name__} takes no new values")
            else:
                object.__setattr__(value, key, new)  # dataclasses may be frozen

    def _replace_in_tuple(self, value: tuple[Any, ...], old: object, new: Any) -> None:
        items = [new if item is old else item for item in value]
        named = hasattr(value, "_fields")
        made = type(value)(*items) if named else tuple.__new__(type(value), items)
        _stand_for(self, made)

    def __getstate__(self) -> dict[str, Any]:
        return {"value": self.value, "convert": self.convert}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _parents=WeakSet())
        _nodes[id(self.value)] = self


class PlainArray(Trackable):
    """Stands for an array in a plain object.

    Attributes:
        value: the array, of any library.
    """

    def __init__(self, value: Any, name: str) -> None:
        self.value = value
        self._name = name
        self._parents: WeakSet[PlainNode] = WeakSet()

    @property
    def _trackable_full_name(self) -> str:
        return self._name

    def _trackable_values(self) -> Mapping[str, ValueSpec]:
        return {VARIABLE_VALUE: ValueSpec(self._view()[1], None)}

    def _trackable_read(self) -> Mapping[str, Array]:
        return {VARIABLE_VALUE: self._view()[0]}

    def _view(self) -> tuple[Array, DType]:
        try:
            array = view_of(self.value)
            return array, dtype_of_array(array)
        except TypeError as error:
            raise InvalidTensorError(f"'{self._name}': {error}") from error

    def _trackable_assign(self, values: Mapping[str, Array]) -> None:
        value = values[VARIABLE_VALUE]
        there = view_of(self.value)
        if there.flags.writeable and there.shape == value.shape:
            there[...] = value
            return
        for parent in list(self._parents):
            if parent.convert is not None:
                made = parent.convert(value.copy())
                break
        else:
            made = value.copy()[()] if isinstance(self.value, np.generic) else value.copy()
        _stand_for(self, made)

    def __getstate__(self) -> dict[str, Any]:
        return {"value": self.value, "_name": self._name}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _parents=WeakSet())
        _nodes[id(self.value)] = self


# By the identity of the object, which its node keeps alive.
_nodes: WeakValueDictionary[int, PlainNode | PlainArray] = WeakValueDictionary()


def _stand_for(node: PlainNode | PlainArray, made: Any) -> None:
    """Let a node stand for a new value, which takes the place of the old one wherever that is."""
    old = node.value
    _nodes.pop(id(old), None)
    node.value = made
    _nodes[id(made)] = node
    for parent in list(node._parents):
        parent._replace(old, made)


def _node_for(x: Any, convert: Convert | None) -> PlainNode:
    node = _nodes.get(id(x))
    if not isinstance(node, PlainNode):
        node = _nodes[id(x)] = PlainNode(x, convert)
    return node


def _node_for_array(x: Any, name: str) -> PlainArray:
    node = _nodes.get(id(x))
    if not isinstance(node, PlainArray):
        node = _nodes[id(x)] = PlainArray(x, name)
    return node


def _items(value: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield what is in a plain object: name, key or attribute, and the thing itself."""
    if isinstance(value, Mapping):
        for key, item in list(value.items()):
            if isinstance(key, str | int):
                yield str(key), key, item
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        for key, item in zip(value._fields, value, strict=True):
            yield key, key, item
    elif isinstance(value, list | tuple):
        for index, item in enumerate(list(value)):
            yield str(index), index, item
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            if hasattr(value, field.name):
                yield field.name, field.name, getattr(value, field.name)
    else:
        for name, item in list(vars(value).items()):
            yield name, name, item


def _is_plain(value: object) -> bool:
    if isinstance(value, type | types.ModuleType) or (callable(value) and not _is_instance(value)):
        return False
    if isinstance(value, Mapping | list | tuple) or dataclasses.is_dataclass(value):
        return True
    return _is_instance(value)


def _is_instance(value: object) -> bool:
    """Tell whether it is an instance of a class of some program or library."""
    if isinstance(value, _PLAIN_OF_LIBRARY):
        return True
    home = type(value).__module__.partition(".")[0]
    return hasattr(value, "__dict__") and home not in sys.stdlib_module_names
