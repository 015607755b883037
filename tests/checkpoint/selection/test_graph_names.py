"""Names by the object graph, held against all walks through small graphs written out."""

from __future__ import annotations

import re
import time
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckpttool import open_checkpoint
from ckpttool.checkpoint.selection.globs import compile_glob, parse_glob
from ckpttool.checkpoint.selection.graph_names import Found, GraphNames
from ckpttool.checkpoint.selection.matchers import GlobMatcher
from ckpttool.checkpoint.selection.patterns import Pattern
from ckpttool.checkpoint.selection.select import Listed, SelectionRule, Selector
from ckpttool.objects.graph import Attribute, Edge, Node, ObjectGraph
from ckpttool.objects.keys import attribute_key, escape, object_path
from ckpttool.query.listing import list_tensors
from tests.support.fixtures import bundle
from tests.surgery.graphs import VARIABLE, Tree, graph_of, graphs, keys_of

V = VARIABLE
SHARED: Tree = {
    "model": {"head": {"w": V}, "body": {"w": V, "b": V}},
    "again": "@model",
    "opt": {"lr": V, "kept": {"0": "@model/head/w", "1": "@model/body/w"}},
    "z": "@model/body/b",
}
SLOTS = [("opt", "model/head/w", "m"), ("opt", "model/body/w", "m")]


class Row(NamedTuple):
    key: str
    object_path: str | None
    kind: str = "weight"


def names_of(graph: ObjectGraph) -> GraphNames:
    return GraphNames(graph, keys_of(graph))


def find(names: GraphNames, text: str) -> Found:
    pattern = Pattern.parse(text)
    return names.search(pattern.regex.search) if pattern.form == "regex" else names.find(pattern)


def short(keys: frozenset[str] | set[str]) -> set[str]:
    return {object_path(key) or key for key in keys}


def walks(graph: ObjectGraph, length: int) -> set[tuple[str, int]]:
    """Return all paths of up to so many edges, with the object that each leads to."""
    found = {("", 0)}
    for _ in range(length):
        found |= {
            (f"{path}/{escape(edge.name)}".lstrip("/"), edge.node_id)
            for path, at in found
            for edge in graph.nodes[at].children
        }
    return found


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("again/*/w", {"model/head/w", "model/body/w"}),
        ("opt/kept/{0,1}", {"model/head/w", "model/body/w"}),
        ("opt/**", {"opt/lr", "model/head/w", "model/body/w"} | {"slots of both"}),
        ("**/kept/**", {"model/head/w", "model/body/w"} | {"slots of both"}),
        ("again/**/.OPTIMIZER_SLOT/opt/m", {"slots of both"}),
        ("again/head/w/.OPTIMIZER_SLOT/**", {"slot of head"}),
        ("again/*/b/.ATTRIBUTES/*", {"model/body/b", "z"}),
        ("re:^again/.*/b$", {"z"}),
        ("re:kept/0/.OPT", {"slot of head"}),
        ("opt/kept/?", {"model/head/w", "model/body/w"}),
        ("nothing/**", set()),
    ],
)
def test_patterns_along_other_edges(pattern: str, expected: set[str]) -> None:
    head, body = (f"model/{each}/w/.OPTIMIZER_SLOT/opt/m" for each in ("head", "body"))
    graph = graph_of(SHARED, SLOTS)
    found = short(find(names_of(graph), pattern).keys)
    if "slots of both" in expected:
        expected = expected - {"slots of both"} | {head, body}
    if "slot of head" in expected:
        expected = expected - {"slot of head"} | {head}
    assert found == {"z" if name == "model/body/b" else name for name in expected}


def test_all_names_of_a_tensor() -> None:
    names = names_of(graph_of(SHARED, SLOTS))
    found = names.names_of(attribute_key("model/head/w"))
    assert found[:2] == (attribute_key("model/head/w"), "model/head/w")
    assert set(found[2:]) == {"again/head/w", "opt/kept/0"}
    slot = "model/head/w/.OPTIMIZER_SLOT/opt/m"
    assert "opt/kept/0/.OPTIMIZER_SLOT/opt/m" in names.names_of(attribute_key(slot))
    for name in (*found, *names.names_of(attribute_key(slot))):
        assert names.exactly(name) is not None


