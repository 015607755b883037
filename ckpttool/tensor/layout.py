"""Another order of a tensor's elements: its dimensions permuted, then reshaped.

A layout is stated with the shape that the tensor has before, so that it fits no other by chance.
Large tensors are taken in boxes of the result, in bounded memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ckpttool.errors import SelectionError
from ckpttool.tensor.region import boxes
from ckpttool.tensor.shape import Shape, element_count
from ckpttool.tensor.slices import Bounds

if TYPE_CHECKING:
    from ckpttool.tensor.values import Array

# What is smaller is permuted at once. A box of this size needs twice its memory.
_SMALL = 1 << 25
# Dimensions that an array of every NumPy may have.
_MAX_RANK = 32
_MAX_ELEMENTS = (1 << 59) - 1


@dataclass(frozen=True, slots=True)
class TensorLayout:
    """What is done to the elements of a tensor; `TensorLayout.of` checks what it is given.

    Attributes:
        shape: of the tensor before.
        split: the shape whose dimensions are permuted; `shape`, but for the way back.
        order: for each dimension of the permuted tensor, which of `split` it was.
        result: the shape after.
    """

    shape: Shape
    split: Shape
    order: tuple[int, ...]
    result: Shape

    @classmethod
    def of(
        cls,
        shape: Sequence[int],
        permute: Sequence[int] | None = None,
        reshape: Sequence[int] | None = None,
    ) -> TensorLayout:
        """Return the layout that permutes first, and reshapes then.

        Args:
            shape: of the tensor.
            permute: for each dimension of the result, which of `shape` it was.
            reshape: the final shape.

        Raises:
            SelectionError: they do not fit each other.
        """
        dims = _dims("shape", shape)
        order = tuple(range(len(dims))) if permute is None else _whole_numbers("permute", permute)
        if sorted(order) != list(range(len(dims))):
            raise SelectionError(
                f"'permute' {list(order)} is no permutation of the {len(dims)} dimensions"
            )
        permuted = tuple(dims[at] for at in order)
        result = permuted if reshape is None else _dims("reshape", reshape)
        if element_count(result) != element_count(dims):
            raise SelectionError(
                f"'reshape' {list(result)} has {element_count(result)} elements, "
                f"'shape' {list(dims)} has {element_count(dims)}"
            )
        return cls(dims, dims, order, result)

    @property
    def moves(self) -> bool:
        """Whether it changes the order of the elements or the shape."""
        return self.order != tuple(range(len(self.split))) or self.shape != self.result

    @property
    def text(self) -> str:
        """What it does, in words."""
        steps = []
        if self.split != self.shape:
            steps.append(f"reshape {list(self.split)}")
        if self.order != tuple(range(len(self.order))):
            steps.append(f"permute {list(self.order)}")
        if self.result != self._permuted:
            steps.append(f"reshape {list(self.result)}")
        return ", ".join(steps)

    def inverse(self) -> TensorLayout:
        """Return the layout that leads back."""
        back = sorted(range(len(self.order)), key=self.order.__getitem__)
        return TensorLayout(self.result, self._permuted, tuple(back), self.shape)

    def require(self, shape: Shape) -> None:
        """Check that a tensor has the stated shape.

        Raises:
            SelectionError: it has another.
        """
        if shape != self.shape:
            raise SelectionError(
                f"the map states the shape {list(self.shape)}, the tensor has {list(shape)}"
            )

    def apply(self, array: Array) -> Array:
        """Return an array in this layout."""
        out: Array = array.reshape(self.split).transpose(self.order).reshape(self.result)
        return out

    def blocks(
        self, element_size: int, whole: Callable[[], Array], box: Callable[[Bounds], Array]
    ) -> Iterator[Array]:
        """Yield the elements of the result in C order, as one-dimensional arrays.

        Args:
            element_size: bytes of an element.
            whole: returns the tensor, checked; called for a small one, and for one that is
                reshaped before it is permuted.
            box: returns the elements of a box of the tensor, (start, stop) for each dimension.
                The caller has checked the tensor before.
        """
        if self.fits(element_size):
            yield self.apply(whole()).reshape(-1)
            return
        back = self.inverse().order
        for bounds in boxes(self._permuted, _SMALL // max(element_size, 1)):
            part = box(tuple(bounds[at] for at in back)).transpose(self.order)
            yield part.reshape(-1)

    def fits(self, element_size: int) -> bool:
        """Tell whether the tensor is permuted at once, for elements of this size."""
        return self.split != self.shape or element_count(self.shape) * element_size <= _SMALL

    @property
    def _permuted(self) -> Shape:
        return tuple(self.split[at] for at in self.order)


def _dims(name: str, given: Sequence[int]) -> Shape:
    dims = _whole_numbers(name, given)
    if len(dims) > _MAX_RANK:
        raise SelectionError(f"'{name}' has {len(dims)} dimensions, more than {_MAX_RANK}")
    count = 1
    for dim in dims:
        count *= max(dim, 1)
        if count > _MAX_ELEMENTS:
            raise SelectionError(f"'{name}' has more elements than any file could hold")
    return dims


def _whole_numbers(name: str, given: Sequence[int]) -> tuple[int, ...]:
    # A boolean is an integer to Python, and a text a sequence.
    if isinstance(given, (list, tuple)) and all(
        isinstance(each, int) and not isinstance(each, bool) and each >= 0 for each in given
    ):
        return tuple(given)
    raise SelectionError(f"'{name}' must be a list of whole numbers from 0 on")
