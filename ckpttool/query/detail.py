"""What single tensors hold: their values, or what stands for them, and their statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from ckpttool.checkpoint.open import Checkpoint
from ckpttool.errors import CkptError
from ckpttool.meta.object_keys import GRAPH_KEY
from ckpttool.query.graph import GraphDetail, describe_graph
from ckpttool.query.parts import Part
from ckpttool.query.statistics import (
    Histogram,
    Statistics,
    histogram,
    statistics,
    statistics_of,
)
from ckpttool.query.targets import Target, format_index
from ckpttool.query.texts import Formatter, nested
from ckpttool.query.variants import VariantDetail, describe_variant
from ckpttool.tensor.dtypes import VARIANT, DType
from ckpttool.tensor.shape import Shape
from ckpttool.tensor.values import Array

# How many elements are shown of a tensor before the middle of it is left out, as in NumPy.
TEXT_LIMIT = 1000
# The same for JSON, where such a tensor has no value at all.
JSON_LIMIT = 10_000
# Up to so many bytes are read before the first answer is given.
_AT_ONCE = 1 << 28
_CORNERS = ((3, 3), (2, 2), (1, 1), (1, 0))


class Values:
    """The elements of a tensor that are shown: all of them, or its corners.

    Args:
        dtype: what they are.
        shape: of what is shown.
        gaps: for each axis, how many elements stand before those that are left out; None where
            none are.
        blocks: gives the elements in C order, as often as it is called.

    Attributes:
        dtype: what they are.
        shape: of what is shown.
        gaps: where elements are left out.
    """

    def __init__(
        self,
        dtype: DType,
        shape: Shape,
        gaps: tuple[int | None, ...],
        blocks: Callable[[], Iterable[Array]],
    ) -> None:
        self.dtype = dtype
        self.shape = shape
        self.gaps = gaps
        self._blocks = blocks

    @property
    def complete(self) -> bool:
        """Whether nothing is left out."""
        return not any(gap is not None for gap in self.gaps)

    def texts(self, *, precision: int | None = None) -> Iterator[str]:
        """Yield the elements as texts of equal width; see `query.texts`.

        Strings of a tensor that is cut are cut too.
        """
        formatter = Formatter(self.dtype, self._blocks, precision=precision)
        for block in self._blocks():
            yield from formatter.texts(block)

    def nested(self) -> object:
        """Return the elements as nested lists."""
        whole = np.concatenate([block.reshape(-1) for block in self._blocks()])
        return nested(whole.reshape(self.shape))
