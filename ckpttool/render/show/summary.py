"""The summary of a checkpoint as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import zip_longest
from typing import TextIO

from ckpttool.metagraph.facts import MetaGraph
from ckpttool.printable import printable
from ckpttool.query.summary import GraphSummary, Group, Summary, Writer
from ckpttool.render import humanize
from ckpttool.render.aligned import write_table
from ckpttool.render.cells import Column
from ckpttool.render.console import Terminal
from ckpttool.render.jsonout import source_document, write_json, write_jsonl
from ckpttool.render.metagraph import comparison_document, comparison_text
from ckpttool.render.show.json import SCHEMA

# So many scopes are listed before the rest is only counted.
_MOST_SCOPES = 20
_MOST_ITEMS = 8
_COUNTS = (
    Column("tensors", align="right", human=humanize.number),
    Column("parameters", align="right", human=humanize.number),
    Column("bytes", align="right", human=humanize.size),
)


def write_summary(
    summary: Summary, format: str, stream: TextIO, terminal: Terminal, *, full: bool = False
) -> None:
    """Write a summary.

    Args:
        summary: what to write.
        format: "json", "jsonl", or "table" or "plain" for text.
        stream: where to.
        terminal: what `stream` is.
        full: whether to list everything in text, however long it is.
    """
    if format == "json":
        document = {"schema": SCHEMA, "source": source_document(summary.source)}
        write_json({**document, "summary": _document(summary)}, stream)
    elif format == "jsonl":
        write_jsonl([_document(summary)], stream)
    else:
        _write_text(summary, stream, terminal, full=full)


def _write_text(summary: Summary, stream: TextIO, terminal: Terminal, *, full: bool) -> None:
    stream.write(terminal.style(printable(summary.source.prefix), "bold") + "\n")
    for name, value in _facts(summary):
        stream.write(f"{terminal.style(f'{name:<12}', 'cyan')}{value}\n")
    _write_groups("kind", summary.kinds, stream, terminal)
    most = len(summary.scopes) if full else _MOST_SCOPES
    _write_groups("scope", summary.scopes[:most], stream, terminal)
    if len(summary.scopes) > most:
        stream.write(f"... {humanize.counted(len(summary.scopes) - most, 'more scope')}\n")
    if summary.graph is not None:
        _write_lines(_graph(summary.graph), stream, terminal)
    for number, metagraph in enumerate(summary.metagraphs):
        lines = [*_metagraph(metagraph, full=full)]
        if number < len(summary.comparisons):
            lines.append(f"  variables {comparison_text(summary.comparisons[number])}")
        _write_lines(lines, stream, terminal)
    if summary.problems:
        stream.write("\n")
    for problem in summary.problems:
        stream.write(f"{terminal.style('cannot read', 'red')} {problem}\n")


def _facts(summary: Summary) -> Iterator[tuple[str, str]]:
    source, totals = summary.source, summary.totals
    yield "written by", _writer(summary.writer)
    style = "object-based" if source.style == "object" else "name-based"
    order = "" if source.byte_order is None else f", {source.byte_order}-endian"
    yield "format", f"{source.generation}, {style}{order}"
    files = [] if source.index_bytes is None else [f"index {humanize.size(source.index_bytes)}"]
    present = [shard for shard in summary.shards if shard.bytes is not None]
    if present:
        noun = "file" if source.index_bytes is None else "data shard"
        shards = humanize.counted(len(present), noun)
        files.append(f"{shards} {humanize.size(source.data_bytes)}")
    yield "files", ", ".join(files)
    missing = [shard for shard in summary.shards if shard.bytes is None]
    if missing:
        yield "missing", ", ".join(printable(shard.name) for shard in missing)
    if summary.latest is not None:
        yield "latest", "yes" if summary.latest else "no"
    if summary.steps:
        steps = (
            f"{printable(step.object_path or step.key)} "
            f"{'(unreadable)' if step.value is None else step.value}"
            for step in summary.steps
        )
        yield "step", ", ".join(steps)
    parameters = humanize.counted(totals.parameters, "parameter")
    yield (
        "tensors",
        f"{humanize.number(totals.tensors)}, {parameters}, {humanize.size(totals.bytes)}",
    )


def _writer(writer: Writer) -> str:
    if writer.version is not None:
        return f"TensorFlow {printable(writer.version)} (says {printable(writer.evidence or '')})"
    if writer.generation is not None:
        return f"{writer.generation} (by its object graph; no version is recorded)"
    return "not recorded"


def _write_groups(name: str, groups: Sequence[Group], stream: TextIO, terminal: Terminal) -> None:
    if groups:
        stream.write("\n")
        rows = [(group.name, group.tensors, group.parameters, group.bytes) for group in groups]
        write_table(rows, (Column(name, fold=True), *_COUNTS), stream, terminal)


def _write_lines(lines: Iterable[str], stream: TextIO, terminal: Terminal) -> None:
    stream.write("\n")
    for number, line in enumerate(lines):
        stream.write(f"{line if number else terminal.style(line, 'bold')}\n")


def _graph(graph: GraphSummary) -> Iterator[str]:
    counts = [humanize.counted(graph.objects, "object")]
    if graph.slots:
        counts.append(humanize.counted(graph.slots, "slot variable"))
    yield f"object graph: {', '.join(counts)}"
    for optimizer in graph.optimizers:
        slots = ", ".join(f"{printable(name)} × {count}" for name, count in optimizer.slots)
        path = printable(optimizer.path) or "(root)"
        yield f"  optimizer {path}" + (f": slots {slots}" if slots else "")


def _metagraph(metagraph: MetaGraph, *, full: bool) -> Iterator[str]:
    tags = f" {', '.join(map(printable, metagraph.tags))}" if metagraph.tags else ""
    counts = [humanize.counted(metagraph.nodes, "node")]
    if metagraph.functions:
        counts.append(humanize.counted(metagraph.functions, "function"))
    counts.append(humanize.counted(len(metagraph.ops), "kind") + " of op")
    yield f"MetaGraph{tags}: {', '.join(counts)}"
    if metagraph.tensorflow_version:
        yield f"  written by TensorFlow {printable(metagraph.tensorflow_version)}"
    for signature in metagraph.signatures:
        method = f" ({printable(signature.method)})" if signature.method else ""
        yield f"  signature {printable(signature.key)}{method}"
        for word, tensors in (("in ", signature.inputs), ("out", signature.outputs)):
            for one in tensors:
                yield f"    {word} {printable(one.key)}  {_dtype_and_shape(one.dtype, one.shape)}"
    for other in metagraph.other_signatures:
        yield f"  {printable(other.name)} ({other.kind}): {printable(other.reason)}"
    if metagraph.collections:
        listed = [f"{printable(one.key)} {one.size}" for one in metagraph.collections]
        yield f"  collections {_some(listed, full=full)}"
    if metagraph.saver is not None:
        saver = metagraph.saver
        sharded = ", sharded" if saver.sharded else ""
        yield f"  saver {saver.version}{sharded}, keeps {saver.max_to_keep or 'all'}"
    if metagraph.assets:
        listed = [printable(asset.filename) for asset in metagraph.assets]
        yield f"  assets {_some(listed, full=full)}"


def _some(items: list[str], *, full: bool) -> str:
    shown = items if full else items[:_MOST_ITEMS]
    rest = len(items) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


def _dtype_and_shape(dtype: str, shape: Sequence[int] | None) -> str:
    if shape is None:
        # What a signature calls an output may be an operation, which has neither.
        return "no dtype" if dtype == "invalid" else f"{dtype} of any shape"
    return f"{dtype} {humanize.partial_shape(shape)}"


def _document(summary: Summary) -> dict[str, object]:
    return {
        "writer": asdict(summary.writer),
        "latest": summary.latest,
        "shards": [asdict(shard) for shard in summary.shards],
        "totals": _amounts(summary.totals),
        "kinds": [asdict(group) for group in summary.kinds],
        "scopes": [asdict(group) for group in summary.scopes],
        "steps": [asdict(step) for step in summary.steps],
        "graph": None if summary.graph is None else _graph_document(summary.graph),
        "metagraphs": [
            _metagraph_document(metagraph)
            | {"comparison": comparison_document(comparison) if comparison else None}
            for metagraph, comparison in zip_longest(
                summary.metagraphs, summary.comparisons[: len(summary.metagraphs)]
            )
        ],
        "problems": summary.problems,
    }


def _amounts(group: Group) -> dict[str, object]:
    return {"tensors": group.tensors, "parameters": group.parameters, "bytes": group.bytes}


def _graph_document(graph: GraphSummary) -> dict[str, object]:
    return {
        "objects": graph.objects,
        "slots": graph.slots,
        "optimizers": [
            {"path": optimizer.path, "slots": dict(optimizer.slots)}
            for optimizer in graph.optimizers
        ],
    }


def _metagraph_document(metagraph: MetaGraph) -> dict[str, object]:
    saver = metagraph.saver
    return {
        "path": metagraph.path,
        "tensorflow_version": metagraph.tensorflow_version or None,
        "tags": metagraph.tags,
        "nodes": metagraph.nodes,
        "functions": metagraph.functions,
        "ops": dict(metagraph.ops),
        "signatures": [asdict(signature) for signature in metagraph.signatures],
        "collections": [asdict(collection) for collection in metagraph.collections],
        "saver": None
        if saver is None
        else {
            "version": saver.version,
            "sharded": saver.sharded,
            "max_to_keep": saver.max_to_keep,
        },
        "assets": [asset.filename for asset in metagraph.assets],
    }
