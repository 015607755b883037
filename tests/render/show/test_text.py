"""Details as text and JSON; real ones are held to golden files in tests/cli."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import jsonschema
import numpy as np
import pytest

from ckpttool.objects.graph import Attribute, Edge, Node, ObjectGraph, RegisteredSaver, SlotVariable
from ckpttool.query.source import Source
from ckpttool.query.values.detail import GraphDetail, TensorDetail, Values, Variants
from ckpttool.query.values.statistics import Histogram, Statistics
from ckpttool.query.values.variants import InnerTensor, VariantDetail
from ckpttool.render.console import Terminal
from ckpttool.render.names import NameColumns
from ckpttool.render.show.json import detail_document
from ckpttool.render.show.text import detail_lines, write_details
from ckpttool.tensor.dtypes import dtype_of_array
from tests.support.schemas import validate

PLAIN = Terminal()
SOURCE = Source("typed", "model", "V2", "name", 1, "little", 1, 2, ())


def of_array(array: np.ndarray[Any, Any]) -> Values:
    gaps = (None,) * array.ndim
    return Values(dtype_of_array(array), array.shape, gaps, lambda: [array])


DETAIL = TensorDetail(
    key="a/b",
    object_path=None,
    dtype="float64",
    shape=(2,),
    kind="weight",
    bytes=16,
    index=None,
    part=(2,),
    verified=True,
    statistics=Statistics("values", 2, 0.5, 1.0, 0.75, 0.25, 0, 0, 0),
    histogram=None,
    content=of_array(np.array([0.5, 1.0])),
)


def text_of(detail: TensorDetail, terminal: Terminal = PLAIN, **options: Any) -> list[str]:
    return list(detail_lines(detail, NameColumns([detail]), terminal, **options))


def test_a_tensor() -> None:
    assert text_of(DETAIL) == [
        "a/b  float64  [2]  16 B  weight",
        "[0.5 1. ]",
        "min 0.5  max 1  mean 0.75  std 0.25  zeros 0  NaN 0  Inf 0",
    ]


def test_no_histogram_where_its_bars_cannot_be_shown() -> None:
    drawn = replace(DETAIL, histogram=Histogram(0, 1, (1, 2)))
    assert "|▄█|" in list(detail_lines(drawn, NameColumns([drawn]), PLAIN))[-1]
    lines = list(detail_lines(drawn, NameColumns([drawn]), replace(PLAIN, unicode=False)))
    assert "".join(lines).isascii()


def test_colour_changes_nothing_else() -> None:
    with_bars = replace(DETAIL, histogram=Histogram(0.5, 1.0, (1, 0, 1)))
    bare, colourful = (text_of(with_bars, Terminal(color=color)) for color in (False, True))
    assert bare[-1] == "0.5 |█ █| 1"
    assert [line.count("\x1b[") for line in colourful] == [6, 0, 2, 2]
    codes = ("\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[34m")
    for line, plain in zip(colourful, bare, strict=True):
        for code in codes:
            line = line.replace(code, "")
        assert line == plain


def test_keys_are_made_printable() -> None:
    (header, *_) = text_of(replace(DETAIL, key="a\x1b[31m\nb\udcff"))
    assert header.startswith("a\\x1b[31m\\nb\\xff  float64")


def test_a_part() -> None:
    (header, *_) = text_of(replace(DETAIL, index="::2", shape=(4,), verified=False))
    assert header == "a/b[::2]  float64  [2] of [4]  16 B  weight  not checked"


@pytest.mark.parametrize(
    ("summary", "wanted"),
    [
        (Statistics("truth", 5, 0, 1, 0.6, 0.49, 2, 0, 0), "true 3  false 2"),
        (
            Statistics("lengths", 2, 0, 3, 1.5, 1.5, 1, 0, 0),
            "bytes: min 0  max 3  mean 1.5  std 1.5  empty 1",
        ),
        (
            Statistics("magnitudes", 1, 5.0, 5.0, 5.0, 0.0, 0, 0, 0),
            "magnitudes: min 5  max 5  mean 5  std 0  zeros 0  NaN 0  Inf 0",
        ),
        (
            Statistics("values", 1234, None, None, None, None, 0, 1234, 0),
            "zeros 0  NaN 1,234  Inf 0",
        ),
    ],
)
def test_statistics(summary: Statistics, wanted: str) -> None:
    assert text_of(replace(DETAIL, statistics=summary))[-1] == wanted


def test_a_scalar_needs_no_statistics() -> None:
    scalar = replace(DETAIL, shape=(), part=(), content=of_array(np.array(0.5)))
    assert text_of(scalar)[1:] == ["0.5"]


def test_lines_fit_the_terminal() -> None:
    detail = replace(DETAIL, content=of_array(np.arange(40.0)))
    for width in (20, 40, 100):
        lines = text_of(detail, Terminal(width=width))[1:-1]
        assert all(len(line) <= width for line in lines)
        assert max(map(len, lines)) > width - 6
    # Nothing is broken to pieces on a line that is hardly there.
    assert max(map(len, text_of(detail, Terminal(width=3))[1:-1])) <= 20


def variant(**changes: Any) -> VariantDetail:
    return replace(VariantDetail("my::Type", (), ()), **changes)


def test_variants() -> None:
    inner = (
        InnerTensor("x\x1b", "float32", (None, 2)),
        InnerTensor("", "int32", None),
        InnerTensor("", "int32", (2,), np.array([1, -1], np.int32)),
        InnerTensor("state", "variant", (), None, (variant(facts=(("value", False),)),)),
        InnerTensor("", "variant", (1,), None, (variant(metadata=b"ab"),)),
    )
    facts = (("elements", 2), ("shape", (None,)), ("unset", (0, 1)), ("of", "a\nb"))
    content = Variants((variant(facts=facts, tensors=inner), variant()), (2, 3))
    assert text_of(replace(DETAIL, content=content, statistics=None))[1:] == [
        "[0, 0] my::Type  elements 2, [?], unset 0, 1, of a\\nb",
        "  x\\x1b  float32 [?, 2]",
        "  int32 of any shape",
        "  int32 [2]",
        "    [ 1 -1]",
        "  state  my::Type  no value",
        "  variant [1]",
        "  [0] my::Type  2 bytes of metadata",
        "[0, 1] my::Type",
        "... 4 more elements",
    ]
    document = detail_document(replace(DETAIL, content=content), SOURCE.names)
    assert document["value"] is None and document["elided"] is True
    whole = replace(DETAIL, dtype="variant", content=replace(content, shape=(2,)))
    validate(json_of(detail_document(whole, SOURCE.names)), "ckpt.show/1", "tensor")


def json_of(value: object) -> Any:
    from ckpttool.render.jsonout import encode

    return json.loads(encode(value))


GRAPH = ObjectGraph(
    (
        Node(0, (Edge("a\x1b", 1),), slots=(SlotVariable(1, "m", 4),)),
        Node(1, (), (Attribute("V", "full", "a/V", True),), saver=RegisteredSaver("my.saver", "")),
        Node(2, slots=(SlotVariable(3, "v", 4),)),
        Node(3),
        Node(4),
    )
)


def test_the_object_graph() -> None:
    graph = GraphDetail(GRAPH, GRAPH.nodes[:3])
    detail = replace(DETAIL, kind="graph", statistics=None, content=graph)
    assert text_of(detail)[1:] == [
        "object graph: 5 objects, 2 slot variables",
        "#0 (root)",
        "    children: a\\x1b #1",
        "    slot m of a\\x1b: #4",
        "#1 a\\x1b",
        "    V: key a/V, full name full, optional",
        "    saved by my.saver",
        "#2 (unreachable)",
        "    slot v of #3: #4",
        "... 2 more objects; --full shows all",
    ]
    assert detail_document(detail, SOURCE.names)["value"] is None
    whole = detail_document(replace(detail, content=GraphDetail(GRAPH, GRAPH.nodes)), SOURCE.names)
    validate(json_of(whole), "ckpt.show/1", "tensor")
    assert json_of(whole)["value"]["nodes"][2]["path"] is None


def test_json_of_elided_values_and_of_parts() -> None:
    cut = Values(dtype_of_array(np.zeros(1)), (6,), (3,), lambda: [np.zeros(6)])
    document = detail_document(
        replace(DETAIL, content=cut, index="0", verified=False), SOURCE.names
    )
    assert (document["value"], document["elided"]) == (None, True)
    assert (document["index"], document["part"], document["verified"]) == ("0", (2,), False)
    assert "value" not in detail_document(replace(DETAIL, content=None), SOURCE.names)


@pytest.mark.parametrize(
    "change",
    [
        {"verified": None},
        {"key": 3},
        {"kind": "nothing"},
        {"shape": [-1]},
        {"elided": True},
        {"value": {"x": 1}},
        {"value": [None]},
        {"index": "0"},
        {"stats": {}},
        {"stats": {"of": "truth", "count": 1}},
    ],
)
def test_the_schema_finds_mistakes(change: dict[str, Any]) -> None:
    good = json_of(detail_document(DETAIL, SOURCE.names))
    validate(good, "ckpt.show/1", "tensor")
    with pytest.raises(jsonschema.ValidationError):
        validate({**good, **change}, "ckpt.show/1", "tensor")
    with pytest.raises(jsonschema.ValidationError):
        validate({}, "ckpt.show/1", "tensor")


def written(format: str, **options: Any) -> str:
    out = io.StringIO()
    write_details(SOURCE, [DETAIL, DETAIL], NameColumns([DETAIL]), format, out, PLAIN, **options)
    return out.getvalue()


def test_formats() -> None:
    one = "\n".join(text_of(DETAIL))
    assert written("plain") == written("table") == f"{one}\n\n{one}\n"
    found = json.loads(written("json"))
    validate(found, "ckpt.show/1")
    assert [json.loads(line) for line in written("jsonl").splitlines()] == found["tensors"]
    assert written("plain", stats=True).splitlines() == [
        "key\tdtype\tshape\tof\tcount\tmin\tmax\tmean\tstd\tzeros\tnan\tinf",
        *["a/b\tfloat64\t[2]\tvalues\t2\t0.5\t1.0\t0.75\t0.25\t0\t0\t0"] * 2,
    ]
    assert written("names", stats=True) == "a/b\na/b\n"


def test_statistics_of_what_has_none() -> None:
    out = io.StringIO()
    bare = replace(DETAIL, statistics=None, index="0")
    write_details(SOURCE, [bare], NameColumns([bare]), "csv", out, PLAIN, stats=True)
    assert out.getvalue().splitlines()[1] == "a/b[0],float64,[2],,,,,,,,,"
