"""What the objects of a program take from a checkpoint: which tensors, and whether they fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ckpttool.errors import MismatchError, MissingKeyError
from ckpttool.objects.keys import ATTRIBUTES, VARIABLE_VALUE, escape
from ckpttool.train.carried import Carried
from ckpttool.train.trackable import Trackable, ValueSpec

if TYPE_CHECKING:
    from ckpttool.tensor.dtypes import DType
    from ckpttool.tensor.shape import Shape
    from ckpttool.tensor.values import Array
    from ckpttool.train.loads import GraphLoad, NamedLoad

_SHOWN = 5


def _assign(found: Trackable, values: Mapping[str, Array]) -> None:
    found._trackable_assign(values)


class Taking(NamedTuple):
    """What an object takes: names of its values and the keys of their tensors.

    Attributes:
        load: the load that gives them.
        node_id: of the object; -1 if it is restored by name.
        found: the object; None for a slot variable that is still to be made.
        values: what it takes under each name; what is not here may be anything.
        keys: the key for each name.
        give: gives values by name to the object.
    """

    load: GraphLoad | NamedLoad
    node_id: int
    found: Trackable | None
    values: Mapping[str, ValueSpec]
    keys: Mapping[str, str]
    give: Callable[[Trackable, Mapping[str, Array]], None] = _assign


def taking_of(load: GraphLoad, node_id: int, found: Trackable) -> Taking | None:
    """Return what an object takes from a node; None if that has values and it takes none.

    Raises:
        MissingKeyError: one of its values is not in the checkpoint.
    """
    if isinstance(found, Carried):
        return carrying(load, node_id, found)
    columns = load.graph.columns
    places = columns.attributes_of(node_id)
    if not places:
        return Taking(load, node_id, found, {}, {})
    values = found._trackable_values()
    if not values:
        return None
    first = columns.keys[places.start]
    if found._trackable_any_name:
        keys = dict.fromkeys(values, first)
    elif len(values) == len(places) == 1 and columns.attribute_names[places.start] in values:
        keys = {columns.attribute_names[places.start]: first}
    else:
        return Taking(load, node_id, found, values, _keys(load, node_id, values))
    if first not in load.source.entries:
        raise _missing(load, node_id, first)
    return Taking(load, node_id, found, values, keys)


def taking_of_slot(load: GraphLoad, node_id: int) -> Taking:
    """Return what a slot variable takes that is still to be made, of whatever dtype and shape.

    Raises:
        MissingKeyError: its value is not in the checkpoint.
    """
    key = load.graph.columns.keys[load.graph.columns.attributes_of(node_id).start]
    if key not in load.source.entries:
        raise _missing(load, node_id, key)
    values = {VARIABLE_VALUE: ValueSpec(*load.source.reader.dtype_and_shape(key))}
    return Taking(load, node_id, None, values, {VARIABLE_VALUE: key})


def carrying(load: GraphLoad, node_id: int, found: Carried | None) -> Taking:
    """Return what a carried object takes: all that the node has."""
    node, path = load.graph.nodes[node_id], load.path(node_id)
    owned = load.owned.get(node_id, {})

    def give(found: Trackable, values: Mapping[str, Array]) -> None:
        assert isinstance(found, Carried)
        tensors = {
            one.name: [
                (key.removeprefix(one.checkpoint_key), values[key])
                for key in owned.get(one.name, ())
            ]
            for one in node.attributes
        }
        found.carry(node, path, tensors)

    keys = {key: key for named in owned.values() for key in named}
    return Taking(load, node_id, found, {}, keys, give)


def _keys(load: GraphLoad, node_id: int, values: Mapping[str, ValueSpec]) -> dict[str, str]:
    entries, columns = load.source.entries, load.graph.columns
    places = columns.attributes_of(node_id)
    base = columns.keys[places.start].partition(ATTRIBUTES)[0] + ATTRIBUTES
    stored = {columns.attribute_names[at]: columns.keys[at] for at in places}
    keys = {}
    for name in values:
        # TensorFlow escapes the names of tensor dicts once more in keys, and cannot find them.
        spellings = (stored.get(name, ""), base + escape(name), base + name)
        key = next((key for key in spellings if key in entries), None)
        if key is None:
            raise _missing(load, node_id, base + escape(name))
        keys[name] = key
    return keys


def _missing(load: GraphLoad, node_id: int, key: str) -> MissingKeyError:
    return MissingKeyError(
        f"the program's object '{load.path(node_id)}' takes this tensor, and it is not in the "
        "checkpoint; 'ckpt show' shows what the object saved; nothing was restored",
        path=load.source.prefix,
        key=key,
    )


def check_takings(takings: Sequence[Taking]) -> None:
    """Compare dtypes and shapes.

    Raises:
        MismatchError: some are not those of the program.
    """
    mismatches: list[dict[str, object]] = []
    place = ""
    for taking in takings:
        describe = taking.load.source.reader.dtype_and_shape
        for name, key in taking.keys.items():
            dtype, shape = describe(key)
            spec = taking.values.get(name)
            if spec is not None and not spec.fits(dtype, shape):
                place = taking.load.source.prefix
                mismatches.append(_mismatch(_path(taking, key), key, dtype, shape, spec))
    if mismatches:
        told = "; ".join(
            f"'{one['path']}' is {one['dtype']} {one['shape']} in the checkpoint, "
            f"{one['target_dtype']} {one['target_shape']} in the program"
            for one in mismatches[:_SHOWN]
        )
        more = f"; and {len(mismatches) - _SHOWN} more" if len(mismatches) > _SHOWN else ""
        error = MismatchError(
            f"{told}{more}; change the program, or rename or drop these tensors with "
            "'ckpt rename' or 'ckpt prune'; nothing was restored",
            path=place,
            key=str(mismatches[0]["key"]) if len(mismatches) == 1 else None,
        )
        error.mismatches = mismatches
        raise error


def _path(taking: Taking, key: str) -> str:
    graph = getattr(taking.load, "graph", None)
    return key if graph is None else graph.path(taking.node_id) or ""


def _mismatch(
    path: str, key: str, dtype: DType, shape: Shape, spec: ValueSpec
) -> dict[str, object]:
    return {
        "path": path,
        "key": key,
        "dtype": dtype.name,
        "shape": list(shape),
        "target_dtype": spec.dtype.name,
        "target_shape": None if spec.shape is None else list(spec.shape),
    }
