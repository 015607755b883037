"""The summary of a checkpoint as text and as JSON."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import zip_longest
from typing import TextIO

from ckpttool.metagraph.facts import MetaGraph
from ckpttool.objects.keys import GRAPH_KEY
from ckpttool.printable import printable, shortened
from ckpttool.query.metagraph.variables import VariableComparison
from ckpttool.query.summary import GraphSummary, Group, Summary, Writer
from ckpttool.render import humanize
from ckpttool.render.aligned import write_table
from ckpttool.render.bars import with_shares
from ckpttool.render.cells import Column, Row, kind_style
from ckpttool.render.console import Terminal
from ckpttool.render.jsonout import source_document, write_json, write_jsonl
from ckpttool.render.metagraph import comparison_document, comparison_text
from ckpttool.render.show.json import SCHEMA
from ckpttool.render.wrap import words, write_fact, write_flow, write_prose

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
        format: "json", "jsonl", or text: "table", with bars, or "plain".
        stream: where to.
        terminal: what `stream` is.
        full: whether to list everything in text, however long it is; else it is a card.
    """
    if format == "json":
        document = {"schema": SCHEMA, "source": source_document(summary.source)}
        write_json({**document, "summary": _document(summary)}, stream)
    elif format == "jsonl":
        write_jsonl([_document(summary)], stream)
    else:
        _write_text(summary, stream, terminal, full=full, bars=format == "table")


def _write_text(
    summary: Summary, stream: TextIO, terminal: Terminal, *, full: bool, bars: bool
) -> None:
    write_prose(printable(summary.source.prefix), stream, terminal, style="bold")
    for name, value, style in _facts(summary, full=full):
        write_fact(name, value, stream, terminal, style=style)
    kinds = sorted(summary.kinds, key=lambda group: -group.bytes)
    whole = summary.totals.bytes if bars else 0
    _write_groups("kind", kinds, whole, stream, terminal)
    scopes = [group for group in summary.scopes if group.name != GRAPH_KEY]
    shown = scopes if full else scopes[:_MOST_SCOPES]
    _write_groups("scope", shown, whole, stream, terminal)
    if len(scopes) > len(shown):
        stream.write(f"... {humanize.counted(len(scopes) - len(shown), 'more scope')}\n")
    if full:
        _write_details(summary, stream, terminal)
    if summary.problems:
        stream.write("\n")
    for problem in summary.problems:
        write_flow([("cannot read", "red"), *words(problem)], stream, terminal)


def _facts(summary: Summary, *, full: bool) -> Iterator[tuple[str, str, str]]:
    """Yield the lines of the card: label, value, and the style of the value."""
    source, weights = summary.source, summary.of_kind("weight")
    yield "parameters", _parameters(weights), "bold"
    tensors = humanize.counted(summary.tensors, "tensor")
    graph = " and the object graph" if summary.of_kind("graph").tensors else ""
    yield "stored", f"{tensors}{graph}, {humanize.size(summary.totals.bytes)}", ""
    dtypes = sorted(summary.dtypes, key=lambda group: -group.bytes)
    if dtypes:
        listed = [f"{group.name} × {humanize.number(group.tensors)}" for group in dtypes]
        yield "dtypes", _some(listed, full=full), ""
    steps = [
        f"{printable(step.object_path or step.key)} "
        f"{'(unreadable)' if step.value is None else step.value}"
        for step in summary.steps
    ]
    if steps:
        yield "step", _some(steps, full=full), ""
    if summary.latest is not None:
        yield "latest", "yes" if summary.latest else "no", "green" if summary.latest else ""
    yield "written by", _writer(summary.writer), ""
    style = "object-based" if source.style == "object" else "name-based"
    order = "" if source.byte_order is None else f", {source.byte_order}-endian"
    yield "format", f"{source.generation}, {style}{order}", ""
    yield "files", _files(summary), ""
    if summary.metadata:
        told = [
            f"{printable(shortened(name))}={printable(shortened(text))}"
            for name, text in summary.metadata
        ]
        yield "metadata", _some(told, full=full), ""
    for error in summary.damage:
        yield (
            "damage",
            f"{printable(os.path.basename(error.path or ''))}: {error.message}",
            "bold red",
        )
    if not full:  # else they follow in detail
        if summary.graph is not None:
            yield "objects", _objects(summary.graph), ""
        for metagraph, comparison in zip_longest(summary.metagraphs, summary.comparisons):
            if metagraph is not None:
                yield "MetaGraph", _in_short(metagraph, comparison), ""
    savings = _savings(summary)
    if savings:
        yield "prune", savings, ""


