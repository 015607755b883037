"""Kinds of the tensors of a name-based checkpoint, from their names and from the MetaGraph.

TensorFlow 1 names a slot variable after its variable and its optimizer: `dense/kernel/Adam` and
`dense/kernel/Adam_1`, under the scope of the optimizer, if any. A name counts as that of a slot
only if its variable is in the checkpoint too, so that a layer called "Adam" stays a layer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import TYPE_CHECKING, Literal

from ckpttool.checkpoint.kinds.averages import averaged_name
from ckpttool.checkpoint.kinds.keras import KerasNames
from ckpttool.checkpoint.kinds.optimizers import (
    AVERAGE_SLOTS,
    AVERAGED,
    AVERAGES,
    COUNTERS,
    DEBIAS,
    FACTORS,
    ITERATOR,
    KERAS_NUMBERED,
    KERAS_SLOTS,
    MESH_SLOT,
    SLOTS,
    endings,
    in_replay_buffer,
    names_optimizer,
    without_number,
)
from ckpttool.checkpoint.kinds.rules import (
    FLOATS,
    INTEGERS,
    LEGACY_HYPER_PARAMETERS,
    ODD_DTYPES,
    Described,
    Kind,
    averages,
    is_scalar,
    is_special,
    variable_kind,
)
from ckpttool.checkpoint.kinds.slots import OF_TWO_SLOTS
from ckpttool.objects.keys import GRAPH_KEY

if TYPE_CHECKING:
    from ckpttool.metagraph.facts import MetaGraph

# The last segment of a name, by its spelling. TensorFlow 1 names a slot after the "optimizer".
_Leaf = Literal[
    "plain", "optimizer", "slot", "factor", "mesh slot", "average", "debias", "table", "numbered"
]

_EVIDENCE = LEGACY_HYPER_PARAMETERS | {
    *COUNTERS,
    *("amsgrad", "beta", "epsilon", "lr", "m_schedule", "momentum_cache", "learning_rate_power"),
    *("l1_regularization_strength", "l2_regularization_strength", "total", "count"),
}
# Collections of variables that are neither slots nor averages. ("moving_average_variables" lists
# averaged variables, which may be anything.)
_MODEL_COLLECTIONS = ("trainable_variables", "model_variables")


def kinds_from_names(entries: Mapping[str, Described]) -> dict[str, Kind]:
    """Return the kind of each tensor of a name-based checkpoint, from its index alone."""
    return _NamedKinds(entries, None).kinds


def kinds_from_metagraph(entries: Mapping[str, Described], metagraph: MetaGraph) -> dict[str, Kind]:
    """Return the kind of each tensor of a name-based checkpoint that has a MetaGraph.

    A trained variable is no slot, whatever its name, and only trained variables have slots. The
    other inputs of an optimizer's operation are slots or, if scalar and in the place of a
    hyper-parameter, the optimizer's own.
    """
    names = {
        collection: frozenset(variable.full_name for variable in variables)
        for collection, variables in metagraph.variables.items()
    }
    found = _NamedKinds(entries, names.get(_MODEL_COLLECTIONS[0]))
    kinds = found.kinds
    kinds.update(_updated_kinds(entries, metagraph))
    none: frozenset[str] = frozenset()
    for collection in _MODEL_COLLECTIONS:
        for name in names.get(collection, none):
            if kinds.get(name) in ("slot", "ema") and name not in found.certain:
                kinds[name] = "weight"
    kinds.update(dict.fromkeys(names.get("metric_variables", none) & kinds.keys(), "other"))
    kinds.update(dict.fromkeys(names.get("global_step", none) & kinds.keys(), "step"))
    return kinds


def _updated_kinds(entries: Mapping[str, Described], metagraph: MetaGraph) -> dict[str, Kind]:
    """Return the kinds of the inputs of optimizers' operations."""
    # Parts of a partitioned variable have their own names, but one tensor in the checkpoint.
    keys = {
        variable.name.rpartition(":")[0]: variable.full_name
        for variables in metagraph.variables.values()
        for variable in variables
    }
    kinds: dict[str, Kind] = {}
    for update in metagraph.updates:
        for name in update.parameters:
            key = keys.get(name, name)
            if is_scalar(entries.get(key), FLOATS):
                kinds[key] = "optimizer"
        kinds.update((keys.get(name, name), "slot") for name in update.slots)
    # An updated variable is a weight, even if another update takes it as a parameter.
    kinds.update((keys.get(each.variable, each.variable), "weight") for each in metagraph.updates)
    return {key: kind for key, kind in kinds.items() if key in entries}


