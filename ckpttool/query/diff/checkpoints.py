"""What changed between two checkpoints.

The two indexes are compared first. Tensors with the same dtype, shape, size and crc32c count as
equal, and the same content under another name as renamed. Values are read only for the others.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress

from ckpttool.bundle.reader import BundleReader
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.checkpoint.selection.select import Selector
from ckpttool.errors import CkptError, UnsupportedError
from ckpttool.objects.keys import GRAPH_KEY
from ckpttool.query.diff import index as diff_index
from ckpttool.query.diff.index import Fingerprint, Side, TensorPairs
from ckpttool.query.diff.renames import Rename, find_renames
from ckpttool.query.diff.results import (
    Diff,
    GraphDiff,
    MatchedBy,
    ScopeMove,
    TensorChange,
    TensorDiff,
    Tolerance,
)
from ckpttool.query.diff.scopes import find_moves, rename_map
from ckpttool.query.listing import DamagedRow
from ckpttool.query.rows import BundleRows, TensorRow, forms_of, keys_of, sizes_of
from ckpttool.query.shards import missing_data, require_rows_apart
from ckpttool.storage.work import Progress
from ckpttool.tensor.layout import TensorLayout


def diff_checkpoints(
    a: Checkpoint,
    b: Checkpoint,
    selector: Selector | None = None,
    *,
    ignore: Iterable[str] = (),
    tolerance: Tolerance | None = None,
    everything: bool = False,
    first_only: bool = False,
    names: Mapping[str, str] | None = None,
    layouts: Mapping[str, TensorLayout] | None = None,
    jobs: int | None = None,
    on_progress: Progress | None = None,
) -> Diff:
    """Tell what differs between two open checkpoints.

    Args:
        a: the one.
        b: the other.
        selector: which tensors, by their names on either side; all without one.
        ignore: patterns of tensors that are not looked at.
        tolerance: when elements are equal.
        everything: whether the answer has tensors that are equal, too.
        first_only: read no values if the indexes already tell that something differs.
        names: by key, the names that tensors of A have in B.
        layouts: by key, the layouts that tensors of A have there, if they are others.
        jobs: how many threads may compare; as many as there are processors by default.
        on_progress: called now and then with the bytes that were read, and how many it will be.

    Raises:
        SelectionError: a pattern selects nothing on either side.
    """
    one, other = diff_index.both_sides(a, b, selector, ignore)
    work = _Comparison(
        *(one, other, tolerance or Tolerance(), names or {}, layouts or {}), everything=everything
    )
    work.match()
    work.find_renames()
    work.classify()
    work.compare_graphs()
    if not (first_only and work.differs):
        work.compare_values(jobs, on_progress)
    return work.result()


# A pair to read, how it was matched, and the rename that it may be.
_Open = tuple[TensorRow, TensorRow, MatchedBy, Rename | None]
_OPPOSITE = bytes([1, 0]) + bytes(254)


class _Comparison:
    """Two checkpoints being compared, step by step."""

    def __init__(
        self,
        a: Side,
        b: Side,
        tolerance: Tolerance,
        names: Mapping[str, str],
        layouts: Mapping[str, TensorLayout],
        *,
        everything: bool,
    ) -> None:
        self._a = a
        self._b = b
        self._tolerance = tolerance
        self._names = names
        self._layouts = layouts
        self._everything = everything
        self._trusted = diff_index.trusted(a.source, b.source)
        self._by_key = not (a.source.style == b.source.style == "object")
        self._matching = TensorPairs(a.rows, b.rows, ((), ()))
        self._renames: list[Rename] = []
        self._found: list[TensorDiff] = []
        # Number of equal tensors that are not kept.
        self._equal = 0
        # What must be read: positions of tensors of the same key, and other pairs.
        self._unread = array("q"), array("q")
        self._open: list[_Open] = []
        self._graph: GraphDiff | None = None
        self._problems: list[CkptError] = []

    @property
    def differs(self) -> bool:
        """Whether a difference is known."""
        graph = self._graph is not None and not self._graph.equal
        return graph or any(each.change != "equal" for each in self._found)

    def match(self) -> None:
        """Match tensors by name, and check that their data exist."""
        for side in (self._a, self._b):
            rows: Iterable[TensorRow] = side.rows
            if side.wanted is not None:
                rows = filter(side.wants, rows)
            self._problems += missing_data(side.source, rows)
        self._matching = diff_index.match_keys(self._a, self._b, self._names)
        self._set_damaged_aside()
        try:
            diff_index.match_other_names(self._a, self._b, self._matching)
        except CkptError as error:
            self._note(error)

    def _set_damaged_aside(self) -> None:
        """Leave out tensors whose counterpart is damaged."""
        matching, of_a, of_b = self._matching, self._a.damaged, self._b.damaged
        for row in matching.only_a:
            if row.key in of_b and self._wants(row, of_b[row.key]):
                reason = "its entry in B is damaged"
                self._found.append(TensorDiff("unreadable", row, None, reason=reason))
        for row in matching.only_b:
            if row.key in of_a and self._wants(of_a[row.key], row):
                reason = "its entry in A is damaged"
                self._found.append(TensorDiff("unreadable", None, row, reason=reason))
        matching.only_a = [row for row in matching.only_a if row.key not in of_b]
        matching.only_b = [row for row in matching.only_b if row.key not in of_a]
        self._problems += [each.error for side in self._damaged() for each in side]

    def _damaged(self) -> tuple[tuple[DamagedRow, ...], tuple[DamagedRow, ...]]:
        """Return the damaged tensors of A and of B that are selected on either side."""
        both = self._a.damaged, self._b.damaged
        keys = {
            key
            for key in {**both[0], **both[1]}
            if any(side.wanted is None or key in side.wanted for side in (self._a, self._b))
        }
        a, b = (tuple(row for key, row in side.items() if key in keys) for side in both)
        return a, b

    def find_renames(self) -> None:
        """Match tensors of the same content under different names."""
        matching = self._matching
        if not (matching.only_a and matching.only_b):
            return
        if self._trusted:
            self._take(find_renames(matching.only_a, matching.only_b, diff_index.fingerprint))
        kinds = [{(row.dtype, row.shape) for row in rows} for rows in self._left()]
        if not self._trusted or any(row.slices for rows in self._left() for row in rows):
            common = kinds[0] & kinds[1]
            doubtful_a, doubtful_b = (
                [row for row in rows if (row.dtype, row.shape) in common] for rows in self._left()
            )
            digests = {
                id(row): self._digest(side.ckpt, row)
                for side, rows in ((self._a, doubtful_a), (self._b, doubtful_b))
                for row in rows
            }
            self._take(find_renames(doubtful_a, doubtful_b, lambda row: digests[id(row)]))

    def classify(self) -> None:
        """Classify by the indexes; collect what must be read."""
        matching = self._matching
        places: Iterable[tuple[int, int]] = zip(*matching.places, strict=True)
        count = len(matching.places[0])
        if self._a.wanted is not None or self._b.wanted is not None:
            keys = keys_of(matching.a)
            wanted = (self._a.wanted or frozenset()) | (self._b.wanted or frozenset())
            places = [place for place in places if keys[place[0]] in wanted]
            count = len(places)
        if self._trusted and not self._tolerance.exact and not self._everything:
            unlike = list(diff_index.unlike(matching, places))
            self._equal = count - len(unlike)
            places = unlike
        self._classify_places(places)
        for row, other, by in matching.named:
            if self._wants(row, other):
                self._classify(row, other, by)
        for row, other in matching.mapped:
            if self._wants(row, other):
                self._classify(row, other, "map")
        for rename in self._renames:
            if not self._wants(rename.a, rename.b):
                continue
            if self._tolerance.exact:
                self._open.append((rename.a, rename.b, "content", rename))
            else:
                self._found.append(_renamed(rename))
        only_a, only_b = self._left()
        self._found += [
            TensorDiff("removed", row, None) for row in only_a if self._wants(row, None)
        ]
        self._found += [TensorDiff("added", None, row) for row in only_b if self._wants(None, row)]

    def _classify_places(self, places: Iterable[tuple[int, int]]) -> None:
        """Classify tensors of the same key; rows are made only of those that need no reading."""
        a, b = self._matching.a, self._matching.b
        (dtypes, shapes), (other_dtypes, other_shapes) = forms_of(a), forms_of(b)
        by_index = self._trusted and not self._tolerance.exact
        for at, other in places:
            alike = dtypes[at] == other_dtypes[other] and shapes[at] == other_shapes[other]
            if not alike or (by_index and diff_index.same_bytes(a[at], b[other])):
                self._classify(a[at], b[other], "key")
            else:
                self._unread[0].append(at)
                self._unread[1].append(other)

    def _classify(self, row: TensorRow, other: TensorRow, by: MatchedBy) -> None:
        layout = self._layouts.get(row.key) if by == "map" else None
        shape = row.shape if layout is None else layout.result
        trusted = self._trusted and not self._tolerance.exact and layout is None
        if row.dtype != other.dtype:
            self._found.append(TensorDiff("dtype", row, other, by))
        elif shape != other.shape:
            self._found.append(TensorDiff("shape", row, other, by))
        elif trusted and diff_index.same_bytes(row, other):
            self._found.append(TensorDiff("equal", row, other, by))
        else:
            self._open.append((row, other, by, None))

    def compare_graphs(self) -> None:
        """Compare the object graphs, unless their bytes are the same."""
        a, b = (
            side.graph_row if side.wants(side.graph_row) else None for side in (self._a, self._b)
        )
        if a is None and b is None:
            return
        if GRAPH_KEY in self._a.damaged or GRAPH_KEY in self._b.damaged:
            return  # a problem, not a difference
        exact = self._tolerance.exact or not self._trusted
        if a is not None and b is not None and not exact and diff_index.same_bytes(a, b):
            return
        moves = {move.old: move.new for move in self._moves(map(_renamed, self._renames))}
        try:
            if a is not None and b is not None and self._same_when_read(a, b):
                return
            from ckpttool.query.diff.objects import diff_graphs

            graphs = [
                side.ckpt.object_graph if row is not None else None
                for side, row in ((self._a, a), (self._b, b))
            ]
            self._graph = diff_graphs(graphs[0], graphs[1], moves)
        except CkptError as error:
            self._note(error)

    def _same_when_read(self, a: TensorRow, b: TensorRow) -> bool:
        """Tell whether two tensors have the same bytes, which are read; neither is held."""
        readers = self._a.ckpt.reader, self._b.ckpt.reader
        if not (self._trusted and diff_index.same_bytes(a, b)) or a.slices:
            return False
        from ckpttool.query.diff.pairs import stored_digest

        one, other = (
            stored_digest(reader, GRAPH_KEY) if isinstance(reader, BundleReader) else None
            for reader in readers
        )
        return one is not None and one == other

    def compare_values(self, jobs: int | None, on_progress: Progress | None) -> None:
        """Compare the values that must be read."""
        if not (self._unread[0] or self._open):
            return
        from ckpttool.query.diff.values import compare_values

        size = 0
        for side, places, more in (
            (self._a, self._unread[0], [row for row, *_ in self._open]),
            (self._b, self._unread[1], [row for _, row, *_ in self._open]),
        ):
            require_rows_apart(side.ckpt, side.rows, places, more)
            sizes = sizes_of(side.rows)
            size += sum(sizes[at] or 0 for at in places) + sum(row.bytes or 0 for row in more)
        done = self._set_equal_bytes_aside(size, on_progress)
        outcomes = compare_values(
            self._a.ckpt,
            self._b.ckpt,
            (each[:2] for each in self._pairs()),
            self._tolerance,
            layouts=self._layouts,
            done=done,
            size=size,
            jobs=jobs,
            on_progress=on_progress,
        )
        for (row, other, by, rename), (_, outcome) in zip(self._pairs(), outcomes, strict=True):
            if isinstance(outcome, UnsupportedError):
                reason = outcome.message
                self._found.append(TensorDiff("incomparable", row, other, by, reason=reason))
            elif isinstance(outcome, CkptError):
                self._note(outcome)
                reason = str(outcome)
                self._found.append(TensorDiff("unreadable", row, other, by, reason=reason))
            elif outcome is None and rename is not None:
                self._found.append(_renamed(rename))
            elif outcome is None:
                self._equal += not self._everything
                if self._everything:
                    self._found.append(TensorDiff("equal", row, other, by))
            elif rename is not None:
                # The same checksum by chance.
                self._found += [TensorDiff("removed", row, None), TensorDiff("added", None, other)]
            elif row.dtype == "variant":
                reason = f"{outcome.differing} of {outcome.elements} variants are not the same"
                self._found.append(TensorDiff("incomparable", row, other, by, reason=reason))
            else:
                self._found.append(TensorDiff("value", row, other, by, outcome))

    def _pairs(self) -> Iterator[_Open]:
        """Yield the pairs that must be read; their rows are made as they are asked for."""
        for at, other in zip(*self._unread, strict=True):
            yield self._a.rows[at], self._b.rows[other], "key", None
        yield from self._open

    def _set_equal_bytes_aside(self, size: int, on_progress: Progress | None) -> int:
        """Take out the small tensors whose bytes are the same; return how many bytes they have."""
        a, b = self._a, self._b
        if not (
            self._tolerance.exact
            and self._trusted
            and isinstance(a.rows, BundleRows)
            and isinstance(b.rows, BundleRows)
            and isinstance(a.ckpt.reader, BundleReader)
            and isinstance(b.ckpt.reader, BundleReader)
        ):
            return 0
        from ckpttool.query.diff.pairs import equal_bytes

        def told(done: int) -> None:
            if on_progress is not None:
                on_progress(min(done, size), size)

        of_a, of_b = self._unread
        equal = equal_bytes((a.ckpt.reader, a.rows), (b.ckpt.reader, b.rows), (of_a, of_b), told)
        sizes = a.rows.sizes
        if self._everything:
            for at, other in zip(compress(of_a, equal), compress(of_b, equal), strict=True):
                self._found.append(TensorDiff("equal", a.rows[at], b.rows[other]))
        else:
            self._equal += sum(equal)
        rest = equal.translate(_OPPOSITE)
        self._unread = array("q", compress(of_a, rest)), array("q", compress(of_b, rest))
        return 2 * sum(sizes[at] for at in compress(of_a, equal))

    def result(self) -> Diff:
        """Return what was found."""
        moves = self._moves(each for each in self._found if each.change == "renamed")
        counts: Counter[TensorChange] = Counter(each.change for each in self._found)
        if self._equal:
            counts["equal"] += self._equal
        tensors = [each for each in self._found if self._everything or each.change != "equal"]
        return Diff(
            a=self._a.source,
            b=self._b.source,
            tolerance=self._tolerance,
            tensors=tuple(sorted(tensors, key=lambda each: each.row.key)),
            moves=tuple(moves),
            graph=self._graph,
            problems=tuple(self._problems),
            counts=counts,
            rename_map=self._rename_map(moves),
            damaged=self._damaged(),
        )

    def _rename_map(self, moves: Sequence[ScopeMove]) -> dict[str, str] | None:
        by_name = [(row, other) for row, other, _ in self._matching.named]
        if self._a.source.style == "object" != self._b.source.style:
            return None if moves or by_name else {}
        if not moves and not by_name:
            return {}
        found = (each for each in self._found if each.change == "renamed")
        renamed = [(each.a, each.b) for each in found if each.a is not None and each.b is not None]
        return rename_map(
            moves,
            [*renamed, *by_name],
            self._matching.staying(),
            self._left()[0],
            by_key=self._by_key,
        )

    def _moves(self, renames: Iterable[TensorDiff]) -> list[ScopeMove]:
        return find_moves(renames, self._matching.staying(), by_key=self._by_key)

    def _left(self) -> tuple[list[TensorRow], list[TensorRow]]:
        """Return the tensors without a counterpart."""
        return self._matching.only_a, self._matching.only_b

    def _take(self, renames: Iterable[Rename]) -> None:
        self._renames += renames
        gone = {id(row) for rename in self._renames for row in (rename.a, rename.b)}
        matching = self._matching
        matching.only_a = [row for row in matching.only_a if id(row) not in gone]
        matching.only_b = [row for row in matching.only_b if id(row) not in gone]

    def _digest(self, ckpt: Checkpoint, row: TensorRow) -> Fingerprint | None:
        from ckpttool.query.diff.values import content_digest

        try:
            digest = content_digest(ckpt, row)
        except UnsupportedError:
            return None
        except CkptError as error:
            self._note(error)
            return None
        return None if digest is None else (row.dtype, row.shape, digest)

    def _wants(self, a: TensorRow | DamagedRow | None, b: TensorRow | DamagedRow | None) -> bool:
        return self._a.wants(a) or self._b.wants(b)

    def _note(self, error: CkptError) -> None:
        """Keep an error, once."""
        if all(str(error) != str(other) for other in self._problems):
            self._problems.append(error)


def _renamed(rename: Rename) -> TensorDiff:
    return TensorDiff(
        "renamed",
        rename.a,
        rename.b,
        "content",
        candidates=rename.candidates,
        guessed=rename.guessed,
    )