def _parameters(weights: Group) -> str:
    if not weights.tensors:
        return "no weights"
    exact, short = humanize.number(weights.parameters), humanize.amount(weights.parameters)
    count = short if short == exact else f"{short} ({exact})"
    return f"{count} in {humanize.counted(weights.tensors, 'weight')}"


def _files(summary: Summary) -> str:
    source = summary.source
    files = [] if source.index_bytes is None else [f"index {humanize.size(source.index_bytes)}"]
    present = [shard for shard in summary.shards if shard.bytes is not None]
    if present:
        noun = "file" if source.index_bytes is None else "data shard"
        shards = humanize.counted(len(present), noun)
        files.append(f"{shards} {humanize.size(source.data_bytes)}")
    return ", ".join(files)


def _savings(summary: Summary) -> str:
    """Return what `ckpt prune` would save."""
    whole = summary.totals.bytes
    parts = [
        f"--{option} saves {humanize.size(group.bytes)} ({100 * group.bytes / whole:.0f} %)"
        for option, group in (("slots", summary.slots), ("optimizer", summary.optimizer))
        if group.bytes
    ]
    return ", ".join(parts)


def _objects(graph: GraphSummary) -> str:
    first, *rest = _graph(graph)
    return "; ".join([first.partition(": ")[2], *map(str.strip, rest)])


def _in_short(metagraph: MetaGraph, comparison: VariableComparison | None) -> str:
    parts = [humanize.counted(metagraph.nodes, "node")]
    names = [printable(signature.key) for signature in metagraph.signatures]
    if names:
        noun = "signature" if len(names) == 1 else "signatures"
        parts.append(f"{noun} {_some(names, full=False)}")
    if comparison is not None:
        parts.append(comparison_text(comparison))
    tags = ", ".join(map(printable, metagraph.tags))
    return (f"{tags}: " if tags else "") + "; ".join(parts)


def _write_details(summary: Summary, stream: TextIO, terminal: Terminal) -> None:
    if summary.graph is not None:
        _write_lines(_graph(summary.graph), stream, terminal)
    for number, metagraph in enumerate(summary.metagraphs):
        lines = [*_metagraph(metagraph, full=True)]
        if number < len(summary.comparisons):
            lines.append(f"  variables {comparison_text(summary.comparisons[number])}")
        _write_lines(lines, stream, terminal)


def _writer(writer: Writer) -> str:
    if writer.version is not None:
        return f"TensorFlow {printable(writer.version)} (says {printable(writer.evidence or '')})"
    if writer.generation is not None:
        return f"{writer.generation} (by its object graph; no version is recorded)"
    return "not recorded"


def _write_groups(
    name: str, groups: Sequence[Group], whole: int, stream: TextIO, terminal: Terminal
) -> None:
    """Write a table of groups, with their shares of so many bytes, if any."""
    if not groups:
        return
    rows: Sequence[Row] = [
        (
            group.name,
            group.tensors if group.name != "graph" else None,  # it is stored as one, but is none
            group.weights or None,
            group.bytes,
        )
        for group in groups
    ]
    head = Column(name, fold=True, style=kind_style if name == "kind" else "")
    parts = [group.bytes for group in groups]
    rows, columns = with_shares(rows, (head, *_COUNTS), parts, whole, terminal)
    stream.write("\n")
    write_table(rows, columns, stream, terminal)


def _write_lines(lines: Iterable[str], stream: TextIO, terminal: Terminal) -> None:
    stream.write("\n")
    for number, text in enumerate(lines):
        write_prose(text, stream, terminal, style="" if number else "bold")


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
    names = summary.source.names
    return {
        "writer": asdict(summary.writer),
        "latest": summary.latest,
        "shards": [asdict(shard) for shard in summary.shards],
        "totals": _amounts(summary.totals),
        "kinds": [asdict(group) for group in summary.kinds],
        "scopes": [asdict(group) for group in summary.scopes],
        "dtypes": [asdict(group) for group in summary.dtypes],
        "prune": {"slots": _amounts(summary.slots), "optimizer": _amounts(summary.optimizer)},
        "metadata": dict(summary.metadata),
        "damage": [{"path": each.path, "message": each.message} for each in summary.damage],
        "steps": [asdict(step) | names.members(step.key) for step in summary.steps],
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
    return {name: value for name, value in asdict(group).items() if name != "name"}


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
