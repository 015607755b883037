"""Renames summed up by scope, and written as rules that `ckpt rename` takes.

If all tensors below a scope moved alike, the scope moved. In an object-based checkpoint a slot
variable is not renamed by itself: its name follows its variable and its optimizer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ckpttool.objects.keys import split_key
from ckpttool.query.diff.results import ScopeMove, TensorDiff
from ckpttool.query.rows import TensorRow

# Names from a file may have any number of segments; longer ones only count as a whole.
_MAX_DEPTH = 256


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """The place of a tensor: the path of its object, or its key.

    For a slot variable `path` is that of its variable, and `optimizer` that of its optimizer.
    """

    path: str
    optimizer: str | None = None


class _Mixed:
    """Marks a scope whose tensors moved in different ways, or not all of them."""


_MIXED = _Mixed()


def place_of(row: TensorRow, *, by_key: bool = False) -> TensorPlace:
    """Return where a tensor is, or with `by_key` its key alone."""
    return place_of_key(row.key, by_key=by_key or row.object_path is None)


def place_of_key(key: str, *, by_key: bool) -> TensorPlace:
    """Return where the tensor with a key is, or with `by_key` the key alone."""
    parts = None if by_key else split_key(key)
    if parts is None:
        return TensorPlace(key)
    path = "/".join(parts.path)
    return TensorPlace(path, "/".join(parts.slot.optimizer) if parts.slot is not None else None)


def find_moves(
    tensors: Iterable[TensorDiff], staying: Iterable[TensorRow], *, by_key: bool
) -> list[ScopeMove]:
    """Sum renames up.

    Args:
        tensors: the renames.
        staying: tensors of A that have the same name in B.
        by_key: names are keys on both sides, unless both are object-based.

    Returns:
        Moves in the order of the old names. If two match a name, the longer one counts.
    """
    renames = [
        (place_of(each.a, by_key=by_key), place_of(each.b, by_key=by_key), each.guessed)
        for each in tensors
        if each.a is not None and each.b is not None
    ]
    return moves_of(renames, (place_of(row, by_key=by_key) for row in staying))


def moves_of(
    renames: Sequence[tuple[TensorPlace, TensorPlace, bool]], staying: Iterable[TensorPlace]
) -> list[ScopeMove]:
    """Sum renames up, as `find_moves` does.

    Args:
        renames: old place, new place, and whether it is a guess.
        staying: places that are the same on both sides.
    """
    if not renames:
        return []
    scopes: dict[str, str | _Mixed] = {}
    kept = {path for place in staying for path in _paths(place)}
    taken = {scope for path in kept for scope in scopes_of(path)}
    scopes |= dict.fromkeys(taken, _MIXED)
    steps = {step for old, new, _ in renames for step in _steps(old, new)}
    for old, new in steps:
        if old == new:
            scopes |= dict.fromkeys(scopes_of(old), _MIXED)
    for old, new in steps:
        if old != new:
            for scope, moved in _implied(old, new):
                known = scopes.setdefault(scope, moved)
                if known != moved or moved in taken:
                    scopes[scope] = _MIXED
    moves: dict[str, str] = {}
    for old, new in sorted(steps):
        if old != new:
            scope, moved = next(
                (
                    (scope, found)
                    for scope in scopes_of(old)
                    if isinstance(found := scopes[scope], str)
                ),
                (old, new),
            )
            moves[scope] = moved
    return _counted(moves, renames)


def apply_moves(moves: dict[str, str], path: str) -> str:
    """Return the new path by the longest scope that moved; itself if none did."""
    for scope in reversed(list(scopes_of(path))):
        new = moves.get(scope)
        if new is not None:
            return new + path[len(scope) :]
    return path


def rename_map(
    moves: Sequence[ScopeMove],
    renamed: Iterable[tuple[TensorRow, TensorRow]],
    staying: Iterable[TensorRow],
    others: Iterable[TensorRow],
    *,
    by_key: bool,
) -> dict[str, str]:
    """Return the rules by which `ckpt rename` gives the names of B to A.

    Args:
        moves: the renames by scope.
        renamed: tensors of A, each with the one of B whose name it gets.
        staying: tensors of A that keep their names.
        others: tensors that B does not have.
        by_key: as in `find_moves`.

    Returns:
        Old name -> new name; the first rule that matches a name decides. There is none for what
        `ckpt rename` cannot do: give the root's own tensor a path, make a slot variable of another
        tensor, or name a tensor without an object.
    """
    pairs = list(renamed)
    if not by_key:
        pairs = [(row, new) for row, new in pairs if _can_become(row, new)]
    going = {path for row, _ in pairs for path in _paths(place_of(row, by_key=by_key))}
    scopes = {scope for path in going for scope in scopes_of(path)}
    rules = {move.old: move.new for move in moves if move.old in scopes}
    wanted: dict[str, str | None] = {}
    for row, new in (*((row, None) for row in others), *((row, row) for row in staying), *pairs):
        place = place_of(row, by_key=by_key)
        if place.optimizer is None and place.path:
            wanted[place.path] = None if new is None else place_of(new, by_key=by_key).path
    taken = set(wanted.values())
    for path in sorted(wanted, key=_by_depth):
        became, aim = apply_moves(rules, path), wanted[path]
        # A tensor only in A may move with its scope, unless the new name is taken.
        if aim is None and became != path and became in taken:
            aim = path
        if aim is not None and became != aim:
            rules[path] = aim
    return {old: rules[old] for old in sorted(rules, key=_by_depth, reverse=True)}


def _can_become(row: TensorRow, new: TensorRow) -> bool:
    """Tell whether a rule for objects can give a tensor the name of another."""
    if split_key(row.key) is None or split_key(new.key) is None:
        return False
    old, other = place_of(row), place_of(new)
    same_sort = (old.optimizer is None) == (other.optimizer is None)
    return same_sort and bool(old.path and other.path)


def _by_depth(path: str) -> tuple[int, str]:
    return path.count("/"), path


def _counted(
    moves: dict[str, str], renames: Sequence[tuple[TensorPlace, TensorPlace, bool]]
) -> list[ScopeMove]:
    tensors = dict.fromkeys(moves, 0)
    guessed = dict.fromkeys(moves, 0)
    for old, new, guess in renames:
        path = old.path if old.path != new.path else old.optimizer or old.path
        scope = next((s for s in reversed(list(scopes_of(path))) if s in moves), None)
        if scope is not None:
            tensors[scope] += 1
            guessed[scope] += guess
    return [ScopeMove(old, moves[old], tensors[old], guessed[old]) for old in sorted(moves)]


def _paths(place: TensorPlace) -> Iterator[str]:
    yield place.path
    if place.optimizer is not None:
        yield place.optimizer


def _steps(old: TensorPlace, new: TensorPlace) -> Iterator[tuple[str, str]]:
    """Yield old and new path of the objects in a tensor's place."""
    yield old.path, new.path
    if old.optimizer is not None and new.optimizer is not None:
        yield old.optimizer, new.optimizer


def scopes_of(path: str) -> Iterator[str]:
    """Yield the scopes of a path, the widest first, and itself."""
    at = path.find("/") if path.count("/") <= _MAX_DEPTH else -1
    while at >= 0:
        yield path[:at]
        at = path.find("/", at + 1)
    yield path


def _implied(old: str, new: str) -> Iterator[tuple[str, str | _Mixed]]:
    """Yield each scope of a moved name, and its new place if the name moved with it."""
    for scope in scopes_of(old):
        rest = old[len(scope) :]
        moved = new[: len(new) - len(rest)]
        took = bool(moved) and moved + rest == new and moved != scope
        yield scope, moved if took else _MIXED
