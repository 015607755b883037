"""What a check can find, and what it comes to."""

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

# In the order in which they are told. Programs go by these names: none is ever renamed.
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
        problem: what it is. `missing` from the checkpoint, `extra` in it, another `dtype`, `shape`
            or `crc32c` than the lock has, a variable of the MetaGraph that is `graph-missing` from
            it or of another dtype or shape there, a tensor that is no variable of that
            (`graph-extra`), `not-finite` numbers, or `unreadable` values.
        locked: the tensor in the lock; None where it is not there.
        found: the tensor in the checkpoint; None where it is not there.
        line: where the tensor stands in the lock; None where that cannot be told.
        nonfinite: the numbers that are not finite.
        error: why the values cannot be read.
        graph: the variable of the MetaGraph, where the problem is about that.
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
        """The tensor, as the checkpoint or else the lock or the MetaGraph has it."""
        tensor = self.found or self.locked
        if tensor is None and self.graph is not None:
            return variable_tensor(self.graph)
        if tensor is None:
            raise ValueError("a finding about nothing")
        return tensor


@dataclass(frozen=True, slots=True)
class LockReport:
    """What came of a check, or of writing a lock anew.

    Attributes:
        source: the checkpoint.
        lock: path of the lock; None where there was none to hold against.
        tensors: those that were looked at, from the checkpoint and the lock, by key bytes.
        compared: how many of them both have.
        ignored: how many were left out by `--ignore`.
        findings: what is wrong, or was until the lock was written.
        read: how many tensors were read for numbers that are not finite.
        bytes_read: how many bytes that took.
        crc: whether the crc32c was compared.
        finite: whether it was looked for numbers that are not finite.
        allow_extra: whether tensors that the lock does not have are welcome.
        update: what became of the lock; None where it was not to be written.
        variables: how many variables of the MetaGraph were compared; None if none were to be.
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
        """`"unknown"` if something could not be read, else `"failed"` if something is wrong."""
        if self.update is not None:
            return "ok"
        if self.count("unreadable"):
            return "unknown"
        return "failed" if self.findings else "ok"

    def count(self, problem: Problem) -> int:
        """Return how many findings there are of a problem."""
        return sum(each.problem == problem for each in self.findings)


def variable_tensor(row: VariableRow) -> TensorRow:
    """Return a variable of a MetaGraph that has no tensor like a tensor that there is."""
    dtype = row.dtype or "unknown"
    return TensorRow(row.key, None, dtype, (), "other", 0, None, None, None, None)
