"""A graph in full, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TextIO

from ckpttool.metagraph.report import GraphFacts
from ckpttool.metagraph.signatures import Signature
from ckpttool.printable import printable
from ckpttool.query.metagraph.summary import GraphReport, GraphReports
from ckpttool.query.metagraph.variables import DISAGREEMENTS, VariableComparison, VariableRow
from ckpttool.render import humanize
from ckpttool.render.aligned import write_table
from ckpttool.render.cells import Column
from ckpttool.render.console import Terminal
from ckpttool.render.humanize import partial_shape
from ckpttool.render.jsonout import source_document, write_json, write_jsonl
from ckpttool.render.show.json import SCHEMA
from ckpttool.render.wrap import words, write_fact, write_flow, write_prose

# So many rows of each table are shown before the rest is only counted.
_MOST_ROWS = 20
_MOST_SIZES = 10
_SIZE = Column("bytes", align="right", human=humanize.size)
_COUNT = Column("nodes", align="right", human=humanize.number)


def write_graphs(
    reports: GraphReports, format: str, stream: TextIO, terminal: Terminal, *, full: bool = False
) -> None:
    """Write the graphs of a file.

    Args:
        reports: the graphs.
        format: "json", "jsonl", or "table" or "plain" for text.
        stream: where to.
        terminal: what `stream` is.
        full: whether to list everything, however long it is.
    """
    if format == "json":
        write_json(
            {
                "schema": SCHEMA,
                "source": None if reports.source is None else source_document(reports.source),
                "graphs": [graph_document(each) for each in reports.graphs],
                "problems": reports.problems,
            },
            stream,
        )
        return
    if format == "jsonl":
        write_jsonl([graph_document(each) for each in reports.graphs], stream)
        return
    write_prose(printable(reports.path), stream, terminal, style="bold")
    for number, each in enumerate(reports.graphs):
        if number:
            stream.write("\n")
        _write_text(each, stream, terminal, full=full)
    if reports.problems:
        stream.write("\n")
    for problem in reports.problems:
        write_flow([("cannot read", "red"), *words(str(problem))], stream, terminal)


def comparison_text(comparison: VariableComparison) -> str:
    """Return in words what came of holding the variables against the checkpoint."""
    if comparison.reason is not None:
        return f"not compared: {comparison.reason}"
    extra, unsaved = comparison.count("extra"), len(comparison.unsaved)
    parts = [humanize.counted(len(comparison.rows) - extra, "variable")]
    words = {"missing": "not in the checkpoint", "extra": "in the checkpoint alone"} | {
        "dtype": "of another dtype",
        "shape": "of another shape",
    }
    parts += [
        f"{humanize.number(comparison.count(each))} {words[each]}"
        for each in DISAGREEMENTS
        if comparison.count(each)
    ]
    if comparison.agrees:
        parts.append("as in the checkpoint")
    if unsaved:
        parts.append(f"{humanize.number(unsaved)} not saved")
    return ", ".join(parts)


def _write_text(report: GraphReport, stream: TextIO, terminal: Terminal, *, full: bool) -> None:
    facts = report.facts
    for name, value in _facts(facts):
        write_fact(name, value, stream, terminal)

    def table(columns: Sequence[Column], rows: Sequence[Sequence[object]]) -> None:
        if not rows:
            return
        stream.write("\n")
        shown = rows if full else rows[:_MOST_ROWS]
        write_table(shown, columns, stream, terminal)
        if len(shown) < len(rows):
            stream.write(f"... {humanize.number(len(rows) - len(shown))} more\n")

    metagraph = facts.metagraph
    for signature in metagraph.signatures:
        _write_signature(signature, stream, terminal)
    for other in metagraph.other_signatures:
        tensors = [f"{key} {name}" for key, name in other.tensors]
        about = f"{other.kind}: {', '.join(tensors)}" if tensors else other.kind
        stream.write("\n")
        write_prose(f"{printable(other.name)} ({printable(about)})", stream, terminal)
        reason = f"  cannot be called like one of a SavedModel: {printable(other.reason)}"
        write_prose(reason, stream, terminal)
    if report.variables:
        stream.write("\n")
        if report.comparison is not None:
            write_prose(comparison_text(report.comparison), stream, terminal, style="bold")
        _write_variables(report, stream, terminal, full=full)
    elif report.comparison is not None and report.comparison.reason is not None:
        stream.write("\n")
        write_prose(f"variables {comparison_text(report.comparison)}", stream, terminal)
    table(
        (_folded("collection"), Column("kind"), Column("items", align="right")),
        [(each.key, each.kind, each.size) for each in metagraph.collections],
    )
    table(
        (_folded("asset"), _folded("tensor")),
        [(each.filename, each.tensor) for each in metagraph.assets],
    )
    table((Column("op"), _COUNT), metagraph.ops)
    table(
        (Column("op"), Column("reach"), _folded("what it does"), _COUNT, _folded("where")),
        [
            (
                each.op,
                each.reach,
                each.reason + (" (the Saver)" if each.of_saver == each.count else ""),
                each.count,
                ", ".join(each.nodes) + (", ..." if each.count > len(each.nodes) else ""),
            )
            for each in facts.effects
        ],
    )
    table((_folded("device"), _COUNT), facts.devices)
    table(
        (_folded("constant"), Column("dtype"), Column("shape"), _SIZE),
        [
            (each.name, each.dtype, partial_shape(each.shape), each.bytes)
            for each in facts.constants
        ],
    )
    table(
        (_folded("largest nodes"), Column("op"), _SIZE),
        [(each.name, each.op, each.bytes) for each in facts.sizes[: None if full else _MOST_SIZES]],
    )
    table(
        (_folded("function"), _COUNT, _SIZE),
        [(each.name, each.nodes, each.bytes) for each in facts.library],
    )


def _folded(name: str) -> Column:
    return Column(name, fold=True)


def _facts(facts: GraphFacts) -> Iterator[tuple[str, str]]:
    metagraph = facts.metagraph
    if metagraph.tags:
        yield "tags", ", ".join(map(printable, metagraph.tags))
    version = printable(metagraph.tensorflow_version) or "not recorded"
    git = f" ({printable(metagraph.git_version)})" if metagraph.git_version else ""
    known = f"TensorFlow {version}" if metagraph.tensorflow_version else version
    yield "written by", known + git
    consumer = f", readers from {facts.min_consumer} on" if facts.min_consumer else ""
    yield "graph", f"version {metagraph.producer}{consumer}"
    counts = [humanize.counted(metagraph.nodes, "node")]
    if metagraph.functions:
        counts.append(humanize.counted(metagraph.functions, "function"))
    if metagraph.objects:
        counts.append(humanize.counted(metagraph.objects, "object"))
    counts.append(humanize.size(facts.bytes))
    yield "size", ", ".join(counts)
    if facts.constants:
        total = humanize.size(sum(each.bytes for each in facts.constants))
        yield "constants", f"{humanize.number(len(facts.constants))} with weights, {total}"
    saver = metagraph.saver
    if saver is not None:
        hours = saver.keep_every_n_hours
        keeps = f"keeps {saver.max_to_keep or 'all'}"
        if hours > 0:
            keeps += f", and one every {hours:g} hours"
        yield "saver", f"{saver.version}{', sharded' if saver.sharded else ''}, {keeps}"
        yield "", f"filename {printable(saver.filename_tensor)}"
        yield "", f"saves by {printable(saver.save_tensor)}"
        yield "", f"restores by {printable(saver.restore_op)}"
    for each in facts.run_ops:
        yield f"{each.purpose} op", f"{printable(each.name)} ({printable(each.stated_by)})"


def _write_signature(signature: Signature, stream: TextIO, terminal: Terminal) -> None:
    method = f"({printable(signature.method)})" if signature.method else ""
    head = (f"signature {printable(signature.key)}", "bold")
    stream.write("\n")
    write_flow([head, *([(method, "")] if method else [])], stream, terminal)
    for word, tensors in (("in ", signature.inputs), ("out", signature.outputs)):
        for one in tensors:
            about = "operation" if one.dtype == "invalid" and one.shape is None else one.dtype
            if about == one.dtype:
                about += f" {partial_shape(one.shape)}"
            names = ", ".join(map(printable, one.tensors))
            default = ", has a default" if one.has_default else ""
            text = f"  {word} {printable(one.key)}  {about}  {names}{default}"
            write_prose(text, stream, terminal)


def _write_variables(
    report: GraphReport, stream: TextIO, terminal: Terminal, *, full: bool
) -> None:
    """Write the variables, those that disagree first."""
    compared = report.comparison is not None and report.comparison.reason is None
    rows = sorted(report.variables, key=lambda row: not (compared and row.disagreements))
    shown = rows if full else rows[: max(_MOST_ROWS, sum(bool(r.disagreements) for r in rows))]
    columns: tuple[Column, ...] = (
        Column("variable", fold=True),
        Column("dtype"),
        Column("shape"),
    )
    if compared:
        columns += (Column("checkpoint", fold=True),)
    cells = (_cells(row) if compared else _cells(row)[:3] for row in shown)
    write_table(cells, columns, stream, terminal)
    if len(shown) < len(rows):
        stream.write(f"... {humanize.number(len(rows) - len(shown))} more\n")


def _cells(row: VariableRow) -> tuple[object, ...]:
    found = row.disagreements
    stored = f"{row.stored_dtype} {partial_shape(row.stored_shape)}"
    if "missing" in found:
        state = "MISSING"
    elif "extra" in found:
        return (row.key, None, None, f"{stored}, not in the graph")
    elif found:
        state = f"{stored}: other {' and '.join(found)}"
    else:
        state = "not saved" if row.stored_dtype is None else "same"
    name = row.key if row.name is None else row.name
    # Only the spelling of an object's key says no more than its path does.
    if row.name is not None and row.name != row.key and not row.key.startswith(row.name):
        state += f", as {row.key}"
    return (name, row.dtype, partial_shape(row.shape), state)


def graph_document(report: GraphReport) -> dict[str, object]:
    """Return a graph as its JSON object."""
    facts, metagraph = report.facts, report.facts.metagraph
    return {
        "path": metagraph.path,
        "tensorflow_version": metagraph.tensorflow_version or None,
        "git_version": metagraph.git_version or None,
        "producer": metagraph.producer,
        "min_consumer": facts.min_consumer,
        "stripped_default_attrs": metagraph.stripped_default_attrs,
        "tags": metagraph.tags,
        "nodes": metagraph.nodes,
        "functions": [asdict(each) for each in facts.library],
        "objects": metagraph.objects,
        "bytes": facts.bytes,
        "ops": dict(metagraph.ops),
        "saver": None if metagraph.saver is None else asdict(metagraph.saver),
        "collections": [asdict(each) for each in metagraph.collections],
        "signatures": [asdict(each) for each in metagraph.signatures],
        "other_signatures": [
            {**asdict(each), "tensors": dict(each.tensors)} for each in metagraph.other_signatures
        ],
        "assets": [asdict(each) for each in metagraph.assets],
        "run_ops": [asdict(each) for each in facts.run_ops],
        "largest_nodes": [asdict(each) for each in facts.sizes],
        "constants": [asdict(each) for each in facts.constants],
        "effects": [asdict(each) for each in facts.effects],
        "devices": dict(facts.devices),
        "variables": [_variable_document(row) for row in report.variables],
        "comparison": None if report.comparison is None else comparison_document(report.comparison),
    }


def comparison_document(comparison: VariableComparison) -> dict[str, object]:
    """Return what came of holding a graph against a checkpoint, without the variables."""
    return {
        "agrees": comparison.agrees if comparison.reason is None else None,
        "reason": comparison.reason,
        **{each: comparison.count(each) for each in DISAGREEMENTS},
        "unsaved": len(comparison.unsaved),
    }


def _variable_document(row: VariableRow) -> dict[str, object]:
    return {**asdict(row), "disagreements": row.disagreements}
