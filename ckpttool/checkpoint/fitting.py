"""What an object of a program takes from a stored object graph, and whether it fits.

It takes the tensors that its own values name. The object may be alive, or a node of another graph
that stands for one.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ckpttool.errors import MissingKeyError
from ckpttool.objects.keys import ATTRIBUTES, escape

if TYPE_CHECKING:
    from ckpttool.objects.graph import ObjectGraph
    from ckpttool.tensor.dtypes import DType

OpenShape = tuple["int | None", ...]


@dataclass(frozen=True, slots=True)
class ValueSpec:
    """What an object takes under the name of an attribute.

    Attributes:
        dtype: exactly this one.
        shape: None in it stands for any length, None in its place for any shape.
    """

    dtype: DType
    shape: OpenShape | None

    def fits(self, dtype: DType, shape: tuple[int, ...]) -> bool:
        """Tell whether a tensor can be taken."""
        return dtype == self.dtype and (self.shape is None or shape_fits(self.shape, shape))


def shape_fits(wanted: OpenShape, shape: tuple[int, ...]) -> bool:
    """Tell whether a shape is one of those that a shape with open dimensions stands for."""
    return len(wanted) == len(shape) and all(
        want is None or want == have for want, have in zip(wanted, shape, strict=True)
    )


def keys_taken(
    graph: ObjectGraph,
    entries: Container[str],
    node_id: int,
    values: Mapping[str, ValueSpec],
    *,
    any_name: bool,
) -> dict[str, str] | None:
    """Return the keys of the tensors that an object takes from its node, by attribute.

    Args:
        graph: of the checkpoint.
        entries: the keys of its tensors.
        node_id: the node.
        values: what the object takes.
        any_name: whether it takes the first attribute, whatever its name.

    Returns:
        None if the node has values and the object takes none at all.

    Raises:
        MissingKeyError: one of its values is not in the checkpoint.
    """
    columns = graph.columns
    places = columns.attributes_of(node_id)
    if not places:
        return {}
    if not values:
        return None
    first = columns.keys[places.start]
    if any_name:
        keys = dict.fromkeys(values, first)
    elif len(values) == len(places) == 1 and columns.attribute_names[places.start] in values:
        keys = {columns.attribute_names[places.start]: first}
    else:
        return _keys_by_name(graph, entries, node_id, values)
    if first not in entries:
        raise missing_key(graph, node_id, first)
    return keys


def _keys_by_name(
    graph: ObjectGraph, entries: Container[str], node_id: int, values: Mapping[str, ValueSpec]
) -> dict[str, str]:
    columns = graph.columns
    places = columns.attributes_of(node_id)
    base = columns.keys[places.start].partition(ATTRIBUTES)[0] + ATTRIBUTES
    stored = {columns.attribute_names[at]: columns.keys[at] for at in places}
    keys = {}
    for name in values:
        # TensorFlow escapes the names of tensor dicts once more in keys, and cannot find them.
        spellings = (stored.get(name, ""), base + escape(name), base + name)
        key = next((key for key in spellings if key in entries), None)
        if key is None:
            raise missing_key(graph, node_id, base + escape(name))
        keys[name] = key
    return keys


def missing_key(
    graph: ObjectGraph, node_id: int, key: str, path: str | None = None
) -> MissingKeyError:
    """Return the error that an object takes a tensor and the checkpoint does not have it."""
    return MissingKeyError(
        f"the program's object '{graph.path(node_id)}' takes this tensor, and it is not in the "
        "checkpoint; 'ckpt show' shows what the object saved; nothing was restored",
        path=path,
        key=key,
    )
