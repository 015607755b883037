"""Values in another layout, and the plan that a map makes of another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ckpttool.errors import SurgeryError
from ckpttool.surgery.maps.reading import map_tensors
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.renaming import refuse_collisions
from ckpttool.surgery.rules import RenameRule
from ckpttool.surgery.values import NewValue, StoredValue, ValueAction, ValueSource, value_of
from ckpttool.tensor.dtypes import DType
from ckpttool.tensor.layout import TensorLayout
from ckpttool.tensor.shape import Shape
from ckpttool.tensor.slices import Bounds

if TYPE_CHECKING:
    from ckpttool.tensor.values import Array


@dataclass(frozen=True, slots=True, eq=False)
class LaidOutValue:
    """A value with its dimensions permuted or reshaped.

    A large tensor of a checkpoint is taken in bounded memory; another large value is held.

    Attributes:
        value: its elements have a fixed size.
        layout: for the shape of the value.
    """

    value: NewValue
    layout: TensorLayout

    action: ValueAction = "layout"

    @property
    def dtype(self) -> DType:
        """Of its elements."""
        return self.value.dtype

    @property
    def shape(self) -> Shape:
        """Of the tensor in this layout."""
        return self.layout.result

    @property
    def sources(self) -> tuple[ValueSource, ...]:
        """Those of the value."""
        return self.value.sources

    def chunks(self) -> Iterator[memoryview | bytes]:
        """Yield the bytes in this layout.

        Raises:
            CkptError: the value is damaged or cannot be read.
        """
        from ckpttool.tensor.values import encode_array, joined_array  # they need NumPy

        value, size = self.value, self.dtype.size or 1
        if not isinstance(value, StoredValue):
            array = joined_array(self.dtype, value.shape, value.chunks())
            yield encode_array(self.dtype, self.layout.apply(array))[0]
            return
        reader, key = value.checkpoint.reader, value.tensor.source_key
        if not self.layout.fits(size):
            for _ in reader.chunks(key):
                pass  # boxes cross the stored order: the checksum is compared beforehand

        def box(bounds: Bounds) -> Array:
            part: Array = reader.read_region(key, tuple(slice(*each) for each in bounds))
            return part

        for block in self.layout.blocks(size, lambda: reader.read(key), box):
            yield encode_array(self.dtype, block)[0]


def with_layouts(plan: Plan, layouts: Mapping[str, TensorLayout]) -> Plan:
    """Return the plan with tensors in other layouts.

    Args:
        plan: a plan.
        layouts: by the keys in the source; each fits the shape of its tensor.
    """
    tensors = []
    for tensor in plan.tensors:
        layout = layouts.get(tensor.source_key)
        if layout is not None and layout.moves:
            value = LaidOutValue(value_of(plan.source, tensor), layout)
            tensor = replace(tensor, value=value)
        tensors.append(tensor)
    return replace(plan, tensors=tuple(tensors))


def apply_map(plan: Plan, rules: Sequence[RenameRule]) -> Plan:
    """Return a name-based plan with the names and layouts that a map gives its tensors.

    Args:
        plan: a plan; names of the map are those in its source.
        rules: as `read_map` returns them.

    Raises:
        SelectionError: a rule matches nothing, or a tensor has not the stated shape.
        KeyCollisionError: two tensors would get the same name.
        SurgeryError: the plan has an object graph, in which `rename` moves objects.
    """
    if plan.graph is not None:
        raise SurgeryError(
            "a map with layouts is for name-based checkpoints; this one has an object graph",
            path=plan.source.prefix,
        )
    found = map_tensors(plan.source, rules, [tensor.source_key for tensor in plan.tensors])
    layouts = {key: each.layout for key, each in found.items() if each.layout is not None}
    tensors = tuple(
        tensor.called(found[tensor.source_key].name) if tensor.source_key in found else tensor
        for tensor in plan.tensors
    )
    return with_layouts(refuse_collisions(replace(plan, tensors=tensors)), layouts)