class _NamedKinds:
    """The tensors sorted by their names.

    Attributes:
        kinds: of all tensors, in order.
        certain: slots for sure, although Keras of TensorFlow 1 lists them as trained.

    Args:
        entries: the tensors.
        trained: the variables that can have slots; by default all.
    """

    def __init__(self, entries: Mapping[str, Described], trained: Set[str] | None) -> None:
        self.kinds: dict[str, Kind] = dict.fromkeys(entries, "weight")
        self._entries = entries
        self._bases: Set[str] = self._entries.keys() if trained is None else trained
        self.certain: set[str] = set()
        self._keras = KerasNames(self._entries)
        self._optimizers: dict[str, bool] = {}
        # Possible names of a Keras optimizer's variables.
        candidates: list[str] = []
        # By scope, its tensors whose names tell the role of the scope.
        evidence: dict[str, dict[str, Described]] = {}
        # By last segment, the names that continue the name of another tensor.
        nested: dict[str, list[str]] = {}
        leaves: dict[str, tuple[_Leaf, str, bool]] = {}
        bases, optimizers = self._bases, self._optimizers
        for name, entry in self._entries.items():
            scope, _, leaf = name.rpartition("/")
            known = leaves.get(leaf)
            if known is None:
                known = leaves[leaf] = (*_read_leaf(leaf), _tells_something(leaf))
            what, bare, telling = known
            if telling and leaf in _EVIDENCE:
                evidence.setdefault(scope, {})[leaf] = entry
            head = name.partition("/")[0]
            known_head = optimizers.get(head)
            if known_head is None:
                known_head = self._is_optimizer(head)
            # Keras 3 puts the scope of the optimizer last, and several words after it.
            if known_head or ("_" in leaf and self._is_optimizer(scope.rpartition("/")[2])):
                candidates.append(name)
            # Fast path: nearly all names are plain.
            if what != "plain" or telling or entry.dtype.name in ODD_DTYPES or "eplay" in name:
                self.kinds[name] = kind = self._look_at(name, what, bare, entry)
                if what != "plain" or kind != "weight":
                    continue
            if scope in bases:
                nested.setdefault(leaf, []).append(name)
        if GRAPH_KEY in self.kinds:
            self.kinds[GRAPH_KEY] = "graph"
        if nested:
            self._sort_nested(nested, certain=trained is not None)
        self._sort_keras(dict.fromkeys([*candidates, *self._counted(evidence)]))
        for scope, found in evidence.items():
            self._sort_scope(scope, found)

    def _counted(self, scopes: Iterable[str]) -> Iterator[str]:
        """Yield the names in those scopes that are optimizers' by their counters."""
        own = {scope for scope in scopes if self._keras.has_counter(scope)}
        if "" in own:
            yield from (name for name in self._entries if name.partition("/")[0] in KERAS_SLOTS)
        if own - {""}:
            yield from (name for name in self._entries if name.rpartition("/")[0] in own)

    def _look_at(self, name: str, what: _Leaf, bare: str, entry: Described) -> Kind:
        """Return the kind by this name and those above it."""
        look = self._special if what != "plain" else self._plain
        kind = look(name, what, bare, entry)
        return "other" if kind == "weight" and in_replay_buffer(name) else kind

    def _plain(self, name: str, what: _Leaf, bare: str, entry: Described) -> Kind:
        kind = variable_kind(bare, entry)
        if entry.dtype.name == "variant" and ITERATOR.search(name):
            return "iterator"
        return kind

    def _special(self, name: str, what: _Leaf, bare: str, entry: Described) -> Kind:
        scope = name.rpartition("/")[0]
        if what == "average":
            if averaged_name(name, self._entries) is not None:
                return "ema"
        elif what == "table":
            stem, _, end = name.rpartition("-")
            if f"{stem}-{'values' if end == 'keys' else 'keys'}" in self._entries:
                return "table"
        elif what == "debias":
            if any(inner in self._entries for _, inner in endings(scope)):
                return "other"
        elif what == "mesh slot":
            base = name[: name.rindex("_slot_")]
            if base in self._bases and base in self._entries:
                return "slot"
        elif (what != "numbered" and self._has_base_above(scope, what, entry)) or (
            bare in OF_TWO_SLOTS and self._is_one_of_two(name)
        ):
            return "slot"
        elif what in ("slot", "numbered") and self._keras.is_numbered(name):
            self.certain.add(name)
            return "slot"
        return variable_kind(bare, entry)

    def _has_base(self, name: str, entry: Described) -> bool:
        return (
            name in self._bases
            and name in self._entries
            and (self._entries[name].shape == entry.shape)
        )

    def _has_base_above(self, scope: str, what: _Leaf, entry: Described) -> bool:
        """Tell whether `scope` is a fitting variable, perhaps after an optimizer's scope."""
        if scope in self._bases and scope in self._entries:
            return what in ("optimizer", "factor") or self._has_base(scope, entry)
        return any(
            self._has_base(inner, entry)
            for outer, inner in endings(scope)
            if what == "optimizer" or self._is_optimizer(outer.rpartition("/")[2])
        )

    def _is_one_of_two(self, name: str) -> bool:
        """Tell whether a slot "X_1" exists beside "X", for slots without their variables."""
        other = without_number(name)
        return (name if other != name else f"{name}_1") in self._entries and other in self._entries

    def _is_optimizer(self, segment: str) -> bool:
        known = self._optimizers.get(segment)
        if known is None:
            known = self._optimizers[segment] = names_optimizer(segment)
        return known

    def _sort_keras(self, names: Iterable[str]) -> None:
        """Find the slots of Keras optimizers, and their other variables."""
        scopes: set[str] = set()
        left = []
        for name in names:
            kept = self._keras.find(name)
            if kept is None:
                left.append(name)
            elif self.kinds[name] in ("weight", "ema") and kept.variable in self._bases:
                self.kinds[name] = "ema" if kept.slot in AVERAGE_SLOTS else "slot"
                scopes.update((kept.scope, kept.scope.rpartition("/")[0]))
        for name in left:
            if self.kinds[name] == "weight" and is_scalar(self._entries[name], FLOATS | INTEGERS):
                scope = name.rpartition("/")[0]
                if scope in scopes and self._is_optimizer(scope.rpartition("/")[2]):
                    self.kinds[name] = "optimizer"

    def _sort_nested(self, nested: Mapping[str, list[str]], *, certain: bool) -> None:
        """Find the slots of optimizers that are not known by name.

        All tensors with the last segment continue the name of a tensor of the same shape, both
        matrices and vectors: a mask, which only some layers have, is no slot. If it is certain
        which tensors have slots, all of them have one.
        """
        totals = Counter(name.rpartition("/")[2] for name in self._entries)
        trained = sum(name in self._entries for name in self._bases)
        for leaf, names in nested.items():
            like_base = [
                name
                for name in names
                if self._entries[name].shape
                and self._has_base(name.rpartition("/")[0], self._entries[name])
            ]
            ranks = {min(len(self._entries[name].shape), 2) for name in like_base}
            everywhere = len(like_base) == trained if certain else len(ranks) == 2
            if everywhere and 1 < len(like_base) == totals[leaf]:
                self.kinds.update(dict.fromkeys(like_base, "slot"))

    def _sort_scope(self, scope: str, found: Mapping[str, Described]) -> None:
        counted = any(is_scalar(found.get(name), INTEGERS) for name in COUNTERS)
        tuned = any(is_scalar(one, FLOATS) for one in found.values())
        if (counted and tuned) or self._is_optimizer(scope.rpartition("/")[2]):
            kind: Kind = "optimizer"
        elif averages(found.get("total"), found.get("count")):
            kind, found = "other", {name: found[name] for name in ("total", "count")}
        else:
            return
        for leaf, entry in found.items():
            name = f"{scope}/{leaf}" if scope else leaf
            if self.kinds.get(name) == "weight" and (kind == "other" or not entry.shape):
                self.kinds[name] = kind


def _tells_something(leaf: str) -> bool:
    """Tell whether a last segment tells more about the tensor than its dtype."""
    return leaf in _EVIDENCE or is_special(without_number(leaf))


def _read_leaf(leaf: str) -> tuple[_Leaf, str]:
    """Return the class of a last segment, and the segment without its number."""
    bare = without_number(leaf)
    what: _Leaf = "plain"
    if bare == AVERAGED or bare in AVERAGES:
        what = "average"
    elif bare in SLOTS:
        what = "slot"
    elif bare in FACTORS:
        what = "factor"
    elif bare in DEBIAS:
        what = "debias"
    elif leaf.endswith(("-keys", "-values")):
        what = "table"
    elif MESH_SLOT.fullmatch(leaf):
        what = "mesh slot"
    elif names_optimizer(bare):
        what = "optimizer"
    elif bare in KERAS_NUMBERED:
        what = "numbered"
    return what, bare
