"""Drafting a map to PyTorch: what has a proposal, and what has none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import ckpttool
from ckpttool.errors import SelectionError
from ckpttool.surgery.maps.reading import read_map
from ckpttool.surgery.maps.torch_draft import MapDraft, draft_for_torch
from tests.support import fixtures

Shapes = Mapping[str, tuple[int, ...]]


def drafted(tmp_path: Path, shapes: Shapes) -> MapDraft:
    prefix = str(tmp_path / "model")
    ckpttool.save_checkpoint(prefix, {key: np.zeros(shape) for key, shape in shapes.items()})
    with ckpttool.open_checkpoint(prefix) as ckpt:
        return draft_for_torch(ckpt, ckpt)


def proposals(draft: MapDraft) -> dict[object, tuple[object, object]]:
    return {line["from"]: (line["to"], line.get("permute")) for line in draft.lines}


def test_what_has_a_proposal(tmp_path: Path) -> None:
    shapes = {
        "net/dense/kernel": (3, 5),
        "net/dense/bias": (5,),
        "net/conv1d/kernel": (3, 4, 8),
        "net/conv2d/kernel": (3, 3, 4, 8),
        "net/conv2d/bias": (8,),
        "net/conv3d/kernel": (3, 3, 3, 4, 8),
        "net/conv2d_transpose/kernel": (3, 3, 8, 4),
        "net/conv2d_transpose/bias": (8,),
        "net/embed/embeddings": (10, 4),
        "net/bn/gamma": (8,),
        "net/bn/beta": (8,),
        "net/bn/moving_mean": (8,),
        "net/bn/moving_variance": (8,),
        "vgg/conv1_1/weights": (3, 3, 3, 64),
        "vgg/conv1_1/biases": (64,),
        "a.b/kernel": (2, 3),
    }
    draft = drafted(tmp_path, shapes)
    assert draft.unmatched == ()
    assert proposals(draft) == {
        "net/dense/kernel": ("net.dense.weight", [1, 0]),
        "net/dense/bias": ("net.dense.bias", None),
        "net/conv1d/kernel": ("net.conv1d.weight", [2, 1, 0]),
        "net/conv2d/kernel": ("net.conv2d.weight", [3, 2, 0, 1]),
        "net/conv2d/bias": ("net.conv2d.bias", None),
        "net/conv3d/kernel": ("net.conv3d.weight", [4, 3, 0, 1, 2]),
        "net/conv2d_transpose/kernel": ("net.conv2d_transpose.weight", [3, 2, 0, 1]),
        "net/conv2d_transpose/bias": ("net.conv2d_transpose.bias", None),
        "net/embed/embeddings": ("net.embed.weight", None),
        "net/bn/gamma": ("net.bn.weight", None),
        "net/bn/beta": ("net.bn.bias", None),
        "net/bn/moving_mean": ("net.bn.running_mean", None),
        "net/bn/moving_variance": ("net.bn.running_var", None),
        "vgg/conv1_1/weights": ("vgg.conv1_1.weight", [3, 2, 0, 1]),
        "vgg/conv1_1/biases": ("vgg.conv1_1.bias", None),
        "a.b/kernel": ("a_b.weight", [1, 0]),
    }
    assert all(line["rule"] and line["shape"] is not None for line in draft.lines)
    path = tmp_path / "m.json"
    path.write_text(draft.text)
    assert tuple(read_map(path)) == draft.rules


@pytest.mark.parametrize(
    ("shapes", "reason"),
    [
        ({"lstm/kernel": (3, 8), "lstm/recurrent_kernel": (2, 8), "lstm/bias": (8,)}, "gates"),
        ({"cell/kernel": (3, 8), "cell/recurrent_kernel": (2, 8)}, "gates|recurrent_kernel"),
        ({"rnn/basic_lstm_cell/kernel": (3, 8), "rnn/basic_lstm_cell/bias": (8,)}, "gates"),
        ({"gru_cell/kernel": (3, 8)}, "gates"),
        ({"depthwise_conv2d/kernel": (3, 3, 4, 1), "depthwise_conv2d/bias": (4,)}, "depthwise"),
        ({"conv/depthwise_kernel": (3, 3, 4, 1)}, "no rule for 'depthwise_kernel'"),
        ({"conv/kernel": (3, 3, 4, 1), "conv/bias": (4,)}, "a bias of shape"),
        ({"conv/kernel": (3, 3, 4, 1)}, "depthwise or einsum"),
        ({"block/kernel": (3, 3, 4, 8)}, "depthwise or einsum"),
        ({"mha/query/kernel": (8, 2, 4), "mha/query/bias": (2, 4)}, "einsum"),
        ({"einsum_dense/kernel": (8, 4)}, "einsum"),
        ({"x/kernel": (8, 2, 4)}, "einsum"),
        ({"target_embedding/kernel": (8, 2)}, "table of embeddings"),
        ({"x/kernel": (8,), "x/bias": (8,)}, "a kernel of 1 dimensions"),
        ({"x/bias": (8,)}, "a bias without a kernel"),
        ({"x/w": (8,)}, "no rule for 'w'"),
        ({"x/kernel": (2, 3), "x/gamma": (3,)}, "'x.weight' as well"),
    ],
)
def test_what_has_none(tmp_path: Path, shapes: Shapes, reason: str) -> None:
    draft = drafted(tmp_path, shapes)
    assert draft.lines == ()
    assert {name for name, _ in draft.unmatched} == set(shapes)
    with pytest.raises(SelectionError, match=reason):
        draft.require_whole()
    found = json.loads(draft.text)["unmatched"]
    assert [each["from"] for each in found] == [name for name, _ in draft.unmatched]


def test_square_kernels_are_marked(tmp_path: Path) -> None:
    draft = drafted(tmp_path, {"a/kernel": (4, 4), "b/kernel": (4, 3), "c/embeddings": (4, 4)})
    assert {line["from"] for line in draft.lines if "note" in line} == {"a/kernel"}
    assert any("'a/kernel'" in note for note in draft.notes)


def test_objects_have_the_name_that_says_most() -> None:
    for prefix, names in (
        ("v2/tf2.21/keras3_adam/ckpt-1", {"sequential.dense.weight", "sequential.dense_1.bias"}),
        ("v2/tf2.21/guide_legacy_adam_resumed/tf_ckpts/ckpt-10", {"net.l1.weight", "net.l1.bias"}),
    ):
        with ckpttool.open_checkpoint(fixtures.bundle(prefix).prefix) as ckpt:
            draft = draft_for_torch(
                ckpt, [key for key, kind in ckpt.kinds.items() if kind == "weight"]
            )
            assert draft.unmatched == ()
            assert {line["to"] for line in draft.lines} >= names
            for line in draft.lines:
                assert ckpt.entries[ckpt.resolve(str(line["from"]))].shape == tuple(
                    line["shape"]  # type: ignore[arg-type]
                )


def test_shared_variables_have_none(tmp_path: Path) -> None:
    from ckpttool import train as tft

    root, other = tft.Module(), tft.Module()
    root.dense = tft.Module()
    root.dense.kernel = tft.Variable(np.zeros((2, 3)))
    root.tied, root.own = tft.Module(), other
    root.tied.kernel = root.dense.kernel
    other.kernel = tft.Variable(np.zeros((2, 3)))
    path = tft.Checkpoint(net=root).save(str(tmp_path / "ckpt"))
    with ckpttool.open_checkpoint(path) as ckpt:
        weights = [key for key, kind in ckpt.kinds.items() if kind == "weight"]
        draft = draft_for_torch(ckpt, weights)
    assert [line["to"] for line in draft.lines] == ["net.own.weight"]
    assert [reason for _, reason in draft.unmatched] == ["2 layers share it"]
