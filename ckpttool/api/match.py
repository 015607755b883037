"""Whether a checkpoint loads into a program, and why not."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, TextIO

from ckpttool.api.answer import Answer
from ckpttool.checkpoint.open import Checkpoint, opened
from ckpttool.query.check.lock import Lock
from ckpttool.query.match.advice import MatchAdvice, advise
from ckpttool.query.match.ignoring import ignore_in_plan
from ckpttool.query.match.plan import MatchMode, RestorePlan
from ckpttool.query.match.restore import restore_plan
from ckpttool.render.console import Terminal
from ckpttool.render.jsonout import plain
from ckpttool.render.match.text import match_document, write_match
from ckpttool.storage.paths import StrPath


@dataclass(frozen=True, repr=False)
class Match(RestorePlan, Answer):
    """What restoring a checkpoint into a program would do; made by `ckpttool.match`.

    `verdict.consumed` tells whether all would be restored; `unresolved` and `unmatched` are what
    would not; `advice` says what to do about it. `str()` is the text of `ckpt match`.
    """

    ignored: int = 0
    advice: tuple[MatchAdvice, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of `ckpt match`, as Python values."""
        return {name: plain(value) for name, value in self._document().items()}

    def _plan(self) -> RestorePlan:
        return RestorePlan(*(getattr(self, each.name) for each in fields(RestorePlan)))

    def _document(self) -> Mapping[str, object]:
        return match_document(self._plan(), self.advice, self.ignored)

    def _write_table(self, stream: TextIO, terminal: Terminal) -> None:
        write_match(self, self.advice, self.ignored, "table", stream, terminal)

    def __repr__(self) -> str:
        told = self.totals
        return (
            f"<Match {self.source.prefix!r}: {told.matched:,} matched, "
            f"{told.unresolved:,} unresolved, {told.unmatched:,} unmatched>"
        )


def match(
    source: StrPath | Checkpoint,
    target: StrPath | Checkpoint | Lock,
    *,
    mode: MatchMode = "restore",
    skip_slots: bool = False,
    ignore: str | Iterable[str] = (),
) -> Match:
    """Tell what restoring a checkpoint into a program would do, as `ckpt match` does.

    Only indexes and object graphs are read. For objects of this process there is
    `ckpttool.train.restore_plan`.

    Args:
        source: anything that names a checkpoint, or an open one.
        target: stands for the program: a checkpoint that it wrote, a SavedModel, or a lock (the
            output of `ckpt ls --json`).
        mode: "restore", or "read" as `tf.train.Checkpoint.read`, which has no save counter.
        skip_slots: leave slot variables out, as an option of TensorFlow's does.
        ignore: patterns of tensors that count on neither side.

    Raises:
        TypeError: the target is an object of this process.
        SelectionError: a pattern selects nothing.
        CkptError: one of them cannot be read.

    >>> found = ckpttool.match("tf_ckpts/ckpt-10", "published/ckpt-1")
    >>> found.verdict.consumed, found.totals.unmatched
    (False, 2)
    >>> [(rule.old, rule.new) for rule in found.suggestions]
    [('net', 'model')]
    """
    if not isinstance(target, str | os.PathLike | Checkpoint | Lock):
        raise TypeError(
            f"the target is {type(target).__name__}, not a path; objects of this process are for "
            "ckpttool.train.restore_plan"
        )
    with opened(source) as ckpt:
        plan = restore_plan(ckpt, target, mode=mode, skip_slots=skip_slots)
        patterns = (ignore,) if isinstance(ignore, str) else ignore
        plan, ignored = ignore_in_plan(plan, patterns, ckpt)
        values: dict[str, Any] = {each.name: getattr(plan, each.name) for each in fields(plan)}
        values |= {"ignored": ignored, "advice": advise(plan)}
        return Match(**values)
