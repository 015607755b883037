"""Objects whose attributes are edges."""

from __future__ import annotations

from typing import Any

from ckpttool.train.trackable import Trackable, track, untrack

_ABSENT = object()


class Module(Trackable):
    """An object whose attributes are saved, as far as they are trackable.

    Subclasses need not call `__init__`. Replacing an attribute by something that is not trackable
    leaves the old edge: only `del` removes it.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if getattr(self, name, _ABSENT) is value:
            return
        if isinstance(value, Trackable):
            track(self, name, value)
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        untrack(self, name)
