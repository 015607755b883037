"""Summaries as text and JSON; real ones are held to golden files in tests/cli."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

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
    totals=Group("", 1, 2, 3),
    kinds=(Group("weight", 1, 2, 3),),
    scopes=(Group("a\nb", 1, 2, 3),),
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
        "written by  not recorded\n"
        "format      V2, name-based, big-endian\n"
        "files       index 100 B\n"
        "tensors     1, 2 parameters, 3 B\n"
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
        shards=(ShardSummary("m.data-0", 7), ShardSummary("m.data-1", None)),
        steps=(StepValue("k", "step", 5), StepValue("k2", None, None)),
        graph=GraphSummary(9, 2, True, (OptimizerSummary("", (("m", 2),)),)),
        metagraphs=(METAGRAPH,),
        problems=("x: y",),
    )
    text = text_of(summary)
    for line in (
        "files       index 100 B, 1 data shard 0 B",
        "missing     m.data-1",
        "latest      no",
        "step        step 5, k2 (unreadable)",
        "object graph: 9 objects, 2 slot variables",
        "  optimizer (root): slots m × 2",
        "MetaGraph serve, gpu: 7 nodes, 1 function, 2 kinds of op",
        "  written by TensorFlow 9.9\\x1b",
        "  signature s",
        "    in  x  float32 [?, 2]",
        "    out y  float32 of any shape",
        "    out op  no dtype",
        "  collections c0 0, c1 1, c2 2, c3 3, c4 4, c5 5, c6 6, c7 7 and 2 more",
        "  saver V2, sharded, keeps 5",
        "cannot read x: y",
    ):
        assert line in text.split("\n"), line
    assert "c8 8, c9 9\n" in text_of(summary, full=True)
    found = document_of(summary)["summary"]
    assert found["graph"]["optimizers"] == [{"path": "", "slots": {"m": 2}}]
    assert found["metagraphs"][0]["ops"] == {"Add": 4, "Const": 3}
    assert found["steps"][1] == {"key": "k2", "object_path": None, "value": None}


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
    for code in ("\x1b[0m", "\x1b[1m", "\x1b[36m", "\x1b[2m"):
        colourful = colourful.replace(code, "")
    assert colourful == text_of(BARE)
