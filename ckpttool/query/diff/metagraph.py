"""The differences between the MetaGraphs of two files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from ckpttool.metagraph.compare.changes import ChangeWord, GraphPart, MetaGraphChange
from ckpttool.metagraph.compare.graphs import compare_metagraphs
from ckpttool.metagraph.facts import read_messages
from ckpttool.query.metagraph.document import find_graph

CHANGE_WORDS: tuple[ChangeWord, ...] = ("added", "removed", "changed")
Presence = Literal["both", "a", "b"]


@dataclass(frozen=True, slots=True)
class MetaGraphPair:
    """A MetaGraph of A and its counterpart in B.

    Attributes:
        tags: of both; if each file has a single MetaGraph, those of B.
        presence: "a" or "b" for one that is only in that file.
        changes: the differences.
    """

    tags: tuple[str, ...]
    presence: Presence
    changes: tuple[MetaGraphChange, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether both files have it and nothing differs."""
        return self.presence == "both" and not self.changes

    def counts(self) -> Counter[tuple[GraphPart, ChangeWord]]:
        """Return how many changes there are of each sort."""
        return Counter((each.part, each.change) for each in self.changes)


@dataclass(frozen=True, slots=True)
class MetaGraphDiff:
    """The differences between two graph files.

    Attributes:
        a: path of the one.
        b: path of the other.
        graphs: their MetaGraphs, by tags.
        warnings: for the user, about the way the files were found.
    """

    a: str
    b: str
    graphs: tuple[MetaGraphPair, ...]
    warnings: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return all(each.equal for each in self.graphs)


def diff_metagraphs(a: str, b: str) -> MetaGraphDiff:
    """Compare the MetaGraphs of two files, or of two checkpoints that have some.

    Those with the same tags are compared; where each file has one, they are, whatever their tags.

    Args:
        a: a graph file, a SavedModel, an export, or a checkpoint with a graph beside it.
        b: another.

    Raises:
        MissingFileError: there is nothing of that name.
        NotFoundError: a checkpoint has no graph.
        CkptError: a graph cannot be read.
    """
    addresses = find_graph(a), find_graph(b)
    paths = addresses[0].path, addresses[1].path
    of_a, of_b = (list(read_messages(path)) for path in paths)
    if len(of_a) == len(of_b) == 1:
        changes = compare_metagraphs(of_a[0], of_b[0], paths)
        graphs = [MetaGraphPair(tuple(of_b[0].meta_info_def.tags), "both", changes)]
    else:
        graphs = []
        for message in of_a:
            tags = frozenset(message.meta_info_def.tags)
            twin = next((each for each in of_b if {*each.meta_info_def.tags} == tags), None)
            if twin is None:
                graphs.append(MetaGraphPair(_sorted(tags), "a"))
                continue
            of_b.remove(twin)
            changes = compare_metagraphs(message, twin, paths)
            graphs.append(MetaGraphPair(_sorted(tags), "both", changes))
        graphs += [MetaGraphPair(_sorted(each.meta_info_def.tags), "b") for each in of_b]
    warnings = (*addresses[0].warnings, *addresses[1].warnings)
    return MetaGraphDiff(*paths, tuple(graphs), warnings)


def _sorted(tags: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(tags))
