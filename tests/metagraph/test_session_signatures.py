"""Signatures of exports, as those of a SavedModel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ckpttool.metagraph.session_bundle import read_session_bundle
from ckpttool.metagraph.session_signatures import (
    CLASSIFY,
    PREDICT,
    REGRESS,
    MappedSignature,
    UnmappedSignature,
    map_signatures,
)
from ckpttool.metagraph.tensors import GraphTensors
from tests.support.exports import SAMPLE, copied, edit, with_signatures

Mapped = dict[str, tuple[str, dict[str, str], dict[str, str]]]

REGRESSION = {"kind": "regression", "input": "x:0", "output": "y:0"}
CLASSIFICATION = {"kind": "classification", "input": "x:0", "scores": "scores:0"}
GENERIC = {"kind": "generic", "x": "x:0", "y": "y:0"}
INPUTS = {"kind": "generic", "x": "x:0"}
OUTPUTS = {"kind": "generic", "y": "y:0"}
UNKNOWN = {"kind": "unknown"}
REGRESSED = (REGRESS, {"inputs": "x:0"}, {"outputs": "y:0"})
CLASSIFIED = (CLASSIFY, {"inputs": "x:0"}, {"scores": "scores:0"})
PREDICTED = (PREDICT, {"x": "x:0"}, {"y": "y:0"})


@pytest.fixture
def found(tmp_path: Path, signatures: dict[str, Any]) -> Any:
    path = edit(copied(SAMPLE, tmp_path / "export"), with_signatures(**signatures))
    bundle = read_session_bundle(str(path))
    tensors = GraphTensors(bundle.graph, bundle.message.meta_info_def.stripped_op_list)
    return map_signatures(bundle, tensors)


def plain(mapped: tuple[MappedSignature, ...]) -> Mapped:
    return {each.key: (each.method, dict(each.inputs), dict(each.outputs)) for each in mapped}


@pytest.mark.parametrize(
    ("signatures", "mapped"),
    [
        ({}, {}),
        ({"default": REGRESSION}, {"serving_default": REGRESSED}),
        ({"default": CLASSIFICATION}, {"serving_default": CLASSIFIED}),
        (
            {"default": {**CLASSIFICATION, "classes": "classes:0"}},
            {
                "serving_default": (
                    CLASSIFY,
                    CLASSIFIED[1],
                    {**CLASSIFIED[2], "classes": "classes:0"},
                )
            },
        ),
        ({"default": GENERIC}, {"serving_default": PREDICTED}),
        ({"inputs": INPUTS, "outputs": OUTPUTS}, {"serving_default": PREDICTED}),
        (
            {"default": REGRESSION, "inputs": INPUTS, "outputs": OUTPUTS},
            {"serving_default": REGRESSED, "serving_default_from_named": PREDICTED},
        ),
        ({"a": REGRESSION, "b": CLASSIFICATION}, {"a": REGRESSED, "b": CLASSIFIED}),
        ({"a": GENERIC}, {"a": PREDICTED}),
        (
            {"inputs": REGRESSION, "outputs": REGRESSION},
            dict.fromkeys(("inputs", "outputs"), REGRESSED),
        ),
        ({"inputs": GENERIC}, {"inputs": PREDICTED}),
        ({"default": {**REGRESSION, "input": "x"}}, {"serving_default": REGRESSED}),
        ({"serving_default": REGRESSION}, {"serving_default": REGRESSED}),
    ],
)
def test_signatures_that_have_a_form(found: Any, mapped: Mapped) -> None:
    assert plain(found[0]) == mapped
    assert found[1] == ()


@pytest.mark.parametrize(
    ("signatures", "mapped", "unmapped"),
    [
        ({"default": UNKNOWN}, {}, [(None, "unknown", "its kind is not known")]),
        ({"a": UNKNOWN}, {}, [("a", "unknown", "its kind is not known")]),
        (
            {"default": GENERIC, "inputs": INPUTS, "outputs": OUTPUTS},
            {"serving_default": PREDICTED},
            [
                (
                    None,
                    "generic",
                    "the key 'serving_default' is for signatures 'inputs' and 'outputs'",
                )
            ],
        ),
        (
            {"default": REGRESSION, "serving_default": CLASSIFICATION},
            {"serving_default": REGRESSED},
            [
                (
                    "serving_default",
                    "classification",
                    "the key 'serving_default' is for the default signature",
                )
            ],
        ),
        ({"inputs": INPUTS}, {}, [("inputs", "generic", "it has no tensor to be its output")]),
        (
            {"outputs": OUTPUTS},
            {},
            [("outputs", "generic", "it has no placeholder to be its input")],
        ),
        (
            {"inputs": INPUTS, "outputs": REGRESSION},
            {"outputs": REGRESSED},
            [("inputs", "generic", "it has no tensor to be its output")],
        ),
        (
            {"a": {"kind": "generic", "classes": "classes:0", "y": "y:0"}},
            {},
            [("a", "generic", "it has no placeholder to be its input")],
        ),
        (
            {"default": {**REGRESSION, "output": "z:0"}, "inputs": INPUTS, "outputs": OUTPUTS},
            {"serving_default_from_named": PREDICTED},
            [(None, "regression", "the graph has no tensor 'z:0'")],
        ),
        (
            {"inputs": INPUTS, "outputs": {"kind": "generic", "y": "y:7"}},
            {},
            [
                ("inputs", "generic", "it has no tensor to be its output"),
                ("outputs", "generic", "the graph has no tensor 'y:7'"),
            ],
        ),
        (
            {"default": {**REGRESSION, "input": ""}},
            {},
            [(None, "regression", "it names no tensor for 'inputs'")],
        ),
        (
            {"a": {"kind": "generic", "x": "x:0", "": "y:0"}},
            {},
            [("a", "generic", "it names no tensor for ''")],
        ),
        (
            {"a": {"kind": "classification", "input": "x:0"}},
            {},
            [("a", "classification", "it names neither classes nor scores")],
        ),
        (
            {"": REGRESSION},
            {},
            [("", "regression", "a SavedModel cannot have the key ''")],
        ),
        (
            {"__saved_model_init_op": REGRESSION},
            {},
            [
                (
                    "__saved_model_init_op",
                    "regression",
                    "a SavedModel cannot have the key '__saved_model_init_op'",
                )
            ],
        ),
    ],
)
def test_signatures_that_have_none(
    found: Any, mapped: Mapped, unmapped: list[tuple[str | None, str, str]]
) -> None:
    assert plain(found[0]) == mapped
    assert found[1] == tuple(UnmappedSignature(*each) for each in unmapped)


def test_a_generic_signature_that_lacks_a_placeholder(tmp_path: Path) -> None:
    def change(message: Any) -> None:
        with_signatures(a=GENERIC)(message)
        message.graph_def.node.add(name="rate", op="Placeholder").attr["dtype"].type = 1
        (y,) = (node for node in message.graph_def.node if node.name == "y")
        y.input.append("^rate")

    bundle = read_session_bundle(str(edit(copied(SAMPLE, tmp_path / "export"), change)))
    tensors = GraphTensors(bundle.graph, bundle.message.meta_info_def.stripped_op_list)
    reason = "its outputs need the placeholder 'rate', which it lacks"
    assert map_signatures(bundle, tensors) == ((), (UnmappedSignature("a", "generic", reason),))
