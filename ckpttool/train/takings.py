"""What the objects of a program take from a checkpoint: which tensors, and whether they fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ckpttool.checkpoint.fitting import ValueSpec, keys_taken, missing_key
from ckpttool.checkpoint.nearest import joined
from ckpttool.errors import MismatchError, MissingKeyError
from ckpttool.objects.keys import VARIABLE_VALUE
from ckpttool.train.carried import Carried
from ckpttool.train.trackable import Trackable

if TYPE_CHECKING:
    from ckpttool.tensor.dtypes import DType
    from ckpttool.tensor.shape import Shape
    from ckpttool.tensor.values import Array
    from ckpttool.train.loads import GraphLoad, NamedLoad


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
    if not load.graph.columns.attributes_of(node_id):
        return Taking(load, node_id, found, {}, {})
    values = found._trackable_values()
    try:
        keys = keys_taken(
            load.graph,
            load.source.entries,
            node_id,
            values,
            any_name=found._trackable_any_name,
        )
    except MissingKeyError as error:
        error.locate(path=load.source.prefix)
        raise
    return None if keys is None else Taking(load, node_id, found, values, keys)


def taking_of_slot(load: GraphLoad, node_id: int) -> Taking:
    """Return what a slot variable takes that is still to be made, of whatever dtype and shape.

    Raises:
        MissingKeyError: its value is not in the checkpoint.
    """
    key = load.graph.columns.keys[load.graph.columns.attributes_of(node_id).start]
    if key not in load.source.entries:
        raise missing_key(load.graph, node_id, key, path=load.source.prefix)
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
        told = [
            f"'{one['path']}' is {one['dtype']} {one['shape']} in the checkpoint, "
            f"{one['target_dtype']} {one['target_shape']} in the program"
            for one in mismatches
        ]
        error = MismatchError(
            f"{joined(told)}; change the program, or rename or drop these tensors with "
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
