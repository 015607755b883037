"""Which tensor of an object-based checkpoint takes which place of a reference.

What two programs have in common is told by several witnesses, the surest first: rules, the paths
that TensorFlow itself restores by, full names, and dtype and shape where nothing else fits. The
slots of optimizers follow their variables. Where path and name of a variable speak for different
places, or several places fit, it is refused and named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import starmap

from ckpttool.checkpoint.kinds.slots import MOMENTUM
from ckpttool.checkpoint.nearest import joined, listed, nearest_names, quoted
from ckpttool.errors import KeyCollisionError, SelectionError, SurgeryError
from ckpttool.surgery.like.naming import alike_but_for_numbers, name_stem, pairs_by_name
from ckpttool.surgery.like.notes import SCALED_MOMENTUM
from ckpttool.surgery.like.optimizers import AVERAGE, COUNTER, paired_states
from ckpttool.surgery.like.places import Place, Places
from ckpttool.surgery.like.sides import Held, MatchSide, bare
from ckpttool.surgery.plan import Plan, PlannedTensor, Reason

_SHOWN = 5
# Kinds of which shape alone may tell the place. Counters and metrics are alike everywhere.
_SHAPED = frozenset({"weight", "ema", "table"})
_BY_SHAPE: frozenset[Reason] = frozenset({"shape", "beside", "order"})
# What lies in a group of tensors that all fit each other: those without a place, and free places.
_Group = tuple[list[Held], list[Held]]


class ObjectMatching:
    """Tensors and the places that they take; each step deals with what is left over.

    Args:
        plan: an object-based plan.
        places: the places of the reference.

    Attributes:
        placed: for each key of the plan that has a place, that place's key.
        reasons: why, by the key of the plan.
        notes: what the user should know of how tensors were placed.

    Raises:
        TypeError: the plan is name-based.
    """

    def __init__(self, plan: Plan, places: Places) -> None:
        if plan.graph is None:
            raise TypeError("the plan is name-based")
        self.placed: dict[str, str] = {}
        self.reasons: dict[str, Reason] = {}
        self.notes: list[str] = []
        self._plan = plan
        self._places = places
        self._ours = MatchSide(
            plan.graph,
            {tensor.key: tensor for tensor in plan.tensors},
            {tensor.key: plan.kinds[tensor.source_key] for tensor in plan.tensors},
        )
        reference = places.reference
        self._theirs = MatchSide(places.graph, reference.entries, reference.graph_kinds)
        self._takers: dict[str, str] = {}
        # Objects of the reference by those of the source that they were paired with.
        self._nodes: dict[int, int] = {}
        self._ruled: set[str] = set()
        self._doubtful: dict[str, tuple[str, ...]] = {}
        self._agreed: dict[tuple[int, int], bool] = {}

    @property
    def left(self) -> list[PlannedTensor]:
        """The tensors without a place."""
        return [tensor for tensor in self._plan.tensors if tensor.key not in self.placed]

    @property
    def free(self) -> list[Place]:
        """The places without a tensor."""
        return [place for key, place in self._places.by_key.items() if key not in self._takers]

    def by_rules(self, rules: Mapping[str, str]) -> None:
        """Place what rules speak of.

        Args:
            rules: from a key, an object path or a full name, or a scope of these, to one of the
                reference. The rule with the longest name decides.

        Raises:
            SelectionError: a rule has nothing to place, or no place for it.
            KeyCollisionError: two tensors would take the same place.
        """
        for old in sorted(rules, key=lambda name: (-name.count("/"), name)):
            if not self._by_rule(old, rules[old]):
                raise self._dead_rule(old, rules[old])

    def by_paths(self) -> None:
        """Place what the same edges lead to in both programs, unless full names contradict.

        If no edge leads to a weight in both, one of them may have been saved without the object
        around it, as `model.save_weights` does.
        """
        self._walk(0, 0, "path")
        if not any(self._ours.held[key].kind in _SHAPED for key in self.placed):
            starts = [(0, child) for child in self._theirs.children(0).values() if child]
            starts += [(child, 0) for child in self._ours.children(0).values() if child]
            alike = [pair for pair in dict.fromkeys(starts) if self._any_alike(*pair)]
            if len(alike) == 1:
                self._nodes.pop(0, None)
                self._walk(*alike[0], "path")

    def by_names(self) -> None:
        """Place what has the same full name, or the same but for numbers that programs give."""
        ours = [key for key in self._ours.own if self._is_open(key)]
        theirs = [key for key in self._theirs.own if key not in self._takers]
        placed = []
        for pair in pairs_by_name(self._ours, ours, self._theirs, theirs):
            self._offer(pair.source, pair.reference, "full name" if pair.exact else "name")
            placed.append((pair.source, pair.reference))
        self._beside(placed)

    def by_shapes(self) -> None:
        """Place what only one place fits that is called alike, or at all, and what is beside it."""
        while True:
            placed = []
            for alike in (True, False):
                for ours, theirs in self._groups(alike=alike):
                    one, other = ours[0], theirs[0]
                    only = len(ours) == len(theirs) == 1
                    if only and (alike or one.entry.shape) and self._agree(one, other):
                        self._take(one, other, "shape")
                        placed.append((one.key, other.key))
            if not placed:
                return
            self._beside(placed)

    def by_order(self) -> None:
        """Place what several places fit in the order that both programs have it in."""
        for alike in (True, False):
            for ours, theirs in self._groups(alike=alike):
                places = self._theirs.in_order([each.key for each in theirs])
                turns = self._ours.in_order([each.key for each in ours])
                if places is not None and turns is not None and len(ours) == len(theirs):
                    ranked = zip(_ranked(ours, turns), _ranked(theirs, places), strict=True)
                    for one, other in ranked:
                        self._take(one, other, "order")

    def by_optimizers(self) -> None:
        """Place what optimizers keep: slots beside their variables, and the counters."""
        pairs, doubtful = paired_states(self._ours.optimizers, self._theirs.optimizers, self._nodes)
        for one, other in pairs:
            alike = one.may_be(other)
            scaled = (COUNTER in one.hypers) != (COUNTER in other.hypers)
            if scaled and alike and MOMENTUM in one.families and one.slots and other.slots:
                self.notes.append(SCALED_MOMENTUM)
            for (variable, name), key in one.slots.items():
                place = other.slots.get((self._nodes.get(variable, -1), name))
                if place is not None and (alike or name == AVERAGE):
                    self._offer(key, place, "slot")
            for name, key in one.hypers.items():
                place = other.hypers.get(name)
                if place is not None:
                    self._offer(key, place, "counter" if name == COUNTER else "hyper-parameter")
        left = [self._ours.name(key) for each in doubtful for key in each.slots.values()]
        if left:
            self.notes.append(
                f"several optimizers of the reference could take {listed(left)}; name one by a rule"
            )

    def refuse_doubt(self) -> None:
        """Refuse weights that several places fit, or that path and name give different places.

        Raises:
            SurgeryError: there are such.
        """
        told = [
            f"path and full name of '{self._ours.name(key)}' lead to different places: "
            f"{quoted(map(self._theirs.name, places))}"
            for key, places in self._doubtful.items()
        ]
        seen: set[str] = set()
        for alike in (True, False):
            for ours, theirs in self._groups(alike=alike):
                names = [self._ours.name(each.key) for each in ours if each.key not in seen]
                if names and (len(ours) > 1 or len(theirs) > 1):
                    seen.update(each.key for each in ours)
                    places = listed([self._theirs.name(each.key) for each in theirs])
                    told.append(
                        f"{listed(names)}, {ours[0].told}, could be {places} of the reference"
                    )
        told = told or self._too_little()
        if told:
            raise SurgeryError(
                f"{joined(told)}: give rules, or accept the order of both programs with --by-order",
                path=self._plan.source.prefix,
            )

    def _too_little(self) -> list[str]:
        """Return what is wrong if programs have nothing in common but some shapes."""
        firm = {why for key, why in self.reasons.items() if self._ours.held[key].kind in _SHAPED}
        shaped = [key for key, why in self.reasons.items() if why in _BY_SHAPE]
        left = [key for key in self._ours.own if self._is_open(key)]
        free = [key for key in self._theirs.own if key not in self._takers]
        some_left = any(self._ours.held[key].kind in _SHAPED for key in left)
        some_free = any(self._theirs.held[key].kind in _SHAPED for key in free)
        if not shaped or firm - _BY_SHAPE or not (some_left and some_free):
            return []
        names = listed([self._ours.name(key) for key in shaped])
        return [f"nothing but shape tells the place of {names}, and others have none"]

    def note_shapes(self) -> None:
        """Note what was placed by its shape alone."""
        pairs = [
            f"'{self._ours.name(key)}' became '{self._theirs.name(self.placed[key])}'"
            for key, why in self.reasons.items()
            if why == "shape"
        ]
        more = f" and {len(pairs) - _SHOWN} more" if len(pairs) > _SHOWN else ""
        if pairs:
            self.notes.append(f"nothing but shape told this: {', '.join(pairs[:_SHOWN])}{more}")

    def unlike(self) -> list[tuple[str, str]]:
        """Return tensors and places that belong together by path or name, but do not fit."""
        free = [self._theirs.held[key] for key in self._theirs.own if key not in self._takers]
        left = [self._ours.held[key] for key in self._ours.own if self._is_open(key)]
        by_node = {(each.node_id, each.part): each for each in free}
        by_name = _only(free, lambda held: held.full_name)
        by_stem, of_stem = _only(free, _stem), _only(left, _stem)
        found = []
        for one in left:
            there = by_node.get((self._nodes.get(one.node_id, -1), one.part))
            there = there or by_name.get(one.full_name)
            if there is None and of_stem.get(_stem(one)) is one:
                there = by_stem.get(_stem(one))
            if there is not None and there.part == one.part and not one.fits(there):
                found.append((one.key, there.key))
        return found

    def _is_open(self, key: str) -> bool:
        """Tell whether a tensor may be placed by something else than a rule."""
        return key not in self.placed and key not in self._ruled and key not in self._doubtful

    def _offer(self, key: str, place: str, reason: Reason) -> None:
        one, other = self._ours.held[key], self._theirs.held[place]
        if self._is_open(key) and place not in self._takers and one.fits(other):
            self._take(one, other, reason)

    def _take(self, one: Held, other: Held, reason: Reason) -> None:
        taker = self._takers.setdefault(other.key, one.key)
        if taker != one.key:
            raise KeyCollisionError(
                f"{quoted(map(self._ours.name, (taker, one.key)))} would both become "
                f"'{self._theirs.name(other.key)}'",
                path=self._plan.source.prefix,
            )
        self.placed[one.key] = other.key
        self.reasons[one.key] = reason
        self._nodes.setdefault(one.node_id, other.node_id)

    def _by_rule(self, old: str, new: str) -> bool:
        """Place what one rule speaks of; tell whether it speaks of anything."""
        one, other = self._ours.tensor_at(old), self._theirs.tensor_at(new)
        if one is not None and other is not None:
            if one.key not in self.placed:
                self._take(one, other, "rule")
                self._ruled.add(one.key)
            return True
        if one is not None or other is not None:
            return False
        ours, theirs = self._ours.graph.node_at(old), self._theirs.graph.node_at(new)
        before = len(self.placed)
        if ours is not None and theirs is not None:
            self._walk(ours, theirs, "rule")
            optimizers = self._ours.is_optimizers(ours) and self._theirs.is_optimizers(theirs)
            return optimizers or len(self.placed) > before
        scope = f"{old}/"
        for name, named in self._ours.by_full_name.items():
            there = (
                self._theirs.tensor_at(new + name[len(old) :]) if name.startswith(scope) else None
            )
            if there is not None and len(named) == 1 and named[0].key not in self.placed:
                self._take(named[0], there, "rule")
        return len(self.placed) > before

    def _walk(self, ours: int, theirs: int, reason: Reason) -> None:
        """Pair the objects below two as TensorFlow does, and place what they hold.

        What belongs to optimizers is not entered: a place in one of their lists is no path.
        """
        queue = [(ours, theirs)]
        taken = set(self._nodes.values())
        for one, other in queue:
            if one in self._nodes or other in taken:
                continue
            self._nodes[one] = other
            taken.add(other)
            self._meet(one, other, reason)
            if one and (self._ours.is_optimizers(one) or self._theirs.is_optimizers(other)):
                continue
            queue += self._same_edges(one, other)

    def _any_alike(self, ours: int, theirs: int) -> bool:
        """Tell whether the same edges lead from two objects to a weight that fits."""
        queue = [(ours, theirs)]
        seen = {ours}
        for one, other in queue:
            for held in self._ours.of_node(one):
                places = self._theirs.of_node(other)
                if held.kind in _SHAPED and any(map(held.fits, places)):
                    return True
            if not (self._ours.is_optimizers(one) or self._theirs.is_optimizers(other)):
                for child, target in self._same_edges(one, other):
                    if child not in seen:
                        seen.add(child)
                        queue.append((child, target))
        return False

    def _same_edges(self, one: int, other: int) -> Iterator[tuple[int, int]]:
        """Yield what edges of the same name lead to from two objects."""
        there = self._theirs.children(other)
        for name, child in self._ours.graph.columns.children(one):
            target = there.get(name, there.get(bare(name)))
            if target is not None:
                yield child, target

    def _meet(self, one: int, other: int, reason: Reason) -> None:
        """Place what an object holds in the one that it was paired with."""
        for held in self._ours.of_node(one):
            for place in self._theirs.of_node(other):
                free = self._is_open(held.key) and place.key not in self._takers
                if not free or not held.fits(place) or not self._are_own(held, place):
                    continue
                rivals = self._rivals(held, place) if reason != "rule" else ()
                if rivals:
                    self._doubtful[held.key] = tuple(dict.fromkeys((place.key, *rivals)))
                else:
                    self._take(held, place, reason)

    def _are_own(self, one: Held, other: Held) -> bool:
        return self._ours.is_own(one.key) and self._theirs.is_own(other.key)

    def _rivals(self, one: Held, other: Held) -> tuple[str, ...]:
        """Return the places that a full name speaks for, against a path."""
        if not (one.full_name and other.full_name) or alike_but_for_numbers(
            one.full_name, other.full_name
        ):
            return ()
        named = self._theirs.by_full_name.get(one.full_name, [])
        if len(named) == 1 and one.fits(named[0]):
            return (named[0].key,)
        owners = self._ours.by_full_name.get(other.full_name, [])
        return (other.key,) if len(owners) == 1 and owners[0].fits(other) else ()

    def _beside(self, placed: Iterable[tuple[str, str]]) -> None:
        """Place what is called alike in the objects that hold tensors placed before."""
        holders = {
            pair: None
            for key, place in placed
            for pair in self._holders(self._ours.held[key], self._theirs.held[place])
        }
        for ours, theirs in holders:
            for child, target in self._same_edges(ours, theirs):
                self._meet(child, target, "beside")

    def _holders(self, one: Held, other: Held) -> Iterator[tuple[int, int]]:
        """Yield the objects that hold two variables under the same name."""
        ours, theirs = self._ours.holders(one.node_id), self._theirs.holders(other.node_id)
        for name, holders in ours.items():
            others = theirs.get(name, [])
            if len(holders) == len(others) == 1:
                yield holders[0], others[0]

    def _agree(self, one: Held, other: Held) -> bool:
        """Tell whether what is beside two variables under the same names fits, too."""
        return all(starmap(self._holders_agree, self._holders(one, other)))

    def _holders_agree(self, ours: int, theirs: int) -> bool:
        known = self._agreed.get((ours, theirs))
        if known is None:
            known = self._agreed[ours, theirs] = all(
                any(map(held.fits, places))
                for child, target in self._same_edges(ours, theirs)
                for places in (self._theirs.of_node(target),)
                for held in (self._ours.of_node(child) if places else ())
            )
        return known

    def _groups(self, *, alike: bool) -> list[_Group]:
        """Return what is left over on both sides, by dtype and shape, and by name if `alike`."""
        found: dict[tuple[object, ...], _Group] = {}
        for side, ours in ((self._ours, True), (self._theirs, False)):
            for key in side.own:
                held = side.held[key]
                left = self._is_open(key) if ours else key not in self._takers
                if left and held.kind in _SHAPED:
                    words = side.words(held) if alike else ()
                    entry = held.entry
                    mark = (held.part, held.kind, entry.dtype.name, tuple(entry.shape), words)
                    found.setdefault(mark, ([], []))[not ours].append(held)
        return [group for group in found.values() if all(group)]

    def _dead_rule(self, old: str, new: str) -> SelectionError:
        if self._ours.has(old):
            what, word, side = f"the reference has no '{new}' for it", new, self._theirs
        else:
            what, word, side = "it matches nothing", old, self._ours
        near = nearest_names(word, [*side.by_full_name, *map(side.name, side.held)])
        hint = f"; nearest: {quoted(near)}" if near else ""
        return SelectionError(f"the rule '{old}={new}': {what}{hint}")


def _ranked(held: list[Held], turns: list[int]) -> list[Held]:
    return [each for _, each in sorted(zip(turns, held, strict=True), key=lambda pair: pair[0])]


def _stem(held: Held) -> object:
    return (held.part, name_stem(held.full_name)[0]) if held.full_name else None


def _only(held: Iterable[Held], mark: Callable[[Held], object]) -> dict[object, Held]:
    """Return by a mark of theirs those that no others share it with; without a mark, none."""
    found: dict[object, list[Held]] = {}
    for each in held:
        found.setdefault(mark(each), []).append(each)
    return {key: each[0] for key, each in found.items() if key and len(each) == 1}
