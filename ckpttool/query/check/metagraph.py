"""The MetaGraph of a checkpoint in a check: its variables have to be the tensors that there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ckpttool.checkpoint.open import Checkpoint
from ckpttool.errors import NotFoundError
from ckpttool.metagraph.report import read_graph_facts
from ckpttool.query.check.findings import PROBLEMS, LockFinding, Problem, variable_tensor
from ckpttool.query.metagraph.summary import compare_with_checkpoint
from ckpttool.query.metagraph.variables import Disagreement, VariableRow
from ckpttool.query.rows import TensorRow

_PROBLEMS: dict[Disagreement, Problem] = {
    "missing": "graph-missing",
    "extra": "graph-extra",
    "dtype": "graph-dtype",
    "shape": "graph-shape",
}


@dataclass(frozen=True, slots=True)
class GraphVariables:
    """The variables of a MetaGraph, compared with the tensors of a checkpoint.

    Attributes:
        rows: the variables, and the tensors without one.
        absent: the variables that are not in the checkpoint, as tensors.
    """

    rows: tuple[VariableRow, ...]
    absent: tuple[TensorRow, ...]

    @property
    def count(self) -> int:
        """How many variables there are."""
        return len({row.key for row in self.rows if "extra" not in row.disagreements})

    def findings(
        self,
        found: Mapping[str, TensorRow],
        absent: Iterable[TensorRow],
        *,
        allow_extra: bool,
    ) -> list[LockFinding]:
        """Return the findings, problem by problem.

        Args:
            found: the tensors to check, by key.
            absent: the variables without a tensor to check.
            allow_extra: accept tensors without a variable.
        """
        wanted = found.keys() | {row.key for row in absent}
        wrong = [
            LockFinding(_PROBLEMS[what], None, found.get(row.key), graph=row)
            for row in self.rows
            if row.key in wanted
            for what in row.disagreements
            if not (allow_extra and what == "extra")
        ]
        return sorted(wrong, key=lambda each: PROBLEMS.index(each.problem))


def read_variables(ckpt: Checkpoint) -> GraphVariables:
    """Compare the variables of a checkpoint's MetaGraphs with its tensors.

    Raises:
        NotFoundError: there is no MetaGraph, or it cannot be compared.
        CkptError: it cannot be read.
    """
    path = ckpt.location.meta_path
    if path is None:
        raise NotFoundError("the checkpoint has no MetaGraph", path=ckpt.prefix)
    comparisons = compare_with_checkpoint(ckpt, read_graph_facts(path))
    if all(each.reason is not None for each in comparisons):
        raise NotFoundError(f"variables cannot be compared: {comparisons[0].reason}", path=path)
    # Equal rows of several MetaGraphs are reported once.
    rows = {(row.key, row.disagreements): row for each in comparisons for row in each.rows}
    absent = {row.key: row for row in rows.values() if "missing" in row.disagreements}
    return GraphVariables(tuple(rows.values()), tuple(map(variable_tensor, absent.values())))
