"""Resolving the names and patterns of tensors to show.

net/l1/kernel          a key or an object path
net/l1/kernel[0:4,:]   part of it, by a NumPy index
net/*/kernel           a pattern, see `checkpoint.selection.patterns`
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ckpttool.checkpoint.open import Checkpoint
from ckpttool.checkpoint.selection.select import SelectionRule, Selector, Step
from ckpttool.errors import CkptError, SelectionError
from ckpttool.query.listing import DamagedRow, damaged_rows, tensor_rows
from ckpttool.query.rows import TensorRow
from ckpttool.query.source import select_rows
from ckpttool.tensor.region import Index, fit_index, parse_index


@dataclass(frozen=True, slots=True)
class Target:
    """A tensor, or the part of it that an index selects.

    Attributes:
        key: the tensor's key.
        index: a number or a slice for each dimension; None for the whole tensor.
    """

    key: str
    index: Index | None = None

    @property
    def name(self) -> str:
        """The key, with the index in brackets."""
        return self.key if self.index is None else f"{self.key}[{format_index(self.index)}]"


def find_targets(
    ckpt: Checkpoint,
    names: Sequence[str] = (),
    selector: Selector | None = None,
) -> list[Target]:
    """Return the requested tensors in order, each once.

    Args:
        ckpt: the checkpoint.
        names: keys, object paths, either with an index, and patterns. The tensors of a pattern are
            in the order of the key bytes.
        selector: rules that include more or exclude some, later ones winning, and the kinds to
            keep. Without names everything is selected at first, unless the first rule includes.

    Raises:
        MissingKeyError: there is no tensor of such a name.
        SelectionError: a pattern or an index is malformed, an index does not fit its tensor, or
            a pattern selects nothing.
    """
    finder = _Finder(ckpt)
    selector = selector or Selector()
    found: dict[tuple[str, str], Target] = {}
    if not names and selector.from_all:
        found |= _placed(finder.select(Selector()))
    for name in names:
        found |= _placed(finder.find(name))
    leaving: list[Step] = []
    for step in selector.steps:
        if step.include:
            leaving = []
            found |= _placed(finder.select(Selector.of([step])))
        else:
            leaving.append(step)
            left = {target.key for target in finder.select(Selector.of(leaving))}
            found = {place: one for place, one in found.items() if one.key in left}
    if selector.kinds:
        wanted = {target.key for target in finder.select(Selector(kinds=selector.kinds))}
        return [target for target in found.values() if target.key in wanted]
    return list(found.values())


def format_index(index: Index) -> str:
    """Return an index as typed, without the brackets: `0:4, :, -1`."""
    return ", ".join(_format_step(part) for part in index)


class _Finder:
    """Looks names up in one checkpoint; lists its rows only for patterns."""

    def __init__(self, ckpt: Checkpoint) -> None:
        self._ckpt = ckpt
        self._rows: Sequence[TensorRow | DamagedRow] | None = None

    def find(self, name: str) -> list[Target]:
        """Return the tensors of a name, with or without an index, or of a pattern."""
        if name.startswith(("re:", "=", "@")):
            return self.matching(name)
        if name in self._ckpt:
            return [Target(self._ckpt.resolve(name))]
        base, index = _split_index(name)
        if index is None:
            return self.matching(name)
        if base not in self._ckpt:
            try:
                return self.matching(name)
            except SelectionError:
                if not _is_index(index):
                    raise
            # It looks like an index, so the part before it is a name.
        return [self._indexed(self._ckpt.resolve(base), index)]

    def matching(self, pattern: str) -> list[Target]:
        """Return what one pattern selects, in the order of the keys."""
        return self.select(Selector([SelectionRule(pattern)]))

    def select(self, selector: Selector) -> list[Target]:
        """Return what is selected, in the order of the keys."""
        if self._rows is None:
            # Damaged ones too: a requested tensor that cannot be read is an error.
            self._rows = tensor_rows(self._ckpt)
            damaged = damaged_rows(self._ckpt)
            if damaged:
                self._rows = [*self._rows, *damaged]
        return [Target(row.key) for row in select_rows(self._ckpt, selector, self._rows)]

    def _indexed(self, key: str, index: str) -> Target:
        try:
            return Target(key, fit_index(parse_index(index), self._ckpt.entries[key].shape))
        except CkptError as error:
            raise error.locate(key=key) from None


def _placed(targets: Iterable[Target]) -> dict[tuple[str, str], Target]:
    """Return targets by key and index text; slices have no hash on older Pythons."""
    return {(target.key, format_index(target.index or ())): target for target in targets}


def _split_index(name: str) -> tuple[str, str | None]:
    """Split `base[index]`; the second is None for a name that does not end in brackets."""
    base, bracket, index = name[:-1].rpartition("[")
    return (base, index) if bracket and name.endswith("]") else (name, None)


def _is_index(text: str) -> bool:
    try:
        parse_index(text)
    except SelectionError:
        return False
    return True


def _format_step(part: int | slice) -> str:
    if isinstance(part, int):
        return str(part)
    bounds = ("" if at is None else str(at) for at in (part.start, part.stop))
    return ":".join(bounds) + ("" if part.step in (None, 1) else f":{part.step}")