@pytest.mark.parametrize(
    ("patterns", "left"),
    [
        (["opt"], {"model/head/w", "model/body/w", "z"}),
        (["opt/**"], {"model/head/w", "model/body/w", "z"}),
        (["opt/*/*"], {"opt/lr", "model/head/w", "model/body/w", "z"}),
        (["re:^opt/"], {"model/head/w", "model/body/w", "z"}),
        (["model"], {"opt/lr", "model/head/w", "model/body/w", "z"}),
        (["again"], {"opt/lr", "model/head/w", "model/body/w", "z"}),
        (["model", "opt"], {"z"}),
        (["again", "opt/kept/*"], {"opt/lr", "z"}),
        (["model", "z"], {"opt/lr", "model/head/w", "model/body/w"}),
        (["=opt/kept/0"], {"opt/lr", "model/body/w", "z"}),
        (["opt/kept/0"], {"opt/lr", "model/body/w", "z"}),
        (["**/w"], {"opt/lr", "z"}),
        (["**"], set()),
        (["re:."], set()),
    ],
)
def test_what_is_left_when_scopes_go(patterns: list[str], left: set[str]) -> None:
    graph = graph_of(SHARED)
    rows = [Row(key, object_path(key)) for key in sorted(keys_of(graph))]

    class Opened:
        graph_names = names_of(graph)

    rules = [SelectionRule(pattern, include=False) for pattern in patterns]
    choice = Selector(rules).choose([Listed(rows, Opened())])  # type: ignore[arg-type]
    assert {row.object_path for row in choice.chosen} == left


def test_a_later_pattern_takes_in_again() -> None:
    with open_checkpoint(bundle("v2/tf2.21/keras3_adam/ckpt-1").prefix) as ckpt:
        rules = [
            SelectionRule("model", False),
            SelectionRule("optimizer", False),
            SelectionRule("**/bias"),
        ]
        rows = list_tensors(ckpt, Selector(rules)).rows
    assert {row.object_path for row in rows if row.kind == "weight"} == {
        "optimizer/_trainable_variables/1",
        "optimizer/_trainable_variables/3",
    }


def test_a_way_back_to_the_root_is_no_scope() -> None:
    graph = graph_of({"a": {"up": "@", "w": V}, "b": V})
    found = find(names_of(graph), "a/up")
    assert short(found.keys) == {"a/w", "b"}
    assert found.scopes == frozenset()
    assert names_of(graph).exactly("a/up/b") == attribute_key("b")


GLOBS = st.lists(
    st.sampled_from(["a", "b", "*", "**", "?", "/", "/", "**/", "/**", "[ab]", "{a,b/c}", "0"]),
    min_size=1,
    max_size=6,
).map("".join)
TEXTS = st.lists(st.sampled_from(["a", "b", "c", "/", "0", "\n"]), max_size=8).map("".join)


@settings(max_examples=500)
@given(GLOBS, TEXTS)
def test_globs_are_the_same_in_both_forms(glob: str, text: str) -> None:
    matcher = GlobMatcher(parse_glob(glob))
    state = matcher.start
    for char in text:
        state = matcher.step(state, char)
    assert matcher.accepts(state) == bool(compile_glob(glob).fullmatch(text))
    assert matcher.step(matcher.start, text) == state


@settings(max_examples=200)
@given(graphs(), GLOBS)
def test_globs_find_what_some_walk_is_called(graph: ObjectGraph, glob: str) -> None:
    regex = compile_glob(glob)
    keys = keys_of(graph)
    found = GraphNames(graph, keys).find(Pattern(glob, "glob", glob)).keys
    expected = {
        attribute.checkpoint_key
        for path, at in walks(graph, 5)
        for attribute in graph.nodes[at].attributes
        if path and (regex.fullmatch(path) or regex.fullmatch(attribute_key(path)))
    }
    assert expected <= found
    if "**" not in glob:  # then no more than five edges can be matched
        longer = len(re.findall("/", glob)) > 4 or "{" in glob
        assert longer or found == expected


@pytest.mark.large
def test_very_many_paths_take_little_time() -> None:
    # Each diamond doubles the paths: 2 ** 3000 lead to the last object.
    count = 3000
    nodes = [Node(0, (Edge("a", 1), Edge("b", 1)))]
    nodes += [Node(at, (Edge("a", at + 1), Edge("b", at + 1))) for at in range(1, count)]
    nodes.append(Node(count, (), (Attribute("VARIABLE_VALUE", "", "odd key"),)))
    names = GraphNames(ObjectGraph(tuple(nodes)), {"odd key"})
    start = time.process_time()
    assert find(names, "**/b/**/a").keys == {"odd key"}
    assert find(names, "b").keys == {"odd key"}
    assert find(names, "re:^b").keys | {"odd key"} == {"odd key"}
    assert time.process_time() - start < 20


def test_a_circle_ends() -> None:
    graph = graph_of({"a": {"me": "@a", "w": V}})
    names = names_of(graph)
    assert names.exactly("a/me/me/me/w") == attribute_key("a/w")
    assert short(find(names, "re:me/me/w$").keys) == {"a/w"}
    assert short(find(names, "**/me/**").keys) == {"a/w"}
