"""The problems that a check can find, and its report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from ckpttool.errors import CkptError
from ckpttool.query.rows import TensorRow
from ckpttool.query.source import Source

if TYPE_CHECKING:
    from ckpttool.query.check.finite import NonFinite
    from ckpttool.query.metagraph.variables import VariableRow

# In the order in which they are shown. Programs rely on these names: none is ever renamed.
Problem = Literal[
    "missing",
    "extra",
    "dtype",
    "shape",
    "crc32c",
    "graph-missing",
    "graph-extra",
    "graph-dtype",
    "graph-shape",
    "not-finite",
    "unreadable",
]
PROBLEMS: tuple[Problem, ...] = get_args(Problem)
LockVerdict = Literal["ok", "failed", "unknown"]
LockUpdate = Literal["created", "updated", "unchanged"]


@dataclass(frozen=True, slots=True)
class LockFinding:
    """One thing that is wrong with one tensor.

    Attributes:
        problem: `missing` from the checkpoint, `extra` in it, another `dtype`, `shape` or `crc32c`
            than in the lock, a variable of the MetaGraph that is missing (`graph-missing`) or has
            another dtype or shape, a tensor that is no variable of it (`graph-extra`),
            `not-finite` numbers, or `unreadable` values.
        locked: the tensor in the lock, if any.
        found: the tensor in the checkpoint, if any.
        line: of the tensor in the lock; None if unknown.
        nonfinite: the numbers that are not finite.
        error: why the values cannot be read.
        graph: the variable of the MetaGraph, if the problem is about one.
    """

    problem: Problem
    locked: TensorRow | None
    found: TensorRow | None
    line: int | None = None
    nonfinite: NonFinite | None = None
    error: CkptError | None = None
    graph: VariableRow | None = None

    @property
    def tensor(self) -> TensorRow:
        """The tensor in the checkpoint, or else in the lock or the MetaGraph."""
        tensor = self.found or self.locked
        if tensor is None and self.graph is not None:
            return variable_tensor(self.graph)
        if tensor is None:
            raise ValueError("a finding about nothing")
        return tensor


@dataclass(frozen=True, slots=True)
class LockReport:
    """The result of a check, or of writing a lock.

    Attributes:
        source: the checkpoint.
        lock: path of the lock, if any.
        tensors: those checked, from the checkpoint and the lock, by key bytes.
        compared: how many are in both.
        ignored: how many `--ignore` left out.
        findings: the problems; of an update those before it.
        read: how many tensors were read for numbers that are not finite.
        bytes_read: how many bytes that took.
        crc: whether the crc32c was compared.
        finite: whether numbers were checked to be finite.
        allow_extra: whether tensors that the lock does not have are accepted.
        update: the effect on the lock; None for a check.
        variables: how many variables of the MetaGraph were compared; None without that check.
    """

    source: Source
    lock: str | None
    tensors: Sequence[TensorRow]
    compared: int
    ignored: int
    findings: list[LockFinding]
    read: int = 0
    bytes_read: int = 0
    crc: bool = False
    finite: bool = False
    allow_extra: bool = False
    update: LockUpdate | None = None
    variables: int | None = None

    @property
    def verdict(self) -> LockVerdict:
        """`"unknown"` if something could not be read, else `"failed"` if there are problems."""
        if self.update is not None:
            return "ok"
        if self.count("unreadable"):
            return "unknown"
        return "failed" if self.findings else "ok"

    def count(self, problem: Problem) -> int:
        """Return how many findings there are of a problem."""
        return sum(each.problem == problem for each in self.findings)


def variable_tensor(row: VariableRow) -> TensorRow:
    """Return a row for a variable of a MetaGraph without a tensor."""
    dtype = row.dtype or "unknown"
    return TensorRow(row.key, None, dtype, (), "other", 0, None, None, None, None)
