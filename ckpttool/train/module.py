"""Objects whose attributes are edges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ckpttool.train.containers import wrapped
from ckpttool.train.trackable import Trackable, add_edge, remove_edge

_ABSENT = object()


class Module(Trackable):
    """An object whose attributes are saved, as far as they are trackable.

    Lists, dicts and tuples on attributes are wrapped and saved too. Subclasses need not call
    `__init__`. Replacing an attribute by something that is not trackable
    leaves the old edge: only `del` removes it.
    """

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __setattr__(self, name: str, value: Any) -> None:
        if getattr(self, name, _ABSENT) is value:
            return
        stored, node = wrapped(value)
        if node is not None:
            add_edge(self, name, node)
        super().__setattr__(name, stored)

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        remove_edge(self, name)
