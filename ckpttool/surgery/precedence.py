"""Finding the first of many rules that matches a name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ckpttool.surgery.rules import MoveRule, RenameRule


class FirstOf:
    """Rules in their order.

    A map may have as many rules as a checkpoint has names, so rules for names and scopes are looked
    up in a dict; only the others are tried one after another.

    Args:
        rules: all rules.
        but: types of rules that are left out.
    """

    def __init__(self, rules: Sequence[RenameRule], but: tuple[type[RenameRule], ...] = ()) -> None:
        self._rules = rules
        self._moves: dict[str, int] = {}
        self._others: list[int] = []
        for at, rule in enumerate(rules):
            if isinstance(rule, MoveRule):
                self._moves.setdefault(rule.old, at)
            elif not isinstance(rule, but):
                self._others.append(at)
        self._lengths = {len(old) for old in self._moves}

    def rename(self, name: str) -> tuple[int, str] | None:
        """Return the position of the first rule that renames this name, and the new name."""
        move = min(self._moving(name), default=len(self._rules))
        for at in (*(each for each in self._others if each < move), move):
            if at < len(self._rules):
                new = self._rules[at].rename(name)
                if new is not None:
                    return at, new
        return None

    def _moving(self, name: str) -> Iterator[int]:
        """Yield the positions of the rules for this name and its scopes."""
        if name in self._moves:
            yield self._moves[name]
        end = name.find("/") if self._moves else -1
        while end >= 0:
            # A name may have too many scopes to build them all.
            if end in self._lengths and name[:end] in self._moves:
                yield self._moves[name[:end]]
            end = name.find("/", end + 1)
