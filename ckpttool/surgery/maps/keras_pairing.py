"""Pairing the variables of a reference with the datasets of a file of Keras.

A `.weights.h5` file is paired as `keras_draft` pairs an export with its template. The older `.h5`
files of tf_keras have the full names of variables: "dense/dense/kernel:0" is "dense/kernel" in the
group of the layer "dense".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ckpttool.checkpoint.nearest import listed
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.errors import SelectionError, SurgeryError
from ckpttool.interchange.keras_h5 import KerasTemplate, read_template
from ckpttool.surgery.maps.keras_draft import draft_for_keras
from ckpttool.surgery.maps.torch_draft import MapDraft, layer_variable
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.pruning import WEIGHT_KINDS

# In these groups a whole model of tf_keras has its parts.
_MODEL, _OPTIMIZER = "model_weights/", "optimizer_weights/"
_NUMBER = ":0"


def pair_with_keras(plan: Plan, reference: Checkpoint, *, accept_order: bool) -> MapDraft:
    """Return a map as `export` drafts it: from variables of the reference to datasets.

    Args:
        plan: for the tensors of the file, with the dtypes that they will have.
        reference: an object-based checkpoint.
        accept_order: whether layers of the same shapes may be paired by their order.

    Raises:
        SelectionError: something has no counterpart, or only their order tells layers apart.
        SurgeryError: the reference has no object graph, or no weights.
        CkptError: one of them cannot be read.
    """
    if reference.style != "object":
        raise SurgeryError("it is name-based: it has no objects", path=reference.prefix)
    kinds = reference.graph_kinds
    keys = [key for key in reference.entries if kinds[key] in WEIGHT_KINDS]
    if not keys:
        raise SurgeryError("it has no weights", path=reference.prefix)
    if any(tensor.source_key.endswith(_NUMBER) for tensor in plan.tensors):
        return _by_full_names(plan, reference, keys)
    template = _with_dtypes(read_template(plan.source.prefix), plan)
    return draft_for_keras(reference, keys, template, accept_order=accept_order)


def places_of(draft: MapDraft, reference: Checkpoint) -> Mapping[str, str]:
    """Return the key of the reference for each dataset of a draft."""
    return {rule.new: reference.resolve(rule.old) for rule in draft.rules}


def _with_dtypes(template: KerasTemplate, plan: Plan) -> KerasTemplate:
    """Return what a file has, with the dtypes that its tensors will have."""
    dtypes = {tensor.source_key: tensor.dtype.name for tensor in plan.tensors}
    layers = (
        replace(
            layer,
            variables=tuple(replace(each, dtype=dtypes[each.path]) for each in layer.variables),
        )
        for layer in template.layers
    )
    return replace(template, layers=tuple(layers))


def _by_full_names(plan: Plan, reference: Checkpoint, keys: Iterable[str]) -> MapDraft:
    """Pair by full names, all or none: of other programs they may mean other layers."""
    found: dict[str, list[str]] = {}
    for key in keys:
        found.setdefault(reference.variable_names.get(key, ""), []).append(key)
    lines: list[Mapping[str, object]] = []
    alone = []
    for tensor in plan.tensors:
        path = tensor.source_key
        if path.startswith(_OPTIMIZER):
            continue
        name = path.removeprefix(_MODEL).partition("/")[2].removesuffix(_NUMBER)
        named = found.pop(name, []) if name else []
        entry = reference.entries[named[0]] if len(named) == 1 else None
        if entry is None or (entry.dtype, entry.shape) != (tensor.dtype, tensor.shape):
            alone.append(path)
            continue
        lines.append(
            {
                "from": layer_variable(reference, named[0]).name,
                "to": path,
                "shape": list(tensor.shape),
                "rule": "by name",
            }
        )
    empty = [key for left in found.values() for key in left]
    told = [f"no variable has the name, dtype and shape of {listed(alone)}"] if alone else []
    if empty:
        names = listed(layer_variable(reference, key).name for key in empty)
        told.append(f"nothing in it for {names}")
    if told:
        problem = f"{'; '.join(told)}; --map says what goes where"
        raise SelectionError(problem, path=plan.source.prefix)
    return MapDraft(tuple(lines), (), table="keras")
