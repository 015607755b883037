"""The drawing of a checkpoint: few nodes that say what there is.

Empty objects are left out; siblings that look alike, and long chains, become one node; lists of
references become a number; what is too much for one picture is counted. With `everything` nothing
of this is done.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ckpttool.checkpoint.open import Checkpoint
from ckpttool.query.drawing.alike import Alike, grouped, signatures
from ckpttool.query.drawing.outline import Look, Outline, look_of
from ckpttool.query.rows import TensorRow
from ckpttool.storage.work import collection_paused

_MOST_SLOTS = 8  # drawn one by one
_MOST_REFERENCES = 3
_MOST_CHILDREN = 12
_CHILDREN_SHOWN = 10
_SHORTEST_CHAIN = 5
_MOST_NODES = 200


@dataclass(frozen=True, slots=True)
class DrawnSlot:
    """A slot variable, or an average, or several of one variable.

    Attributes:
        names: of the slots.
        look: `"slot"` or `"ema"`.
        owner: number of the optimizer; -1 if not known.
        row: its tensor, of a single one.
    """

    names: tuple[str, ...]
    look: Look
    owner: int
    row: TensorRow | None


@dataclass(frozen=True, slots=True)
class DrawnReference:
    """An edge to an object that is drawn elsewhere.

    Attributes:
        name: of the edge.
        target: number of the object, which may be left out of the drawing.
        path: of the object.
    """

    name: str
    target: int
    path: str


@dataclass(slots=True)
class DrawnNode:
    """A node of a drawing.

    Attributes:
        number: of the object, or of the first of several.
        name: of the edge; of several objects with all numbers, `0…11`; of a chain `a/…/z`.
        look: how to draw it.
        path: of the object.
        tensors: of the object, or of the first of several.
        bytes: of the tensors, those of all objects together; None if unknown.
        copies: how many objects it stands for.
        children: below it.
        slots: at it.
        references: edges to objects that are drawn elsewhere.
        more_references: how many there are, if they are not drawn.
        below: how many objects below it are not drawn, because there is no room for the level.
        more: how many of its children are not drawn.
    """

    number: int
    name: str
    look: Look
    path: str = ""
    tensors: tuple[TensorRow, ...] = ()
    bytes: int | None = 0
    copies: int = 1
    children: list[DrawnNode] = field(default_factory=list)
    slots: list[DrawnSlot] = field(default_factory=list)
    references: list[DrawnReference] = field(default_factory=list)
    more_references: int = 0
    below: int = 0
    more: int = 0

    def walk(self) -> Iterator[DrawnNode]:
        """Yield the node and all below it, each before its children."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children))


@dataclass(frozen=True, slots=True)
class Drawing:
    """A checkpoint to be drawn.

    Attributes:
        root: the first node; its name is that of the checkpoint.
        drawn: how many objects are drawn, slot variables included.
        total: how many there are.
        alike: how many are left out because others look like them.
        empty: how many are left out because nothing is in them.
        unselected: how many are left out because no selected tensor is in them.
        beyond: how many are left out because there is no room.
        deeper: how many are left out because they are below the depth asked for.
    """

    root: DrawnNode
    drawn: int
    total: int
    alike: int
    empty: int = 0
    unselected: int = 0
    beyond: int = 0
    deeper: int = 0


def build_drawing(
    ckpt: Checkpoint,
    rows: Sequence[TensorRow],
    *,
    depth: int | None = None,
    everything: bool = False,
) -> Drawing:
    """Return the drawing of a checkpoint.

    Args:
        ckpt: the checkpoint; of an object-based one the object graph is read.
        rows: the tensors to draw, as `list_tensors` gives them.
        depth: how many levels below the root.
        everything: leave nothing out and fold nothing.

    Raises:
        CkptError: the object graph is missing or damaged.
    """
    graph = ckpt.object_graph
    with collection_paused():
        if graph is None:
            from ckpttool.query.drawing.scopes import outline_scopes

            outline = outline_scopes(rows)
        else:
            from ckpttool.query.drawing.objects import outline_objects

            outline = outline_objects(graph, rows, ckpt.graph_kinds)
        whole = len(rows) == len(ckpt)
        name = ckpt.prefix.rstrip("/").rpartition("/")[2]
        return fold_outline(outline, name, depth=depth, everything=everything, whole=whole)


def fold_outline(
    outline: Outline,
    name: str,
    *,
    depth: int | None = None,
    everything: bool = False,
    whole: bool = True,
) -> Drawing:
    """Return the drawing of an outline, which is changed.

    Args:
        outline: the objects.
        name: of the root.
        depth: as in `build_drawing`.
        everything: as in `build_drawing`.
        whole: whether its tensors are all that there are.
    """
    return _Folding(outline, depth, everything=everything, whole=whole).drawing(name)


