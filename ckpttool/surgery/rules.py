"""Rename rules.

A name is a key, or in an object-based checkpoint an object path. A rule matches a name and gives
its new name. All rules apply to the original names, and the first match decides, so that two names
can be swapped.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from ckpttool.checkpoint.nearest import path_hint
from ckpttool.checkpoint.selection.time_limit import TimeLimit
from ckpttool.errors import SelectionError
from ckpttool.printable import printable, unprintable
from ckpttool.tensor.layout import TensorLayout


class RenameRule(Protocol):
    """A rule that renames."""

    @property
    def text(self) -> str:
        """The rule as typed, for messages."""

    def rename(self, name: str) -> str | None:
        """Return the new name; None if the rule does not match."""


# Old names with new ones, or rules, each as an object or as it is typed: "OLD=NEW".
Rules: TypeAlias = "Mapping[str, str] | Iterable[RenameRule | str | tuple[str, str]]"


@dataclass(frozen=True, slots=True)
class MoveRule:
    """`OLD=NEW`: a name, or everything below a scope of that name."""

    old: str
    new: str

    @property
    def text(self) -> str:
        """The rule as it was typed."""
        return f"{self.old}={self.new}"

    def rename(self, name: str) -> str | None:
        """Return the new name for `old` itself and for names below it."""
        if name == self.old:
            return self.new
        if name.startswith(self.old + "/"):
            return self.new + name[len(self.old) :]
        return None


@dataclass(frozen=True, slots=True)
class TensorRule(MoveRule):
    """A line of a map that names one tensor, and nothing below it.

    Attributes:
        layout: what becomes of its elements; None if they stay as they are.
    """

    layout: TensorLayout | None = None

    def rename(self, name: str) -> str | None:
        """Return the new name for `old` itself."""
        return self.new if name == self.old else None


@dataclass(frozen=True, slots=True)
class SubstituteRule:
    r"""`--sub REGEX REPLACEMENT`: each match in a name is replaced; `\1` is a group.

    Attributes:
        pattern: the compiled expression.
        replacement: what each match becomes.
    """

    pattern: re.Pattern[str]
    replacement: str

    @property
    def text(self) -> str:
        """The rule as it was typed."""
        return f"--sub {self.pattern.pattern} {self.replacement}"

    def rename(self, name: str) -> str | None:
        """Return the new name for a name that the expression matches anywhere."""
        with TimeLimit(self.text):
            renamed, count = self.pattern.subn(self.replacement, name)
        return renamed if count else None


@dataclass(frozen=True, slots=True)
class TableRule:
    """`--table NAME`: substitutions, each applied to the result of the one before.

    Attributes:
        name: of the table.
        steps: the substitutions in order.
    """

    name: str
    steps: tuple[SubstituteRule, ...]

    @property
    def text(self) -> str:
        """The rule as it was typed."""
        return f"--table {self.name}"

    def rename(self, name: str) -> str | None:
        """Return the new name if any of the substitutions changes it."""
        new = name
        for step in self.steps:
            new = step.pattern.sub(step.replacement, new)
        return new if new != name else None


@dataclass(frozen=True, slots=True)
class PrefixRule:
    """`--prefix TEXT`: put text before every name."""

    prefix: str

    @property
    def text(self) -> str:
        """The rule as it was typed."""
        return f"--prefix {self.prefix}"

    def rename(self, name: str) -> str | None:
        """Return the name with the text before it."""
        return self.prefix + name


@dataclass(frozen=True, slots=True)
class StripPrefixRule:
    """`--strip-prefix TEXT`: remove text from the names that begin with it."""

    prefix: str

    @property
    def text(self) -> str:
        """The rule as it was typed."""
        return f"--strip-prefix {self.prefix}"

    def rename(self, name: str) -> str | None:
        """Return the name without the text, if it begins with it and something is left."""
        if name.startswith(self.prefix) and len(name) > len(self.prefix):
            return name[len(self.prefix) :]
        return None


def as_rules(rules: Rules) -> list[RenameRule]:
    """Return rules, however they are given, as objects.

    Args:
        rules: a mapping from old names to new ones, or a list of such pairs, which are taken as
            they are; or rules, of which text is parsed by `parse_move`.

    Raises:
        SelectionError: a text is no rule, or a name is empty.
        TypeError: the rules are a single text or path, or a name is no text.
    """
    if isinstance(rules, (str, os.PathLike)):
        raise TypeError("rules are a mapping or a list; put a single rule into a list")
    return [_as_rule(each) for each in (rules.items() if isinstance(rules, Mapping) else rules)]


def _as_rule(rule: str | tuple[str, str] | RenameRule) -> RenameRule:
    if isinstance(rule, str):
        return parse_move(rule)
    if not isinstance(rule, (tuple, list)):
        return rule
    if len(rule) != 2 or not all(isinstance(name, str) for name in rule):
        raise TypeError(f"a rule is an old name and a new one, not {rule!r}")
    if not all(rule):
        raise SelectionError(f"a name is empty in the rule '{printable('='.join(rule))}'")
    return MoveRule(*rule)


def parse_move(text: str) -> MoveRule:
    r"""Parse `OLD=NEW`; names may be spelled as printed, an equals sign in the old one as `\x3d`.

    Raises:
        SelectionError: there is no equals sign, or nothing on one side of it.
    """
    old, equals, new = text.partition("=")
    if not (equals and old and new):
        raise SelectionError(
            f"'{printable(text)}' is not a rule of the form OLD=NEW{path_hint(text)}"
        )
    return MoveRule(unprintable(old), unprintable(new))


def parse_substitution(regex: str, replacement: str) -> SubstituteRule:
    """Compile the two arguments of `--sub`.

    Args:
        regex: what to replace, wherever it is in a name.
        replacement: what takes its place.

    Raises:
        SelectionError: one of them is malformed.
    """
    try:
        pattern = re.compile(regex)
        pattern.sub(replacement, "")  # checks the replacement
    except (re.error, IndexError, RecursionError, OverflowError) as error:
        raise SelectionError(f"--sub '{printable(regex)}': {error}") from error
    return SubstituteRule(pattern, replacement)


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
        self._exact: dict[str, int] = {}
        self._others: list[int] = []
        for at, rule in enumerate(rules):
            if isinstance(rule, TensorRule):
                self._exact.setdefault(rule.old, at)
            elif isinstance(rule, MoveRule):
                self._moves.setdefault(rule.old, at)
            elif not isinstance(rule, but):
                self._others.append(at)
        self._lengths = {len(old) for old in self._moves}

    def rename(self, name: str) -> tuple[int, str] | None:
        """Return the position of the first rule that renames this name, and the new name."""
        for at in sorted((*self._named(name), *self._others)):
            new = self._rules[at].rename(name)
            if new is not None:
                return at, new
        return None

    def _named(self, name: str) -> Iterator[int]:
        """Yield the positions of the rules for this name and its scopes."""
        if name in self._exact:
            yield self._exact[name]
        if name in self._moves:
            yield self._moves[name]
        end = name.find("/") if self._moves else -1
        while end >= 0:
            # A name may have too many scopes to build them all.
            if end in self._lengths and name[:end] in self._moves:
                yield self._moves[name[:end]]
            end = name.find("/", end + 1)
