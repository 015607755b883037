"""The hook by which a notebook shows a value: the low levels hold it, the package sets it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# Returns the HTML of a value; None where there is none. It is not set before it can be needed.
view: Callable[[object], str | None] | None = None


class Displayed:
    """Something that a notebook shows as HTML."""

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        """Return HTML for a notebook; None makes it show `repr()`."""
        return None if view is None else view(self)