class _Folding:
    """A drawing in the making."""

    def __init__(
        self, outline: Outline, depth: int | None, *, everything: bool, whole: bool
    ) -> None:
        self._outline = outline
        self._depth = depth
        self._everything = everything
        self._whole = whole
        self._alike = self._beyond = self._deeper = 0
        total = self._total()
        if not (everything and whole):
            self._leave_out(_held(outline, by_edges=whole))
        self._sizes = self._count()
        self._empty = total - self._sizes[0]
        self._signatures = [] if everything else signatures(outline)
        self._each_slot = everything or sum(map(len, outline.slots.values())) <= _MOST_SLOTS

    def drawing(self, name: str) -> Drawing:
        root = self._node(Alike(name, [0]))
        self._grow(root)
        drawn = self._sizes[0] - self._alike - self._beyond - self._deeper
        total = self._sizes[0] + self._empty
        empty, unselected = (self._empty, 0) if self._whole else (0, self._empty)
        return Drawing(
            root, drawn, total, self._alike, empty, unselected, self._beyond, self._deeper
        )

    def _total(self) -> int:
        return len(self._outline) + sum(map(len, self._outline.slots.values()))

    def _leave_out(self, held: bytearray) -> None:
        """Take objects with nothing in them out of the outline."""
        outline = self._outline
        for at, below in enumerate(outline.children):
            if not all(map(held.__getitem__, below)):
                outline.children[at] = [child for child in below if held[child]]
        for at in [at for at in outline.references if not held[at]]:
            del outline.references[at]
        for at, references in outline.references.items():
            outline.references[at] = [each for each in references if held[each.target]]
        for at in [at for at in outline.slots if not held[at]]:
            del outline.slots[at]

    def _count(self) -> list[int]:
        """Return how many objects each is with those below it, slot variables included."""
        outline, sizes = self._outline, [1] * len(self._outline)
        for at in range(len(outline) - 1, -1, -1):
            sizes[at] += len(outline.slots.get(at, ()))
            sizes[at] += sum(map(sizes.__getitem__, outline.children[at]))
        return sizes

    def _grow(self, root: DrawnNode) -> None:
        """Draw whole levels as long as there is room."""
        level, count, depth = [(root, self._outline.children[0])], 1, 0
        while level:
            if self._depth is not None and depth >= self._depth:
                self._deeper = self._cut(level)
                return
            groups = [self._groups(places) for _, places in level]
            count += sum(len(self._shown(below)) for below in groups)
            if count > _MOST_NODES and not self._everything:
                self._beyond += self._cut(level)
                return
            following = []
            for (node, places), below in zip(level, groups, strict=True):
                shown = self._shown(below)
                left = [place for group in below[len(shown) :] for place in group.members]
                node.more = len(left)
                self._beyond += sum(map(self._sizes.__getitem__, left))
                for group in shown:
                    child, places = self._child(group)
                    node.children.append(child)
                    following.append((child, places))
            level, depth = following, depth + 1

    def _cut(self, level: Sequence[tuple[DrawnNode, Sequence[int]]]) -> int:
        """Note how much is below each node that is not drawn; return how much that is together."""
        for node, places in level:
            node.below = sum(map(self._sizes.__getitem__, places))
        return sum(node.below for node, _ in level)

    def _shown(self, groups: Sequence[Alike]) -> Sequence[Alike]:
        """Return which children are drawn."""
        every = self._everything or len(groups) <= _MOST_CHILDREN
        return groups if every else groups[:_CHILDREN_SHOWN]

    def _groups(self, places: Sequence[int]) -> Sequence[Alike]:
        if self._everything:
            return [Alike(self._outline.names[place], [place]) for place in places]
        return [*grouped(self._outline, places, self._signatures)]

    def _child(self, group: Alike) -> tuple[DrawnNode, Sequence[int]]:
        """Return the node of a group, and what is below it."""
        outline, members = self._outline, group.members
        self._alike += sum(map(self._sizes.__getitem__, members[1:]))
        chain: list[int] = []
        at = members[0]
        while len(members) == 1 and not self._everything and self._is_link(at):
            chain.append(at)
            (at,) = outline.children[at]
        if len(chain) < _SHORTEST_CHAIN:
            return self._node(group), outline.children[members[0]]
        self._alike += len(chain) - 1
        node = self._node(Alike(f"{group.name}/…/{outline.names[chain[-1]]}", members))
        node.copies = len(chain)
        return node, outline.children[chain[-1]]

    def _is_link(self, place: int) -> bool:
        """Tell whether an object holds one other object and nothing else."""
        outline = self._outline
        return (
            len(outline.children[place]) == 1
            and outline.look(place) == "object"
            and place not in outline.references
        )

    def _node(self, group: Alike) -> DrawnNode:
        outline, first = self._outline, group.members[0]
        tensors = tuple(outline.tensors[row] for row in outline.rows.get(first, ()))
        sizes = [
            outline.tensors[row].bytes
            for place in group.members
            for row in outline.rows.get(place, ())
        ]
        known = [size for size in sizes if size is not None]
        references = outline.references.get(first, [])
        drawn = references if self._everything or len(references) <= _MOST_REFERENCES else []
        return DrawnNode(
            first,
            group.name,
            outline.look(first),
            outline.path(first),
            tensors,
            sum(known) if len(known) == len(sizes) else None,
            len(group.members),
            slots=self._slots(first),
            references=[
                DrawnReference(each.name, each.target, outline.path(each.target)) for each in drawn
            ],
            more_references=len(references) - len(drawn),
        )

    def _slots(self, place: int) -> list[DrawnSlot]:
        """Return the slots of a variable: each, or those of one owner together."""
        tensors = self._outline.tensors
        found = []
        together: dict[tuple[Look, int], list[str]] = {}
        for slot in self._outline.slots.get(place, ()):
            row = tensors[slot.row] if slot.row >= 0 else None
            look = "slot" if row is None else look_of(row.kind)
            if self._each_slot:
                found.append(DrawnSlot((slot.name,), look, slot.owner, row))
            else:
                together.setdefault((look, slot.owner), []).append(slot.name)
        for (look, owner), names in together.items():
            found.append(DrawnSlot(tuple(names), look, owner, None))
        return found


def _held(outline: Outline, *, by_edges: bool) -> bytearray:
    """Tell which objects have tensors in them or below them; references count if asked for."""
    held = bytearray(len(outline))
    for at in range(len(outline) - 1, -1, -1):
        held[at] = (
            at in outline.rows
            or any(slot.row >= 0 for slot in outline.slots.get(at, ()))
            or (by_edges and at in outline.references)
            or any(map(held.__getitem__, outline.children[at]))
        )
    held[0] = 1
    return held
