"""Kinds of the tensors of an object-based checkpoint, from the spelling of keys or from the graph.

Both ways use the same rules. Keys show only the shortest path of each object; the graph shows all
paths, and so may tell more than weight or slot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal

from ckpttool.checkpoint.kinds.averages import AVERAGES_LIST, WEIGHTS_LIST, named_averages
from ckpttool.checkpoint.kinds.names import kinds_from_names
from ckpttool.checkpoint.kinds.optimizers import AVERAGE_SLOTS, in_replay_buffer
from ckpttool.checkpoint.kinds.rules import (
    FLOATS,
    INTEGERS,
    LEGACY_HYPER_PARAMETERS,
    ODD_DTYPES,
    RANDOM_STATES,
    Described,
    Kind,
    averages,
    is_scalar,
    is_special,
    variable_kind,
)
from ckpttool.objects.keys import (
    ATTRIBUTES,
    OPTIMIZER_SLOT,
    VARIABLE_VALUE,
    escape,
)

if TYPE_CHECKING:
    from ckpttool.objects.graph import ObjectGraph

_VALUE = ATTRIBUTES + VARIABLE_VALUE
_PATH_END = -len(_VALUE)
_SLOT = f"/{OPTIMIZER_SLOT}/"
_METRICS = "keras_api/metrics/"
# Names of variables that together tell the role of their scope.
_EVIDENCE = LEGACY_HYPER_PARAMETERS | {
    "_iterations",
    "iter",
    "beta1_power",
    "beta2_power",
    "current_loss_scale",
    "_current_loss_scale",
    "total",
    "count",
}
# The role of a scope: part of a model or anything else; an optimizer of today's Keras; any other
# optimizer; lists in the former of slots, of averages, of the model's own weights; a metric.
_Role = Literal["plain", "keras", "optimizer", "slots", "averages", "weights", "metric", "mean"]
# The lists of an optimizer of today's Keras. All slots are in the first, except Adafactor's
# placeholders; the others matter for graphs of other writers.
_LISTS: dict[str, _Role] = {
    **dict.fromkeys(("_variables", "_momentums", "_velocities"), "slots"),
    **dict.fromkeys(("_m", "_v", "_u", "_r", "_c"), "slots"),
    WEIGHTS_LIST: "weights",
    AVERAGES_LIST: "averages",
}


def kinds_from_keys(entries: Mapping[str, Described]) -> dict[str, Kind]:
    """Return the kind of each tensor of an object-based checkpoint, from its index alone."""
    return _KeyedKinds(entries).classify()


def kinds_from_graph(entries: Mapping[str, Described], graph: ObjectGraph) -> dict[str, Kind]:
    """Return the kind of each tensor of an object-based checkpoint, from its object graph.

    Raises:
        CorruptError: the paths of the graph are too long for those of a program's objects.
    """
    found = _KeyedKinds(entries)
    columns, paths = graph.columns, graph.paths
    held = {
        columns.holder(at): (key, columns.full_names[at])
        for key, at in graph.claims(entries.keys()).at.items()
        if columns.attribute_names[at] == VARIABLE_VALUE
    }
    _note_graph(found, graph, entries, {node_id: key for node_id, (key, _) in held.items()})
    kinds = found.classify()
    slots = dict(zip(columns.slot_nodes, columns.slot_names, strict=True))
    averages = named_averages(graph, entries)
    for node_id, (key, full_name) in held.items():
        if node_id in slots:
            kinds[key] = _slot_kind(slots[node_id])
        elif kinds[key] in ("weight", "slot"):
            ways = (
                found.kind_at(paths[parent] or "", escape(name), entries[key])
                for parent, name in graph.parents(node_id)
            )
            kinds[key] = (
                "ema" if key in averages else _stronger(kinds[key], ways, full_name, entries[key])
            )
    return kinds


def _note_graph(
    found: _KeyedKinds,
    graph: ObjectGraph,
    entries: Mapping[str, Described],
    keys: Mapping[int, str],
) -> None:
    """Add the optimizers and the evidence that only the graph shows."""
    columns, paths = graph.columns, graph.paths
    found.optimizers.update(filter(None, map(paths.__getitem__, columns.optimizers)))
    for at, name in enumerate(columns.edge_names):
        if name in _EVIDENCE:
            key, path = keys.get(columns.edge_targets[at]), paths[columns.source(at)]
            if key is not None and path is not None:
                found.evidence.setdefault(path, {})[name] = entries[key]


def _stronger(kind: Kind, ways: Iterable[Kind], full_name: str, entry: Described) -> Kind:
    """Return the kind by all paths of a variable and its full name in the program."""
    others = set(ways)
    if "ema" in others:
        return "ema"
    if kind == "weight":
        if in_replay_buffer(full_name):
            return "other"
        if full_name.rpartition("/")[2] in RANDOM_STATES:
            return variable_kind(full_name.rpartition("/")[2], entry)
        for other in ("slot", "optimizer", "step", "other"):
            if other in others:
                return other
    return kind


def _slot_kind(slot_name: str) -> Kind:
    return "ema" if slot_name in AVERAGE_SLOTS else "slot"


class _KeyedKinds:
    """The tensors sorted by the spelling of their keys.

    Attributes:
        kinds: of all tensors, in order, by each one's own key.
        evidence: for each scope, its variables whose names tell its role.
        optimizers: the paths of optimizers that slot variables name.
    """

    def __init__(self, entries: Mapping[str, Described]) -> None:
        self.kinds: dict[str, Kind] = {}
        self.evidence: dict[str, dict[str, Described]] = {}
        self.optimizers: set[str] = set()
        self._entries = entries
        self._members: dict[str, list[str]] = {}
        self._roles: dict[str, _Role] = {}
        named: dict[str, Described] = {}
        for key, entry in entries.items():
            if not key.endswith(_VALUE):
                _, found, attribute = key.partition(ATTRIBUTES)
                self.kinds[key] = _attribute_kind(attribute, entry)
                if not found:
                    named[key] = entry
                continue
            path = key[:_PATH_END]
            if _SLOT in path:
                optimizer, _, name = path.partition(_SLOT)[2].rpartition("/")
                self.optimizers.add(optimizer)
                self.kinds[key] = _slot_kind(name)
                continue
            scope, _, leaf = path.rpartition("/")
            if is_special(leaf) or entry.dtype.name in ODD_DTYPES:
                self.kinds[key] = variable_kind(leaf, entry)
            elif in_replay_buffer(path):
                self.kinds[key] = "other"
            else:
                self.kinds[key] = "weight"
            if leaf in _EVIDENCE:
                self.evidence.setdefault(scope, {})[leaf] = entry
            members = self._members.get(scope)
            if members is None:
                self._members[scope] = [key]
            else:
                members.append(key)
        # The graph's own key, and tensors of registered savers or of no object, are plain names.
        self.kinds.update(kinds_from_names(named))

    def classify(self) -> dict[str, Kind]:
        """Return the kinds of all tensors, by all evidence collected so far."""
        self._roles.clear()
        for scope, members in self._members.items():
            if self._role(scope) != "plain":
                for key in members:
                    leaf = key[len(scope) + 1 if scope else 0 : _PATH_END]
                    self.kinds[key] = self.kind_at(scope, leaf, self._entries[key])
        return self.kinds

    def _role(self, scope: str) -> _Role:
        role = self._roles.get(scope)
        if role is None:
            role = self._roles[scope] = self._find_role(scope)
        return role

    def kind_at(self, scope: str, leaf: str, entry: Described) -> Kind:
        """Return the kind of a variable by one of its paths."""
        role = self._role(scope)
        if role == "plain":
            return variable_kind(leaf, entry)
        if role == "weights":
            return "weight"
        if role == "averages":
            return "ema"
        if role == "slots":
            counter = leaf == "0" and is_scalar(entry, INTEGERS) and scope.endswith("_variables")
            return "optimizer" if counter else "slot"
        kind = variable_kind(leaf, entry)
        if role == "metric" or (role == "mean" and leaf in ("total", "count")):
            return "other"
        # An optimizer's counter is its own, unless others use it too.
        shared = not scope or leaf == "global_step"
        if role == "mean" or (kind == "step" and shared):
            return kind
        if not entry.shape and entry.dtype.name != "string":
            return "optimizer"
        return "slot" if role == "keras" and kind == "weight" else kind

    def _find_role(self, scope: str) -> _Role:
        if scope.startswith(_METRICS) or f"/{_METRICS}" in scope:
            return "metric"
        found = self.evidence.get(scope)
        if found:
            role = _role_by_evidence(found)
            if role:
                return role
        if scope in self.optimizers:
            return "optimizer"
        owner, _, name = scope.rpartition("/")
        role = _LISTS.get(name)
        if role and is_scalar(self.evidence.get(owner, {}).get("_iterations"), INTEGERS):
            return role
        return "plain"


def _role_by_evidence(found: Mapping[str, Described]) -> _Role | None:
    if is_scalar(found.get("_iterations"), INTEGERS):
        return "keras"
    if is_scalar(found.get("iter"), INTEGERS) and any(
        is_scalar(found.get(name), FLOATS) for name in LEGACY_HYPER_PARAMETERS
    ):
        return "optimizer"
    telling = ("beta1_power", "beta2_power", "current_loss_scale", "_current_loss_scale")
    if any(is_scalar(found.get(name), FLOATS) for name in telling):
        return "optimizer"
    return "mean" if averages(found.get("total"), found.get("count")) else None


def _attribute_kind(attribute: str, entry: Described) -> Kind:
    """Return the kind of an attribute that is no variable."""
    dtype = entry.dtype.name
    if attribute.endswith(("-keys", "-values")):
        return "table"
    if dtype == "variant":
        return "iterator"
    return "weight" if dtype in FLOATS and entry.shape else "other"
