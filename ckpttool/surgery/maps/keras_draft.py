"""Drafting a map to a `.weights.h5` file of Keras: a dataset of a template for each tensor.

Keras calls the groups of a file by class and counts them. A layer of the checkpoint goes to the one
of the template that has the name that its author gave it, or to the only one with variables of such
shapes. If several have the same shapes, only their order tells them apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ckpttool.checkpoint.nearest import listed
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.errors import SelectionError
from ckpttool.interchange.keras_h5 import KerasLayer, KerasTemplate
from ckpttool.surgery.maps.torch_draft import LayerVariable, MapDraft, layer_variable
from ckpttool.tensor.shape import Shape

# The order in which a layer of Keras has its variables.
_ORDER = (
    *("kernel", "depthwise_kernel", "pointwise_kernel", "recurrent_kernel", "embeddings"),
    *("gamma", "beta", "bias", "moving_mean", "moving_variance", "mean", "variance", "count"),
)
_BY_NAME, _BY_SHAPES, _BY_ORDER = "by name", "by shapes", "by order"
_RANK = {name: rank for rank, name in enumerate(_ORDER)}

Signature = tuple[tuple[str, Shape], ...]


@dataclass(slots=True)
class _Layer:
    """The variables of a layer of the checkpoint.

    Attributes:
        place: sorts layers in the order of the object graph.
        variables: each with its dtype.
    """

    place: tuple[object, ...]
    variables: list[tuple[LayerVariable, str]] = field(default_factory=list)

    @property
    def signature(self) -> Signature:
        return tuple(sorted((dtype, each.shape) for each, dtype in self.variables))

    @property
    def labels(self) -> set[str]:
        """What its author may have called it."""
        scopes = (name.rpartition("/")[0] for each, _ in self.variables for name in each.names)
        return {scope.rpartition("/")[2].lstrip("_") for scope in scopes}

    @property
    def attributes(self) -> set[str]:
        """The names of attributes on the way to it."""
        paths = (path for each, _ in self.variables for path in each.paths)
        return {part.lstrip("_") for path in paths for part in path.split("/")[:-1]}


class _Pair(NamedTuple):
    ours: _Layer
    theirs: KerasLayer
    rule: str


def draft_for_keras(
    ckpt: Checkpoint, keys: Iterable[str], template: KerasTemplate, *, accept_order: bool
) -> MapDraft:
    """Draft a map from tensors to the datasets of a template.

    Args:
        ckpt: the checkpoint.
        keys: of the tensors.
        template: what the program expects.
        accept_order: whether layers of the same shapes may be paired by their order.

    Raises:
        SelectionError: layers have no counterpart, or only their order tells them apart.
    """
    ours = _layers(ckpt, keys)
    pairs, doubtful = _pair(ours, template)
    lines: list[dict[str, object]] = []
    unsure: list[str] = []
    for pair in sorted([*pairs, *doubtful], key=lambda each: each.theirs.path):
        for variable, path, rule in _variables(pair):
            lines.append(
                {"from": variable.name, "to": path, "shape": list(variable.shape), "rule": rule}
            )
            if rule == _BY_ORDER:
                unsure.append(f"'{variable.name}' → '{path}'")
    if unsure and not accept_order:
        raise SelectionError(
            f"only their order tells which is which: {', '.join(unsure)}; --accept-order takes "
            "that, or --map says it",
            path=template.path,
        )
    return MapDraft(tuple(lines), (), table="keras")


def require_filled(template: KerasTemplate, names: Iterable[str]) -> None:
    """Check that every dataset of a template gets a tensor.

    Raises:
        SelectionError: some get none.
    """
    paths = [each.path for layer in template.layers for each in layer.variables]
    given = set(names)
    empty = [path for path in paths if path not in given]
    if empty:
        raise SelectionError(f"no tensors for {listed(empty)}", path=template.path)


def _pair(ours: Sequence[_Layer], template: KerasTemplate) -> tuple[list[_Pair], list[_Pair]]:
    """Return the certain pairs of layers, and those by order."""
    left, open_layers = list(ours), list(template.layers)
    pairs: list[_Pair] = []
    for theirs in template.layers:
        label = _label(theirs)
        same = [each for each in open_layers if label is not None and _label(each) == label]
        found = [each for each in left if label in each.labels]
        if len(found) == len(same) == 1 and found[0].signature == _signature(theirs):
            pairs.append(_Pair(found[0], theirs, _BY_NAME))
            left.remove(found[0])
            open_layers.remove(theirs)
    doubtful: list[_Pair] = []
    for signature in sorted({_signature(each) for each in open_layers}):
        of_ours = [each for each in left if each.signature == signature]
        of_theirs = [each for each in open_layers if _signature(each) == signature]
        if len(of_ours) != len(of_theirs):
            continue
        for one, other in _by_attributes(of_ours, of_theirs):
            pairs.append(_Pair(one, other, _BY_NAME))
            of_ours.remove(one)
            of_theirs.remove(other)
        to, rule = (pairs, _BY_SHAPES) if len(of_ours) == 1 else (doubtful, _BY_ORDER)
        of_ours.sort(key=lambda each: each.place)
        to += [_Pair(a, b, rule) for a, b in zip(of_ours, of_theirs, strict=True)]
        left = [each for each in left if each.signature != signature]
        open_layers = [each for each in open_layers if _signature(each) != signature]
    if left or open_layers:
        alone = listed(each.name for layer in left for each, _ in layer.variables)
        empty = listed(each.path for layer in open_layers for each in layer.variables)
        told = [f"nothing in it for {alone}"] if left else []
        told += [f"no tensors for {empty}"] if open_layers else []
        raise SelectionError(
            f"{'; '.join(told)}: no layer has variables of these shapes, or not as many; "
            "--map says what goes where",
            path=template.path,
        )
    return pairs, doubtful


def _by_attributes(
    ours: Sequence[_Layer], theirs: Sequence[KerasLayer]
) -> list[tuple[_Layer, KerasLayer]]:
    """Pair layers of the same shapes by names of attributes on the way to them, as far as unique.

    The way to the layers of a bidirectional one, such as `forward_layer`, tells them apart.
    """
    ways = [_attributes(each) for each in theirs]
    common = frozenset.intersection(*ways)
    pairs = []
    for layer, way in zip(theirs, ways, strict=True):
        wanted = way - common
        found = [each for each in ours if wanted <= each.attributes]
        if wanted and len(found) == 1 and sum(other >= wanted for other in ways) == 1:
            pairs.append((found[0], layer))
    # One of ours may seem to be several of theirs.
    once = Counter(id(each) for each, _ in pairs)
    return [pair for pair in pairs if once[id(pair[0])] == 1]


def _attributes(layer: KerasLayer) -> frozenset[str]:
    """Return the parts of the path of a group that are no names of classes."""
    parts = layer.path.split("/")
    named = zip(("", *parts), parts, strict=False)
    return frozenset(part.lstrip("_") for above, part in named if "layers" not in (above, part))


def _variables(pair: _Pair) -> list[tuple[LayerVariable, str, str]]:
    """Return each variable of a layer, with its dataset and the rule."""
    theirs = pair.theirs.variables
    known = all(each.leaf in _RANK for each, _ in pair.ours.variables)
    ours = pair.ours.variables
    if known:
        ours = sorted(ours, key=lambda each: _RANK[each[0].leaf])
    shapes = [(dtype, each.shape) for each, dtype in ours]
    expected = [(each.dtype, each.shape) for each in theirs]
    if shapes == expected and (known or len(set(shapes)) == len(shapes)):
        return [(a, b.path, pair.rule) for (a, _), b in zip(ours, theirs, strict=True)]
    out = []
    rule = pair.rule if len(set(shapes)) == len(shapes) else _BY_ORDER
    rest = list(ours)
    for each in theirs:
        found = next(one for one in rest if (one[1], one[0].shape) == (each.dtype, each.shape))
        rest.remove(found)
        out.append((found[0], each.path, rule))
    return out


def _layers(ckpt: Checkpoint, keys: Iterable[str]) -> list[_Layer]:
    layers: dict[tuple[object, ...], _Layer] = {}
    for key in keys:
        variable = layer_variable(ckpt, key)
        if any("seed_generator" in name for name in variable.names):
            continue  # the template's go into the file
        place: tuple[object, ...] = (variable.scope.count("/"), variable.scope)
        if variable.holders:
            place = (-1, variable.holders[0])
        layer = layers.setdefault(place, _Layer(place))
        layer.variables.append((variable, ckpt.entries[key].dtype.name))
    return list(layers.values())


def _signature(layer: KerasLayer) -> Signature:
    return tuple(sorted((each.dtype, each.shape) for each in layer.variables))


def _label(layer: KerasLayer) -> str | None:
    """Return what its author called a layer: its attribute, or its name; None if Keras named it."""
    above, _, last = layer.path.rpartition("/")
    if layer.name is None or _stem(layer.name) == _stem(last):
        return None
    return layer.name if above.rpartition("/")[2] == "layers" else last.lstrip("_")


def _stem(name: str) -> str:
    stem, _, number = name.rpartition("_")
    return stem if stem and number.isdigit() else name
