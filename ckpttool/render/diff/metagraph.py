"""What differs between two graphs, as text, rows and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TextIO, cast

from ckpttool.metagraph.compare.changes import PARTS, MetaGraphChange
from ckpttool.printable import printable
from ckpttool.query.diff.metagraph import CHANGE_WORDS, MetaGraphDiff, MetaGraphPair
from ckpttool.render import humanize
from ckpttool.render.aligned import write_table
from ckpttool.render.cells import Column
from ckpttool.render.console import Terminal
from ckpttool.render.diff.json import SCHEMA
from ckpttool.render.jsonout import write_json, write_jsonl
from ckpttool.render.table import RowFormat, write_rows
from ckpttool.render.wrap import write_prose

_LETTERS = {"added": "A", "removed": "D", "changed": "M"}
_STYLES = {"added": "green", "removed": "red", "changed": "yellow"}
_MARKS = {"added": "+ ", "removed": "- ", "changed": "~ "}
# So many differences of one sort are shown, unless all are asked for.
_SHOWN = 50
_TITLES = {"tag": "tags", "op": "definitions of ops", "saver": "Saver", "version": "versions"}
_COLUMNS = (
    Column("name", fold=True),
    Column("status"),
    Column("part"),
    Column("change"),
    Column("what"),
    Column("a", fold=True),
    Column("b", fold=True),
    Column("tags"),
)
_STAT = (
    Column("part"),
    *(Column(word, align="right", human=humanize.number) for word in CHANGE_WORDS),
)


def write_graph_diff(
    diff: MetaGraphDiff,
    format: str,
    stream: TextIO,
    terminal: Terminal,
    *,
    view: str | None = None,
    everything: bool = False,
) -> None:
    """Write what differs between two graphs.

    Args:
        diff: what differs.
        format: "json" or one of the row formats.
        stream: where to.
        terminal: what `stream` is.
        view: "stat", "name-only" or "name-status" in place of the whole.
        everything: leave nothing out.
    """
    if view == "stat":
        write_rows(_stat(diff), _STAT, cast(RowFormat, format), stream, terminal=terminal)
    elif view is not None:
        _write_names(diff, stream, terminal, status=view == "name-status")
    elif format == "json":
        write_json(_document(diff), stream)
    elif format == "jsonl":
        write_jsonl(map(_pair_document, diff.graphs), stream)
    elif format == "table":
        _write_for_people(diff, stream, terminal, everything=everything)
    else:
        rows = (row for pair in diff.graphs for row in _rows(pair))
        write_rows(rows, _COLUMNS, cast(RowFormat, format), stream, terminal=terminal)


def _rows(pair: MetaGraphPair) -> Iterator[tuple[object, ...]]:
    tags = ",".join(pair.tags) or None
    if pair.presence != "both":
        word = "removed" if pair.presence == "a" else "added"
        yield (tags, _LETTERS[word], "graph", word, None, None, None, tags)
    for each in pair.changes:
        letter = _LETTERS[each.change]
        yield (each.name, letter, each.part, each.change, each.what, each.a, each.b, tags)


def _stat(diff: MetaGraphDiff) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    alone = [sum(pair.presence == side for pair in diff.graphs) for side in ("b", "a")]
    if any(alone):
        rows.append(("graph", *alone, 0))
    for part in PARTS:
        counts = [sum(pair.counts()[part, word] for pair in diff.graphs) for word in CHANGE_WORDS]
        if any(counts):
            rows.append((part, *counts))
    return rows


def _write_names(diff: MetaGraphDiff, stream: TextIO, terminal: Terminal, *, status: bool) -> None:
    """Write each thing that differs on a line, its part before its name, and none twice."""
    lines: dict[tuple[str, str], str] = {}
    for pair in diff.graphs:
        for row in _rows(pair):
            lines.setdefault((str(row[2]), str(row[0] or "")), str(row[1]))
    for (part, name), letter in lines.items():
        head = f"{terminal.style(letter, _STYLES[_word(letter)])}\t" if status else ""
        stream.write(f"{head}{part}\t{printable(name)}\n")


def _word(letter: str) -> str:
    return next(word for word, each in _LETTERS.items() if each == letter)


def _write_for_people(
    diff: MetaGraphDiff, stream: TextIO, terminal: Terminal, *, everything: bool
) -> None:
    for mark, path, style in (("---", diff.a, "red"), ("+++", diff.b, "green")):
        write_prose(f"{mark} {printable(path)}", stream, terminal, style=style)
    for pair in diff.graphs:
        if len(diff.graphs) > 1:
            name = printable(", ".join(pair.tags)) or "without tags"
            state = {"a": ": only in A", "b": ": only in B"}.get(pair.presence, "")
            state = ": equal" if pair.equal else state
            stream.write("\n")
            write_prose(f"MetaGraph {name}{state}", stream, terminal, style="bold")
        for part in PARTS:
            chosen = [each for each in pair.changes if each.part == part]
            if not chosen:
                continue
            shown = chosen if everything else chosen[:_SHOWN]
            columns = (
                Column(_TITLES.get(part, f"{part}s"), fold=True, style="yellow"),
                Column("", fold=True),
            )
            stream.write("\n")
            write_table(((_name(each), _text(each)) for each in shown), columns, stream, terminal)
            if len(shown) < len(chosen):
                rest = humanize.number(len(chosen) - len(shown))
                stream.write(f"  ... {rest} more; --all shows them\n")
    stream.write("\n")
    write_prose(_summary(diff), stream, terminal, style="dim")


def _name(change: MetaGraphChange) -> str:
    return _MARKS[change.change] + (change.name or "the root")


def _text(change: MetaGraphChange) -> str:
    head = change.what or ""
    if change.change != "changed":
        return change.a or change.b or ""
    if change.a is None and change.b is None:
        return head or "not the same"
    ends = " → ".join("none" if side is None else side for side in (change.a, change.b))
    return f"{head}: {ends}" if head else ends


def _summary(diff: MetaGraphDiff) -> str:
    if diff.equal:
        return f"equal: {humanize.counted(len(diff.graphs), 'graph')}"
    parts = []
    for part, *counts in _stat(diff):
        words = [
            f"{humanize.number(cast(int, count))} {word}"
            for count, word in zip(counts, CHANGE_WORDS, strict=True)
            if count
        ]
        parts.append(f"{part}: {', '.join(words)}")
    return "; ".join(parts)


def _document(diff: MetaGraphDiff) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "verdict": "equal" if diff.equal else "different",
        "paths": [diff.a, diff.b],
        "metagraphs": [_pair_document(pair) for pair in diff.graphs],
        "problems": [],
    }


def _pair_document(pair: MetaGraphPair) -> dict[str, object]:
    counts = pair.counts()
    return {
        "tags": pair.tags,
        "presence": pair.presence,
        "equal": pair.equal,
        "changes": [asdict(each) for each in pair.changes],
        "totals": {
            part: {word: counts[part, word] for word in CHANGE_WORDS}
            for part in PARTS
            if any(counts[part, word] for word in CHANGE_WORDS)
        },
    }
