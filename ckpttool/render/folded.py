"""Many changes in few rows: by the scopes that were renamed, and by scope and kind."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ckpttool.objects.keys import OPTIMIZER_SLOT, object_path, split_key
from ckpttool.query.diff.results import ScopeMove
from ckpttool.query.diff.scopes import TensorPlace, moves_of, place_of_key, scopes_of
from ckpttool.query.grouping import fold_scopes
from ckpttool.surgery.edge_notes import silent_edges
from ckpttool.surgery.plan import Change, Plan, PlannedTensor
from ckpttool.surgery.values import value_size

ARROW = " → "
# More rows than this are folded, to at most so many.
MOST = 20
_NUMBER = re.compile(r"\d+")


def fold_moves(moves: Sequence[ScopeMove]) -> tuple[Sequence[ScopeMove], int]:
    """Return moves for a screen, and how many are left out.

    Of many, those that differ only in numbers become one, with `#` for the numbers.
    """
    if len(moves) <= MOST:
        return moves, 0
    folded: dict[tuple[str, str], ScopeMove] = {}
    alone: dict[tuple[str, str], ScopeMove] = {}
    for move in moves:
        names = _NUMBER.sub("#", move.old), _NUMBER.sub("#", move.new)
        known = folded.get(names)
        alone[names] = move
        folded[names] = ScopeMove(
            *names,
            move.tensors + (known.tensors if known else 0),
            move.guessed + (known.guessed if known else 0),
        )
        if known is not None:
            alone.pop(names)
    rows = [alone.get(names, move) for names, move in folded.items()]
    return rows[:MOST], max(len(rows) - MOST, 0)


def plan_moves(plan: Plan) -> list[ScopeMove]:
    """Return the renames of a plan, each by the widest scope possible."""
    by_key = plan.graph is None or plan.source.object_graph is None

    def place(key: str) -> TensorPlace:
        if plan.placement is None or by_key:
            return place_of_key(key, by_key=by_key)
        # A slot need not be in the place of a slot below its variable.
        return TensorPlace(_short(key))

    renames, staying = [], []
    for tensor in plan.tensors:
        old = place(tensor.source_key)
        if tensor.key == tensor.source_key:
            staying.append(old)
        else:
            renames.append((old, place(tensor.key), False))
    return moves_of(renames, staying)


def drop_rows(plan: Plan) -> Iterator[tuple[str, str, int, int]]:
    """Yield scope, kind, number of tensors and bytes of dropped tensors.

    A scope is the widest one of which nothing stays. Slots named after their variables are summed
    up by the pattern that selects them.
    """
    dropped = [change for change in plan.changes if change.action == "drop"]
    if not dropped:
        return
    staying = {scope for each in plan.tensors for scope in scopes_of(_short(each.source_key))}
    groups: dict[tuple[str, str], list[Change]] = {}
    for change in dropped:
        scope = _slot_pattern(change) or next(
            (scope for scope in scopes_of(_short(change.key)) if scope not in staying),
            _short(change.key),
        )
        groups.setdefault((change.kind, scope), []).append(change)
    kinds: dict[str, list[tuple[str, list[Change]]]] = {}
    for (kind, scope), changes in groups.items():
        kinds.setdefault(kind, []).append((scope, changes))
    for kind, scopes in kinds.items():
        if len(scopes) <= MOST // 2:
            yield from (_sum(scope, kind, changes) for scope, changes in scopes)
            continue
        for group in fold_scopes([scope for scope, _ in scopes], MOST // 2):
            yield _sum(group.name, kind, [c for at in group.members for c in scopes[at][1]])


def value_rows(plan: Plan) -> Iterator[tuple[str, str, str, int, int]]:
    """Yield scope, action, dtype, number of tensors and new bytes of tensors with new values.

    A scope is the widest one of which all tensors change alike.
    """
    groups: dict[tuple[str, str], list[PlannedTensor]] = {}
    alike = {each.source_key: _value_group(each) for each in plan.tensors}
    for tensor in plan.tensors:
        group = alike[tensor.source_key]
        if group is not None:
            groups.setdefault(group, []).append(tensor)
    for (action, dtypes), tensors in groups.items():
        others = {
            scope
            for key, group in alike.items()
            if group != (action, dtypes)
            for scope in scopes_of(_short(key))
        }
        scopes: dict[str, list[PlannedTensor]] = {}
        for tensor in tensors:
            short = _short(tensor.source_key)
            scope = next((each for each in scopes_of(short) if each not in others), short)
            scopes.setdefault(scope, []).append(tensor)
        for found in fold_scopes(list(scopes), MOST) if len(scopes) > MOST else ():
            every = [each for at in found.members for each in list(scopes.values())[at]]
            yield found.name, action, dtypes, len(every), sum(map(_new_bytes, every))
        if len(scopes) <= MOST:
            for scope, each in scopes.items():
                yield scope, action, dtypes, len(each), sum(map(_new_bytes, each))


def _value_group(tensor: PlannedTensor) -> tuple[str, str] | None:
    """Return what becomes of a tensor, and its dtypes; None if it has no new value."""
    if tensor.value is None:
        return None
    old, new = tensor.entry.dtype.name, tensor.dtype.name
    return tensor.value.action, new if old == new else f"{old}{ARROW}{new}"


def _new_bytes(tensor: PlannedTensor) -> int:
    return 0 if tensor.value is None else value_size(tensor.value) or 0


def edge_rows(plan: Plan) -> list[tuple[str, str]]:
    """Return the edges of the object graph that change although no key shows it, in words."""
    edges = silent_edges(plan)
    if len(edges) <= MOST:
        return [(old, f"now {new}" if new else "removed") for old, new in edges]
    groups = fold_scopes([old for old, _ in edges], MOST)
    return [(group.name, _fate([edges[at][1] is None for at in group.members])) for group in groups]


def _fate(removed: Sequence[bool]) -> str:
    words = ((sum(removed), "removed"), (len(removed) - sum(removed), "renamed"))
    return ", ".join(f"{count} {word}" for count, word in words if count)


def _slot_pattern(change: Change) -> str | None:
    """Return the pattern of slots like this one; None if its name does not follow its variable."""
    if change.kind != "slot":
        return None
    parts = split_key(change.key)
    if parts is None:
        return f"**/{change.key.rpartition('/')[2]}"
    if parts.slot is None:
        return None
    return f"**/{OPTIMIZER_SLOT}/{'/'.join(parts.slot.optimizer)}/{parts.slot.name}"


def _short(key: str) -> str:
    return object_path(key) or key


def _sum(scope: str, kind: str, changes: Sequence[Change]) -> tuple[str, str, int, int]:
    return scope, kind, len(changes), sum(change.bytes or 0 for change in changes)
