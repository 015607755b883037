"""Which tensor of a name-based checkpoint takes which place of a reference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ckpttool.checkpoint.kinds.rules import INTEGERS, LEGACY_HYPER_PARAMETERS, is_scalar
from ckpttool.checkpoint.kinds.slots import MOMENTUM, slot_groups
from ckpttool.checkpoint.nearest import listed, nearest_names, quoted
from ckpttool.errors import KeyCollisionError, SelectionError
from ckpttool.objects.keys import VARIABLE_VALUE
from ckpttool.surgery.like.notes import SCALED_MOMENTUM
from ckpttool.surgery.like.places import COUNTERS, Place, Places
from ckpttool.surgery.plan import Plan, PlannedTensor, Reason

_STEP = "global_step"
# The powers of Adam's decay rates, which an optimizer of TensorFlow 1 keeps as variables.
_POWERS = ("beta1_power", "beta2_power")
_ITERATIONS = "iter"


class Matching:
    """Tensors and the places that they take; each step deals with what is left over.

    Args:
        plan: a name-based plan.
        places: the places of the reference.

    Attributes:
        placed: for each key of the plan that has a place, that place's key.
        reasons: what told it, by the key of the plan.
    """

    def __init__(self, plan: Plan, places: Places) -> None:
        self.placed: dict[str, str] = {}
        self.reasons: dict[str, Reason] = {}
        self._notes: list[str] = []
        self._plan = plan
        self._places = places
        self._tensors = {tensor.key: tensor for tensor in plan.tensors}
        self._takers: dict[str, str] = {}
        self._doubtful: list[str] = []
        # Tensors that a rule speaks of are not looked for under their own names.
        self._ruled: set[str] = set()
        self._later: dict[str, str] = {}

    @property
    def left(self) -> list[PlannedTensor]:
        """The tensors without a place."""
        return [tensor for key, tensor in self._tensors.items() if key not in self.placed]

    @property
    def free(self) -> list[Place]:
        """The places without a tensor."""
        return [place for key, place in self._places.by_key.items() if key not in self._takers]

    @property
    def notes(self) -> list[str]:
        """What the user should know of how tensors were placed."""
        doubtful = [key for key in self._doubtful if key not in self.placed]
        if not doubtful:
            return self._notes
        note = f"several optimizers of the reference could take {listed(doubtful)}; name one by a"
        return [f"{note} rule", *self._notes]

    def by_rules(self, rules: Mapping[str, str]) -> None:
        """Place what rules speak of.

        Args:
            rules: from a key, or a scope of keys, to a full name, an object path or a key of the
                reference, or to a scope of these. The rule with the longest key decides.

        Raises:
            SelectionError: a rule has nothing to place, or no place for it.
            KeyCollisionError: two tensors would take the same place.
            SurgeryError: the place is not certain.
        """
        used = set()
        for key in self._tensors:
            old = _longest(key, rules)
            if old is None:
                continue
            self._ruled.add(key)
            place = self._places.find(rules[old] + key[len(old) :])
            if place is None:
                continue
            used.add(old)
            if key != old and place.key in self._places.slot_keys:
                self._later[key] = place.key  # unless its variable tells better
            else:
                self._take(key, place.key, "rule")
        for old, new in rules.items():
            if old not in used:
                raise self._dead_rule(old, new)

    def by_names(self, *, slots: bool) -> None:
        """Place the tensors that are called as a variable of the reference.

        Args:
            slots: whether to place slot variables, or all else. A slot that was made when there
                was another of its name has another number, so its name alone may mislead.

        Raises:
            SurgeryError: several variables of the reference are called so.
        """
        for tensor in self.left:
            named = [
                place
                for place in self._places.by_name.get(tensor.key, [])
                if place.key not in self._takers and (place.key in self._places.slot_keys) == slots
            ]
            if tensor.key in self._ruled or not named:
                continue
            if len(named) > 1:
                raise self._places.ambiguous(tensor.key, named)
            self._take(tensor.key, named[0].key, "full name")
        for key, place_key in self._later.items() if slots else ():
            if key not in self.placed and place_key not in self._takers:
                self._take(key, place_key, "rule")

    def by_paths(self, *, slots: bool) -> None:
        """Place the tensors that are called by an object path, such as `flatten` gives some.

        A path is no more than a likeness where the tensor is of another kind, which has no place.

        Args:
            slots: as of `by_names`.
        """
        for tensor in self.left:
            if tensor.key in self._ruled or tensor.key in self._places.by_name:
                continue
            place = self._places.at_path(tensor.key)
            if place is None or place.key in self._takers:
                continue
            alike = (place.entry.dtype, place.entry.shape) == (tensor.dtype, tensor.shape)
            if alike and (place.key in self._places.slot_keys) == slots:
                self._take(tensor.key, place.key, "path")

    def by_slots(self) -> None:
        """Place slot variables beside the variables that they belong to."""
        scaled = False
        for group in slot_groups(tensor.key for tensor in self.left):
            variable = group.variable(self._is_variable)
            if variable is None:
                continue
            node_id = self._places.by_key[self.placed[variable]].node_id
            fitting = [
                slots
                for slots in self._places.slots_of(node_id)
                if not set(slots.families).isdisjoint(group.families)
            ]
            if len(fitting) > 1:
                self._doubtful += group.members.values()
                continue
            for position, key in group.members.items() if fitting else ():
                place = fitting[0].keys.get(position)
                if place is not None and place not in self._takers:
                    self._take(key, place, "slot")
                    scaled |= fitting[0].keras and group.numbered and MOMENTUM in group.families
        if scaled:
            self._notes.append(SCALED_MOMENTUM)

    def by_roles(self) -> None:
        """Place the step, and what else optimizers keep, where there is one place for it."""
        for power in _POWERS:
            found = self._places.below(frozenset({power}))
            self._pair(self._scalars(power), found, "hyper-parameter")
        self._place_hyper_parameters()
        step = [t for t in self._scalars(_STEP) if t.dtype.name in INTEGERS]
        for names in (frozenset({_STEP}), COUNTERS):
            if self._pair(step, self._places.below(names), "counter"):
                key = step[0].key
                self._notes.append(
                    f"the step '{key}' became '{self._places.short_name(self.placed[key])}'"
                )
                return

    def _place_hyper_parameters(self) -> None:
        """Place those of an optimizer of Keras that was saved by names."""
        scopes: dict[str, dict[str, PlannedTensor]] = {}
        for tensor in self.left:
            scope, _, leaf = tensor.key.rpartition("/")
            if not tensor.shape and (leaf == _ITERATIONS or leaf in LEGACY_HYPER_PARAMETERS):
                scopes.setdefault(scope, {})[leaf] = tensor
        found = [each for each in scopes.values() if _ITERATIONS in each and len(each) > 1]
        for leaf, tensor in found[0].items() if len(found) == 1 else ():
            reason: Reason = "counter" if leaf == _ITERATIONS else "hyper-parameter"
            self._pair([tensor], self._places.below(frozenset({leaf})), reason)

    def _scalars(self, name: str) -> list[PlannedTensor]:
        """Return the scalars without a place that are called so, in whatever scope."""
        return [
            tensor
            for tensor in self.left
            if tensor.key.rpartition("/")[2] == name
            and not tensor.shape
            and tensor.key not in self._ruled
        ]

    def _pair(self, tensors: list[PlannedTensor], places: Iterable[Place], reason: Reason) -> bool:
        """Place a tensor if it is the only one, and there is but one place that it fits."""
        free = [place for place in places if place.key not in self._takers]
        if len(tensors) != 1 or len(free) != 1:
            return False
        if not is_scalar(free[0].entry, frozenset({tensors[0].dtype.name})):
            return False
        self._take(tensors[0].key, free[0].key, reason)
        return True

    def _is_variable(self, name: str) -> bool:
        place = self.placed.get(name)
        return place is not None and self._places.by_key[place].attribute.name == VARIABLE_VALUE

    def _take(self, key: str, place: str, reason: Reason) -> None:
        other = self._takers.setdefault(place, key)
        if other != key:
            raise KeyCollisionError(
                f"'{other}' and '{key}' would both become '{self._places.short_name(place)}'",
                path=self._plan.source.prefix,
            )
        self.placed[key] = place
        self.reasons[key] = reason

    def _dead_rule(self, old: str, new: str) -> SelectionError:
        names = list(self._tensors)
        if any(name == old or name.startswith(old + "/") for name in names):
            names = [*self._places.by_name, *map(self._places.short_name, self._places.by_key)]
            what, word = f"the reference has no '{new}'", new
        else:
            what, word = "it matches nothing", old
        near = nearest_names(word, names)
        hint = f"; nearest: {quoted(near)}" if near else ""
        return SelectionError(f"the rule '{old}={new}': {what}{hint}")


def _longest(key: str, rules: Mapping[str, str]) -> str | None:
    """Return the rule for a key: its own, or the one for the longest scope that it is in."""
    while key not in rules:
        key, _, _ = key.rpartition("/")
        if not key:
            return None
    return key
