"""The values of tensors as text: each under a line that says what it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO, cast

from ckpttool.objects.graph import Node
from ckpttool.printable import printable
from ckpttool.query.source import Source
from ckpttool.query.values.detail import GraphDetail, TensorDetail, Values, Variants
from ckpttool.query.values.statistics import Histogram, Statistics
from ckpttool.query.values.variants import InnerTensor, PartialShape, VariantDetail
from ckpttool.render import humanize
from ckpttool.render.cells import alarm_style, kind_style, mark_numbers, number_style
from ckpttool.render.console import Terminal
from ckpttool.render.layout import index_of_element, lay_out
from ckpttool.render.names import NAME, NameColumns
from ckpttool.render.show.json import index_text, write_details_json, write_details_jsonl
from ckpttool.render.show.statistics import write_statistics
from ckpttool.render.table import RowFormat
from ckpttool.render.wrap import Piece, flow, prose

# Where nothing limits lines, values are wrapped here all the same.
_WIDTH = 80
_LEAST_WIDTH = 20
_BARS = " ▁▂▃▄▅▆▇█"


def write_details(
    source: Source,
    details: Iterable[TensorDetail],
    names: NameColumns,
    format: str,
    stream: TextIO,
    terminal: Terminal,
    *,
    stats: bool = False,
    precision: int | None = None,
    full: bool = False,
) -> None:
    """Write tensors, each as it comes.

    Args:
        source: the checkpoint that they are from.
        details: the tensors.
        names: their names, for people.
        format: "json" or "jsonl"; "table" or "plain" for text, one tensor under another; with
            `stats` any of the row formats.
        stream: where to.
        terminal: what `stream` is; its width is that of the lines of values.
        stats: write statistics alone, a row for each tensor.
        precision: digits behind the point at most, in text; as many as it takes by default.
        full: whether to write strings out in text, however long they are.
    """
    if format == "json":
        write_details_json(source, details, stream)
    elif format == "jsonl":
        write_details_jsonl(source, details, stream)
    elif stats:
        write_statistics(details, names, cast(RowFormat, format), stream, terminal)
    else:
        for number, detail in enumerate(details):
            if number:
                stream.write("\n")
            for line in detail_lines(detail, names, terminal, precision=precision, full=full):
                stream.write(line + "\n")


def detail_lines(
    detail: TensorDetail,
    names: NameColumns,
    terminal: Terminal,
    *,
    precision: int | None = None,
    full: bool = False,
) -> Iterator[str]:
    """Yield the lines of one tensor."""
    yield from flow(_header(detail, names), terminal, gap="  ")
    content = detail.content
    width = max(terminal.width or _WIDTH, _LEAST_WIDTH)
    if isinstance(content, Values):
        texts = content.texts(precision=precision, full=full)
        lines = lay_out(texts, content.shape, content.gaps, width=width)
        marked = terminal.color and detail.dtype != "string"
        yield from (mark_numbers(line, terminal) for line in lines) if marked else lines
    elif isinstance(content, Variants):
        for line in _variants(content, width):
            yield from prose(line, terminal)
    elif content is not None:
        yield from _graph(content, terminal)
    # Of a scalar they would say the same once more.
    if detail.statistics is not None and detail.part:
        yield from flow(_statistics(detail.statistics), terminal, gap="  ")
    if detail.histogram is not None and terminal.unicode:
        yield terminal.style(draw_histogram(detail.histogram, width), "dim")


def _header(detail: TensorDetail, names: NameColumns) -> Iterator[Piece]:
    shape = humanize.shape(detail.part)
    if detail.index is not None:
        shape += f" of {humanize.shape(detail.shape)}"
    yield printable(names.shown(detail)) + index_text(detail), "bold"
    if (name := names.name(detail)) is not None:
        yield printable(name), NAME.style_of(name)
    yield detail.dtype, ""
    yield shape, "green"
    yield humanize.size(detail.bytes), ""
    yield detail.kind, kind_style(detail.kind)
    if not detail.verified:
        yield "not checked", ""


def _statistics(summary: Statistics) -> Iterator[Piece]:
    """Yield each figure with its style; those that nobody wants to see stand out."""
    if summary.true is not None:
        yield f"true {humanize.number(summary.true)}", "dim"
        yield f"false {humanize.number(summary.zeros)}", "dim"
        return
    lead = {"lengths": "bytes: ", "magnitudes": "magnitudes: "}.get(summary.of, "")
    for name in ("min", "max", "mean", "std"):
        value = getattr(summary, name)
        if value is not None:
            text = f"{lead}{name} {humanize.figure(value)}"
            yield text, number_style(text) or "dim"
            lead = ""
    if summary.of == "lengths":
        yield f"empty {humanize.number(summary.zeros)}", "dim"
        return
    yield f"{lead}zeros {humanize.number(summary.zeros)}", "dim"
    for name, count in (("NaN", summary.nan), ("Inf", summary.inf)):
        text = humanize.number(count)
        yield f"{name} {text}", alarm_style(text) or "dim"


def _variants(content: Variants, width: int) -> Iterator[str]:
    scalar = content.shape == ()
    for number, element in enumerate(content.elements):
        label = (
            "" if scalar else f"[{', '.join(map(str, index_of_element(number, content.shape)))}] "
        )
        yield from _variant(element, label, 0, width)
    total = 1
    for dim in content.shape:
        total *= dim
    left_out = total - len(content.elements)
    if left_out:
        yield f"... {humanize.counted(left_out, 'more element')}"


def _variant(detail: VariantDetail, label: str, depth: int, width: int) -> Iterator[str]:
    indent = "  " * depth
    facts = [_fact(name, value) for name, value in detail.facts]
    if detail.metadata:
        facts.append(f"{len(detail.metadata)} bytes of metadata")
    note = f"  {', '.join(facts)}" if facts else ""
    yield f"{indent}{label}{printable(detail.type_name)}{note}"
    for inner in detail.tensors:
        yield from _inner_tensor(inner, depth + 1, width)


def _inner_tensor(inner: InnerTensor, depth: int, width: int) -> Iterator[str]:
    indent = "  " * depth
    name = f"{printable(inner.name)}  " if inner.name else ""
    if not inner.variants or inner.shape != ():
        yield f"{indent}{name}{inner.dtype} {_partial_shape(inner.shape)}"
    if inner.values is not None:
        gaps = (None,) * len(inner.values.shape)
        for line in lay_out(inner.texts(), inner.values.shape, gaps, width=width):
            yield f"{indent}  {line}"
    for at, variant in enumerate(inner.variants):
        label = name if inner.shape == () else f"[{at}] "
        yield from _variant(variant, label, depth, width)


def _fact(name: str, value: object) -> str:
    if isinstance(value, bool):
        return f"{'has' if value else 'no'} {name}"
    if name == "shape":
        return _partial_shape(value)  # type: ignore[arg-type]
    if isinstance(value, tuple):
        return f"{name} {', '.join(printable(str(item)) for item in value)}"
    return f"{name.replace('_', ' ')} {printable(str(value))}"


def _partial_shape(shape: PartialShape) -> str:
    if shape is None:
        return "of any shape"
    return f"[{', '.join('?' if dim is None else str(dim) for dim in shape)}]"


def _graph(content: GraphDetail, terminal: Terminal) -> Iterator[str]:
    total, paths = len(content.graph.nodes), content.graph.paths
    counts = humanize.counted(total, "object")
    if content.graph.slots:
        counts += f", {humanize.counted(len(content.graph.slots), 'slot variable')}"
    yield from prose(f"object graph: {counts}", terminal)
    for node in content.nodes:
        path = paths[node.id]
        shown = "(unreachable)" if path is None else printable(path) or "(root)"
        yield from flow([(f"#{node.id}", ""), (shown, "bold")], terminal)
        for line in _node(node, paths):
            yield from prose(line, terminal)
    left_out = total - len(content.nodes)
    if left_out:
        more = f"... {humanize.counted(left_out, 'more object')}; --full shows all"
        yield from prose(more, terminal)


def _node(node: Node, paths: Sequence[str | None]) -> Iterator[str]:
    if node.children:
        edges = (f"{printable(edge.name)} #{edge.node_id}" for edge in node.children)
        yield f"    children: {', '.join(edges)}"
    for one in node.attributes:
        notes = [f"key {printable(one.checkpoint_key)}"]
        if one.full_name:
            notes.append(f"full name {printable(one.full_name)}")
        if one.optional_restore:
            notes.append("optional")
        yield f"    {printable(one.name)}: {', '.join(notes)}"
    for slot in node.slots:
        variable = printable(paths[slot.variable_id] or "") or f"#{slot.variable_id}"
        yield f"    slot {printable(slot.slot_name)} of {variable}: #{slot.slot_id}"
    if node.saver is not None:
        yield f"    saved by {printable(node.saver.name)}"


def draw_histogram(histogram: Histogram, width: int) -> str:
    """Return a histogram as bars between its ends: `-0.5 |▁▃▆█▆▃▁| 0.49`.

    Every bin that holds anything has a bar. On a narrow line neighbouring bins are joined.

    Args:
        histogram: what to draw.
        width: the length of the line, as far as possible.
    """
    low, high = f"{histogram.low:.4g}", f"{histogram.high:.4g}"
    room = max(width - len(low) - len(high) - 4, 4)
    counts = list(histogram.counts)
    while len(counts) > room:
        counts = [sum(counts[at : at + 2]) for at in range(0, len(counts), 2)]
    most = max(counts, default=0) or 1
    steps = len(_BARS) - 1
    bars = "".join(_BARS[-(-count * steps // most)] for count in counts)
    return f"{low} |{bars}| {high}"
