"""MetaGraphs of old writers, made so that TensorFlow 2 loads them; tests/interop has it do so."""

from __future__ import annotations

import os

import pytest

from ckpttool import pb
from ckpttool.metagraph.loading import loadable_version, make_loadable, updated_metagraph
from tests.support.fixtures import FIXTURES


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("0.12.head", "0.12+head"),
        ("2.1.1-dlenv_tfe", "2.1.1+dlenv.tfe"),
        ("1.4.0-dlenv", "1.4.0+dlenv"),
        ("head", "0+head"),
        ("v1.x", "1+x"),
        ("?!", "0"),
        ("1.2 (made by me)", "1.2+made.by.me"),
        ("1.2\u212a", "1.2"),
    ],
)
def test_versions_that_nobody_can_read(said: str, version: str) -> None:
    assert loadable_version(said) == version
    assert loadable_version(version) == version


@pytest.mark.parametrize(
    "said",
    ["", "0.12.0", "1.15.0-rc1", "2.1.0-dev20191201", "1.15.5+nv21.07", " 1.2 ", "V1.0.post2"],
)
def test_versions_that_stay(said: str) -> None:
    assert loadable_version(said) == said


@pytest.mark.parametrize(("producer", "freed"), [(0, True), (21, True), (22, False), (24, False)])
def test_placeholders_of_any_shape(producer: int, freed: bool) -> None:
    message = pb.MetaGraphDef()
    message.graph_def.versions.producer = producer
    scalar = message.graph_def.node.add(name="any", op="Placeholder")
    scalar.attr["shape"].shape.SetInParent()
    vector = message.graph_def.node.add(name="vector", op="Placeholder")
    vector.attr["shape"].shape.dim.add(size=-1)
    message.graph_def.node.add(name="silent", op="Placeholder")
    given = message.graph_def.node.add(name="given", op="PlaceholderWithDefault")
    given.attr["shape"].shape.SetInParent()
    assert make_loadable(message) == ()
    assert scalar.attr["shape"].shape.unknown_rank is freed
    assert not vector.attr["shape"].shape.unknown_rank
    assert not given.attr["shape"].shape.unknown_rank
    assert not message.graph_def.node[2].attr


@pytest.mark.parametrize(
    ("name", "said", "version"),
    [
        ("v1/tf0.12/built_from_source/model.ckpt-3.meta", "0.12.head", "0.12+head"),
        ("v1/tf1.4/built_from_source/model.ckpt-3.meta", "1.4.1-dlenv_tfe", "1.4.1+dlenv.tfe"),
    ],
)
def test_a_graph_beside_a_checkpoint(name: str, said: str, version: str) -> None:
    data, notes = updated_metagraph(os.path.join(FIXTURES, name))
    message = pb.MetaGraphDef.FromString(data)
    assert message.meta_info_def.tensorflow_version == version
    assert [said in note and version in note for note in notes] == [True]
    assert message.saver_def.version == pb.SaverDef.V2
    (fed,) = (node for node in message.graph_def.node if node.name == "fed")
    assert fed.attr["shape"].shape.unknown_rank
