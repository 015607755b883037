"""Summaries as text and JSON; real ones are held to golden files in tests/cli."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

from ckpttool.errors import MissingFileError
from ckpttool.metagraph.facts import Collection, MetaGraph, Saver
from ckpttool.metagraph.signatures import Signature, SignatureTensor
from ckpttool.query.source import Source
from ckpttool.query.summary import (
    GraphSummary,
    Group,
    OptimizerSummary,
    ShardSummary,
    StepValue,
    Summary,
    Writer,
)
from ckpttool.render.console import Terminal
from ckpttool.render.show.summary import write_summary
from tests.support.schemas import validate

BARE = Summary(
    source=Source("t", "model\x1b", "V2", "name", 1, "big", 100, 0, ()),
    writer=Writer(None, None, None),
    latest=None,
    shards=(),
    totals=Group("", 1, 2, 3, 2),
    kinds=(Group("weight", 1, 2, 3, 2),),
    scopes=(Group("a\nb", 1, 2, 3, 2),),
    steps=(),
    graph=None,
    metagraphs=(),
    problems=(),
)
METAGRAPH = MetaGraph(
    path="saved_model.pb",
    tensorflow_version="9.9\x1b",
    git_version="",
    producer=1,
    stripped_default_attrs=False,
    tags=("serve", "gpu"),
    nodes=7,
    functions=1,
    ops=(("Add", 4), ("Const", 3)),
    objects=0,
    collections=tuple(Collection(f"c{number}", "node_list", number) for number in range(10)),
    variables={},
    signatures=(
        Signature(
            "s",
            "",
            (SignatureTensor("x", ("x:0",), "float32", (-1, 2)),),
            (
                SignatureTensor("y", ("y:0",), "float32", None),
                SignatureTensor("op", ("op",), "invalid", None),
            ),
        ),
    ),
    saver=Saver("", "", "", 5, 0.0, True, "V2"),
    assets=(),
)


def text_of(summary: Summary, *, color: bool = False, full: bool = False) -> str:
    out = io.StringIO()
    write_summary(summary, "plain", out, Terminal(color=color), full=full)
    return out.getvalue()


def document_of(summary: Summary) -> dict[str, Any]:
    out = io.StringIO()
    write_summary(summary, "json", out, Terminal())
    found: dict[str, Any] = json.loads(out.getvalue())
    validate(found, "ckpt.show/1")
    line = io.StringIO()
    write_summary(summary, "jsonl", line, Terminal())
    assert json.loads(line.getvalue()) == found["summary"]
    return found


def test_as_little_as_there_can_be() -> None:
    assert text_of(BARE) == (
        "model\\x1b\n"
        "parameters  2 in 1 weight\n"
        "stored      1 tensor, 3 B\n"
        "written by  not recorded\n"
        "format      V2, name-based, big-endian\n"
        "files       index 100 B\n"
        "\n"
        "kind    tensors  parameters  bytes\n"
        "weight        1           2    3 B\n"
        "\n"
        "scope  tensors  parameters  bytes\n"
        "a\\nb         1           2    3 B\n"
    )
    assert document_of(BARE)["summary"]["graph"] is None


def test_as_much_as_there_can_be() -> None:
    summary = replace(
        BARE,
        latest=False,
        totals=Group("", 4, 43_600_006, 1000, 26_600_000),
        kinds=(
            Group("graph", 1, 0, 100),
            Group("slot", 1, 17_000_000, 400),
            Group("weight", 2, 26_600_006, 500, 26_600_006),
        ),
        dtypes=(Group("int64", 1, 6, 1), Group("float32", 2, 9, 800)),
        slots=Group("", 1, 17_000_000, 400),
        optimizer=Group("", 1, 17_000_000, 400),
        shards=(ShardSummary("m.data-0", 7), ShardSummary("m.data-1", None)),
        damage=(MissingFileError("the data shard is missing", path="x/m.data-1\x1b"),),
        steps=(StepValue("k", "step", 5), StepValue("k2", None, None)),
        graph=GraphSummary(9, 2, True, (OptimizerSummary("", (("m", 2),)),)),
        metagraphs=(METAGRAPH,),
        problems=("x: y",),
    )
    text = text_of(summary)
    card = (
        "parameters  26.6 M (26,600,006) in 2 weights",
        "stored      3 tensors and the object graph, 1000 B",
        "dtypes      float32 × 2, int64 × 1",
        "step        step 5, k2 (unreadable)",
        "latest      no",
        "files       index 100 B, 1 data shard 0 B",
        "damage      m.data-1\\x1b: the data shard is missing",
        "objects     9 objects, 2 slot variables; optimizer (root): slots m × 2",
        "MetaGraph   serve, gpu: 7 nodes; signature s",
        "prune       --slots saves 400 B (40 %), --optimizer saves 400 B (40 %)",
        "graph         -           -  100 B",
        "slot          1           -  400 B",
        "cannot read x: y",
    )
    for line in card:
        assert line in text.split("\n"), line
    details = (
        "object graph: 9 objects, 2 slot variables",
        "  optimizer (root): slots m × 2",
        "MetaGraph serve, gpu: 7 nodes, 1 function, 2 kinds of op",
        "  written by TensorFlow 9.9\\x1b",
        "  signature s",
        "    in  x  float32 [?, 2]",
        "    out y  float32 of any shape",
        "    out op  no dtype",
        "  saver V2, sharded, keeps 5",
    )
    full = text_of(summary, full=True)
    for line in (*details, *card[:7], *card[-4:]):
        assert line in full.split("\n"), line
    assert not any(line in text.split("\n") for line in details)
    assert "c8 8, c9 9\n" in full
    found = document_of(summary)["summary"]
    assert found["graph"]["optimizers"] == [{"path": "", "slots": {"m": 2}}]
    assert found["metagraphs"][0]["ops"] == {"Add": 4, "Const": 3}
    assert found["steps"][1] == {
        "key": "k2",
        "object_path": None,
        "name": None,
        "paths": [],
        "value": None,
    }


def test_shares_on_a_terminal() -> None:
    kinds = (Group("slot", 1, 2, 300), Group("weight", 1, 2, 100, 2))
    summary = replace(BARE, totals=Group("", 2, 4, 400, 2), kinds=kinds)

    def rows(width: int, *, unicode: bool = True) -> list[str]:
        out = io.StringIO()
        write_summary(summary, "table", out, Terminal(width=width, unicode=unicode))
        assert max(map(len, out.getvalue().splitlines())) <= width
        return [line for line in out.getvalue().splitlines() if line.startswith(("slot", "weig"))]

    assert rows(80) == [
        f"slot          1           -  300 B  75.0 %  {'━' * 18}",
        f"weight        1           2  100 B  25.0 %  {'━' * 6}",
    ]
    assert rows(80, unicode=False)[1].endswith("  " + "#" * 6)
    assert rows(50)[1] == "weight        1           2  100 B  25.0 %"
    assert rows(40)[1] == "weight        1           2  100 B"


def test_many_scopes_are_cut() -> None:
    scopes = tuple(Group(f"scope{number}", 1, 1, 1) for number in range(30))
    summary = replace(BARE, scopes=scopes)
    text = text_of(summary)
    assert "scope19 " in text and "scope20" not in text and "... 10 more scopes\n" in text
    assert "scope29" in text_of(summary, full=True)
    assert len(document_of(summary)["summary"]["scopes"]) == 30


def test_writers() -> None:
    known = replace(BARE, writer=Writer("2.21.0", None, "m.meta"))
    assert "written by  TensorFlow 2.21.0 (says m.meta)" in text_of(known)
    told = replace(BARE, writer=Writer(None, "TensorFlow 2", "object graph"))
    assert "TensorFlow 2 (by its object graph; no version is recorded)" in text_of(told)


def test_colour_changes_nothing_else() -> None:
    colourful = text_of(BARE, color=True)
    for code in ("\x1b[0m", "\x1b[1m", "\x1b[36m", "\x1b[2m", "\x1b[34m"):
        colourful = colourful.replace(code, "")
    assert colourful == text_of(BARE)
