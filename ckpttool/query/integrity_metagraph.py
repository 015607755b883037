"""Whether the variables of the MetaGraph beside a checkpoint are the tensors in it."""

from __future__ import annotations

import os

from ckpttool.checkpoint.open import MAX_GRAPH_FOR_KINDS, Checkpoint, open_checkpoint
from ckpttool.errors import CkptError
from ckpttool.meta.graph_facts import read_graph_facts
from ckpttool.query.graph_summary import compare_with_checkpoint
from ckpttool.query.graph_variables import Disagreement, VariableRow
from ckpttool.query.integrity_findings import Finding, finding, finding_of

_CODES: dict[Disagreement, str] = {
    "missing": "graph-variable-missing",
    "extra": "graph-variable-unclaimed",
    "dtype": "graph-variable-differs",
    "shape": "graph-variable-differs",
}


def check_metagraph(prefix: str) -> list[Finding]:
    """Hold the variables of the MetaGraphs beside a sound checkpoint against its tensors.

    A graph of more than 64 MiB is left aside.

    Args:
        prefix: of the checkpoint.
    """
    try:
        with open_checkpoint(prefix) as ckpt:
            return _check(ckpt)
    except CkptError:
        return []  # what is wrong with the checkpoint itself has been told


def _check(ckpt: Checkpoint) -> list[Finding]:
    path = ckpt.location.meta_path
    if path is None:
        return []
    try:
        if os.stat(path).st_size > MAX_GRAPH_FOR_KINDS:
            return []
        graphs = read_graph_facts(path)
    except OSError:
        return []
    except CkptError as error:
        return [finding_of(error, "metagraph-unreadable", path)]
    found: dict[tuple[str, str], Finding] = {}
    for comparison in compare_with_checkpoint(ckpt, graphs):
        for row in comparison.rows:
            for what in row.disagreements:
                code = _CODES[what]
                found.setdefault(
                    (code, row.key), finding(code, _message(row, what), path, key=row.key)
                )
    return list(found.values())


def _message(row: VariableRow, what: Disagreement) -> str:
    if what == "missing":
        return "the MetaGraph has such a variable, the checkpoint has not"
    if what == "extra":
        return "no variable of the MetaGraph is stored under this key"
    sides = (
        f"{dtype} {_shape(shape)}"
        for dtype, shape in ((row.dtype, row.shape), (row.stored_dtype, row.stored_shape))
    )
    return "the MetaGraph has it as {}, the checkpoint as {}".format(*sides)


def _shape(shape: tuple[int, ...] | None) -> str:
    return "of any shape" if shape is None else str(list(shape))
