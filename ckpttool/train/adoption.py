"""The memory of other arrays: NumPy's own, PyTorch's, and of whatever speaks their protocols."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ckpttool.tensor.values import Array


def is_array_like(value: object) -> bool:
    """Tell whether a value is an array, of any library."""
    if isinstance(value, np.ndarray | np.generic):
        return True
    if isinstance(value, type) or not (hasattr(value, "dtype") and hasattr(value, "shape")):
        return False
    return hasattr(value, "__array__") or hasattr(value, "__dlpack__")


def view_of(value: Any) -> Array:
    """Return an array with the contents of another, sharing its memory if that is possible.

    One that cannot be written to may be a copy.

    Raises:
        TypeError: it is no array, or of a kind that NumPy cannot see.
    """
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "detach"):  # PyTorch gives no memory of what it differentiates
        value = value.detach()
    found = None
    if hasattr(value, "__dlpack__"):
        try:
            found = np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError, ValueError):
            found = None  # such as bfloat16, or memory of a device
    # Of exporters of the older protocol NumPy takes memory read-only.
    if found is None or not found.flags.writeable:
        other = _through_array(value)
        if other is not None and (found is None or other.flags.writeable):
            found = other
    if found is None:
        raise TypeError(f"{type(value).__name__} gives NumPy no memory")
    return found


def _through_array(value: Any) -> Array | None:
    """Return what `__array__` gives; if it makes a copy each time, one that is read-only."""
    if not hasattr(value, "__array__"):
        return None
    found: Array = np.asarray(value)
    if found.size and not np.shares_memory(found, np.asarray(value)):
        found.flags.writeable = False
    return found


def adopted(value: Any) -> Array:
    """Return an array over the memory of another, to read and to write.

    Raises:
        ValueError: there is none that can be written to.
        TypeError: it is no array.
    """
    found = view_of(value)
    if not found.flags.writeable:
        raise ValueError(
            f"the memory of this {type(value).__name__} cannot be written to; track(…, convert=) "
            "replaces such arrays when it restores"
        )
    return found
