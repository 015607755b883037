"""What a check found, in words that all forms of output share."""

from __future__ import annotations

from ckpttool.errors import CkptError
from ckpttool.objects.keys import GRAPH_KEY
from ckpttool.query.check.checkpoint import checksums
from ckpttool.query.check.findings import PROBLEMS, LockFinding, LockReport, Problem
from ckpttool.query.rows import TensorRow, keys_of
from ckpttool.render import humanize

# What has become of a tensor in a lock that was written anew.
_CHANGES: dict[Problem, str] = {"missing": "removed", "extra": "added"}


def described(row: TensorRow | None) -> str | None:
    """Return dtype and shape of a tensor: `float32 [3, 4]`."""
    return None if row is None else f"{row.dtype} {humanize.shape(row.shape)}"


def checksum(row: TensorRow) -> str | None:
    """Return the crc32c of a tensor, of all slices of a partitioned one; None if there is none."""
    texts = []
    for spec, crc in checksums(row).items():
        if crc is None:
            return None
        texts.append(f"{spec}: {crc:08x}" if spec else f"{crc:08x}")
    return ", ".join(texts)


def label(finding: LockFinding, report: LockReport) -> str:
    """Return the problem of a finding as people read it."""
    if report.update is None:
        return finding.problem
    return _CHANGES.get(finding.problem, finding.problem)


def sides(finding: LockFinding) -> tuple[str | None, str | None]:
    """Return what the lock has and what the checkpoint has, as far as it matters."""
    locked, found = finding.locked, finding.found
    if finding.error is not None:
        return None, _reason(finding.error)
    if finding.nonfinite is not None:
        return None, _counted(finding)
    if finding.graph is not None:
        graph = finding.graph
        about = None
        if graph.name is not None or graph.dtype is not None:
            about = f"{graph.dtype or 'any dtype'} {humanize.partial_shape(graph.shape)}"
        return about, described(found)
    if locked is None or found is None:
        return described(locked), described(found)
    if finding.problem == "dtype":
        return locked.dtype, found.dtype
    if finding.problem == "shape":
        return humanize.shape(locked.shape), humanize.shape(found.shape)
    return checksum(locked), checksum(found)


def message(finding: LockFinding) -> str:
    """Return what is wrong with a tensor in a sentence without its name; not yet printable."""
    locked, found = sides(finding)
    if finding.problem == "missing":
        return f"missing from the checkpoint; the lock has {locked}"
    if finding.problem == "extra":
        return f"not in the lock; the checkpoint has {found}"
    if finding.problem == "graph-missing":
        return f"missing from the checkpoint; the MetaGraph has {locked}"
    if finding.problem == "graph-extra":
        return f"not in the MetaGraph; the checkpoint has {found}"
    if finding.graph is not None:
        return f"the checkpoint has {found}; the MetaGraph has {locked}"
    if finding.problem == "not-finite":
        return f"not finite: {found}"
    if finding.problem == "unreadable":
        return f"unreadable: {found}"
    return f"{finding.problem} is {found or 'not stored'}; the lock has {locked or 'none'}"


def counts(report: LockReport) -> str:
    """Return how many findings there are of each problem: `1 missing, 2 shape`."""
    return ", ".join(
        f"{count:,} {_CHANGES.get(problem, problem) if report.update else problem}"
        for problem in PROBLEMS
        if (count := report.count(problem))
    )


def summary(report: LockReport) -> str:
    """Return what was looked at, and what came of it, without the names of files."""
    parts = []
    if report.update is not None:
        # Those that were removed are not in the lock any more.
        kept = len(report.tensors) - report.count("missing")
        unchanged = "all new" if report.update == "created" else "none changed"
        parts += [
            humanize.stored(kept, graph=_graph(report, "missing")),
            counts(report) or unchanged,
        ]
    else:
        parts += [counts(report)] if report.findings else []
        parts.append(_compared(report))
        if report.variables is not None:
            parts.append(f"{humanize.counted(report.variables, 'variable')} of the graph")
    if report.finite:
        read = humanize.counted(report.read, "floating-point tensor")
        parts.append(f"{read} read, {humanize.size(report.bytes_read)}")
    if report.ignored:
        parts.append(f"{humanize.number(report.ignored)} ignored")
    return "; ".join(parts)


def _compared(report: LockReport) -> str:
    if report.lock is None:
        return humanize.stored(len(report.tensors), graph=_graph(report))
    return f"{humanize.stored(report.compared, graph=_graph(report, *_CHANGES))} compared"


def _graph(report: LockReport, *unless: Problem) -> bool:
    """Tell whether an object graph is among what was looked at, without some problems."""
    return GRAPH_KEY in keys_of(report.tensors) and not any(
        each.tensor.key == GRAPH_KEY and each.problem in unless for each in report.findings
    )


def _reason(error: CkptError) -> str:
    """Return why a tensor cannot be read, and where, without its key."""
    parts = [error.path, None if error.offset is None else f"byte {error.offset}", error.message]
    return ": ".join(filter(None, parts))


def _counted(finding: LockFinding) -> str:
    numbers, row = finding.nonfinite, finding.tensor
    if numbers is None:
        return ""
    kinds = [f"{numbers.nan:,} NaN" if numbers.nan else "", f"{numbers.inf:,} Inf"]
    text = " and ".join(filter(None, kinds if numbers.inf else kinds[:1]))
    if not row.shape:
        return text
    return f"{text} among {row.elements:,}, the first at {humanize.shape(numbers.first)}"
