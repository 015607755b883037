"""The full facts of a graph, and whether its variables are those of the checkpoint."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ckpttool.checkpoint.locate import Location, locate
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.errors import CkptError, MissingFileError, NotFoundError
from ckpttool.metagraph.report import (
    GraphFacts,  # for those who render them
    read_graph_facts,
)
from ckpttool.query.metagraph.document import find_graph
from ckpttool.query.metagraph.variables import (
    VariableComparison,
    VariableRow,
    compare_variables,
    variable_rows,
)
from ckpttool.query.source import Source


@dataclass(frozen=True, slots=True)
class GraphReport:
    """A MetaGraph in full.

    Attributes:
        facts: from the file.
        variables: those of the graph; without a checkpoint, by the graph alone.
        comparison: of the variables with the checkpoint; None without one.
    """

    facts: GraphFacts
    variables: tuple[VariableRow, ...]
    comparison: VariableComparison | None


@dataclass(frozen=True, slots=True)
class GraphReports:
    """All MetaGraphs that an address means.

    Attributes:
        path: the file.
        source: its checkpoint, if any.
        graphs: the MetaGraphs in the order of the file.
        warnings: for the user, about the way the file was found.
        problems: what could not be read, and why.
    """

    path: str
    source: Source | None
    graphs: tuple[GraphReport, ...]
    warnings: tuple[str, ...]
    problems: tuple[str, ...]


def describe_graphs(typed: str) -> GraphReports:
    """Return the full facts of the graph that an address means, with or without a checkpoint.

    Args:
        typed: a graph file, a SavedModel, an export, or a checkpoint with a graph beside it.

    Raises:
        MissingFileError: there is nothing of that name.
        NotFoundError: the checkpoint has no graph.
        CkptError: the graph cannot be read.
    """
    address = find_graph(typed)
    facts = read_graph_facts(address.path)
    problems = [str(error) for each in facts for error in each.metagraph.problems]
    location = _checkpoint_of(typed, address.path, problems)
    source, comparisons = None, None
    if location is not None:
        try:
            with Checkpoint(location) as ckpt:
                source = Source.of(ckpt)
                comparisons = compare_with_checkpoint(ckpt, facts)
        except CkptError as error:
            problems.append(str(error))
    reports = []
    for number, each in enumerate(facts):
        comparison = None if comparisons is None else comparisons[number]
        if comparison is None or comparison.reason is not None:
            rows = variable_rows(each)
        else:
            rows = comparison.rows
        reports.append(GraphReport(each, rows, comparison))
    return GraphReports(
        address.path, source, tuple(reports), address.warnings, tuple(dict.fromkeys(problems))
    )


def compare_with_checkpoint(
    ckpt: Checkpoint, graphs: tuple[GraphFacts, ...]
) -> tuple[VariableComparison, ...]:
    """Compare the variables of each MetaGraph of a file with a checkpoint.

    Raises:
        CkptError: the object graph of the checkpoint cannot be read.
    """
    wanted = ckpt.style == "object" and any(graph.objects for graph in graphs)
    graph = ckpt.object_graph if wanted else None
    if ckpt.style == "object" and graph is None:
        reason = "the checkpoint has an object graph, the MetaGraph has none"
        return tuple(VariableComparison((), reason) for _ in graphs)
    return tuple(
        compare_variables(
            each,
            ckpt.entries,
            graph,
            others=[other for other in graphs if other is not each],
        )
        for each in graphs
    )


def _checkpoint_of(typed: str, path: str, problems: list[str]) -> Location | None:
    """Return the checkpoint of a graph file, if any."""
    try:
        location = locate(typed)
    except (MissingFileError, NotFoundError):
        return None
    except CkptError as error:
        problems.append(str(error))
        return None
    belongs = location.meta_path is not None and os.path.samefile(location.meta_path, path)
    return location if belongs else None
