"""Rules of `ckpt rename` by which more of a checkpoint would find its place.

What waits in the checkpoint and what gets nothing in the program are two trees of paths. Leaves of
both are paired where only one of each can be meant:

1. In scopes of the same path, children with all leaves alike below them.
2. Anywhere, scopes with all leaves alike.
3. Leaves with the longest end of their paths in common.
4. Leaves of a dtype and shape that occurs once here and once there.

Then the pairs are told by few rules, each for the widest scope that it is right for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ckpttool.objects.keys import OPTIMIZER_SLOT, split_path
from ckpttool.query.match.plan import RenameSuggestion

if TYPE_CHECKING:
    from ckpttool.query.match.outcome import Findings

_SLOT = f"/{OPTIMIZER_SLOT}/"
# The counter belongs to the saving itself.
_NEVER = "save_counter"
# A leaf, or an optimizer, its path in the program, and how many tensors that is.
_Pair = tuple[str, str, int]
# The counters of older and newer optimizers, which take nothing else of each other: renaming one
# helps nobody.
_GENERATIONS = {"iter", "_iterations"}
# What a leaf is: dtype and shape of its values.
_Content = tuple[tuple[str, tuple["int | None", ...]], ...]
_Leaves = dict[str, list[tuple[str, tuple["int | None", ...]]]]


class _Scope:
    """A path, with what is below it.

    Attributes:
        above: the scope that it is in; None for the root.
        name: the last segment.
        children: by segment.
        content: of a leaf; None for a scope alone.
        other: the leaf of the other tree that this one is paired with.
        stays: whether something below it is in its place already.
        form: a number, equal where all unpaired leaves below are alike; 0 without leaves.
    """

    __slots__ = ("above", "children", "content", "form", "name", "other", "stays")

    def __init__(self, above: _Scope | None, name: str) -> None:
        self.above = above
        self.name = name
        self.children = _NONE
        self.content: _Content | None = None
        self.other: _Scope | None = None
        self.stays = False
        self.form = 0

    def path(self) -> str:
        """Return the path."""
        names = []
        one: _Scope | None = self
        while one is not None and one.above is not None:
            names.append(one.name)
            one = one.above
        return "/".join(reversed(names))


# Of the many scopes without children; nothing is put into it.
_NONE: dict[str, _Scope] = {}


class _Tree:
    """The leaves of one side.

    Attributes:
        scopes: all of them, each after the one that it is in; the root is the first.
    """

    def __init__(self, leaves: _Leaves) -> None:
        self.scopes = [_Scope(None, "")]
        # Scopes that leaves are in; a long path must not be taken apart again for each.
        known: dict[str, _Scope] = {}
        for path, content in leaves.items():
            above, _, name = path.rpartition("/")
            scope = known.get(above)
            if scope is None:
                scope = known[above] = self._at(above)
            self._below(scope, name).content = (
                tuple(content) if len(content) == 1 else tuple(sorted(content, key=repr))
            )

    def _at(self, path: str) -> _Scope:
        scope = self.scopes[0]
        for name in split_path(path):
            scope = self._below(scope, name)
        return scope

    def _below(self, scope: _Scope, name: str) -> _Scope:
        child = scope.children.get(name)
        if child is None:
            child = _Scope(scope, name)
            if scope.children is _NONE:
                scope.children = {}
            scope.children[name] = child
            self.scopes.append(child)
        return child

    def keep(self, paths: Iterable[str]) -> None:
        """Mark the scopes of what is in its place already."""
        for path in paths:
            scope: _Scope | None = self.scopes[0]
            for name in path.split("/"):
                if scope is None or not scope.children:
                    break
                scope = scope.children.get(name)
                if scope is not None:
                    scope.stays = True

    def leaves(self) -> Iterator[_Scope]:
        """Yield the leaves that are not paired."""
        return (each for each in self.scopes if each.content is not None and each.other is None)

    def find_forms(self, numbers: dict[object, int]) -> None:
        """Find the forms of all scopes.

        Args:
            numbers: of the forms that are known; new ones are added.
        """
        for scope in reversed(self.scopes):
            form: object = scope.content if scope.other is None else None
            if scope.children:
                below = [(name, one.form) for name, one in scope.children.items() if one.form]
                form = (form, *sorted(below)) if below else form
            scope.form = 0 if form is None else numbers.setdefault(form, len(numbers) + 1)


def suggest(findings: Findings, exists: Callable[[str], bool]) -> list[RenameSuggestion]:
    """Return rules for a checkpoint with an object graph.

    Args:
        findings: what waits, and what gets nothing.
        exists: whether the checkpoint has an object at a path.
    """
    here, there = _values_by_path(findings)
    rules, pairs = _rules(here, there, (row.path for row in findings.matched), exists)
    owners = _owner_rules(findings, rules)
    pairs += [(rule.old, rule.new, rule.tensors) for rule in owners]
    return _settled([*rules, *owners], pairs, exists)


def suggest_names(
    findings: Findings, names: Mapping[str, str], present: Iterable[str]
) -> list[RenameSuggestion]:
    """Return rules for a checkpoint without an object graph.

    Args:
        findings: what waits, and what gets nothing.
        names: the names that the program takes, by path of what gets nothing.
        present: all names of the checkpoint.
    """
    if not names:
        return []
    here, lacking = _values_by_path(findings)
    there = {names[path]: content for path, content in lacking.items() if path in names}
    ordered = sorted(present)

    def exists(path: str) -> bool:
        starts = path, f"{path}/"
        places = (bisect_left(ordered, start) for start in starts)
        return any(
            at < len(ordered) and (ordered[at] == path or ordered[at].startswith(starts[1]))
            for at in places
        )

    taken = (row.path for row in findings.matched)
    return _settled(*_rules(here, there, taken, exists), exists)


def _values_by_path(findings: Findings) -> tuple[_Leaves, _Leaves]:
    here: _Leaves = defaultdict(list)
    there: _Leaves = defaultdict(list)
    for row in findings.unresolved:
        if _SLOT not in row.path and row.dtype is not None and row.shape is not None:
            here[row.path].append((row.dtype, tuple(row.shape)))
    for one in findings.unmatched:
        if _SLOT not in one.path and one.shape is not None:
            there[one.path].append((one.dtype, one.shape))
    for leaves in (here, there):
        leaves.pop(_NEVER, None)
    return here, there


def _without_collisions(
    rules: list[RenameSuggestion], exists: Callable[[str], bool]
) -> list[RenameSuggestion]:
    """Leave out rules to paths to which something else comes, those of fewer tensors first."""
    ordered = sorted(rules, key=lambda rule: (rule.new.count("/"), -rule.tensors, rule.old))
    while True:
        moves = _Moves(ordered)
        kept: dict[str, RenameSuggestion] = {}
        for rule in ordered:
            if rule.new not in kept and not _meets_another(rule, kept, moves, exists):
                kept[rule.new] = rule
        if len(kept) == len(ordered):
            return ordered
        ordered = [*kept.values()]


def _meets_another(
    rule: RenameSuggestion,
    kept: Mapping[str, RenameSuggestion],
    moves: _Moves,
    exists: Callable[[str], bool],
) -> bool:
    """Tell whether an object comes along with another rule to the path of this one."""
    end = rule.new.rfind("/")
    while end > 0:
        above = kept.get(rule.new[:end])
        if above is not None:
            other = above.old + rule.new[end:]
            if other != rule.old and moves.path(other) == rule.new and exists(other):
                return True
        end = rule.new.rfind("/", 0, end)
    return False


def _settled(
    rules: list[RenameSuggestion], pairs: Sequence[_Pair], exists: Callable[[str], bool]
) -> list[RenameSuggestion]:
    """Return the rules that do something together, the longest first: the first that fits decides.

    Args:
        rules: what was found.
        pairs: what each of them is for.
        exists: whether the checkpoint has an object at a path.
    """
    while True:
        rules = _without_collisions(rules, exists)
        moves = _Moves(rules)
        tensors: Counter[str] = Counter()
        for old, new, count in pairs:
            if moves.path(old) == new:
                tensors[moves.rule(old)] += count
        kept = [replace(rule, tensors=tensors[rule.old]) for rule in rules if tensors[rule.old]]
        if len(kept) == len(rules):
            return sorted(kept, key=lambda rule: (-rule.old.count("/"), rule.old))
        rules = kept


def _rules(
    here: _Leaves, there: _Leaves, taken: Iterable[str], exists: Callable[[str], bool]
) -> tuple[list[RenameSuggestion], list[_Pair]]:
    if not here or not there:
        return [], []
    source, target = _Tree(here), _Tree(there)
    source.keep(taken)
    for pair in (_pair_in_place, _pair_scopes, _pair_by_ends, _pair_contents):
        pair(source, target)
        if not any(source.leaves()) or not any(target.leaves()):
            break
    pairs = [
        (leaf.path(), leaf.other.path(), len(leaf.content or ()))
        for leaf in source.scopes
        if leaf.other is not None
    ]
    return _Telling(source, exists).rules(), pairs


def _find_forms(source: _Tree, target: _Tree) -> None:
    numbers: dict[object, int] = {}
    source.find_forms(numbers)
    target.find_forms(numbers)


def _pair_in_place(source: _Tree, target: _Tree) -> None:
    _find_forms(source, target)
    pairs = [(source.scopes[0], target.scopes[0])]
    while pairs:
        here, there = pairs.pop()
        left = [each for name, each in here.children.items() if name not in there.children]
        new = [each for name, each in there.children.items() if name not in here.children]
        for one, other in _only_ones(left, new):
            if {one.name, other.name} != _GENERATIONS:
                _pair_below(one, other)
        pairs += _of_one_name(here, there)


def _pair_scopes(source: _Tree, target: _Tree) -> None:
    _find_forms(source, target)
    scopes = [each for each in source.scopes if each.children]
    others = [each for each in target.scopes if each.children]
    for one, other in _only_ones(scopes, others):
        _pair_below(one, other)


def _only_ones(ours: Sequence[_Scope], theirs: Sequence[_Scope]) -> Iterator[tuple[_Scope, _Scope]]:
    """Yield the scopes of a form that is there once on either side."""
    if not ours or not theirs:
        return
    count = Counter(each.form for each in ours)
    others = Counter(each.form for each in theirs)
    by_form = {each.form: each for each in theirs}
    for each in ours:
        if each.form and count[each.form] == others[each.form] == 1:
            yield each, by_form[each.form]


def _of_one_name(here: _Scope, there: _Scope) -> Iterator[tuple[_Scope, _Scope]]:
    for name, each in here.children.items():
        other = there.children.get(name)
        if other is not None:
            yield each, other


def _pair_below(one: _Scope, other: _Scope) -> None:
    """Pair the leaves of two scopes with the same leaves."""
    pairs = [(one, other)]
    while pairs:
        here, there = pairs.pop()
        if here.content is not None and here.other is None and there.other is None:
            here.other, there.other = there, here
        pairs += _of_one_name(here, there)


def _pair_by_ends(source: _Tree, target: _Tree) -> None:
    """Pair leaves by the longest end of a path that only one other leaf has."""
    ends: dict[tuple[int, str], int] = {}
    leaves: dict[tuple[int, _Content], list[_Scope]] = defaultdict(list)
    for leaf in target.leaves():
        for end in _ends(leaf, ends, grow=True):
            leaves[end, leaf.content or ()].append(leaf)
    wanted: dict[_Scope, list[_Scope]] = defaultdict(list)
    for leaf in source.leaves():
        found: list[_Scope] = []
        for end in _ends(leaf, ends, grow=False):
            longer = leaves.get((end, leaf.content or ()))
            if not longer:
                break
            found = longer
        if len(found) == 1:
            wanted[found[0]].append(leaf)
    for there, those in wanted.items():
        if len(those) == 1:
            there.other, those[0].other = those[0], there


def _ends(leaf: _Scope, ends: dict[tuple[int, str], int], *, grow: bool) -> Iterator[int]:
    """Yield a number for each end of a path, from the shortest on."""
    number = 0
    scope: _Scope | None = leaf
    while scope is not None and scope.above is not None:
        step = number, scope.name
        if grow:
            number = ends.setdefault(step, len(ends) + 1)
        elif step in ends:
            number = ends[step]
        else:
            return
        yield number
        scope = scope.above


def _pair_contents(source: _Tree, target: _Tree) -> None:
    """Pair leaves of a content that no other has, if it is more than a number."""
    ours, theirs = _by_content(source), _by_content(target)
    for content, found in ours.items():
        others = theirs.get(content, ())
        if len(found) == len(others) == 1 and any(shape for _, shape in content):
            found[0].other, others[0].other = others[0], found[0]


def _by_content(tree: _Tree) -> dict[_Content, list[_Scope]]:
    found: dict[_Content, list[_Scope]] = defaultdict(list)
    for leaf in tree.leaves():
        found[leaf.content or ()].append(leaf)
    return found


class _Telling:
    """Pairs of leaves as rules.

    Args:
        source: the leaves of the checkpoint.
        exists: whether the checkpoint has anything at a path.
    """

    def __init__(self, source: _Tree, exists: Callable[[str], bool]) -> None:
        self._source = source
        self._exists = exists
        # How many leaves below a scope would be right if it were renamed to another.
        self._votes: dict[_Scope, dict[_Scope, int]] = {}
        for leaf in source.scopes:
            here, there = leaf, leaf.other
            while there is not None and here.above is not None and there.above is not None:
                votes = self._votes.setdefault(here, {})
                votes[there] = votes.get(there, 0) + 1
                if here.name != there.name:
                    break
                here, there = here.above, there.above

    def rules(self) -> list[RenameSuggestion]:
        """Return the rules."""
        found: list[tuple[_Scope, _Scope, int]] = []
        stack: list[tuple[_Scope, _Scope | None]] = [(self._source.scopes[0], None)]
        while stack:
            # Where the scope goes if nothing is said of it.
            scope, moved = stack.pop()
            votes = self._votes.get(scope)
            if votes is not None:
                other, count = max(votes.items(), key=lambda each: (each[1], each[0] is moved))
                if other is not moved and self._can_move(scope, other):
                    found.append((scope, other, count))
                    moved = other
            for name, child in scope.children.items():
                stack.append((child, None if moved is None else moved.children.get(name)))
        return [RenameSuggestion(here.path(), there.path(), count) for here, there, count in found]

    def _can_move(self, scope: _Scope, other: _Scope) -> bool:
        if scope.stays or self._exists(other.path()):
            return False
        # What comes along must not come to an object that cannot take it: that would raise.
        pairs = [(scope, other)]
        while pairs:
            here, there = pairs.pop()
            if here.content != there.content and None not in (here.content, there.content):
                return False
            pairs += _of_one_name(here, there)
        return True


def _owner_rules(findings: Findings, rules: Iterable[RenameSuggestion]) -> list[RenameSuggestion]:
    """Return rules for optimizers whose slot variables wait while others get nothing."""
    moved = _Moves(rules)
    places = {row.path: row.target_path for row in findings.matched}
    lacking: dict[tuple[str, str], list[str]] = defaultdict(list)
    for one in findings.unmatched:
        variable, mark, rest = one.path.partition(_SLOT)
        if mark:
            owner, _, name = rest.rpartition("/")
            lacking[variable, name].append(owner)
    votes: Counter[tuple[str, str]] = Counter()
    for row in findings.unresolved if lacking else ():
        variable, mark, rest = row.path.partition(_SLOT)
        if mark:
            owner, _, name = rest.rpartition("/")
            variable = places.get(variable) or moved.path(variable)
            votes.update((owner, other) for other in lacking.get((variable, name), ()))
    ours = Counter(owner for owner, _ in votes)
    theirs = Counter(other for _, other in votes)
    return [
        RenameSuggestion(owner, other, count)
        for (owner, other), count in votes.items()
        if ours[owner] == theirs[other] == 1
        and other not in (owner, moved.path(owner))
        and owner
        and other
    ]


class _Moves:
    """Where rules lead: the longest that fits decides."""

    def __init__(self, rules: Iterable[RenameSuggestion]) -> None:
        self._rules = {rule.old: rule.new for rule in rules}
        self._lengths = sorted({len(old) for old in self._rules}, reverse=True)

    def rule(self, path: str) -> str:
        """Return the scope of the rule for a path; empty without one."""
        if path.count("/") >= len(self._lengths):
            for length in self._lengths:
                if path[length : length + 1] in ("", "/") and path[:length] in self._rules:
                    return path[:length]
            return ""
        scope = path
        while scope and scope not in self._rules:
            scope = scope.rpartition("/")[0]
        return scope

    def path(self, path: str) -> str:
        """Return a path after the rules."""
        scope = self.rule(path)
        return self._rules[scope] + path[len(scope) :] if scope else path
