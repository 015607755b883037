"""What changed between two checkpoints."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import TextIO

from ckpttool.api.answer import Answer
from ckpttool.checkpoint.folder import last_two
from ckpttool.checkpoint.open import Checkpoint, opened
from ckpttool.checkpoint.selection.select import Selector
from ckpttool.errors import SelectionError
from ckpttool.query.diff.checkpoints import diff_checkpoints
from ckpttool.query.diff.results import CHANGES, Diff, Tolerance
from ckpttool.render.console import Terminal
from ckpttool.render.diff.json import diff_document
from ckpttool.render.diff.text import write_diff
from ckpttool.storage.paths import StrPath, path_text
from ckpttool.storage.work import Progress
from ckpttool.tensor.layout import TensorLayout


@dataclass(frozen=True, repr=False)
class CheckpointDiff(Diff, Answer):
    """What changed between two checkpoints; made by `ckpttool.diff`.

    `verdict` is "equal", "different", or "unknown" if something could not be read. `tensors` are
    the differences, `counts` their numbers by sort, `problems` the errors. `str()` is the table of
    `ckpt diff`.
    """

    def _document(self) -> Mapping[str, object]:
        return diff_document(self)

    def _write_table(self, stream: TextIO, terminal: Terminal) -> None:
        write_diff(self, "table", stream, terminal)

    def __repr__(self) -> str:
        counts = [f"{self.counts[each]:,} {each}" for each in CHANGES if self.counts[each]]
        told = f" ({', '.join(counts)})" if counts else ""
        return f"<CheckpointDiff {self.a.prefix!r} {self.b.prefix!r}: {self.verdict}{told}>"


def diff(
    a: StrPath | Checkpoint,
    b: StrPath | Checkpoint | None = None,
    patterns: str | Iterable[str] | Selector = (),
    *,
    exclude: str | Iterable[str] = (),
    kinds: str | Iterable[str] = (),
    ignore: Iterable[str] = (),
    rtol: float = 0.0,
    atol: float = 0.0,
    equal_nan: bool = False,
    exact: bool = False,
    everything: bool = False,
    first_only: bool = False,
    map: StrPath | Iterable[StrPath] = (),
    jobs: int | None = None,
    on_progress: Progress | None = None,
) -> CheckpointDiff:
    """Compare two checkpoints, as `ckpt diff` does.

    Tensors of the same dtype, shape, size and crc32c are equal and are not read, except with
    `exact`. Equal content under another key is a rename.

    Args:
        a: anything that names a checkpoint, or an open one.
        b: the other one. None if `a` is a folder: its latest checkpoint is compared with the one
            before.
        patterns: which tensors, by their names on either side; all by default.
        exclude: patterns of tensors to leave out.
        kinds: which kinds of tensors, such as "weight"; all by default.
        ignore: patterns of tensors to leave out on both sides.
        rtol: elements are equal if `|a - b| <= atol + rtol * |b|`.
        atol: see `rtol`.
        equal_nan: whether NaN equals NaN.
        exact: read all tensors, and compare them byte for byte.
        everything: also return equal tensors.
        first_only: read no values if the indexes already differ.
        map: a file, or several, that give tensors of A the names and layouts that they have in
            B, as `ckpttool.surgery.read_map` reads them.
        jobs: how many threads may compare; by default one for each processor.
        on_progress: called now and then with the bytes read, and their total.

    Raises:
        CkptError: one of them cannot be opened. Later errors are in `problems`.
        SelectionError: a pattern selects nothing on either side, or the map does not fit A.

    >>> found = ckpttool.diff("tf_ckpts/ckpt-8", "tf_ckpts/ckpt-10", kinds="weight")
    >>> found.verdict, found.counts["value"]
    ('different', 2)
    >>> [(each.row.key, each.values.differing) for each in found.tensors[:1]]
    [('net/l1/bias/.ATTRIBUTES/VARIABLE_VALUE', 5)]
    """
    tolerance = Tolerance(rtol, atol, equal_nan, exact)
    ignored = (ignore,) if isinstance(ignore, str) else ignore
    selector = Selector.from_patterns(patterns, exclude=exclude, kinds=kinds)
    if b is None:
        two = None if isinstance(a, Checkpoint) else last_two(path_text(a))
        if two is None:
            raise SelectionError(
                "there is nothing to compare with: no folder of several checkpoints"
            )
        a, b = two
    maps = [map] if isinstance(map, (str, os.PathLike)) else list(map)
    names: dict[str, str] = {}
    layouts: dict[str, TensorLayout] = {}
    with opened(a) as one, opened(b) as other:
        if maps:
            from ckpttool.surgery.maps.reading import map_tensors, read_map

            rules = [rule for path in maps for rule in read_map(path)]
            for key, mapped in map_tensors(one, rules, one).items():
                names[key] = mapped.name
                if mapped.layout is not None:
                    layouts[key] = mapped.layout
        found = diff_checkpoints(
            one,
            other,
            selector,
            ignore=ignored,
            tolerance=tolerance,
            everything=everything,
            first_only=first_only,
            names=names,
            layouts=layouts,
            jobs=jobs,
            on_progress=on_progress,
        )
    return CheckpointDiff(*(getattr(found, each.name) for each in fields(found)))
